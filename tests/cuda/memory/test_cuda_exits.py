"""Dead processes that have not exited yet: their locks are free, but the driver has not ended their
contexts, and their kernels may still use the blocks that they held (Note [Context]).

The stand-in's work ends with the threads that do it, so no killed process of it is ever in this
state. Here a living process stands for one: it has closed its lock and left the domain's memory.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from shmtensor import memory, native
from shmtensor.errors import OutOfMemoryError, PeerLostError
from tests.cuda.memory.peer import LINGER, Peer, peers, until

MIB = 2**20
SECONDS = 2.0  # a sweep's wait where no exit can be seen


@pytest.fixture(autouse=True)
def patience() -> Iterator[None]:
    """No test depends on how long it takes, unless it says so."""
    native.set_exit_wait(600.0)
    yield
    native.set_exit_wait(SECONDS)


def lent(mc: ModuleType) -> int:
    count: int = mc.memory_stats()["lent_blocks"]
    return count


def is_given_back(mc: ModuleType) -> bool:
    native.sweep(True)
    mc.poll()
    return lent(mc) == 0


def is_member(peer: Peer) -> bool:
    return peer.process.pid in [member[3] for member in native.members()]


def is_lost(mc: ModuleType, x: Any) -> bool:
    try:
        mc.check_alive(x)
    except PeerLostError:
        return True
    return False


def lend(cp: Any, mc: ModuleType, receiver: Peer, nbytes: int = 1000) -> int:
    """A block that only the receiver has; its address here."""
    x = cp.zeros(nbytes, np.uint8)
    receiver.receive(mc.export(x))
    receiver.do("a[:] = 1; rt.deviceSynchronize()")
    return int(x.data.ptr)


def test_a_dead_receivers_block_is_kept_until_it_has_exited(cp: Any, mc: ModuleType) -> None:
    with peers() as [receiver]:
        ptr = lend(cp, mc, receiver)
        receiver.do(LINGER)
        for value in range(2, 7):
            assert not is_given_back(mc)
            assert native.rows_exiting() == 1
            x = cp.full(1000, 9, np.uint8)
            assert x.data.ptr != ptr
            receiver.do(f"rt.memset(a.data.ptr, {value}, 1000); rt.deviceSynchronize()")
            assert (x.get() == 9).all()
        assert is_member(receiver)
        receiver.kill()
        assert until(partial(is_given_back, mc))
        assert native.rows_exiting() == 0


def test_the_timer_gives_the_block_back_after_the_exit(cp: Any, mc: ModuleType) -> None:
    with peers() as [receiver]:
        lend(cp, mc, receiver)
        receiver.do(LINGER)
        assert until(lambda: native.rows_exiting() == 1)
        time.sleep(0.2)
        assert lent(mc) == 1
        receiver.kill()
        assert until(lambda: lent(mc) == 0)


def test_without_a_gpu_it_is_swept_at_once(cp: Any, mc: ModuleType) -> None:
    with memory.shared_numpy():
        x = np.ones(100_000)
    with peers() as [receiver]:
        receiver.do(f"b = native.receive({native.export(x)!r})")
        assert native.statistics()["shared_blocks"] >= 1
        receiver.do(LINGER)
        native.sweep(True)
        assert native.rows_exiting() == 0
        assert not is_member(receiver)
        receiver.kill()


def test_a_page_locked_block_of_the_heap_is_kept_as_well(cp: Any, mc: ModuleType) -> None:
    """A GPU copies to and from it."""
    with memory.shared_numpy():
        x = np.ones(100_000)
    with peers() as [receiver]:
        receiver.do(f"b = np.frombuffer(native.receive({native.export(x)!r}), np.float64)")
        receiver.do("assert mc.pin_heap(b)")
        receiver.do(LINGER)
        native.sweep(True)
        assert native.rows_exiting() == 1
        assert is_member(receiver)
        receiver.kill()
        native.sweep(True)
        assert not is_member(receiver)


def test_a_dead_owner_is_not_taken_for_alive(cp: Any, mc: ModuleType) -> None:
    """Who has its block is told when it has exited; nobody is told that it lives."""
    with peers() as [owner]:
        owner.do("native.set_role('the owner'); x = cupy.full(1000, 5, np.uint8)")
        owner.do("rt.deviceSynchronize()")
        first, second = owner.do("out = mc.export(x)"), owner.do("out = mc.export(x)")
        x = mc.receive(first)
        owner.do(LINGER)
        native.sweep(True)
        assert native.rows_exiting() == 1
        mc.check_alive(x)  # the bytes are there, and its context
        owner.kill()
        assert until(partial(is_lost, mc, x))  # by the timer
        with pytest.raises(PeerLostError, match="receive: the owner"):
            mc.receive(second)
        assert (x.get() == 5).all()
        del x


def test_an_allocation_waits_for_the_exit(
    cp: Any, mc: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A block of a dead receiver is all the memory there is: it is refused after a moment, and
    there once that process has exited."""
    allocator = sys.modules["shmtensor.memory.cuda.allocator"]
    mc.set_limit(64 * MIB, 0)
    try:
        with peers() as [receiver]:
            lend(cp, mc, receiver, 40 * MIB)
            receiver.do(LINGER)
            native.sweep(True)
            assert native.rows_exiting() == 1
            begin = time.monotonic()
            with pytest.raises(OutOfMemoryError):
                cp.empty(40 * MIB, np.uint8)
            assert time.monotonic() - begin >= allocator.EXIT_S
            monkeypatch.setattr(allocator, "EXIT_S", 60.0)
            receiver.tell("time.sleep(0.3); os._exit(0)")
            x = cp.full(40 * MIB, 9, np.uint8)
            assert int(x[-1]) == 9
            assert receiver.process.wait() == 0
            del x
    finally:
        mc.set_limit(None, 0)


@pytest.mark.parametrize("how", ["lingers", "executes another program"])
def test_a_process_whose_exit_cannot_be_seen_is_waited_for_in_vain(
    cp: Any, mc: ModuleType, how: str
) -> None:
    """It lives on without the domain: its row is swept after the time that a context may need."""
    with peers() as [receiver]:
        lend(cp, mc, receiver)
        if how == "lingers":
            receiver.do(LINGER)
        else:
            program = "print('done', flush=True); input()"
            receiver.do(f"os.execv({sys.executable!r}, ['python', '-c', {program!r}])")
        native.sweep(True)
        assert native.rows_exiting() == 1
        native.set_exit_wait(0.3)
        assert until(partial(is_given_back, mc))
        assert receiver.process.poll() is None
        receiver.kill()


def test_the_wait_is_not_negative() -> None:
    with pytest.raises(ValueError, match="set_exit_wait: seconds are negative: -1"):
        native.set_exit_wait(-1.0)


def test_joiners_take_the_rows_of_those_that_have_exited(cp: Any, mc: ModuleType) -> None:
    """Nobody sweeps meanwhile: a joiner sees the exit itself, before it has a row."""
    code = "from shmtensor import native; native.use_device(); print(native.row()[0])"
    environment = {**os.environ, "SHMTENSOR_DOMAIN": memory.domain_environment()}
    rows = {
        subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, check=True
        ).stdout
        for _ in range(4)
    }
    assert len(rows) == 1
