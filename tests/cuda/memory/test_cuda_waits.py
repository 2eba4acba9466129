"""Waits of streams for other processes: where GPUs cannot, and numbers that nobody issued."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import native
from shmtensor.errors import PeerLostError
from tests.cuda.memory.peer import peers, until

BUSY = "busy(cupy.cuda.Stream.null, {}); rt.memsetAsync(x.data.ptr, 5, 1000, 0)"


def test_the_host_does_not_wait(cp: Any, mc: ModuleType) -> None:
    from shmtensor.memory.cuda import waits

    with peers(STANDIN_LATE_US=300_000) as [sender]:
        sender.do("x = cupy.empty(1000, np.uint8)\n" + BUSY.format(1))
        x = mc.receive(sender.do("out = mc.export(x)"))
        assert list(waits.pending), "it has returned before the work has ended"
        assert (x.get() == 5).all()
        waits.check()
        assert not waits.pending
        mc.check_alive(x)
        del x


def test_a_sender_without_timelines_waits_itself(cp: Any, mc: ModuleType) -> None:
    with peers(STANDIN_LATE_US=300_000) as [sender]:
        sender.do("from shmtensor.memory.cuda import waits; waits.is_registered = False")
        sender.do("x = cupy.empty(1000, np.uint8)\n" + BUSY.format(0.3))
        message = sender.do("out = mc.export(x)")
        assert message[2][2] == -1
        assert (mc.receive(message).get() == 5).all()


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_receiver_without_timelines_waits_on_the_host(
    cp: Any, mc: ModuleType, monkeypatch: pytest.MonkeyPatch, is_killed: bool
) -> None:
    from shmtensor.memory.cuda import waits

    monkeypatch.setattr(waits, "is_registered", False)
    late = 30_000_000 if is_killed else 300_000
    with peers(STANDIN_LATE_US=late) as [sender]:
        sender.do("native.set_role('the sender'); x = cupy.empty(1000, np.uint8)")
        sender.do(BUSY.format(30 if is_killed else 0.5))
        message = sender.do("out = mc.export(x)")
        if not is_killed:
            x = mc.receive(message)
            assert not waits.pending
            assert (x.get() == 5).all()
            del x
            return
        sender.process.kill()
        with pytest.raises(PeerLostError, match="the sender"):
            mc.receive(message)
        sender.process.wait()


def test_a_number_that_was_never_issued(cp: Any, mc: ModuleType) -> None:
    """No stream waits for it, as it would for ever."""
    with peers(STANDIN_LATE_US=300_000) as [sender]:
        sender.do("x = cupy.empty(1000, np.uint8)\n" + BUSY.format(0.3))
        message = sender.do("out = mc.export(x)")
        handle, origin, (row, inc, place, number), *rest = message
        with pytest.raises(PeerLostError, match="receive: "):
            mc.receive((handle, origin, (row, inc, place, number + 1), *rest))
        cp.cuda.runtime.deviceSynchronize()


def test_many_waits_are_forgotten_when_they_are_done(cp: Any, mc: ModuleType) -> None:
    from shmtensor.memory.cuda import waits

    n = 3 * waits.TIMELINES
    with peers(STANDIN_LATE_US=3_000) as [sender]:
        sender.do("x = cupy.zeros(1000, np.uint8); rt.deviceSynchronize()")
        for _ in range(n):
            sender.do(BUSY.format(0.002))
            x = mc.receive(sender.do("out = mc.export(x)"))
        assert (x.get() == 5).all()
        assert until(lambda: not waits.pending), "the timer forgets them"
        del x


def test_a_killed_sender_does_not_end_other_waits(cp: Any, mc: ModuleType) -> None:
    with peers(2, STANDIN_LATE_US=500_000) as [first, second]:
        messages = []
        for peer in (first, second):
            peer.do("x = cupy.empty(1000, np.uint8)\n" + BUSY.format(1))
            messages.append(peer.do("out = mc.export(x)"))
        x = mc.receive(messages[1])
        first.kill()
        native.sweep(True)
        mc.check_alive(x)
        assert (x.get() == np.uint8(5)).all()
        mc.discard(messages[0])
        del x


def test_a_thread_that_has_not_used_the_gpu_receives(cp: Any, mc: ModuleType) -> None:
    """The driver's own functions need a context that is current in the thread."""
    with peers(STANDIN_LATE_US=100_000) as [sender]:
        sender.do("x = cupy.empty(1000, np.uint8); y = cupy.empty(1000, np.uint8)")
        first = mc.receive(sender.do("rt.deviceSynchronize(); out = mc.export(x)"))
        sender.do(BUSY.replace("x.", "y.").format(0.5))
        message = sender.do("out = mc.export(y)")
        assert message[2][2] >= 0
        with ThreadPoolExecutor(1) as pool:
            x = pool.submit(mc.receive, message).result()
        assert (x.get() == 5).all()
        del x, first


def test_threads_try_the_timelines_once(cp: Any, mc: ModuleType) -> None:
    from shmtensor.memory.cuda import waits

    before = waits.is_registered
    if before:
        cp.cuda.runtime.hostUnregister(native.timeline_area()[0])
    waits.is_registered = None
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(lambda _: waits.can_wait(), range(16)))
    finally:
        sys.setswitchinterval(interval)
    assert waits.is_registered


def test_what_is_lost_stays_lost(cp: Any, mc: ModuleType) -> None:
    """Also if another process of the row dies later; and it is said once for all messages."""
    from shmtensor.memory.cuda import waits

    def receive() -> tuple[Any, Any]:
        with peers(STANDIN_LATE_US=30_000_000) as [sender]:
            sender.do("xs = [cupy.empty(1000, np.uint8) for _ in range(3)]")
            sender.do("busy(cupy.cuda.Stream.null, 30)")
            sender.do("for x in xs: rt.memsetAsync(x.data.ptr, 5, 1000, 0)")
            messages = sender.do("out = [mc.export(x) for x in xs]")
            received = [mc.receive(message) for message in messages]
            sender.kill()
        native.sweep(True)
        return received, messages[0][2]

    def is_over(work: Any) -> bool:
        return waits.state_of(work) == "lost"

    arrays, work = receive()
    assert until(partial(is_over, work))
    while True:  # the next process of the row
        _, later = receive()
        assert until(partial(is_over, later))
        if later[0] == work[0]:
            break
    assert waits.state_of(work) == "lost"
    with pytest.raises(PeerLostError, match="cuda: "):
        waits.check()
    waits.check()
    for x in arrays:
        with pytest.raises(PeerLostError, match="cuda: "):
            mc.check_alive(x)
    cp.cuda.runtime.deviceSynchronize()


def test_a_number_on_the_cpu_is_not_a_wait(cp: Any, mc: ModuleType) -> None:
    from shmtensor.memory.cuda import waits

    on_cpu, on_gpu = st.ones(1), st.ones(1, device="cuda")
    waits.pending[(255, 1, 0, 5)] = None  # of a row that has never issued it: lost
    try:
        assert on_cpu.item() == 1.0
        assert bool(on_cpu)
        with pytest.raises(PeerLostError):
            bool(on_gpu)
        assert on_gpu.item() == 1.0
    finally:
        waits.pending.clear()
