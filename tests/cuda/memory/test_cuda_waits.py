"""Waits of streams for other processes: where GPUs cannot, and numbers that nobody issued."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

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
