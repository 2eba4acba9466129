"""What is small in a file and large in memory, and what is no file: bounded, or left out."""

from __future__ import annotations

import gzip
import io
import os
import socket
import stat
import struct
import tarfile
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tar_files import write_tar

from shmtensor.dataloaders import datasets
from shmtensor.dataloaders.datasets.image_folder import read_regular_file
from shmtensor.dataloaders.datasets.tar import MAX_EXPANSION, expansion_limit
from tests.attacks import survives

LARGE = MAX_EXPANSION + 1


def npz(*sizes: int) -> bytes:
    """Arrays of zeros, compressed."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for i, size in enumerate(sizes):
            head = io.BytesIO()
            np.lib.format.write_array_header_1_0(
                head, {"descr": "|u1", "fortran_order": False, "shape": (size,)}
            )
            with archive.open(f"a{i}.npy", "w") as member:
                member.write(head.getvalue())
                for start in range(0, size, 1 << 20):
                    member.write(bytes(min(1 << 20, size - start)))
    return file.getvalue()


def refuses(path: Path, match: str, limit: int = 16 << 20, **options: Any) -> None:
    """Reading a shard is an error, and takes no memory."""
    tracemalloc.start()
    try:
        with pytest.raises(datasets.BrokenShard, match=match):
            list(datasets.WebDataset(path, **options))
        assert tracemalloc.get_traced_memory()[1] < limit
    finally:
        tracemalloc.stop()


def test_the_limit_is_256_mib_or_a_hundredfold() -> None:
    assert expansion_limit(1000) == 256 << 20
    assert expansion_limit(10 << 20) == 1000 << 20
    assert expansion_limit(1000, 5) == 100_000
    assert expansion_limit(1000, 1 << 40) == 1 << 40


@pytest.mark.parametrize(
    ("name", "sizes"), [("x.tar.gz", [LARGE]), ("x.tar", [LARGE // 2, LARGE // 2, 3])]
)
def test_an_npz_of_kilobytes_does_not_become_gigabytes(
    tmp_path: Path, name: str, sizes: list[int]
) -> None:
    path = write_tar(tmp_path / name, {"1.npz": npz(*sizes), "2.cls": b"2"})
    refuses(path, r"npz: the members expand to \d+ bytes, more than 268435456, hint: max_expansion")
    skipped = list(datasets.WebDataset(path, keys=("cls",), handler="ignore"))
    assert skipped == [(2,)]


def test_the_argument_raises_and_lowers_the_limit(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "x.tar.gz", {"1.npz": npz(2 << 20)})
    (sample,) = datasets.WebDataset(path)
    assert sample["npz"]["a0"].shape == (2 << 20,)
    refuses(path, "expand to", max_expansion=1 << 20)
    (sample,) = datasets.WebDataset(path, max_expansion=3 << 20)


def test_a_member_of_a_compressed_shard_is_bounded(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "x.tar.gz", {"a.cls": b"1", "1.txt": bytes(3 << 20)})
    refuses(
        path, r"after a\.cls: 1\.txt expands to 3145728 bytes, more than", max_expansion=1 << 20
    )
    assert len(list(datasets.WebDataset(path))) == 2
    stored = write_tar(tmp_path / "x.tar", {"1.txt": bytes(3 << 20)})
    assert len(list(datasets.WebDataset(stored, max_expansion=0))) == 1


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, b"5", b"7"])
def test_a_header_of_another_kind_is_bounded(tmp_path: Path, kind: bytes) -> None:
    info = tarfile.TarInfo("x")
    info.size, info.type = 1 << 33, kind
    path = tmp_path / "x.tar.gz"
    path.write_bytes(gzip.compress(info.tobuf(tarfile.GNU_FORMAT) + bytes(4 << 20)))
    refuses(path, "x expands to 8589934592 bytes")


def test_the_members_of_a_sample_are_bounded_together(tmp_path: Path) -> None:
    many = {f"1.{i}.txt": bytes(1 << 19) for i in range(8)}
    path = write_tar(tmp_path / "x.tar.gz", many)
    refuses(path, "sample 1 expands to", limit=8 << 20, max_expansion=1 << 20)
    arrays = {f"1.{i}.npz": npz(1 << 19) for i in range(8)}
    path = write_tar(tmp_path / "y.tar", arrays)
    refuses(path, "expand", limit=8 << 20, max_expansion=1 << 20)


def test_an_idx_file_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "images.gz"
    path.write_bytes(gzip.compress(struct.pack(">HBBI", 0, 8, 1, 3 << 20) + bytes(3 << 20)))
    assert datasets.read_idx(path).shape == (3 << 20,)
    with pytest.raises(ValueError, match=r"expands to 3145728 bytes, more than 1048576.*hint: max"):
        datasets.read_idx(path, max_expansion=1 << 20)


# ------------------------------------------------------------------ folders
@pytest.fixture
def root(tmp_path: Path) -> Path:
    image = pytest.importorskip("PIL.Image")
    folder = tmp_path / "images" / "cat"
    folder.mkdir(parents=True)
    image.new("RGB", (4, 4)).save(folder / "1.png")
    return tmp_path / "images"


def test_pipes_and_sockets_are_no_images(root: Path) -> None:
    os.mkfifo(root / "cat" / "0.png")
    (root / "cat" / "2.png").symlink_to(root / "cat" / "0.png")
    (root / "cat" / "3.png").symlink_to("/dev/zero")
    (root / "cat" / "4.png").symlink_to(root / "nowhere")
    (root / "cat" / "5.png").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(root / "cat" / "6.png"))

        def attack() -> None:
            folder = datasets.ImageFolder(root)
            assert [Path(path).name for path in folder.paths] == ["1.png"]
            assert folder[0][0].shape == (3, 4, 4)

        assert survives(attack)


def test_a_file_that_becomes_a_pipe_is_an_error(root: Path) -> None:
    folder = datasets.ImageFolder(root)
    (root / "cat" / "1.png").unlink()
    os.mkfifo(root / "cat" / "1.png")
    assert stat.S_ISFIFO(os.stat(root / "cat" / "1.png").st_mode)

    def attack() -> None:
        with pytest.raises(OSError, match="not a regular file"):
            folder[0]
        with pytest.raises(OSError, match="not a regular file"):
            read_regular_file("/dev/zero")

    assert survives(attack)


def test_folders_that_link_to_themselves_are_read_once(root: Path) -> None:
    for name in "ab":
        (root / "cat" / name).symlink_to(root / "cat", target_is_directory=True)
        (root / "cat" / f"{name}{name}").symlink_to(root, target_is_directory=True)

    def attack() -> None:
        assert len(datasets.ImageFolder(root)) == 1

    assert survives(attack)


# ------------------------------------------------------------------ what a terminal would obey
ESCAPE = "\x1b[2J\x1b]0;owned\x07"


def shown(error: Any) -> None:
    text = str(error.value)
    assert text.isprintable(), ascii(text)
    assert "x1b[2J" in text


def test_names_of_members_are_shown_by_repr(tmp_path: Path) -> None:
    member = {f"{ESCAPE}1.npy": b"no array"}
    with pytest.raises(datasets.BrokenShard) as error:
        list(datasets.WebDataset(write_tar(tmp_path / "x.tar", member)))
    shown(error)
    twice = write_tar(tmp_path / "y.tar", {f"{ESCAPE}1.cls": b"1", f"{ESCAPE}1.CLS": b"1"})
    with pytest.raises(datasets.BrokenShard) as error:
        list(datasets.WebDataset(twice))
    shown(error)
    for cut in (-9000, -9100):  # in the middle of a member, in the middle of a header
        path = write_tar(tmp_path / "z.tar", {f"{ESCAPE}1.cls": bytes(600), "2.cls": b"2"})
        path.write_bytes(path.read_bytes()[: 1100 + cut + 9000])
        with pytest.raises(datasets.BrokenShard) as error:
            list(datasets.WebDataset(path))
        shown(error)
    os.rename(twice, tmp_path / f"{ESCAPE}.tar")
    with pytest.raises(datasets.BrokenShard) as error:
        list(datasets.WebDataset(str(tmp_path / "*2J*.tar")))
    shown(error)


def test_files_and_classes_are_shown_by_repr(root: Path) -> None:
    (root / "cat" / f"0{ESCAPE}.png").write_bytes(b"no image")
    with pytest.raises(OSError, match="the image is corrupt") as error:
        datasets.ImageFolder(root)[0]
    shown(error)
    with pytest.warns(RuntimeWarning, match="the image is corrupt") as warned:
        datasets.ImageFolder(root, corrupt="next")[0]
    assert all(str(w.message).isprintable() for w in warned)
    (root / ESCAPE).mkdir()
    with pytest.raises(FileNotFoundError) as missing:
        datasets.ImageFolder(root)
    shown(missing)


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '\x1b[2J', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': '\x1b[2J'}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': ('\x1b[2J',)}",
    ],
)
def test_the_header_of_an_array_is_shown_by_repr(tmp_path: Path, header: str) -> None:
    path = tmp_path / "x.npy"
    data = header.encode("latin1")
    path.write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(data)) + data + bytes(4))
    with pytest.raises(ValueError, match="cannot be mapped") as error:
        datasets.NpyDataset(path)
    shown(error)


def test_columns_are_shown_by_repr(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"{ESCAPE},b\n1,2\n")
    table = datasets.CSVDataset(path)
    assert repr(table).isprintable()
    with pytest.raises(KeyError) as error:
        table.tensors("c")
    shown(error)
