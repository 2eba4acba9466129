"""Open files that forked workers inherit: each worker reads at a position of its own."""

from __future__ import annotations

import gzip
import io
import mmap
import os
import resource
import socket
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.dataloaders import ConcatDataset, DataLoader, Dataset, IterableDataset
from shmtensor.dataloaders.loader.file_positions import open_again, positions

ROWS, WIDTH = 64, 100


def rows() -> bytes:
    return np.repeat(np.arange(ROWS, dtype=np.uint8), WIDTH).tobytes()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "rows"
    path.write_bytes(rows())
    return path


class Rows(Dataset[Any]):
    """Reads rows from an open file, half a row at a time."""

    def __init__(self, file: Any, length: int = ROWS) -> None:
        self.parts = [{"file": file}]
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        file = self.parts[0]["file"]
        file.seek(index * WIDTH)
        half = file.read(WIDTH // 2)
        assert len(half) == WIDTH // 2
        return list(half) + list(file.read(WIDTH // 2))


class Descriptor:
    """A file of a library that has nothing but the number of a descriptor."""

    def __init__(self, path: Path) -> None:
        self.fd = os.open(path, os.O_RDONLY)

    def seek(self, position: int) -> None:
        os.lseek(self.fd, position, os.SEEK_SET)

    def read(self, n: int) -> bytes:
        return os.read(self.fd, n)

    def close(self) -> None:
        os.close(self.fd)


def nameless(path: Path) -> Any:
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    file.write(path.read_bytes())
    file.flush()
    return file


def removed(path: Path) -> Any:
    file = path.open("rb")
    path.unlink()
    return file


def zipped(path: Path) -> Any:
    with gzip.open(path.with_suffix(".gz"), "wb", 0) as file:
        file.write(path.read_bytes())
    return gzip.open(path.with_suffix(".gz"), "rb")


def member(path: Path) -> Any:
    with zipfile.ZipFile(path.with_suffix(".zip"), "w") as archive:
        archive.write(path, "rows")
    return zipfile.ZipFile(path.with_suffix(".zip")).open("rows")


OPENERS: list[Callable[[Path], Any]] = [
    lambda path: path.open("rb"),
    lambda path: path.open("rb", buffering=0),
    lambda path: path.open("r+b", buffering=0),
    lambda path: path.open("a+b"),
    Descriptor,
    nameless,
    removed,
    zipped,
    member,
    lambda path: io.BytesIO(path.read_bytes()),
]


@pytest.mark.parametrize("opener", OPENERS)
def test_each_worker_reads_its_rows(opener: Callable[[Path], Any], path: Path) -> None:
    file = opener(path)
    dataset = ConcatDataset([Rows(file), Rows(file)])
    loader: Any = DataLoader(dataset, 2, num_workers=2, multiprocessing_context="fork")
    with warnings.catch_warnings(), loader:
        warnings.simplefilter("error")
        for _ in range(2):
            read = [sample for batch in loader for sample in st.stack(batch, 1).tolist()]
            assert read == [[i % ROWS] * WIDTH for i in range(2 * ROWS)]
    file.close()


def test_workers_and_the_loading_process_do_not_move_each_others_position(path: Path) -> None:
    with path.open("rb", buffering=0) as file:
        file.seek(7)
        with DataLoader(Rows(file), 2, num_workers=2, multiprocessing_context="fork") as loader:
            batches = iter(loader)
            next(batches)
            assert file.tell() == 7
            file.seek(11)
            assert len(list(batches)) == ROWS // 2 - 1
        assert file.tell() == 11


class Lines(IterableDataset[int]):
    """Goes on to read where the file was when the workers were started."""

    def __init__(self, file: Any) -> None:
        self.file = file

    def __iter__(self) -> Iterator[int]:
        return iter(self.file.read(5))


def test_a_worker_begins_where_its_parent_was(path: Path) -> None:
    for buffering in (0, -1):
        with path.open("rb", buffering=buffering) as file:
            file.read(3 * WIDTH - 2)
            loader: Any = DataLoader(Lines(file), 5, num_workers=2, multiprocessing_context="fork")
            with loader:
                assert [batch.tolist() for batch in loader] == [[2, 2, 3, 3, 3]] * 2


def write_line(worker: int) -> None:
    os.write(LOG[0], b"worker\n")


LOG: list[int] = []


def test_processes_that_write_one_file_share_its_position(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb", buffering=0) as log:
        LOG.append(log.fileno())
        log.write(b"parent\n")
        with DataLoader(
            range(4), 2, num_workers=2, worker_init_fn=write_line, multiprocessing_context="fork"
        ) as loader:
            list(loader)
        log.write(b"parent\n")
        LOG.clear()
    lines = (tmp_path / "log").read_text().splitlines()
    assert lines == ["parent", "worker", "worker", "parent"]


def test_only_files_that_can_be_read_have_a_position_to_share(path: Path) -> None:
    st.ones(3)  # the library's own files are open
    before = set(positions())
    with ExitStack() as stack:
        reading = [stack.enter_context(path.open(mode)) for mode in ("rb", "r+b", "rt")]
        for mode in ("wb", "ab"):
            stack.enter_context(path.with_suffix(".log").open(mode))
        for end in socket.socketpair():
            stack.enter_context(end)
        for fd in os.pipe():
            stack.enter_context(open(fd, "rb" if os.get_inheritable(fd) else "ab", closefd=False))
            stack.callback(os.close, fd)
        stack.enter_context(mmap.mmap(-1, 4096))
        new = {fd: file for fd, file in positions().items() if fd not in before}
        assert set(new) == {file.fileno() for file in reading}
        assert all(file.position == 0 for file in new.values())
    for fd in before:
        name = ""
        with suppress(OSError):
            name = os.readlink(f"/proc/self/fd/{fd}")
        assert "shmtensor" not in Path(name).name


def test_a_file_that_cannot_be_opened_again_is_named(path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with path.open("rb") as file:
        fd = file.fileno()
        files = {fd: positions()[fd]}
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))  # no further descriptors
        try:
            (warning,) = open_again(files)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert str(path) in warning.text
        assert "__getitem__" in warning.text
        assert file.read(WIDTH + 1) == bytes(WIDTH) + b"\1"


def test_a_number_that_means_another_file_meanwhile_is_left_alone(path: Path) -> None:
    with path.open("rb") as file:
        files = {(fd := file.fileno()): positions()[file.fileno()]}
    assert open_again(files) == []
    other = os.open(path.parent, os.O_RDONLY)
    try:
        assert other == fd
        assert open_again(files) == []
        assert os.listdir(other) == ["rows"]
    finally:
        os.close(other)
