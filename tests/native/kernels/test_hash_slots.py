"""The slots of a hash table, counted with hashes alone."""

from __future__ import annotations

import numpy as np
import pytest

from shmtensor import native


def empty(size: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.full(size, -1, np.int64)


def test_full_slots_count() -> None:
    table = empty(8)
    ones = np.ones(3, np.int64)
    assert native.hash_slots(table, np.array([0, 1, 2]), ones, False, 100) == 0
    assert table.tolist() == [0, 1, 2, -1, -1, -1, -1, -1]
    # 8 begins at slot 0 and goes on to 1, 6; -8 begins there, too: its other bits come later.
    assert native.hash_slots(table, np.array([8]), ones[:1] * 5, False, 100) == 2 * 8
    assert table[6] == 8
    assert native.hash_slots(table, np.array([8]), ones[:1] * 5, False, 100) == 3 * 8 + 5
    with_set = empty(16)
    assert native.hash_slots(with_set, np.array([0, 16, 32]), ones, True, 100) == 8 + 8 + 1
    assert with_set[:3].tolist() == [0, 16, 32]


def test_a_full_table_ends_at_the_limit() -> None:
    table = np.zeros(8, np.int64)
    assert 1000 < native.hash_slots(table, np.array([5]), np.array([1]), False, 1000) < 1100
    assert native.hash_slots(table, np.array([], np.int64), np.array([], np.int64), False, 0) == 0


def test_wrong_arguments_are_errors() -> None:
    one = np.ones(1, np.int64)
    with pytest.raises(ValueError, match="hash_slots: 6 slots, 1 hashes, 1 weights"):
        native.hash_slots(empty(6), one, one, False, 1)
    with pytest.raises(ValueError, match="hash_slots: 8 slots, 1 hashes, 2 weights"):
        native.hash_slots(empty(8), one, np.ones(2, np.int64), False, 1)
    with pytest.raises(ValueError, match="hash_slots: 0 slots"):
        native.hash_slots(empty(0), one, one, False, 1)
    with pytest.raises(TypeError, match="elements of 8 bytes are needed: 4"):
        native.hash_slots(empty(8).astype(np.int32), one, one, False, 1)
    with pytest.raises(TypeError, match="wrong number of arguments: 1, expected 5"):
        native.hash_slots(empty(8))  # type: ignore[call-arg]
    read_only = empty(8)
    read_only.flags.writeable = False
    with pytest.raises((ValueError, BufferError)):
        native.hash_slots(read_only, one, one, False, 1)
