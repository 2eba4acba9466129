"""Which names in /dev/shm the check after every test attributes to the tests."""

from __future__ import annotations

import mmap
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from multiprocessing import shared_memory
from pathlib import Path

import conftest
import pytest

SHM = Path("/dev/shm")


@pytest.fixture
def name() -> Iterator[Callable[[str], Path]]:
    """Makes a file in /dev/shm, for the length of a test."""
    paths: list[Path] = []

    def make(name: str) -> Path:
        paths.append(SHM / name)
        paths[-1].write_bytes(b"x" * 8)
        return paths[-1]

    yield make
    for path in paths:
        path.unlink()


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process that is not a descendant of this one by its pid; it maps the files that it is
    given."""
    code = (
        "import mmap, sys\nkept = []\nprint('ready', flush=True)\nfor line in sys.stdin:\n"
        "    file = open(line.strip(), 'r+b')\n    kept.append(mmap.mmap(file.fileno(), 8))\n"
        "    print('mapped', flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        yield process


@pytest.mark.parametrize("kind", ["shmtensor-test-{}", "sem.mp-{session}{}", "psm_{session}{}"])
def test_a_name_of_this_session_that_nobody_has_is_ours(
    kind: str, name: Callable[[str], Path]
) -> None:
    before = conftest.shm_names()
    path = name(kind.format(os.getpid(), session=conftest.SESSION))
    assert conftest.left_in_shm(before) == {path.name}
    assert conftest.left_in_shm({*before, path.name}) == set()


@pytest.mark.parametrize("kind", ["sem.mp-test{}", "psm_test{}", "sem.test{}"])
def test_a_name_of_another_session_that_nobody_has_is_not_ours(
    kind: str, name: Callable[[str], Path]
) -> None:
    before = conftest.shm_names()
    name(kind.format(os.getpid()))
    assert conftest.left_in_shm(before) == set()


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_what_the_standard_library_makes_in_this_session_says_so(method: str) -> None:
    before = conftest.shm_names()
    lock = multiprocessing.get_context("spawn").Lock()  # its name stays as long as it does
    segment = shared_memory.SharedMemory(create=True, size=8)
    try:
        assert conftest.left_in_shm(before) == {f"sem.{lock._semlock.name[1:]}", segment.name}
        with multiprocessing.get_context(method).Pool(1) as pool:
            # loky, once imported, puts the creator's pid into all names of semaphores.
            assert pool.apply(name_of_a_lock).startswith((f"/mp-{conftest.SESSION}", "/loky-"))
    finally:
        segment.close()
        segment.unlink()


def name_of_a_lock() -> str:
    return str(multiprocessing.get_context("spawn").Lock()._semlock.name)


def test_a_name_that_this_process_maps_is_ours(name: Callable[[str], Path]) -> None:
    before = conftest.shm_names()
    path = name(f"sem.test{os.getpid()}")
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 8):
        assert conftest.left_in_shm(before) == {path.name}


@pytest.mark.parametrize("kind", ["psm_other{}", "shmtensor-other{}"])
def test_a_name_that_another_program_maps_is_not_ours(
    kind: str,
    name: Callable[[str], Path],
    stranger: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = conftest.shm_names()
    path = name(kind.format(os.getpid()))
    assert stranger.stdin
    assert stranger.stdout
    stranger.stdin.write(f"{path}\n".encode())
    stranger.stdin.flush()
    assert stranger.stdout.readline() == b"mapped\n"
    assert conftest.left_in_shm(before) == {path.name}  # by a child of ours
    monkeypatch.setattr(conftest, "descendants", lambda pid: {pid})
    assert conftest.left_in_shm(before) == set()


def test_names_that_come_and_go_are_not_left(name: Callable[[str], Path]) -> None:
    before = conftest.shm_names()
    # Not "shmtensor-": what begins so is removed at the start of any process of the library.
    first = name(f"psm_{conftest.SESSION}first{os.getpid()}")
    names = conftest.left_in_shm(before)
    assert names == {first.name}
    second = name(f"psm_{conftest.SESSION}second{os.getpid()}")
    assert not conftest.are_gone(names, before)
    assert names == {first.name}
    first.rename(second)
    assert conftest.are_gone(names, before)
    first.touch()
    assert conftest.are_gone(names, before)


@pytest.mark.parametrize("kind", ["sem.loky-{}-7", "joblib_memmapping_folder_{}_a_b", "pym-{}-x"])
def test_loky_and_joblib_say_who_made_a_name(
    kind: str,
    name: Callable[[str], Path],
    stranger: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = conftest.shm_names()
    mine, other = name(kind.format(os.getpid())), name(kind.format(stranger.pid))
    assert conftest.left_in_shm(before) == {mine.name, other.name}  # the other is a child of ours
    monkeypatch.setattr(conftest, "descendants", lambda pid: {pid})
    assert conftest.left_in_shm(before) == {mine.name}
