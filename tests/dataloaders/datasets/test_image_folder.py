"""Folders of images: order, decoding into the block, corrupt files."""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("PIL")

from PIL import Image

from shmtensor import memory
from shmtensor.dataloaders import DataLoader, datasets, transforms
from shmtensor.dataloaders.datasets import image_decoding as decoding

RANDOM = np.random.default_rng(0)


def smooth(height: int, width: int, seed: int = 0) -> Any:
    """An image that JPEG keeps well."""
    small = np.random.default_rng(seed).integers(0, 256, (3, 4, 3)).astype(np.uint8)
    return Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)


def pixels(path: Path) -> Any:
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB")).transpose(2, 0, 1)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two classes, five images of 24 x 32; written in no order."""
    for name in ("dog/2.png", "cat/b.jpg", "dog/deep/1.jpg", "cat/a.JPEG", "dog/10.png"):
        path = tmp_path / "images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        smooth(24, 32, seed=len(list(tmp_path.rglob("*")))).save(path, quality=95)
    (tmp_path / "images" / "dog" / "notes.txt").write_text("no image")
    return tmp_path / "images"


@pytest.fixture(params=["pillow", "into"])
def decoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Without simplejpeg, and with a stand-in that decodes into a buffer, as simplejpeg does."""
    buffers: list[Any] = []

    class Turbo:
        def decode_jpeg_header(self, data: bytes) -> Any:
            try:
                width, height = Image.open(io.BytesIO(data)).size
            except OSError as error:
                raise ValueError(str(error)) from error
            return height, width, "YCbCr", "420"

        def decode_jpeg(self, data: bytes, space: str, buffer: Any) -> Any:
            buffers.append(buffer)
            mode = {"RGB": "RGB", "GRAY": "L"}[space]
            try:
                image = Image.open(io.BytesIO(data)).convert(mode)
            except OSError as error:
                raise ValueError(str(error)) from error
            buffer[...] = np.asarray(image).reshape(buffer.shape)

    monkeypatch.setattr(decoding, "turbo", Turbo if request.param == "into" else lambda: None)
    yield buffers
    buffers.clear()  # they keep the batch's block alive


ORDER = ["cat/a.JPEG", "cat/b.jpg", "dog/10.png", "dog/2.png", "dog/deep/1.jpg"]


def test_classes_and_files_are_sorted(root: Path) -> None:
    dataset = datasets.ImageFolder(root)
    assert dataset.classes == ["cat", "dog"]
    assert dataset.class_to_idx == {"cat": 0, "dog": 1}
    assert [str(Path(path).relative_to(root)) for path, _ in dataset.samples] == ORDER
    assert dataset.imgs == dataset.samples
    assert dataset.targets == [0, 0, 1, 1, 1]
    assert len(dataset) == 5
    assert "5 images, 2 classes" in repr(dataset)
    assert len(pickle.loads(pickle.dumps(dataset))) == 5


@pytest.mark.parametrize("workers", [0, 1])
def test_images_are_those_of_pillow(root: Path, decoder: list[Any], workers: int) -> None:
    dataset = datasets.ImageFolder(root)
    images, labels = next(iter(DataLoader(dataset, batch_size=5, num_workers=workers)))
    assert images.shape == (5, 3, 24, 32)
    assert images.dtype == np.uint8
    for image, name in zip(images.numpy(), ORDER):
        assert (image == pixels(root / name)).all()
    assert labels.tolist() == [0, 0, 1, 1, 1]
    image, label = dataset[-1]
    assert (image.numpy() == pixels(root / ORDER[-1])).all()
    assert int(label) == 1


def test_jpegs_are_decoded_straight_into_the_batch(root: Path, decoder: list[Any]) -> None:
    dataset = datasets.ImageFolder(root)
    images, _ = next(iter(DataLoader(dataset, batch_size=5)))
    assert memory.is_shared(images.numpy())
    if decoder:  # the decoder writes into the batch itself
        assert len(decoder) == 3
        assert all(np.shares_memory(buffer, images.numpy()) for buffer in decoder)


def test_simplejpeg_decodes_into_memory_it_is_given(root: Path) -> None:
    pytest.importorskip("simplejpeg")
    dataset = datasets.ImageFolder(root)
    images, _ = next(iter(DataLoader(dataset, batch_size=5)))
    for image, name in zip(images.numpy(), ORDER):
        assert np.abs(image.astype(int) - pixels(root / name)).max() <= 4  # another libjpeg


def test_images_of_one_size_on_request(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for n, (height, width) in enumerate([(20, 20), (40, 90), (333, 64), (16, 16), (900, 700)]):
        smooth(height, width, n).save(tmp_path / "a" / f"{n}.jpg", quality=95)
    dataset = datasets.ImageFolder(tmp_path, size=(16, 16))
    images, _ = next(iter(DataLoader(dataset, batch_size=5)))
    assert images.shape == (5, 3, 16, 16)
    for n, image in enumerate(images.numpy()):
        with Image.open(tmp_path / "a" / f"{n}.jpg") as picture:
            side = min(picture.size)
            left, top = (picture.width - side) / 2, (picture.height - side) / 2
            box = (left, top, left + side, top + side)
            want = picture.resize((16, 16), Image.Resampling.BILINEAR, box=box)
        want = np.asarray(want).transpose(2, 0, 1)
        # Draft mode averages 8 x 8 blocks where it can: similar, not equal.
        assert np.abs(image.astype(int) - want).mean() < 3, n
    with pytest.raises(RuntimeError, match="shapes differ"):
        next(iter(DataLoader(datasets.ImageFolder(tmp_path), batch_size=5)))
    loader = DataLoader(datasets.ImageFolder(tmp_path), batch_size=5, collate_fn=list)
    assert [image.shape[1] for image, _ in next(iter(loader))] == [20, 40, 333, 16, 900]


def test_large_jpegs_are_decoded_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smooth(800, 640).save(tmp_path / "x.jpg")
    image = datasets.open_image((tmp_path / "x.jpg").read_bytes(), size=100)
    out = np.empty(image.shape, np.uint8)
    image.decode_into(out)
    assert image.image.size == (160, 200)  # type: ignore[attr-defined]


def test_modes(root: Path, decoder: list[Any]) -> None:
    assert datasets.ImageFolder(root, mode="L")[1][0].shape == (1, 24, 32)
    assert datasets.ImageFolder(root, mode="RGBA")[1][0].numpy()[3].min() == 255
    with pytest.raises(ValueError, match="mode is not one of"):
        datasets.ImageFolder(root, mode="HSV")[0]


def test_transforms_see_the_batch(root: Path) -> None:
    sizes = []

    def scale(images: Any) -> Any:
        sizes.append(tuple(images.shape))
        return transforms.ToDtype(scale=True)(images)

    dataset = datasets.ImageFolder(root, scale, transforms.OneHot(2))
    images, labels = next(iter(DataLoader(dataset, batch_size=5)))
    assert sizes == [(5, 3, 24, 32)]
    assert images.dtype == np.float32
    assert labels.numpy().argmax(1).tolist() == [0, 0, 1, 1, 1]


def test_users_loaders(root: Path) -> None:
    dataset = datasets.ImageFolder(root, loader=lambda path: Path(path).name)
    assert next(iter(DataLoader(dataset, batch_size=2)))[0] == ("a.JPEG", "b.jpg")

    class Blank:
        shape = (4, 5, 3)

        def decode_into(self, out: Any) -> None:
            out[...] = 7

    images, _ = next(iter(DataLoader(datasets.ImageFolder(root, loader=lambda _: Blank()), 5)))
    assert images.shape == (5, 3, 4, 5)
    assert (images.numpy() == 7).all()
    some = datasets.ImageFolder(
        root, is_valid_file=lambda path: path.endswith(".png"), allow_empty=True
    )
    assert some.targets == [1, 1]


@pytest.mark.parametrize("damage", ["cut", "rubbish", "empty"])
@pytest.mark.parametrize("name", ["cat/b.jpg", "dog/10.png"])
def test_a_corrupt_image_is_named(root: Path, decoder: list[Any], damage: str, name: str) -> None:
    raw = (root / name).read_bytes()
    bad = {"cut": raw[: len(raw) // 2], "rubbish": b"rubbish", "empty": b""}[damage]
    (root / name).write_bytes(bad)
    with pytest.raises(OSError, match=f"corrupt: .*{name}"):
        list(DataLoader(datasets.ImageFolder(root), batch_size=5))
    going_on = datasets.ImageFolder(root, corrupt="next")
    with pytest.warns(RuntimeWarning, match=f"corrupt: .*{name}.*next one is taken"):
        images, labels = next(iter(DataLoader(going_on, batch_size=5)))
    place = ORDER.index(name)
    assert (images.numpy()[place] == pixels(root / ORDER[place + 1])).all()
    assert labels.tolist() == [0, 1 if place == 1 else 0, 1, 1, 1]


def test_nothing_readable_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.png").write_bytes(b"no")
    with pytest.warns(RuntimeWarning), pytest.raises(OSError, match="no image can be read: 1"):
        datasets.ImageFolder(tmp_path, corrupt="next")[0]
    with pytest.raises(ValueError, match="corrupt is not"):
        datasets.ImageFolder(tmp_path, corrupt="skip")


def test_folders_without_a_data_set(root: Path, tmp_path: Path) -> None:
    (root / "bird").mkdir()
    with pytest.raises(FileNotFoundError, match="no images for the classes bird in"):
        datasets.ImageFolder(root)
    assert datasets.ImageFolder(root, allow_empty=True).classes == ["bird", "cat", "dog"]
    with pytest.raises(FileNotFoundError, match="no folders, one for each class"):
        datasets.ImageFolder(root / "bird")
    with pytest.raises(FileNotFoundError, match="no such folder"):
        datasets.ImageFolder(root / "fish")
    with pytest.raises(IndexError, match="5 of 5 images"):
        datasets.ImageFolder(root, allow_empty=True)[5]


def test_without_pillow_the_error_says_what_to_install(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoding.pillow.cache_clear()
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(ModuleNotFoundError, match="pip install pillow"):
        datasets.ImageFolder(root)[2]
    decoding.pillow.cache_clear()


def test_decode_image_gives_a_tensor() -> None:
    file = io.BytesIO()
    smooth(9, 7).save(file, "PNG")
    image = datasets.decode_image(file.getvalue())
    assert image.shape == (3, 9, 7)
    assert (image.numpy().transpose(1, 2, 0) == np.asarray(smooth(9, 7))).all()
