"""Files that a reader must not believe: each is its documented error, and no crash."""

from __future__ import annotations

import gzip
import io
import pickle
import struct
import tarfile
import tracemalloc
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from tar_files import write_tar

from shmtensor.dataloaders import datasets
from tests.attacks import survives
from tests.fuzz import file_formats

# ------------------------------------------------------------------ CIFAR
PIXELS = np.arange(2 * 3072, dtype=np.int64).astype(np.uint8).reshape(2, 3072)
RECONSTRUCT = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\0\x85U\x01btR"


@pytest.mark.parametrize(
    "stream",
    [
        # an array of eight pointers
        RECONSTRUCT + b"(K\x01K\x08\x85cnumpy\ndtype\nU\x02O8\x85R\x89U\x40" + b"A" * 64 + b"tb",
        b"cnumpy\nndarray\n(K\x08\x85U\x01OU\x40" + b"A" * 64 + b"tR",
        b"cnumpy\ndtype\nU\x02O8\x85R(K\x03U\x01<NNNK\x40K\x01K\0tb",
        b"cnumpy\ndtype\nU\x02u1\x85R(K\x03U\x01|NNNK\x40K\x01K\0tb",
        b"}N" + b"\x85" * 2_000_000 + b"Ns",
        b"}N" + b"2\x86" * 100 + b"Ns",
    ],
)
def test_a_cifar_pickle_makes_no_pointers(tmp_path: Path, stream: bytes) -> None:
    def attack() -> None:
        (tmp_path / "test_batch").write_bytes(b"\x80\x02}U\x04data" + stream + b"s.")
        with pytest.raises(ValueError, match="cannot be read as a CIFAR pickle"):
            datasets.CIFAR10(tmp_path, train=False)
        assert np.dtype("u1").itemsize == 1

    assert survives(attack)


def nested(n: int) -> Any:
    """A list that holds another one twice, and so on."""
    value: Any = [0]
    for _ in range(n):
        value = [value, value]
    return value


@pytest.mark.parametrize(
    "content",
    [
        {"data": PIXELS, "labels": nested(40)},
        {"data": nested(40), "labels": [1, 2]},
        {"data": PIXELS, "labels": [1, 1 << 80]},
        {"data": PIXELS, "labels": [1, "2"]},
        {"data": PIXELS, "labels": [1.0, 2.0]},
        {"data": PIXELS, "labels": np.array([1.0, 2.0])},
        {"data": PIXELS, "labels": np.array([[1], [2]])},
        {"data": PIXELS[0], "labels": [1, 2]},
        {"data": np.array(3), "labels": [1]},
    ],
)
def test_a_cifar_pickle_of_something_else(tmp_path: Path, content: Any) -> None:
    (tmp_path / "test_batch").write_bytes(pickle.dumps(content, 2))
    with pytest.raises(ValueError, match=r"test_batch: (images|no 'data')"):
        datasets.CIFAR10(tmp_path, train=False)


@pytest.mark.parametrize("names", [None, 3, "cat", ["cat", 3], {"cat": 1}])
def test_names_of_classes_are_a_list(tmp_path: Path, names: Any) -> None:
    (tmp_path / "test_batch").write_bytes(pickle.dumps({"data": PIXELS, "labels": [1, 2]}, 2))
    (tmp_path / "batches.meta").write_bytes(pickle.dumps({"label_names": names}, 2))
    with pytest.raises(ValueError, match=r"batches\.meta: no list of names 'label_names'"):
        datasets.CIFAR10(tmp_path, train=False)


# ------------------------------------------------------------------ npy
def npy(header: str | bytes, data: bytes = b"", version: int = 1) -> bytes:
    text = header.encode() if isinstance(header, str) else header
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text + data


def header(descr: Any = "<f4", shape: Any = (2,), order: Any = False) -> str:
    return repr({"descr": descr, "fortran_order": order, "shape": shape})


@pytest.mark.parametrize(
    "content",
    [
        npy(header("|V0", (-1,))),
        npy(header("|V0", (1 << 62,))),
        npy(header("|O", (1,)), b"A" * 8),
        npy(header([("a", "O")], (1,)), b"A" * 8),
        npy(header("|S0", (1 << 40,))),
        npy(header("<f16", (1,)), bytes(16)),
        npy(header("<f4", (-2,)), bytes(8)),
        npy(header("<f4", (3,)), bytes(8)),
        npy(header("<f4", (1 << 32, 1 << 32)), bytes(8)),
        npy(header("<f4", (0, 1 << 63)), bytes(8)),
        npy(header("<f4", (1,) * 65), bytes(8)),
        npy(header("<f4", [2]), bytes(8)),
        npy(header("<f4", (2.0,)), bytes(8)),
        npy(header("<f4", (True,)), bytes(8)),
        npy(header("<f4", 2), bytes(8)),
        npy("{'descr': '<f4', 'fortran_order': False}", bytes(8)),
        npy("[1, 2]", bytes(8)),
        npy("(" * 9000, bytes(8)),
        npy("-" * 9000 + "1", bytes(8)),
        npy("{'descr': " + "9" * 6000 + "}", bytes(8)),
        npy("__import__('os').system('touch evil')", bytes(8)),
        npy(b"{'descr': '\xff\0", bytes(8)),
        npy("x" * 20_000, bytes(8)),
        npy(header("<f4", (2,)), bytes(8), 9),
        b"\x93NUMPY\x02\0\xff\xff\xff\xff{",
        b"\x93NUMPY",
        b"",
        zipfile.ZipFile.__doc__.encode(),  # type: ignore[union-attr]
    ],
)
def test_no_number_of_an_npy_header_is_believed(tmp_path: Path, content: bytes) -> None:
    def attack() -> None:
        (tmp_path / "x.npy").write_bytes(content)
        with warnings.catch_warnings(), pytest.raises(ValueError, match=r"x\.npy"):
            warnings.simplefilter("ignore")  # of the compiler, for headers that look like code
            datasets.NpyDataset(tmp_path / "x.npy")
        write_tar(tmp_path / "x.tar", [("1.npy", content)])
        with warnings.catch_warnings(), pytest.raises(datasets.BrokenShard):
            warnings.simplefilter("ignore")
            list(datasets.WebDataset(tmp_path / "x.tar"))

    assert survives(attack)
    assert not Path("evil").exists()


def test_headers_of_numpys_versions_are_read(tmp_path: Path) -> None:
    for content in (
        npy("{'descr': '>i2', 'fortran_order': True, 'shape': (2L, 3L), }", bytes(12)),
        npy(header("|u1", (2, 3)) + " " * 50 + "\n", bytes(6), 2),
        npy(header("|b1", (2, 3)), bytes(7), 3),
    ):
        (tmp_path / "x.npy").write_bytes(content)
        assert datasets.NpyDataset(tmp_path / "x.npy")[1].tolist() == [0, 0, 0]
    (tmp_path / "x.npy").write_bytes(npy(header("<f4", (0, 3))))
    assert len(datasets.NpyDataset(tmp_path / "x.npy")) == 0


def test_members_of_a_shard_may_be_text_and_dates(tmp_path: Path) -> None:
    arrays = [np.array(["a", "bc"]), np.array([b"x"]), np.array(["2020-01-01"], "M8[D]")]
    members = []
    for n, array in enumerate(arrays):
        np.save(file := io.BytesIO(), array)
        members.append((f"{n}.npy", file.getvalue()))
    np.savez_compressed(file := io.BytesIO(), a=np.arange(3), b=np.eye(2))
    write_tar(tmp_path / "x.tar", [*members, ("9.npz", file.getvalue())])
    samples = list(datasets.WebDataset(tmp_path / "x.tar"))
    for sample, array in zip(samples, arrays, strict=False):
        assert (sample["npy"] == array).all()
    assert samples[-1]["npz"]["b"].tolist() == [[1, 0], [0, 1]]


# ------------------------------------------------------------------ tar
def with_size(path: Path, name: bytes, size: bytes) -> None:
    """Replaces the size in a member's header, with the right checksum."""
    raw = bytearray(path.read_bytes())
    at = raw.index(name)
    head = raw[at : at + 512]
    head[124:136] = size
    head[148:156] = b"        "
    head[148:156] = b"%06o\0 " % sum(head)
    raw[at : at + 512] = head
    path.write_bytes(raw)


SIZES = {
    "negative": b"\xff" * 11 + b"\x80",
    "huge negative": b"\xff" + bytes(11),
    "minus": b"-0000000001\0",
    "2**87": b"\x80" + (1 << 87).to_bytes(11, "big"),
    "2**63": b"\x80" + (1 << 63).to_bytes(11, "big"),
    "2**40": b"\x80" + (1 << 40).to_bytes(11, "big"),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("is_gzip", [False, True])
def test_a_member_of_absurd_size_ends_its_shard_alone(
    tmp_path: Path, size: str, is_gzip: bool
) -> None:
    for shard in range(3):
        path = tmp_path / f"{shard}.tar"
        write_tar(path, [(f"{shard}{n}.cls", b"%d%d" % (shard, n)) for n in range(4)])
        if shard == 1:
            with_size(path, b"12.cls", SIZES[size])
        if is_gzip:
            path.write_bytes(gzip.compress(path.read_bytes()))
    urls = str(tmp_path / "{0..2}.tar")
    tracemalloc.start()
    try:
        with pytest.raises(datasets.BrokenShard, match=r"1\.tar: (damaged at|ends in the middle)"):
            list(datasets.WebDataset(urls, ("cls",)))
        with pytest.warns(RuntimeWarning, match=r"left out: .*1\.tar"):
            samples = list(datasets.WebDataset(urls, ("cls",), handler="warn"))
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()
    # The sample before the damage was not known to be complete.
    assert [n for (n,) in samples] == [0, 1, 2, 3, 10, 20, 21, 22, 23]
    assert list(datasets.WebDataset(urls, ("cls",), handler="ignore")) == samples


@pytest.mark.parametrize("field", [b"size=-9999999999999", b"size=" + b"x" * 11, b"\xff\xfe=1"])
def test_an_extended_header_is_not_believed(tmp_path: Path, field: bytes) -> None:
    path = tmp_path / "x.tar"
    rest = b" " + field + b"\n"
    length = next(n for n in range(99) if len(str(n)) + len(rest) == n)
    record = str(length).encode() + rest
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as file:
        for name, data, kind in (("h", record, b"x"), ("1.cls", b"1", b"0")):
            info = tarfile.TarInfo(name)
            info.size, info.type = len(data), kind
            file.addfile(info, io.BytesIO(data))
    with pytest.raises(datasets.BrokenShard, match=r"x\.tar: damaged"):
        list(datasets.WebDataset(path))
    assert list(datasets.WebDataset(path, handler="ignore")) == []


def test_members_of_a_shard_that_raise_anything_are_its_error(tmp_path: Path) -> None:
    np.savez(file := io.BytesIO(), a=np.arange(300))
    bad = {
        "npz": file.getvalue().replace(b"PK\3\4", b"PK\3\5"),
        "json": b"[" * 100_000,
        "png": b"\x89PNG\r\n\x1a\n" + bytes(50),
        "cls": b"9" * 5000,
        "txt": b"\xff",
    }
    for name, data in bad.items():
        write_tar(tmp_path / "x.tar", [(f"1.{name}", data)])
        with pytest.raises(datasets.BrokenShard, match=r"x\.tar: sample 1"):
            list(datasets.WebDataset(tmp_path / "x.tar"))
    with zipfile.ZipFile(file := io.BytesIO(), "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("a.npy", bytes(100_000))
    write_tar(tmp_path / "x.tar", [("1.npz", file.getvalue())])
    with pytest.raises(datasets.BrokenShard, match="compression that NumPy does not write"):
        list(datasets.WebDataset(tmp_path / "x.tar"))


# ------------------------------------------------------------------ idx
def test_idx_files_that_are_damaged(tmp_path: Path) -> None:
    path = tmp_path / "x"
    raw = struct.pack(">HBBI", 0, 8, 1, 1000) + bytes(range(250)) * 4
    whole = gzip.compress(raw)
    damaged = bytearray(whole)
    damaged[40] ^= 0xFF
    for content, text in (
        (raw[:-1], "size does not fit its header"),
        (raw + b"0", "size does not fit its header"),
        (raw[:6], "size does not fit its header"),
        (b"\x89PNG" + raw, "not an idx file"),
        (b"", "not an idx file"),
        (whole[:-9], "gzip file is damaged"),
        (bytes(damaged), "damaged|size does not fit"),
        (struct.pack(">HBB", 0, 8, 255) + bytes(4 * 255), "more than 64 dimensions: 255"),
        (struct.pack(">HBBIII", 0, 8, 3, 0, 2**32 - 1, 2**32 - 1), "size does not fit"),
        (struct.pack(">HBBIII", 0, 14, 3, 2**32 - 1, 2**32 - 1, 2**32 - 1), "size does not fit"),
        (b"\x1f\x8b" + bytes(100), "gzip file is damaged"),
        (whole[:30], "gzip file is damaged"),
    ):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=text):
            datasets.read_idx(path)


def test_a_compressed_idx_file_is_read_as_far_as_its_header_says(tmp_path: Path) -> None:
    data = gzip.compress(struct.pack(">HBBI", 0, 8, 1, 9) + bytes(64 << 20), 1)
    (tmp_path / "x.gz").write_bytes(data)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="has more bytes of data, the header says 9"):
            datasets.read_idx(tmp_path / "x.gz")
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


# ------------------------------------------------------------------ images
def test_images_whose_header_is_absurd() -> None:
    pillow = pytest.importorskip("PIL.Image")
    pillow.new("RGB", (5, 4)).save(file := io.BytesIO(), "JPEG")
    jpeg = bytearray(file.getvalue())
    at = jpeg.index(b"\xff\xc0") + 5
    jpeg[at : at + 4] = struct.pack(">HH", 65500, 65500)
    pillow.new("RGB", (5, 4)).save(file := io.BytesIO(), "BMP")
    bmp = bytearray(file.getvalue())
    bmp[18:26] = struct.pack("<ii", 1 << 30, 1 << 30)
    eps = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n"
    for data, text in (
        (bytes(jpeg), "pixels"),
        (bytes(bmp), "pixels|cannot be decoded"),
        (eps, "run Ghostscript"),
        (b"", "cannot identify"),
    ):
        with pytest.raises(OSError, match=text):
            datasets.open_image(data)
        with pytest.raises(OSError, match=text):
            datasets.decode_image(data, "RGBA", 4)


# ------------------------------------------------------------------ tables, matrices
def test_parquet_files_that_are_damaged(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "x.parquet"
    parquet.write_table(arrow.table({"n": [1, 2, 3], "s": list("abc")}), path)
    whole = path.read_bytes()
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    for damaged in (
        whole[:20],
        b"",
        whole[:footer] + bytes(len(whole) - 8 - footer) + whole[-8:],
        whole[:4] + b"\xff" * 30 + whole[34:],
    ):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"ParquetDataset: .*x\.parquet"):
            datasets.ParquetDataset(path)
    with pytest.raises(FileNotFoundError):
        datasets.ParquetDataset(tmp_path / "no.parquet")


@pytest.mark.parametrize("content", [b"a,b\n1,\xff\n", b"a,\xff\n", b'a,"b\n1,2\n'])
def test_csv_files_that_are_not_text(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.csv").write_bytes(content)
    with pytest.raises(ValueError, match=r"CSVDataset: .*x\.csv: line"):
        datasets.CSVDataset(tmp_path / "x.csv")


@pytest.mark.parametrize("kind", [scipy.sparse.csr_array, scipy.sparse.csc_array])
@pytest.mark.parametrize("part", ["indices", "indptr"])
def test_indices_of_a_sparse_matrix_are_checked(kind: Any, part: str) -> None:
    def attack() -> None:
        matrix = kind(np.eye(50))
        getattr(matrix, part)[3] = 1 << 30
        with pytest.raises(ValueError, match=r"indices|indptr|index"):
            datasets.SparseDataset(matrix)

    assert survives(attack)


def test_mutants_of_every_format_are_read_or_are_documented_errors() -> None:
    for seed in range(2):
        file_formats.forge(seed, 450)
