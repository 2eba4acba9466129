"""A file is replaced whole or not at all."""

from __future__ import annotations

import os
import signal
import stat
from pathlib import Path

import pytest

from shmtensor.serialization import atomic_write as replacement
from shmtensor.serialization.atomic_write import replacing


@pytest.fixture(params=["unnamed", "named"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "named":  # as on a file system without O_TMPFILE

        def open_named(at: int, hidden: str) -> tuple[int, bool]:
            return os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600, dir_fd=at), True

        monkeypatch.setattr(replacement, "open_unnamed", open_named)
    return str(request.param)


def test_the_new_file_takes_the_place_of_the_old(tmp_path: Path, way: str) -> None:
    path = tmp_path / "x"
    for content in (b"one", b"two"):
        with replacing(path) as file:
            file.write(content)
        assert path.read_bytes() == content
    assert os.listdir(tmp_path) == ["x"]


def test_an_error_leaves_the_old_file(tmp_path: Path, way: str) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), replacing(path) as file:
        file.write(b"new")
        raise ZeroDivisionError
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["x"]


def test_a_kill_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    pid = os.fork()
    if pid == 0:
        with replacing(path) as file:
            file.write(b"new" * 100_000)
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        os._exit(1)
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["x"]


def test_the_mode_is_kept_and_links_are_followed(tmp_path: Path, way: str) -> None:
    path, link = tmp_path / "x", tmp_path / "link"
    path.write_bytes(b"old")
    path.chmod(0o640)
    link.symlink_to(path)
    with replacing(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_new_file_has_the_umask_mode(tmp_path: Path, way: str) -> None:
    with replacing(tmp_path / "x") as file:
        file.write(b"new")
    (tmp_path / "y").write_bytes(b"")
    assert (tmp_path / "x").stat().st_mode == (tmp_path / "y").stat().st_mode


def test_what_is_no_file_is_written_directly() -> None:
    with replacing("/dev/null") as file:
        file.write(b"new")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "no" / "x") as file:
        file.write(b"")
