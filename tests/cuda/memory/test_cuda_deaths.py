"""Owners, senders and receivers that are killed: who is told, and what comes back."""

from __future__ import annotations

from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from shmtensor import native
from shmtensor.errors import PeerLostError
from tests.cuda.memory.peer import Peer, peers, until


def stats(mc: ModuleType, name: str) -> int:
    value: int = mc.memory_stats()[name]
    return value


def is_lost(mc: ModuleType, *x: Any) -> bool:
    try:
        mc.check_alive(*x)
    except PeerLostError:
        return True
    return False


def sent(peer: Peer, code: str = "x = cupy.full(1000, 5, np.uint8)") -> Any:
    """A message of which all work has ended."""
    return peer.do(
        f"native.set_role('the owner'); {code}; rt.deviceSynchronize(); out = mc.export(x)"
    )


def test_an_owner_that_dies_before_its_message_is_read(cp: Any, mc: ModuleType) -> None:
    with peers() as [owner]:
        message = sent(owner)
        owner.kill()
        with pytest.raises(PeerLostError, match=r"^receive: the owner \(pid \d+\)"):
            mc.receive(message)
        native.sweep(True)
        with pytest.raises(PeerLostError, match="receive: "):
            mc.receive(message)


def test_an_owner_that_dies_while_its_block_is_held(cp: Any, mc: ModuleType) -> None:
    """The bytes stay readable, a checked use raises, and the slab is closed with the last array."""
    with peers() as [owner]:
        x = mc.receive(sent(owner))
        mc.check_alive(x)
        owner.kill()
        assert until(partial(is_lost, mc, x))  # by the timer
        with pytest.raises(PeerLostError, match=r"^cuda: the owner \(pid \d+\)"):
            mc.check_alive(x)
        with pytest.raises(PeerLostError, match=r"^export: the owner"):
            mc.export(x)
        assert (x.get() == 5).all()
        assert stats(mc, "open_slabs") == 1
        del x
        assert until(lambda: stats(mc, "open_slabs") == 0)


def test_an_owner_that_dies_while_its_block_is_used(
    cp: Any, mc: ModuleType, late_work: Any
) -> None:
    """Queued work ends on the old bytes; nothing is unmapped under it."""
    with peers() as [owner]:
        x = mc.receive(sent(owner))
        stream = cp.cuda.Stream(non_blocking=True)
        copy = cp.zeros(1000, np.uint8)
        cp.cuda.runtime.deviceSynchronize()
        late_work(stream, 5)
        cp.cuda.runtime.memcpyAsync(
            copy.data.ptr, x.data.ptr, 1000, cp.cuda.runtime.memcpyDeviceToDevice, stream.ptr
        )
        mc.note_use(x, stream)
        owner.kill()
        assert until(partial(is_lost, mc, x))
        del x
        assert stats(mc, "open_slabs") == 1
        stream.synchronize()
        assert (copy.get() == 5).all()
        assert until(lambda: stats(mc, "open_slabs") == 0)


# What waits for a stream that waits for the owner; the last two have the allocator's lock, or the
# GIL, meanwhile.
WAITS = {
    "synchronize": "y = native.wrap(x) + 1; st.cuda.synchronize()",
    "cpu": "y = (native.wrap(x) + 1).cpu()",
    "empty_cache": "y = x + 1; mc.empty_cache(); waits.check()",
    "close": "y = x + 1; rt.ipcCloseMemHandle(rt.ipcOpenMemHandle(handle)); waits.check()",
}


@pytest.mark.parametrize("wait", WAITS)
def test_nobody_waits_for_work_that_will_never_end(cp: Any, mc: ModuleType, wait: str) -> None:
    """A receiver's stream waits for the work of a process that dies ahead of it. The receiver is a
    process of its own: if it does not go on, it is killed."""
    other = cp.cuda.runtime.malloc(1 << 21)
    handle = cp.cuda.runtime.ipcGetMemHandle(other)
    with peers() as [receiver], peers(STANDIN_LATE_US=30_000_000) as [owner]:
        receiver.do(f"handle = {handle!r}")
        receiver.do("import shmtensor as st; from shmtensor.memory.cuda import waits")
        receiver.do("st.zeros(3, device='cuda') + 1; st.cuda.synchronize()")  # compiled
        owner.do("native.set_role('the owner')")
        owner.do("x = cupy.empty(1000, np.uint8); busy(cupy.cuda.Stream.null, 30)")
        owner.do("rt.memsetAsync(x.data.ptr, 5, 1000, 0)")
        message = owner.do("out = mc.export(x)")
        assert message[2][2] >= 0, "its work has not ended"
        receiver.receive(message, "x")  # the host does not wait
        receiver.tell(WAITS[wait])
        assert not receiver.answers_within(0.5)
        owner.kill()
        assert receiver.answers_within(20)
        with pytest.raises(RuntimeError, match=r"PeerLostError: .*cuda: the owner"):
            receiver.answer()
        receiver.do("waits.check()")  # once
        with pytest.raises(RuntimeError, match=r"PeerLostError: .*cuda: the owner"):
            receiver.do("mc.check_alive(x)")
        receiver.forget()
        assert receiver.do("out = mc.memory_stats()['open_slabs']") == 0
    cp.cuda.runtime.free(other)


def test_work_of_a_sender_that_dies_later_is_lost(cp: Any, mc: ModuleType) -> None:
    """The memory is the receiver's own, or a third process's, and stays: its bytes may be torn."""
    x = cp.zeros(1000, np.uint8)
    cp.cuda.runtime.deviceSynchronize()
    with peers() as [peer], peers(STANDIN_LATE_US=30_000_000) as [sender]:
        sender.do("native.set_role('the sender')")
        sender.receive(mc.export(x))
        sender.do("busy(cupy.cuda.Stream.null, 30); rt.memsetAsync(a.data.ptr, 1, 1000, 0)")
        messages = [sender.do("out = mc.export(a)") for _ in range(2)]
        home = mc.receive(messages[0])
        peer.receive(messages[1])
        mc.check_alive(home)
        peer.do("mc.check_alive(a)")
        sender.kill()
        assert until(partial(is_lost, mc, home))
        with pytest.raises(PeerLostError, match="cuda: the sender"):
            mc.check_alive(home)
        with pytest.raises(PeerLostError, match="cuda: the sender"):
            mc.export(home)
        peer.do("native.sweep(True)")
        with pytest.raises(RuntimeError, match=r"PeerLostError: .*cuda: the sender"):
            peer.do("mc.check_alive(a)")
        peer.do("del a; rt.deviceSynchronize()")
    cp.cuda.runtime.deviceSynchronize()
    mc.check_alive(x)
    del x, home


def test_a_sender_that_ends_normally_ends_its_work(cp: Any, mc: ModuleType) -> None:
    x = cp.zeros(1000, np.uint8)
    cp.cuda.runtime.deviceSynchronize()
    with peers(STANDIN_LATE_US=300_000) as [sender]:
        sender.receive(mc.export(x))
        sender.do("busy(cupy.cuda.Stream.null, 0.5); rt.memsetAsync(a.data.ptr, 1, 1000, 0)")
        home = mc.receive(sender.do("out = mc.export(a)"))
        sender.end()
        native.sweep(True)
        mc.check_alive(home)
        assert (home.get() == 1).all()
    del x, home


def test_a_third_process_has_the_block_of_a_dead_owner(cp: Any, mc: ModuleType) -> None:
    with peers(2) as [owner, third]:
        x = mc.receive(sent(owner))
        message = mc.export(x)
        owner.kill()
        with pytest.raises(RuntimeError, match="PeerLostError: receive: "):
            third.receive(message)
        assert third.do("out = mc.memory_stats()['open_slabs']") == 0
        assert third.do("out = native.check()") is None
        del x


def test_a_sender_that_is_not_the_owner_dies_with_work_left(cp: Any, mc: ModuleType) -> None:
    x = cp.zeros(1000, np.uint8)
    cp.cuda.runtime.deviceSynchronize()
    with peers(STANDIN_LATE_US=5_000_000) as [sender]:
        sender.do("native.set_role('the sender')")
        sender.receive(mc.export(x))
        sender.do("busy(cupy.cuda.Stream.null, 30); rt.memsetAsync(a.data.ptr, 1, 1000, 0)")
        message = sender.do("out = mc.export(a)")
        assert message[2][2] >= 0, "its work has not ended"
        finished = mc.export(x)
        sender.kill()

        def is_refused() -> bool:
            native.sweep(True)  # once it has exited
            try:
                mc.receive(message)
            except PeerLostError as error:
                return str(error).startswith("receive: the sender")
            return False

        assert until(is_refused)
        assert (mc.receive(finished).get() == 0).all()
    del x
    native.sweep(True)
    mc.poll()
    assert until(lambda: stats(mc, "lent_blocks") == 0)


def test_a_sender_that_had_no_work_left_costs_nothing(cp: Any, mc: ModuleType) -> None:
    x = cp.zeros(1000, np.uint8)
    with peers() as [sender]:
        sender.receive(mc.export(x))
        message = sender.do("a += 1; rt.deviceSynchronize(); out = mc.export(a)")
        assert message[2][2] == -1
        sender.kill()
        assert (mc.receive(message).get() == 1).all()
    del x


@pytest.mark.parametrize("state", ["held", "used", "leaving"])
def test_a_receiver_that_dies_gives_everything_back(cp: Any, mc: ModuleType, state: str) -> None:
    x = cp.zeros(1000, np.uint8)
    cp.cuda.runtime.deviceSynchronize()
    late = 2_000 if state == "held" else 30_000_000
    with peers(STANDIN_LATE_US=late) as [receiver]:
        receiver.receive(mc.export(x))
        if state != "held":
            receiver.do("busy(cupy.cuda.Stream.null, 30); rt.memsetAsync(a.data.ptr, 1, 1000, 0)")
        if state == "leaving":
            receiver.do("del a")
        del x
        assert stats(mc, "lent_blocks") == 1
        receiver.kill()

        def is_back() -> bool:
            native.sweep(True)
            mc.empty_cache()
            return bool(mc.memory_reserved() == 0)

        assert until(is_back)


def test_an_unread_message_of_a_dead_receiver_is_redelivered(cp: Any, mc: ModuleType) -> None:
    """It never arrived: the block is there for the next receiver."""
    x = cp.full(1000, 3, np.uint8)
    message = mc.export(x)
    del x
    with peers(2) as [first, second]:
        first.kill()
        native.sweep(True)
        mc.poll()
        second.receive(message)
        assert second.do("out = int(a.sum())") == 3000


def test_a_dead_owners_slot_is_used_again(cp: Any, mc: ModuleType) -> None:
    before = native.statistics()["slots_used"]
    for _ in range(3):
        with peers() as [owner]:
            x = mc.receive(sent(owner))
            owner.kill()
            assert until(partial(is_lost, mc, x))
            assert native.statistics()["slots_used"] > before
            del x

        def is_free() -> bool:
            native.sweep(True)
            return bool(native.statistics()["slots_used"] <= before)

        assert until(is_free)


def test_an_owner_that_ends_normally_is_lost_as_well(cp: Any, mc: ModuleType) -> None:
    with peers() as [owner]:
        x = mc.receive(sent(owner))
        owner.process.communicate(timeout=30)
        native.sweep(True)
        with pytest.raises(PeerLostError, match=r"the owner .* has (exited|died)"):
            mc.check_alive(x)
        del x
