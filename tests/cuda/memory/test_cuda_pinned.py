"""Page-locked blocks of the heap."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from shmtensor import memory, native


def shared(n: int) -> np.ndarray[Any, Any]:
    with memory.shared_numpy():
        return np.zeros(n, np.uint8)


def test_a_copy_into_a_pinned_block_does_not_wait(cp: Any, mc: ModuleType, late_work: Any) -> None:
    rt = cp.cuda.runtime
    x = cp.full(1 << 20, 7, np.uint8)
    pageable, pinned = shared(1 << 20), shared(1 << 20)
    assert mc.pin_heap(pinned)
    assert mc.pin_heap(pinned[100:])  # the same block: not registered twice
    assert mc.is_pinned(pinned)
    assert mc.is_pinned(pinned[5:9])
    assert not mc.is_pinned(pageable)
    rt.memcpyAsync(pageable.ctypes.data, x.data.ptr, 1 << 20, rt.memcpyDeviceToHost, 0)
    assert (pageable == 7).all()
    late_work(cp.cuda.Stream.null, 1)
    rt.memcpyAsync(pinned.ctypes.data, x.data.ptr, 1 << 20, rt.memcpyDeviceToHost, 0)
    assert (pinned == 0).all()
    rt.deviceSynchronize()
    assert (pinned == 7).all()
    mc.unpin_heap()
    assert not mc.is_pinned(pinned)
    assert native.check() is None


def test_a_pinned_block_outlives_its_array(cp: Any, mc: ModuleType) -> None:
    """Its pages are not returned to the system while CUDA knows them."""
    x = shared(1 << 20)
    address = x.ctypes.data
    assert mc.pin_heap(x)
    del x
    memory.trim()
    others = [shared(1 << 20) for _ in range(3)]
    assert address not in [other.ctypes.data for other in others]
    mc.unpin_heap()
    del others


def test_the_oldest_blocks_are_unpinned(
    cp: Any, mc: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    from shmtensor.memory.cuda import pinned

    monkeypatch.setattr(pinned, "LIMIT", 3 << 20)
    arrays = [mc.pinned_empty((1 << 20,), np.uint8) for _ in range(4)]
    assert [mc.is_pinned(x) for x in arrays] == [False, True, True, True]


def test_what_cannot_be_pinned(cp: Any, mc: ModuleType) -> None:
    assert not mc.pin_heap(shared(100))
    assert not mc.is_pinned(np.zeros(3))
    with pytest.raises(ValueError, match="not shared memory"):
        mc.pin_heap(np.zeros(3))
