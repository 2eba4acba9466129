"""Mutants of valid files, for every reader of a file format.

Each input is read, or raises the reader's documented exception. What is read is read to its end.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import pickle
import random
import struct
import tarfile
import tempfile
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import shmtensor as st
from shmtensor.dataloaders import datasets
from shmtensor.dataloaders.datasets.npy import map_npy
from shmtensor.dataloaders.datasets.tar import expansion_limit
from shmtensor.dataloaders.datasets.webdataset import nbytes_of
from shmtensor.serialization import load, safetensors, save

from .pickles import check_text, read_all

EDGES = [0, 1, 2, 127, 128, 255, 256, (1 << 15) - 1, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 62,
         (1 << 63) - 1, 1 << 63, (1 << 64) - 1]  # fmt: skip
DIGITS = [b"0", b"-1", b"9", b"99999999999", b"18446744073709551616", b"9" * 40, b"1e9", b"null"]
MAX_PIXELS = 1 << 14  # so that an image with a mutated size is not large


class Format(NamedTuple):
    """A reader, what it raises for a damaged file, and valid files by their name."""

    read: Callable[[Path], Any]
    error: type[Exception] | tuple[type[Exception], ...]
    files: dict[str, bytes]


# ------------------------------------------------------------------ readers
def read_rows(dataset: Any) -> None:
    dataset.__getitems__(list(range(min(len(dataset), 64))))


def read_npy(path: Path) -> None:
    map_npy(path)
    read_rows(datasets.NpyDataset(path))


def read_shard(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        skipped = list(datasets.WebDataset(path, handler="ignore"))  # never raises
        assert skipped == [] or "__key__" in skipped[0]
        limit = expansion_limit(path.stat().st_size, 1 << 16)
        for sample in datasets.WebDataset(path, handler="ignore", max_expansion=1 << 16):
            assert sum(map(nbytes_of, sample.values())) <= limit
        list(datasets.WebDataset(path))


def read_table(path: Path) -> None:
    kind = datasets.CSVDataset if path.suffix == ".csv" else datasets.ParquetDataset
    read_rows(kind(path))  # type: ignore[operator]


def read_image(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Pillow, for what it can repair
        datasets.decode_image(path.read_bytes())
        datasets.decode_image(path.read_bytes(), "L", 5)


def read_safetensors(path: Path) -> None:
    safetensors.metadata(path)
    read_all(safetensors.load_file(path))


def read_archive(path: Path) -> None:
    read_all(load(path))
    read_all(load(path, mmap=True, check_crc=False))


# ------------------------------------------------------------------ valid files
def file_of(write: Callable[[Any], Any]) -> bytes:
    file = io.BytesIO()
    write(file)
    return file.getvalue()


def idx(array: np.ndarray[Any, Any]) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def tar_of(kind: int) -> bytes:
    members = [("a/1.cls", b"1"), ("a/1.txt", b"text"), ("a/1.json", b'{"k": [1, 2]}'),
               ("a/2.npy", file_of(lambda f: np.save(f, np.arange(6.0)))),
               ("a/2.npz", file_of(lambda f: np.savez_compressed(f, x=np.arange(4), y=["a"]))),
               ("b" * 120 + "/3.cls", b"3")]  # fmt: skip

    return tar_file(members, kind)


def tar_file(members: list[tuple[str, bytes]], kind: int) -> bytes:
    def write(file: Any) -> None:
        with tarfile.open(fileobj=file, mode="w", format=kind) as archive:
            for name, data in members:
                info = tarfile.TarInfo(name)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))

    return file_of(write)


def expanding(n: int) -> bytes:
    """A shard with arrays that are a thousand times as large as in the file."""
    array = np.zeros(n, np.uint8)
    data = file_of(lambda f: np.savez_compressed(f, x=array, y=array))
    members = [("1.npz", data), ("1.txt", bytes(n)), ("2.cls", b"2")]
    return gzip.compress(tar_file(members, tarfile.DEFAULT_FORMAT), 1)


def images() -> dict[str, bytes]:
    try:
        from PIL import Image
    except ImportError:
        return {}
    pixels = np.arange(12 * 10 * 3, dtype=np.uint8).reshape(12, 10, 3)
    image = Image.fromarray(pixels)
    kinds = ["JPEG", "PNG", "BMP", "GIF", "PPM", "TIFF", "WEBP"]
    return {
        f"x.{kind.lower()}": file_of(lambda f, kind=kind: image.save(f, kind))  # type: ignore[misc]
        for kind in kinds
    }


def parquet_files() -> dict[str, bytes]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        return {}
    table = pyarrow.table({"n": [1, 2, None, 4], "x": [0.5, 1.5, 2.5, 3.5], "s": list("abcd")})
    return {
        f"{codec}.parquet": file_of(
            lambda f, codec=codec: parquet.write_table(table, f, 2, compression=codec)  # type: ignore[misc]
        )
        for codec in ("none", "snappy")
    }


def cifar(protocol: int) -> bytes:
    pixels = np.arange(2 * 3072, dtype=np.int64).astype(np.uint8).reshape(2, 3072)
    return pickle.dumps({b"data": pixels, b"labels": [1, 9], "z": ["a.png"] * 2}, protocol)


def formats() -> list[Format]:
    x = st.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3))
    state = {"w": x, "row": x[1], "m": st.tensor([True, False]), "n": 3, "a": np.arange(3)}
    tensors = {"w": x, "m": st.tensor([True, False]), "s": st.tensor(2.5)}
    text = csv_text()
    gray = np.arange(2 * 28 * 28, dtype=np.int64).astype(np.uint8).reshape(2, 28, 28)
    digits = {
        "images.idx": idx(gray[:, :4, :4]),
        "labels.gz": gzip.compress(idx(np.arange(9, dtype=np.uint8))),
        "floats.idx": struct.pack(">HBBI", 0, 13, 1, 3) + np.arange(3, dtype=">f4").tobytes(),
    }
    arrays = {
        "c.npy": file_of(lambda f: np.save(f, np.arange(12.0).reshape(4, 3))),
        "f.npy": file_of(lambda f: np.save(f, np.asfortranarray(np.arange(12).reshape(4, 3)))),
        "v2.npy": npy_of_version(2),
    }
    shards = {
        "gnu.tar": tar_of(tarfile.GNU_FORMAT),
        "pax.tar": tar_of(tarfile.PAX_FORMAT),
        "x.tar.gz": gzip.compress(tar_of(tarfile.GNU_FORMAT)),
        "zeros.tar.gz": expanding(1 << 16),
    }
    return [
        Format(datasets.read_idx, ValueError, digits),
        Format(
            lambda path: read_rows(datasets.CIFAR10(path.parent, train=False)),
            ValueError,
            {"test_batch": cifar(2), "test_batch ": cifar(0), "test_batch.bin": bytes(2 * 3073)},
        ),
        Format(read_npy, ValueError, arrays),
        Format(
            lambda path: read_rows(datasets.TokenDataset(path, 3, np.uint16)),
            ValueError,
            {
                "tokens.npy": file_of(lambda f: np.save(f, np.arange(30, dtype=np.uint16))),
                "tokens.bin": np.arange(30, dtype=np.uint16).tobytes(),
            },
        ),
        Format(read_shard, datasets.BrokenShard, shards),
        Format(read_table, ValueError, {**parquet_files(), "x.csv": text}),
        Format(read_image, OSError, images()),
        Format(read_safetensors, RuntimeError, {"x.safetensors": safetensors.save(tensors)}),
        Format(
            read_archive,
            (RuntimeError, pickle.UnpicklingError),
            {"x.pt": file_of(lambda f: save(state, f))},
        ),
    ]


def csv_text() -> bytes:
    file = io.StringIO()
    csv.writer(file).writerows([["a", "b", "c"], [1, 2.5, "x, y"], [3, "", 'quo"te'], [5, 6, "ä"]])
    return file.getvalue().encode()


def npy_of_version(major: int) -> bytes:
    array = np.arange(6, dtype=">i4")
    return file_of(lambda f: np.lib.format.write_array(f, array, (major, 0)))


# ------------------------------------------------------------------ mutants
def mutant(rng: random.Random, data: bytes) -> bytes:
    """`data` with a few places changed, most of them near the beginning or the end, where the
    headers and directories are.
    """
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        n = len(out) + 1
        at = rng.choice(
            [rng.randrange(n), rng.randrange(min(n, 200)), n - 1 - rng.randrange(min(n, 200))]
        )
        kind = rng.randrange(7)
        if kind == 0 and at < len(out):
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            width = rng.choice([1, 2, 4, 8])
            order: Any = rng.choice(["little", "big"])
            value = rng.choice(EDGES) % (1 << 8 * width)
            out[at : at + width] = value.to_bytes(width, order)
        elif kind == 2:
            del out[at : at + rng.choice([1, 4, 64, 512])]
        elif kind == 3:
            start = rng.randrange(n)
            out[at:at] = out[start : start + rng.choice([1, 16, 512])]
        elif kind == 4:
            out = out[:at] if rng.random() < 0.3 else out
        elif kind == 5:
            replace_number(rng, out, at)
        else:
            out[at : at + 4] = rng.choice([rng.randbytes(rng.choice([1, 4, 16])), b"\x1b[2J"])
    return bytes(out)


def replace_number(rng: random.Random, out: bytearray, at: int) -> None:
    """Puts another number where the next one in decimal is, in a header of text for example."""
    while at < len(out) and not 48 <= out[at] < 58:
        at += 1
    end = at
    while end < len(out) and 48 <= out[end] < 58:
        end += 1
    out[at:end] = rng.choice(DIGITS)


def mutate_file(rng: random.Random, name: str, data: bytes) -> bytes:
    """A mutant; often with what makes the format's own checks accept it."""
    is_repaired = rng.random() < 0.6
    if name.endswith(".gz") and is_repaired:
        return gzip.compress(mutate_file(rng, name[:-3], gzip.decompress(data)), 1)
    if name.endswith(".tar") and is_repaired:
        return mutate_tar(rng, data)
    if name.endswith(".safetensors") and is_repaired:
        n = int.from_bytes(data[:8], "little")
        header = mutate_json(rng, json.loads(data[8 : 8 + n]))
        text = json.dumps(header).encode()
        return len(text).to_bytes(8, "little") + text + data[8 + n :]
    return mutant(rng, data)


def mutate_json(rng: random.Random, value: Any) -> Any:
    """One value of a header replaced."""
    if isinstance(value, (dict, list)) and value and rng.random() < 0.9:
        value = value.copy()
        key = rng.choice(list(value) if isinstance(value, dict) else range(len(value)))
        value[key] = mutate_json(rng, value[key])
        return value
    return rng.choice([None, -1, 0, 1, 3, 1.5, True, "F32", "BOOL", [], {}, [1 << 40] * 3, 1 << 70])


def mutate_tar(rng: random.Random, data: bytes) -> bytes:
    """A mutant of one header, with the right checksum."""
    out = bytearray(data)
    at = 512 * rng.randrange(len(out) // 512)
    head = out[at : at + 512]
    if rng.random() < 0.5:  # the size
        value = rng.choice(EDGES + [1 << 87])
        head[124:136] = rng.choice([
            b"\x80" + value.to_bytes(11, "big"), b"\xff" + rng.randbytes(11),
            b"%011o\0" % (value % (1 << 33)), b"-0000000001\0",
        ])  # fmt: skip
    else:
        field = rng.choice([0, 124, 156, 156, 257, 345])
        head[field] = rng.choice([0, 48, 49, 53, 55, 76, 83, 103, 120, rng.randrange(256)])
    head[148:156] = b"        "
    head[148:156] = b"%06o\0 " % sum(head)
    out[at : at + 512] = head
    return bytes(out)


@contextmanager
def small_images() -> Any:
    """Lowers Pillow's limit of pixels."""
    try:
        from PIL import Image
    except ImportError:
        yield
        return
    before = Image.MAX_IMAGE_PIXELS
    Image.MAX_IMAGE_PIXELS = MAX_PIXELS
    try:
        yield
    finally:
        Image.MAX_IMAGE_PIXELS = before


def forge(seed: int, count: int) -> None:
    """Reads `count` files, of each format as many."""
    rng = random.Random(seed)
    kinds = [kind for kind in formats() if kind.files]
    read = 0
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder, small_images():
        for kind in kinds:  # the valid ones
            for name, data in kind.files.items():
                kind.read(write(Path(folder), name, data))
        for n in range(count):
            kind = kinds[n % len(kinds)]
            name = rng.choice(list(kind.files))
            data = mutate_file(rng, name, kind.files[name])
            try:
                kind.read(write(Path(folder), name, data))
                read += 1
            except kind.error as error:
                check_text(error, data)
            except BaseException:
                print(f"file_formats: seed {seed}, input {n}, {name}: {data!r}")
                raise
    assert read > count // 50


def write(folder: Path, name: str, data: bytes) -> Path:
    """The file, alone in a folder of its own."""
    path = folder / name.replace(".", "-") / name.strip()
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return path
