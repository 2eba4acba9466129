"""Holds, pins and generations, seen from one process and from its forked children."""

# ruff: noqa: F821 (closures name arrays that are deleted after their last call)
from __future__ import annotations

import os
import platform
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from shmtensor import memory, native
from shmtensor.errors import DomainError, ForeignHandle, StaleHandle

from .fresh import SOURCES, Child, check, filter_calls, fresh, isolated, settle, shared


def test_own_handle_comes_back_to_the_same_memory() -> None:
    x = shared(1000, 7)
    handle = memory.export(x[10:])
    block = memory.receive(handle)
    y = np.frombuffer(block, np.uint8)
    y[5] = 9
    assert x[5] == 9
    del x
    memory.check()
    assert y[6] == 7
    del y, block
    memory.check()


def test_unacknowledged_message_keeps_the_block() -> None:
    x = shared(100_000, 5)
    handle = memory.export(x)
    del x
    memory.trim()
    first = memory.receive(handle, False)
    second = memory.receive(handle)
    assert np.frombuffer(first, np.uint8)[99_999] == 5
    assert first.address == second.address
    del first, second
    memory.trim()
    with pytest.raises(StaleHandle, match=r"receive: the block is gone: .*send it again"):
        memory.receive(handle)
    memory.check()


def test_acknowledging_twice_is_harmless() -> None:
    x = shared(10)
    before = memory.statistics().unread_messages  # of processes that earlier tests killed
    first, second = memory.export(x), memory.export(x)
    memory.acknowledge(first)
    memory.acknowledge(first)
    assert memory.statistics().unread_messages == before + 1
    memory.acknowledge(second)
    assert memory.statistics().unread_messages == before


def test_stale_handle_of_a_reused_block_is_refused() -> None:
    x = shared(500_000, 1)
    handle = memory.export(x)
    memory.receive(handle)
    where = x.ctypes.data
    del x
    y = shared(500_000, 2)
    assert y.ctypes.data == where
    with pytest.raises(StaleHandle):
        memory.receive(handle)


def test_bad_handles_are_refused() -> None:
    x = shared(10)
    handle = memory.export(x)
    with pytest.raises(ForeignHandle, match="receive: the handle belongs to another domain"):
        memory.receive(bytes(16) + handle[16:])
    with pytest.raises(ValueError, match="receive: a handle has 72 bytes: 3"):
        memory.receive(b"abc")
    with pytest.raises(ForeignHandle, match="invalid handle: its fields are out of bounds"):
        memory.receive(handle[:16] + b"\xff" * 4 + handle[20:])
    memory.acknowledge(handle)
    with pytest.raises(ValueError, match="export: not shared memory"):
        memory.export(np.ones(3))
    with pytest.raises(TypeError, match="export: expects an array, a Block or an address: str"):
        memory.export("x")  # type: ignore[arg-type]
    memory.check()


@isolated
def test_forked_child_receives_sends_on_and_drops() -> None:
    x = shared(300_000, 3)
    big = shared(70 << 20, 4)
    handles = [memory.export(x), memory.export(big[65 << 20 :])]
    native.arm_fault(None)

    def body() -> int:
        nonlocal x, big
        check()
        blocks = [memory.receive(h) for h in handles]
        y, z = (
            np.frombuffer(b, np.uint8, n) for b, n in zip(blocks, (300_000, 70 << 20), strict=True)
        )
        assert (y == 3).all()
        assert (z[:: 1 << 20] == 4).all()
        assert memory.block_of(z[66 << 20 :])[0] == blocks[1].address
        y[:] = 8
        again = memory.export(y[100:])  # a receiver sends on
        assert memory.receive(again).address == blocks[0].address
        check()
        x = big = None  # type: ignore[assignment]
        check()
        del y, z, blocks
        check()
        assert memory.statistics().held_blocks == 0
        return 5

    child = Child(body)
    assert child.wait() == 5
    assert x[0] == 8
    del x, big
    memory.trim()
    settle(slots=0)


@isolated
def test_forked_child_keeps_what_its_parent_frees() -> None:
    x = shared(1000, 1)
    go, exit_pipe = os.pipe(), os.pipe()

    def body() -> int:
        check()
        os.read(go[0], 1)  # the parent has freed its own
        memory.trim()
        ok = bool((x[:5] == 1).all())
        x[0] = 2
        os.write(exit_pipe[1], b"x")
        os.read(go[0], 1)
        return 0 if ok else 1

    child = Child(body)
    where = x.ctypes.data
    del x
    memory.trim()
    os.write(go[1], b"x")
    os.read(exit_pipe[0], 1)
    y = shared(1000, 9)  # not on the child's block
    assert y.ctypes.data != where
    s = memory.statistics()
    assert s.limbo_blocks == 1
    os.write(go[1], b"x")
    assert child.wait() == 0
    native.sweep(True)
    memory.trim()
    assert memory.statistics().limbo_blocks == 0
    del y
    memory.trim()
    settle(slots=0)


@isolated
def test_grandchild_is_nothing_special() -> None:
    x = shared(1000, 1)

    def leaf() -> int:
        check()
        x[2] = 3
        return 0

    def middle() -> int:
        child_tensor = shared(2000, 6)
        inner = Child(leaf)
        check()
        assert (child_tensor == 6).all()
        return inner.wait()

    assert Child(middle).wait() == 0
    assert x[2] == 3
    del x
    memory.trim()
    settle(slots=0)


def fork_while_threads_allocate() -> None:
    stop = threading.Event()

    def churn() -> None:
        rng = np.random.default_rng(0)
        with memory.shared_numpy():
            references = []
            while not stop.is_set():
                references.append(np.empty(int(2 ** rng.uniform(0, 23)), np.uint8))
                if len(references) > 10:
                    references.pop(0)

    threads = [threading.Thread(target=churn) for _ in range(3)]
    for t in threads:
        t.start()

    def body() -> int:
        check()
        x = shared(5000, 7)
        big = shared(20 << 20, 7)
        assert (x == 7).all()
        assert (big[:: 1 << 16] == 7).all()
        check()
        return 0

    try:
        for _ in range(15):
            assert Child(body).wait() == 0
    finally:
        stop.set()
        for t in threads:
            t.join()
    check()


def test_fork_while_other_threads_allocate() -> None:
    fresh(fork_while_threads_allocate)


@isolated
def test_the_heap_needs_no_membarrier() -> None:
    """Kernels of some sandboxes lack it: the fast path then looks at its fence itself."""
    number = {"x86_64": 324, "aarch64": 283}[platform.machine()]
    filter_calls(
        [
            (0x20, 0, 0, 0),  # the system call's number
            (0x15, 0, 1, number),
            (0x06, 0, 0, 0x00050000 | 38),  # ENOSYS
            (0x06, 0, 0, 0x7FFF0000),
        ]
    )
    fork_while_threads_allocate()
    references = [shared(100, i) for i in range(200)]
    assert all((x == i).all() for i, x in enumerate(references))
    references.clear()
    memory.trim()
    settle(slots=0)


def spawned(environment: str, handle: bytes) -> None:
    block = memory.receive(handle)
    x = np.frombuffer(block, np.uint8)
    x[0] += 1
    memory.check()


def test_stranger_joins_through_the_environment() -> None:
    x = shared(100, 41)
    handle = memory.export(x)
    fresh(spawned, "", handle, env={"SHMTENSOR_DOMAIN": memory.domain_environment()})
    assert x[0] == 42
    native.sweep(True)


def refused(message: str) -> None:
    with pytest.raises(DomainError, match=message):
        native.domain_ensure()


def test_stranger_with_a_wrong_name_says_why() -> None:
    for name, message in (
        ("nonsense", "SHMTENSOR_DOMAIN is not what domain_environment"),
        (f"1:{'0' * 32}:1:3,4,5", "cannot join the domain named by SHMTENSOR_DOMAIN"),
    ):
        fresh(refused, message, env={"SHMTENSOR_DOMAIN": name})


def test_spawned_process_adopts_the_descriptors() -> None:
    x = shared(100)
    data = memory.preparation()
    handle = memory.export(x)
    code = (
        f"import sys; sys.path.insert(0, {SOURCES!r})\n"
        "import numpy as np; from shmtensor import memory\n"
        f"memory.adopt({data!r}); memory.adopt({data!r})\n"
        f"np.frombuffer(memory.receive({handle!r}), np.uint8)[1] = 43"
    )
    subprocess.run([sys.executable, "-c", code], pass_fds=data["descriptors"], check=True)
    assert x[1] == 43
    native.sweep(True)


@isolated
def test_two_domains_are_refused() -> None:
    native.domain_ensure()
    data = memory.preparation()
    with pytest.raises(DomainError, match="already belongs to another domain"):
        native.domain_join(*data["descriptors"], bytes(16))


@isolated
def test_messages_of_a_gone_channel_are_void() -> None:
    channel = memory.allocate(4096, shared=True)
    x = shared(100_000, 1)
    handle = memory.export(x, channel)
    itself = memory.export(channel, channel)
    del x
    memory.trim()
    assert memory.statistics().limbo_blocks == 1
    assert memory.receive(handle, False).nbytes >= 100_000
    del channel  # nobody can read it any more: it goes, and then what it carried
    memory.trim()
    memory.trim()
    assert memory.statistics().limbo_blocks == 0
    with pytest.raises(StaleHandle):
        memory.receive(handle)
    with pytest.raises(StaleHandle):
        memory.receive(itself)
    settle(slots=0)


@isolated
def test_channel_and_its_messages_leave_with_the_last_process() -> None:
    def body() -> int:
        channel = memory.allocate(4096, shared=True)
        with memory.shared_numpy():
            for n in (100, 3000, 50_000, 300_000, 20 << 20):
                memory.export(np.ones(n, np.uint8), channel)
        return 0

    assert Child(body).wait() == 0
    native.set_unread_grace(3600, 3600)
    for _ in range(4):
        native.sweep(True)
    memory.trim()
    s = memory.statistics()
    assert (s.zombies, s.slots_used) == (0, 0), s
    check()


@isolated
def test_unread_message_of_a_dead_sender_expires() -> None:
    native.set_unread_grace(3600, 3600)

    def body() -> int:
        memory.export(shared(1000, 3))
        return 0

    assert Child(body).wait() == 0
    native.sweep(True)
    assert memory.statistics().zombies == 1
    assert "other transport" in memory.summary()
    settle(slots=0)


@isolated
def test_pins_are_reused() -> None:
    x = shared(10)
    for _ in range(5):
        handles = [memory.export(x) for _ in range(1000)]
        assert memory.statistics().unread_messages == 1000
        for h in handles:
            memory.acknowledge(h)
    assert memory.statistics().unread_messages == 0
    assert native.unread() == []


@isolated
def test_closed_lock_is_noticed() -> None:
    x = shared(10)
    for name in os.listdir("/proc/self/fd"):
        try:
            if "shmtensor-control" in os.readlink(f"/proc/self/fd/{name}"):
                os.close(int(name))
        except OSError:
            continue
    time.sleep(0.2)
    with pytest.raises(DomainError, match="a library closed this process's lock"):
        memory.export(x)


@isolated
def test_process_whose_lock_was_closed_is_not_swept() -> None:
    ready, go = os.pipe(), os.pipe()

    def body() -> int:
        x = shared(10, 1)
        for name in os.listdir("/proc/self/fd"):
            try:
                if "shmtensor-control" in os.readlink(f"/proc/self/fd/{name}"):
                    os.close(int(name))
            except OSError:
                continue
        os.write(ready[1], b"x")
        os.read(go[0], 1)
        return int(x[0]) - 1

    child = Child(body)
    os.read(ready[0], 1)
    assert native.sweep(True) == 0  # the lock is free, but the process lives and has the files
    assert memory.statistics().lost_locks == 0  # it may be about to execute a program
    time.sleep(0.15)
    with pytest.warns(RuntimeWarning, match=rf"process {child.pid} has lost its lock"):
        assert native.sweep(True) == 0
    assert native.sweep(True) == 0  # warned of once
    assert memory.statistics().lost_locks == 1
    os.write(go[1], b"x")
    assert child.wait() == 0
    settle(slots=0)
