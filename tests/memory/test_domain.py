"""The domain: made late, joined, refused in words, and gone with its last process."""

# ruff: noqa: F821 (closures name arrays that are deleted after their last call)
from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from shmtensor import memory, native
from shmtensor.errors import DomainError, PeerLostError

from .fresh import Child, check, fresh, isolated, settle


@isolated
def test_import_makes_no_domain() -> None:
    import shmtensor  # noqa: F401

    assert not native.domain_ready()
    with memory.shared_numpy():
        np.ones(3)
    assert native.domain_ready()


@isolated
def test_first_fork_makes_the_domain() -> None:
    x: list[int] = []
    assert not native.domain_ready()

    def body() -> int:
        assert native.domain_ready()
        x.append(memory.allocate(10).nbytes)
        return native.row()[0]

    child = Child(body)
    assert native.domain_ready()
    assert child.wait() == 1


def test_nothing_of_ours_is_named() -> None:
    native.domain_ensure()
    maps = Path("/proc/self/maps").read_text()
    assert "/dev/shm/shmtensor-" in maps
    assert not [name for name in os.listdir("/dev/shm") if f"/dev/shm/{name}\n" in maps]


def small_address_space(gigabytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (gigabytes << 30, gigabytes << 30))
    with pytest.raises(DomainError, match=r"domain: cannot .*ulimit -v.*Cannot allocate memory"):
        memory.allocate(10)
    with pytest.raises(DomainError, match="domain: cannot"), memory.shared_numpy():
        np.ones(3)
    assert np.ones(3).sum() == 3  # NumPy itself goes on


def test_too_little_address_space_is_said() -> None:
    fresh(small_address_space, 8)
    fresh(small_address_space, 60)


@isolated
def test_too_small_a_file_limit_is_said() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    with pytest.raises(DomainError, match=r"a limit on file size, ulimit -f"):
        memory.allocate(10)


@isolated
def test_dead_process_is_named_with_its_exit_code() -> None:
    go, ready = os.pipe(), os.pipe()

    def body() -> int:
        native.set_role("rank 1")
        os.write(ready[1], b"x")
        os.read(go[0], 1)
        return 0

    child = Child(body)
    os.read(ready[0], 1)
    assert native.liveness(child.row, child.inc) == "alive"
    assert native.describe(child.row, child.inc) == (
        f"rank 1 (pid {child.pid}) is alive",
        child.pid,
        None,
    )
    actors = time.perf_counter()
    os.kill(child.pid, 9)
    while native.liveness(child.row, child.inc) == "alive":
        assert time.perf_counter() - actors < 10
    with pytest.raises(PeerLostError) as caught:
        native.raise_peer_lost("barrier", child.row, child.inc)
    assert str(caught.value) == f"barrier: rank 1 (pid {child.pid}) was killed by SIGKILL (-9)"
    assert (caught.value.name, caught.value.pid, caught.value.exitcode) == ("rank 1", child.pid, -9)
    os.waitpid(child.pid, 0)
    while native.liveness(child.row, child.inc) != "dead":
        assert time.perf_counter() - actors < 10
    settle(0)
    assert native.liveness(*native.row()) == "alive"
    assert native.liveness(child.row, child.inc + 1) == "dead"
    assert native.liveness(300, 1) == "dead"
    text, _, code = native.describe(child.row, child.inc)
    assert "killed by SIGKILL" in text
    assert code == -9
    again = Child(lambda: 0)
    assert (again.row, again.inc) == (child.row, child.inc + 1)
    assert native.describe(child.row, child.inc)[0] == f"a process that has left (row {child.row})"
    again.wait()


@isolated
def test_exit_code_reaches_those_who_are_not_the_parent() -> None:
    ready, go, reply = os.pipe(), os.pipe(), os.pipe()
    victim = Child(lambda: os.write(ready[1], b"x") and time.sleep(60))  # type: ignore[func-returns-value]
    os.read(ready[0], 1)

    def body() -> int:
        os.read(go[0], 1)
        try:
            native.raise_peer_lost("wait", victim.row, victim.inc)
        except PeerLostError as error:
            os.write(reply[1], str(error).encode())
        return 0

    native.record_exit(
        victim.row, victim.inc + 7, 3
    )  # of another incarnation: ignored by readers of this one
    watcher = Child(body)  # before the death: a fork sweeps the rows of the dead
    os.kill(victim.pid, 15)
    os.write(go[1], b"x")
    _, status = os.waitpid(victim.pid, 0)
    assert native.record_exit_pid(victim.pid, os.waitstatus_to_exitcode(status)) in (True, False)
    assert watcher.wait() == 0
    text = os.read(reply[0], 1000).decode()
    assert f"process {victim.pid} " in text


@isolated
def test_rows_are_used_again() -> None:
    x = memory.allocate(1000)
    for _ in range(5):
        children = [Child(lambda: time.sleep(0.01)) for _ in range(20)]  # type: ignore[arg-type, return-value]
        for c in children:
            assert c.wait() == 0
    assert memory.statistics().processes <= 22
    del x
    settle(0)
    assert max(c.row for c in children) <= 25


@isolated(env={"PYTHONWARNINGS": "ignore"})
def test_fork_without_a_row_freezes_and_warns() -> None:
    import warnings

    with memory.shared_numpy():
        x = np.arange(10.0)
        y = np.arange(500_000)
    go = os.pipe()
    children = []
    for _ in range(255):
        children.append(Child(lambda: len(os.read(go[0], 1)) - 1))
    assert native.last_child() is not None

    def body() -> int:
        assert x[3] == 3
        assert not memory.is_shared(x)  # so that it is sent by copying
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with memory.shared_numpy():
                z = x + 1
        assert any("rows of the domain are in use" in str(w.message) for w in caught)
        assert not memory.is_shared(z)
        with pytest.raises(DomainError, match="shares nothing"):
            memory.export(x)
        inner = os.fork()
        if not inner:
            os._exit(int(x[5]))
        assert os.waitstatus_to_exitcode(os.waitpid(inner, 0)[1]) == 5
        return 7

    frozen = Child(body)
    assert frozen.row == -1
    assert frozen.wait() == 7
    assert memory.statistics().frozen_blocks == 2
    check()
    del x, y
    check()
    os.write(go[1], b"x" * 255)
    for c in children:
        assert c.wait() == 0
    assert (
        memory.statistics().frozen_blocks == 2
    )  # never reclaimed: the bound of a fork without a row
    # A row again, and all is as ever.
    assert Child(lambda: 3).wait() == 3
    native.sweep(True)
    check()


def all_killed() -> None:
    with memory.shared_numpy():
        x = np.ones(30_000_000)
    memory.export(x)

    def body() -> int:
        with memory.shared_numpy():
            y = np.ones(30_000_000)
        memory.export(y)
        time.sleep(60)
        return 0

    Child(body)
    Child(body)
    print("ready", flush=True)
    time.sleep(60)


# A /dev/shm of its own, kept by a process: what other programs take or leave is none of it.
OWN_SHM = (
    "unshare", "-m", "sh", "-c", "mount -t tmpfs tmpfs /dev/shm && echo mounted && exec sleep 100",
)  # fmt: skip


@pytest.fixture
def keeper() -> Iterator[int]:
    """The pid of a process with a /dev/shm of its own."""
    with subprocess.Popen(OWN_SHM, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as keeper:
        try:
            assert keeper.stdout
            said = keeper.stdout.readline()
            assert said == b"mounted\n", (
                f"this test mounts a /dev/shm and needs the right to: {said!r}"
            )
            yield keeper.pid
        finally:
            keeper.kill()


def test_nothing_is_left_when_all_are_killed_at_once(keeper: int) -> None:
    shm = f"/proc/{keeper}/root/dev/shm"
    free = os.statvfs(shm).f_bfree
    code = f"import sys; sys.path[:0] = {sys.path!r}; import {__name__} as m; m.all_killed()"
    family = subprocess.Popen(
        ["nsenter", "-t", str(keeper), "-m", sys.executable, "-c", code],
        stdout=subprocess.PIPE, start_new_session=True,
        env={**os.environ, "SHMTENSOR_DOMAIN": "new"},
    )  # fmt: skip
    assert family.stdout
    assert family.stdout.readline() == b"ready\n"
    assert os.statvfs(shm).f_bfree < free
    os.killpg(family.pid, 9)
    family.wait()
    family.stdout.close()
    end = time.monotonic() + 10
    while os.statvfs(shm).f_bfree < free:
        assert time.monotonic() < end, "memory of the dead is not given back"
        time.sleep(0.02)
    assert os.listdir(shm) == []


def killed_with_a_name() -> None:
    native.domain_ensure()


def test_name_left_by_a_kill_is_swept_at_the_next_start(keeper: int) -> None:
    there = ("nsenter", "-t", str(keeper), "-m")
    shm = Path(f"/proc/{keeper}/root/dev/shm")
    fault = {"SHMTENSOR_FAULT": "domain.opened"}
    fresh(killed_with_a_name, env=fault, prefix=there, returncode=-9)
    (path,) = shm.iterdir()
    assert path.name.startswith("shmtensor-")
    assert path.stat().st_size == 0
    fresh(killed_with_a_name, prefix=there)
    assert not list(shm.iterdir())


def plain_spawn(handle: bytes) -> None:
    np.frombuffer(memory.receive(handle), np.uint8)[0] = 77


@isolated(env={"SHMTENSOR_DOMAIN": "", "PYTHONPATH": os.pathsep.join(sys.path)})
def test_plain_spawn_finds_its_parents_domain() -> None:
    import multiprocessing as mp

    with memory.shared_numpy():
        x = np.zeros(1000, np.uint8)
    p = mp.get_context("spawn").Process(target=plain_spawn, args=(memory.export(x),))
    p.start()
    p.join()
    assert p.exitcode == 0
    assert x[0] == 77


def test_nobody_can_change_the_size_of_the_domains_memfds() -> None:
    control, volume0, volume1 = native.domain_fds()
    is_memfd = os.readlink(f"/proc/self/fd/{volume0}").startswith("/memfd:")
    for fd in (control, volume1, *([volume0] if is_memfd else [])):
        size = os.fstat(fd).st_size
        for new_size in (size - 4096, size + 4096):
            with pytest.raises(PermissionError):
                os.ftruncate(fd, new_size)
