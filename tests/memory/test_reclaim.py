"""Whole slots that come back in one pass: nothing is read of a slot that is given back."""

from __future__ import annotations

import numpy as np
import pytest

from shmtensor import memory

from .fresh import check, isolated

KIB = 1 << 10


@pytest.mark.parametrize(
    ("nbytes", "per_slot", "kind"), [(KIB, 4096, "slots_tiny"), (256 * KIB, 256, "slots_medium")]
)
@isolated
def test_slots_leave_in_one_pass_with_their_last_block(
    nbytes: int, per_slot: int, kind: str
) -> None:
    with memory.shared_numpy():
        arrays = [np.full(nbytes, i % 251, np.uint8) for i in range(4 * per_slot)]
    before = getattr(memory.statistics(), kind)
    assert before >= 4
    for x in arrays:
        memory.acknowledge(memory.export(x))  # shared: from now on only a reclaim frees it
    del x
    arrays.clear()
    assert memory.statistics().limbo_blocks > 0
    memory.trim()
    s = memory.statistics()
    assert (s.limbo_blocks, s.live_blocks, getattr(s, kind)) == (0, 0, 0), s
    check()
    with memory.shared_numpy():
        again = np.full(nbytes, 3, np.uint8)
    assert (again == 3).all()
