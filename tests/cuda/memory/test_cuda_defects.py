"""Defects that the ledger of GPU memory prevents, each written once on purpose, beside the right
form of the same program.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from shmtensor import native
from tests.cuda.memory.peer import Peer, peers, until
from tests.cuda.standin.fixtures import Misuses
from tests.cuda.standin.install import ON_GPU

UNDEFINED = "what the defect does is undefined on a GPU; the stand-in says it"


@pytest.fixture(scope="module")
def lasting() -> Iterator[Peer]:
    with peers() as [one]:
        yield one


@pytest.fixture
def peer(mc: ModuleType, lasting: Peer) -> Iterator[Peer]:
    yield lasting
    lasting.forget()


@pytest.mark.parametrize("defect", [False, True])
def test_a_bit_cleared_before_the_event(
    cp: Any,
    mc: ModuleType,
    peer: Peer,
    late_work: Any,
    defect: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The receiver's copy is queued when it drops the block: the owner's next use comes first."""
    rt, stream = cp.cuda.runtime, cp.cuda.Stream(non_blocking=True)
    copy = cp.zeros(1000, np.uint8)
    rt.deviceSynchronize()
    message = peer.do(
        "x = cupy.full(1000, 7, np.uint8); rt.deviceSynchronize(); out = mc.export(x)"
    )
    x = mc.receive(message)
    late_work(stream, 2)
    rt.memcpyAsync(copy.data.ptr, x.data.ptr, 1000, rt.memcpyDeviceToDevice, stream.ptr)
    mc.note_use(x, stream)
    if defect:
        from shmtensor.memory.cuda.allocator import Allocator

        monkeypatch.setattr(Allocator, "events_of", lambda *_: [])
    del x
    peer.do("del x; mc.poll(); ys = [cupy.full(1000, 255, np.uint8) for _ in range(4)]")
    peer.do("rt.deviceSynchronize()")
    rt.deviceSynchronize()
    assert set(copy.get().tolist()) == {255 if defect else 7}


@pytest.mark.parametrize("defect", [False, True])
def test_a_slab_freed_while_a_message_pins_it(
    cp: Any, mc: ModuleType, peer: Peer, defect: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if defect and ON_GPU:
        pytest.skip(UNDEFINED)
    message = mc.export(cp.full(1000, 7, np.uint8))
    cp.cuda.runtime.deviceSynchronize()
    with monkeypatch.context() as patch:
        if defect:
            patch.setattr(native, "slab_reclaim", lambda places: [True] * len(places))
            patch.setattr(native, "slab_retire", lambda *_: True)
        mc.empty_cache()
    if defect:
        with pytest.raises(RuntimeError, match="StaleHandle"):  # though nobody has received it
            peer.receive(message)
        mc.discard(message)
    else:
        peer.receive(message)
        assert peer.do("out = set(a.get().tolist())") == {7}


@pytest.mark.parametrize("defect", [False, True])
def test_a_slab_freed_while_it_is_open(
    cp: Any,
    mc: ModuleType,
    peer: Peer,
    defect: bool,
    misuses: Misuses,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its blocks are free, and a receiver has not closed it yet."""
    if defect and ON_GPU:
        pytest.skip(UNDEFINED)
    x = cp.zeros(1000, np.uint8)
    peer.do("from shmtensor.memory.cuda import lending; lending.IDLE_S = 1e9")
    peer.receive(mc.export(x))
    del x
    peer.do("del a; rt.deviceSynchronize(); mc.poll()")
    assert peer.do("out = mc.memory_stats()['open_slabs']") == 1
    if defect:
        with monkeypatch.context() as patch:
            patch.setattr(native, "slab_retire", lambda *_: True)
            with pytest.raises(cp.cuda.runtime.CUDARuntimeError, match="IllegalState"):
                mc.empty_cache()
        misuses.expected = 1
    else:
        mc.empty_cache()
        assert mc.memory_reserved() == 32 << 20
    peer.do("lending.IDLE_S = 0.25")


@pytest.mark.parametrize("defect", [False, True])
def test_no_timer(
    cp: Any,
    mc: ModuleType,
    peer: Peer,
    late_work: Any,
    defect: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A receiver that does nothing more keeps its hold, though its work has ended."""
    from shmtensor.memory.cuda import timer
    from shmtensor.memory.cuda.allocator import allocator

    stream = cp.cuda.Stream(non_blocking=True)
    with monkeypatch.context() as patch:
        if defect:
            timer.pause()
            patch.setattr(allocator, "on_work", None)
        x = mc.receive(peer.do("x = cupy.zeros(1000, np.uint8); out = mc.export(x)"))
        late_work(stream, 1)
        cp.cuda.runtime.memsetAsync(x.data.ptr, 1, 1000, stream.ptr)
        mc.note_use(x, stream)
        del x
        peer.do("del x")
        cp.cuda.runtime.deviceSynchronize()

        def is_back() -> bool:
            return bool(peer.do("mc.poll(); out = mc.memory_stats()['lent_blocks']") == 0)

        if defect:
            time.sleep(1)
            assert not is_back()
        else:
            assert until(is_back)
    mc.poll()
