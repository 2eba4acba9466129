"""A file is replaced whole or not at all."""

from __future__ import annotations

import errno
import gc
import io
import os
import signal
import stat
from pathlib import Path
from typing import Any

import pytest

import shmtensor as st
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


# ------------------------------------------------------------------ interrupts and full disks
@pytest.mark.parametrize("step", ["open", "link", "replace", "fsync"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_an_interrupt_stays_an_interrupt(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch, step: str, when: str
) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    module = replacement if step == "open" else os
    name = "open_unnamed" if step == "open" else step
    call = getattr(module, name)

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(module, name, call)
        if when == "after":
            result = call(*args, **kwargs)
            if step == "open":
                os.close(result[0])
        raise KeyboardInterrupt

    monkeypatch.setattr(module, name, interrupted)
    with pytest.raises(KeyboardInterrupt), replacing(path) as file:
        file.write(b"new")
        if step == "link" and way == "named":  # no link is made
            raise KeyboardInterrupt
    monkeypatch.undo()
    is_replaced = step == "replace" and when == "after"
    assert path.read_bytes() == (b"new" if is_replaced else b"old")
    assert os.listdir(tmp_path) == ["x"]


class FullDisk(io.BytesIO):
    """A file on a disk with room for `room` bytes."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room

    def write(self, data: Any) -> int:
        if self.tell() + memoryview(data).nbytes > self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(data)


@pytest.mark.parametrize("room", [0, 30, 100, 500, 2000, 4200, 4300])
def test_a_full_disk_is_one_error(room: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Warnings are errors: an exception that a destructor ignores would fail the test."""
    state = {"x": st.zeros(1000, dtype=st.int32)}
    with pytest.raises(OSError, match="No space left") as info:
        st.save(state, FullDisk(room))
    del info
    gc.collect()
    with pytest.raises(OSError, match="No space left"):
        st.save({"x": st.zeros(100_000)}, "/dev/full")
    gc.collect()
    assert capsys.readouterr().err == ""


# ------------------------------------------------------------------ links
NOBODY = 65534


@pytest.fixture
def shared_folder(tmp_path: Path) -> Path:
    """A folder like /tmp, with a link of another user to a file of ours."""
    (tmp_path / "ours").write_bytes(b"old")
    folder = tmp_path / "tmp"
    folder.mkdir()
    folder.chmod(0o1777)
    (folder / "x").symlink_to(tmp_path / "ours")
    (folder / "folder").symlink_to(tmp_path)
    return folder


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make a link of another user")
@pytest.mark.parametrize("name", ["x", "folder/ours", "folder/new", "folder/tmp/../ours"])
def test_another_users_link_in_a_shared_folder_is_not_followed(
    tmp_path: Path, shared_folder: Path, name: str, way: str
) -> None:
    for link in ("x", "folder"):
        os.lchown(shared_folder / link, NOBODY, NOBODY)
    before = sorted(os.listdir(tmp_path))
    with (
        pytest.raises(PermissionError, match=r"symbolic link of another user \(65534\)"),
        replacing(shared_folder / name) as file,
    ):
        file.write(b"new")
    assert (tmp_path / "ours").read_bytes() == b"old"
    assert sorted(os.listdir(tmp_path)) == before
    with pytest.raises(PermissionError, match="symbolic link of another user"):
        st.save(st.ones(1), shared_folder / name)


def test_other_links_are_followed(tmp_path: Path, shared_folder: Path, way: str) -> None:
    (tmp_path / "relative").symlink_to("tmp/../tmp/x")
    for link in (shared_folder / "x", shared_folder / "folder" / "ours", tmp_path / "relative"):
        with replacing(link) as file:
            file.write(link.name.encode())
        assert (tmp_path / "ours").read_bytes() == link.name.encode()
        assert link.resolve() == (tmp_path / "ours").resolve()
    (tmp_path / "dangling").symlink_to("new")
    with replacing(tmp_path / "dangling") as file:
        file.write(b"new")
    assert (tmp_path / "new").read_bytes() == b"new"
    assert (shared_folder / "x").is_symlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make a link of another user")
def test_the_owner_of_a_shared_folder_may_lay_links(tmp_path: Path, shared_folder: Path) -> None:
    os.lchown(shared_folder / "x", NOBODY, NOBODY)
    os.chown(shared_folder, NOBODY, NOBODY)
    with replacing(shared_folder / "x") as file:
        file.write(b"new")
    shared_folder.chmod(0o777)  # everybody may rename here anyway
    os.chown(shared_folder, 0, 0)
    with replacing(shared_folder / "x") as file:
        file.write(b"newer")
    assert (tmp_path / "ours").read_bytes() == b"newer"


def test_an_absolute_path_needs_no_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    st.save({"x": 1}, tmp_path / "x.pt")
    assert st.load(tmp_path / "x.pt") == {"x": 1}


def test_links_in_a_circle_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="Too many levels"), replacing(tmp_path / "a") as file:
        file.write(b"new")
