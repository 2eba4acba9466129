"""Data sets from files of their original formats, which the tests write themselves."""

from __future__ import annotations

import gzip
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import shmtensor as st
from shmtensor import memory
from shmtensor.dataloaders import ConcatDataset, DataLoader, TensorDataset, datasets, transforms

RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.integers(0, 256, (7, 28, 28)).astype(np.uint8)
LABELS = np.array([3, 1, 4, 1, 5, 9, 2], np.uint8)


def batches(dataset: Any, **options: Any) -> list[Any]:
    return list(DataLoader(dataset, **options))


def idx(array: np.ndarray[Any, Any]) -> bytes:
    head = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    return head + array.tobytes()


def write_mnist(folder: Path, part: str = "train", compress: bool = False) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for kind, array in (("images-idx3", IMAGES), ("labels-idx1", LABELS)):
        raw = idx(array)
        name = f"{part}-{kind}-ubyte"
        if compress:
            (folder / f"{name}.gz").write_bytes(gzip.compress(raw))
        else:
            (folder / name).write_bytes(raw)


# ------------------------------------------------------------------ MNIST
@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("below", ["", "MNIST/raw"])
def test_mnist_is_read_from_its_files(tmp_path: Path, compress: bool, below: str) -> None:
    write_mnist(tmp_path / below, compress=compress)
    dataset = datasets.MNIST(tmp_path)
    assert len(dataset) == 7
    image, label = dataset[2]
    assert image.shape == (1, 28, 28)
    assert image.dtype == np.uint8
    assert (dataset.data.numpy()[:, 0] == IMAGES).all()
    assert dataset.targets.tolist() == LABELS.tolist()
    assert int(label) == 4
    assert dataset.class_to_idx["7 - seven"] == 7
    assert dataset.data.is_shared()
    x, y = next(iter(DataLoader(dataset, batch_size=4, num_workers=1)))
    assert (x.numpy()[:, 0] == IMAGES[:4]).all()
    assert y.tolist() == LABELS[:4].tolist()
    assert "7 images (1, 28, 28), 10 classes" in repr(dataset)


def test_the_relatives_of_mnist(tmp_path: Path) -> None:
    write_mnist(tmp_path / "FashionMNIST" / "raw", "t10k")
    assert datasets.FashionMNIST(tmp_path, train=False).classes[9] == "Ankle boot"
    write_mnist(tmp_path / "KMNIST" / "raw")
    assert datasets.KMNIST(tmp_path).classes[0] == "o"


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"MNIST.*t10k-images-idx3-ubyte, .*downloaded"):
        datasets.MNIST(tmp_path, train=False)
    with pytest.raises(FileNotFoundError, match=r"CIFAR10.*data_batch_1, .*batches-py.*downloaded"):
        datasets.CIFAR10(tmp_path)
    with pytest.raises(ValueError, match="nothing is downloaded: download=True"):
        datasets.MNIST(tmp_path, download=True)


def test_users_pictures() -> None:
    dataset = datasets.PictureDataset(IMAGES[:, None], LABELS, list("abcdefghij"))
    assert dataset[0][0].shape == (1, 28, 28)
    assert dataset.class_to_idx["d"] == 3


def test_idx_files_of_other_numbers_and_of_other_images(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(struct.pack(">HBBI", 0, 0x0D, 1, 2) + np.array([1.5, -2], ">f4").tobytes())
    array = datasets.read_idx(path)
    assert array.tolist() == [1.5, -2]
    assert array.dtype == np.float32
    assert array.dtype.isnative
    write_mnist(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(LABELS[:3]))
    with pytest.raises(ValueError, match="do not belong together"):
        datasets.MNIST(tmp_path)


def test_transforms_run_on_whole_batches(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    sizes = []

    def scale(images: Any) -> Any:
        sizes.append(len(images))
        return transforms.ToDtype(scale=True)(images)

    dataset = datasets.MNIST(tmp_path, transform=scale, target_transform=transforms.OneHot(10))
    x, y = batches(dataset, batch_size=5)[0]
    assert sizes == [5, 2]
    assert np.allclose(x.numpy()[:, 0], IMAGES[:5] / 255)
    assert y.numpy().argmax(1).tolist() == LABELS[:5].tolist()
    assert dataset[1][0].shape == (1, 28, 28)


# ------------------------------------------------------------------ CIFAR
PIXELS = RANDOM.integers(0, 256, (4, 3072)).astype(np.uint8)


def write_cifar10(folder: Path) -> None:
    folder.mkdir(parents=True)
    for n in range(1, 6):
        content = {b"data": PIXELS, b"labels": [n, 0, 1, 2], b"filenames": [b"a.png"] * 4}
        # protocol 2 with names as bytes: what Python 2 wrote
        (folder / f"data_batch_{n}").write_bytes(pickle.dumps(content, protocol=2))
    meta = {"label_names": [f"name {n}" for n in range(10)]}
    (folder / "batches.meta").write_bytes(pickle.dumps(meta, protocol=2))


def test_cifar10_is_read_from_pickles(tmp_path: Path) -> None:
    write_cifar10(tmp_path / "cifar-10-batches-py")
    dataset = datasets.CIFAR10(tmp_path)
    assert len(dataset) == 20
    assert dataset.classes[3] == "name 3"
    assert (dataset[4][0].numpy() == PIXELS[0].reshape(3, 32, 32)).all()
    assert dataset.targets.tolist()[::4] == [1, 2, 3, 4, 5]
    assert (datasets.CIFAR10(tmp_path / "cifar-10-batches-py").data == dataset.data).all()


def test_a_pickle_of_the_numpy_of_its_day_is_read(tmp_path: Path) -> None:
    # As the published files have it: protocol 2, numpy.core.multiarray, str keys of Python 2.
    raw = PIXELS[:1].tobytes()
    stream = (
        b"\x80\x02}(U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n"
        b"K\x00\x85U\x01b\x87R(K\x01K\x01M\x00\x0c\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R"
        b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T"
        + struct.pack("<I", len(raw))
        + raw
        + b"tbU\x06labels]K\x07au."
    )
    (tmp_path / "test_batch").write_bytes(stream)
    dataset = datasets.CIFAR10(tmp_path, train=False)
    assert (dataset.data.numpy().reshape(1, -1) == PIXELS[:1]).all()
    assert dataset.targets.tolist() == [7]
    assert dataset.classes[7] == "horse"


def test_cifar100_from_pickles_and_both_from_binary(tmp_path: Path) -> None:
    folder = tmp_path / "cifar-100-python"
    folder.mkdir()
    content = {b"data": PIXELS, b"fine_labels": [99, 0, 1, 2], b"coarse_labels": [1, 1, 1, 1]}
    (folder / "test").write_bytes(pickle.dumps(content, protocol=2))
    dataset = datasets.CIFAR100(tmp_path, train=False)
    assert dataset.targets.tolist() == [99, 0, 1, 2]
    assert len(dataset.classes) == 100

    labels = np.array([[1], [2], [3], [4]], np.uint8)
    (tmp_path / "test_batch.bin").write_bytes(np.hstack([labels, PIXELS]).tobytes())
    binary = datasets.CIFAR10(tmp_path, train=False)
    assert binary.targets.tolist() == [1, 2, 3, 4]
    assert (binary.data.numpy().reshape(4, -1) == PIXELS).all()
    (tmp_path / "train.bin").write_bytes(np.hstack([labels * 0, labels * 20, PIXELS]).tobytes())
    assert datasets.CIFAR100(tmp_path).targets.tolist() == [20, 40, 60, 80]


class Evil:
    def __reduce__(self) -> Any:
        return (Path.touch, (Path("evil"),))


def test_a_cifar_pickle_cannot_run_code(tmp_path: Path) -> None:
    path = tmp_path / "test_batch"
    for bad, text in (
        (pickle.dumps({"data": Evil()}), "not trusted: pathlib"),
        (b"cos\nsystem\n(S'touch evil'\ntR.", r"not trusted: os\.system$"),
        (pickle.dumps([1]), "not a dict: list"),
        (pickle.dumps({"data": PIXELS, "labels": [1, 2, 3, 10]}), "not one of 10 classes"),
        (b"", "cannot be read as a CIFAR pickle"),
    ):
        path.write_bytes(bad)
        with pytest.raises(ValueError, match=text):
            datasets.CIFAR10(tmp_path, train=False)
    assert not Path("evil").exists()
    path.unlink()
    (tmp_path / "test_batch.bin").write_bytes(b"0" * 3000)
    with pytest.raises(ValueError, match="not a whole number of records of 3073: 3000 bytes"):
        datasets.CIFAR10(tmp_path, train=False)


# ------------------------------------------------------------------ npy
def test_npy_files_are_mapped_and_gathered(tmp_path: Path) -> None:
    x, y = RANDOM.standard_normal((9, 2, 3)), np.arange(9)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    dataset = datasets.NpyDataset(tmp_path / "x.npy", tmp_path / "y.npy")
    assert len(dataset) == 9
    assert (dataset[-1][0].numpy() == x[-1]).all()
    for workers in (0, 2):
        options = {"num_workers": workers, "multiprocessing_context": "spawn"} if workers else {}
        got = batches(dataset, batch_size=4, **options)
        assert (np.concatenate([b[0].numpy() for b in got]) == x).all()
        assert np.concatenate([b[1].numpy() for b in got]).tolist() == y.tolist()
    assert len(pickle.dumps(dataset)) < 2000  # paths, not data
    one = datasets.NpyDataset(tmp_path / "x.npy")
    assert one[3].shape == (2, 3)
    assert batches(one, batch_size=9)[0].shape == (9, 2, 3)
    with pytest.raises(IndexError, match="9 of 9"):
        one[9]


def test_npy_of_other_layouts_and_refused_files(tmp_path: Path) -> None:
    x = np.arange(12).reshape(4, 3)
    np.save(tmp_path / "f.npy", np.asfortranarray(x))
    np.save(tmp_path / "b.npy", x.astype(">i4"))
    columns = batches(
        datasets.NpyDataset(tmp_path / "f.npy", tmp_path / "b.npy"), batch_size=3, sampler=[3, 0, 1]
    )[0]
    assert columns[0].tolist() == columns[1].tolist() == x[[3, 0, 1]].tolist()
    assert columns[1].dtype == np.int32
    np.save(tmp_path / "short.npy", x[:2])
    np.save(tmp_path / "text.npy", np.array(["a"]))
    for name, text in (
        ("short.npy", "lengths differ: 4 in .*f.npy, 2 in"),
        ("text.npy", "it holds no numbers: dtype <U1"),
    ):
        with pytest.raises(ValueError, match=text):
            datasets.NpyDataset(tmp_path / "f.npy", tmp_path / name)


# ------------------------------------------------------------------ synthetic
SYNTHETIC = [
    datasets.SyntheticRegression(20, features=3),
    datasets.SyntheticClassification(20, features=3),
    datasets.FakeData(20, (3, 5, 3)),
    datasets.SyntheticTokens(20, block_size=6),
]


@pytest.mark.parametrize("dataset", SYNTHETIC, ids=lambda d: type(d).__name__)
def test_synthetic_samples_depend_on_seed_and_index_alone(dataset: Any) -> None:
    one_by_one = [dataset[i] for i in range(20)]
    assert len(dataset) == 20
    for size, workers in ((20, 0), (7, 0), (6, 1)):
        got = batches(dataset, batch_size=size, num_workers=workers)
        for part in range(2):
            stacked = np.concatenate([batch[part].numpy() for batch in got])
            assert (stacked == np.stack([sample[part].numpy() for sample in one_by_one])).all()
    assert (dataset[-1][0] == dataset[19][0]).all()
    with pytest.raises(IndexError, match="20 of 20"):
        dataset[20]
    other = type(dataset)(20, **{("random_offset" if "Fake" in repr(type(dataset)) else "seed"): 1})
    assert other[0][0].shape != dataset[0][0].shape or (other[0][0] != dataset[0][0]).any()


def test_synthetic_data_follow_their_model() -> None:
    dataset = datasets.SyntheticRegression(4000, features=5, noise=0.1, seed=3)
    x, y = (column.numpy() for column in batches(dataset, batch_size=4000)[0])
    assert abs(x.mean()) < 0.03
    assert abs(x.std() - 1) < 0.03
    assert abs(np.corrcoef(x.T) - np.eye(5)).max() < 0.07
    residuals = y - x @ dataset.weight - dataset.bias
    assert abs(residuals.std() - 0.1) < 0.01
    cloud = datasets.SyntheticClassification(3000, 4, num_classes=3, spread=0.2)
    x, y = (column.numpy() for column in batches(cloud, batch_size=3000)[0])
    assert np.bincount(y).min() > 850
    assert abs((x - cloud.centres[y]).std() - 0.2) < 0.01
    images, _ = batches(datasets.FakeData(50, (1, 8, 8)), batch_size=50)[0]
    assert abs(images.numpy().mean() - 127.5) < 5
    tokens, targets = datasets.SyntheticTokens(5, 10, 7)[3]
    assert targets.tolist()[:-1] == tokens.tolist()[1:]
    assert len({(b - a) % 7 for a, b in zip(tokens.tolist(), targets.tolist())}) == 1
    with pytest.raises(ValueError, match="size is negative: -1"):
        datasets.FakeData(-1)


# ------------------------------------------------------------------ SciPy
@pytest.mark.parametrize("kind", ["csr_array", "csc_matrix", "coo_array"])
def test_rows_of_a_sparse_matrix(kind: str) -> None:
    dense = RANDOM.standard_normal((11, 6)) * (RANDOM.random((11, 6)) < 0.3)
    dense[4] = 0
    labels = np.arange(11)
    matrix = getattr(scipy.sparse, kind)(dense)
    dataset = datasets.SparseDataset(matrix, labels, dtype=np.float32)
    order = [10, 4, 4, 0, -1, 7]
    x, y = batches(dataset, batch_size=6, sampler=order)[0]
    assert x.dtype == np.float32
    assert (x.numpy() == dense[order].astype(np.float32)).all()
    assert y.tolist() == labels[order].tolist()
    unlabelled = datasets.SparseDataset(matrix)
    assert (unlabelled[3].numpy() == dense[3]).all()
    with pytest.raises(IndexError, match="11 of 11"):
        dataset[11]
    with pytest.raises(ValueError, match="first dimensions differ"):
        datasets.SparseDataset(matrix, labels[:3])
    with pytest.raises(TypeError, match="not a sparse matrix: ndarray"):
        datasets.SparseDataset(dense)
    assert dataset.indices.dtype == matrix.tocsr().indices.dtype  # as many bytes as SciPy's
    unsorted = scipy.sparse.csr_array((np.ones(2), np.array([3, 1]), np.array([0, 2])))
    assert datasets.SparseDataset(unsorted)[0].tolist() == [0, 1, 0, 1]
    assert unsorted.indices.tolist() == [3, 1]  # the caller's matrix is unchanged
    doubled = scipy.sparse.coo_array(([1.0, 2.0], ([0, 0], [1, 1])), shape=(1, 2))
    assert datasets.SparseDataset(doubled)[0].tolist() == [0, 3]


# ------------------------------------------------------------------ transformed
def augmented(seed: int | None = None) -> datasets.TransformedDataset:
    images = TensorDataset(np.arange(30 * 48).reshape(30, 3, 4, 4) * 7 % 997, np.arange(30))
    crop = transforms.Compose([transforms.RandomCrop(4, padding=2), transforms.RandomErasing()])
    return datasets.TransformedDataset(images, crop, seed)


def by_label(dataset: Any, **options: Any) -> dict[int, Any]:
    loader = DataLoader(dataset, **options)
    return {int(y): x.tolist() for batch in loader for x, y in zip(*batch, strict=True)}


def test_augmentation_depends_on_seed_epoch_and_index_alone() -> None:
    dataset = augmented(seed=1)
    want = {int(y): x.tolist() for x, y in (dataset[i] for i in range(30))}
    assert by_label(dataset, batch_size=7) == want
    assert by_label(dataset, batch_size=8, shuffle=True) == want
    assert by_label(dataset, batch_size=4, num_workers=2, shuffle=True) == want
    dataset.set_epoch(1)
    other = by_label(dataset, batch_size=7)
    assert sum(other[n] != want[n] for n in want) > 20
    dataset.set_epoch(0)
    assert by_label(dataset, batch_size=30) == want


def test_set_epoch_reaches_workers_that_run() -> None:
    dataset = augmented(seed=1)
    loader = DataLoader(dataset, batch_size=15, num_workers=2, persistent_workers=True)
    epochs = []
    for epoch in (0, 1, 0):
        dataset.set_epoch(epoch)
        epochs.append(np.concatenate([x.numpy() for x, _ in loader]).tolist())
    assert epochs[0] == epochs[2] != epochs[1]


def test_without_a_seed_the_default_generator_decides() -> None:
    dataset = augmented()
    st.manual_seed(3)
    first, second = by_label(dataset, batch_size=10), by_label(dataset, batch_size=10)
    assert first != second
    st.manual_seed(3)
    assert by_label(dataset, batch_size=10) == first


def test_augmentation_is_the_same_with_any_number_of_workers() -> None:
    runs = []
    for workers in (0, 1, 2):
        generator = st.Generator().manual_seed(8)
        batches = []
        dataset = augmented()
        for _ in range(2):
            loader = DataLoader(
                dataset, batch_size=4, shuffle=True, num_workers=workers, generator=generator
            )
            batches.append([x.tolist() for x, _ in loader])
        runs.append(batches)
    assert runs[0] == runs[1] == runs[2]
    assert runs[0][0] != runs[0][1]


def test_dicts_and_single_tensors_are_transformed_too() -> None:
    table = datasets.TableDataset({"x": np.arange(6.0), "name": list("abcdef")})
    doubled = datasets.TransformedDataset(table, lambda batch: {**batch, "x": batch["x"] * 2})
    assert batches(doubled, batch_size=3)[1]["x"].tolist() == [6, 8, 10]
    assert doubled[1]["name"] == "b"
    single = datasets.TransformedDataset(
        datasets.TransformedDataset(TensorDataset(np.arange(4)), lambda x: x + 1), lambda x: (x, x)
    )
    assert [part.tolist() for part in single[-1]] == [4, 4]


def test_concatenated_sets_are_asked_once_each() -> None:
    calls = []

    class Part(datasets.FakeData):
        def __getitems__(self, indices: Any) -> Any:
            calls.append(list(indices))
            return super().__getitems__(indices)

    both = ConcatDataset([Part(4, (1, 2, 2)), Part(5, (1, 2, 2), random_offset=1)])
    x, _ = batches(both, batch_size=5, sampler=[8, 0, 4, -9, 5])[0]
    assert calls == [[0, 0], [4, 0, 1]]
    assert (x.numpy() == np.stack([both[i][0].numpy() for i in (8, 0, 4, 0, 5)])).all()
    assert ConcatDataset([[1, 2], [3]]).__getitems__ is None  # type: ignore[list-item]


def test_batches_are_in_shared_memory(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((4, 2)))
    for dataset in (augmented(0), datasets.NpyDataset(tmp_path / "x.npy"), *SYNTHETIC):
        rows = dataset.__getitems__([0, 1])
        for column in rows.columns:
            assert memory.is_shared(column.array), dataset
