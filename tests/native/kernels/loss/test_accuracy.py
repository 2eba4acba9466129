"""Counting right and ignored targets: as NumPy counts, or None: the caller has to count."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shmtensor import native


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (32, 10), (7, 5)])
def test_counts_are_those_of_numpy(dtype: Any, shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 4, shape).astype(dtype)  # with equal ones
    scores[rng.random(shape) < 0.1] = np.nan
    targets = rng.integers(0, shape[1], shape[0])
    expected = np.count_nonzero(scores.argmax(1) == targets)
    assert native.count_correct(scores, targets) == expected
    assert native.count_equal(targets, 1) == np.count_nonzero(targets == 1)
    assert native.count_equal(targets, -100) == 0


def test_targets_outside_the_classes_are_wrong() -> None:
    scores = np.ones((3, 2), np.float32)
    assert native.count_correct(scores, np.array([0, -100, 7])) == 1


def test_other_arrays_are_the_callers() -> None:
    scores, targets = np.ones((4, 3), np.float32), np.zeros(4, np.int64)
    for x, y in (
        (scores.T.copy().T, targets),
        (scores.astype(np.float16), targets),
        (scores, targets.astype(np.int32)),
        (scores[:3], targets),
        (scores[:, :0], targets),
        (scores, np.zeros(8, np.int64)[::2]),
    ):
        assert native.count_correct(x, y) is None
    assert native.count_equal(np.zeros((2, 2), np.int64), 0) is None
    with pytest.raises(OverflowError):
        native.count_equal(targets, 1 << 70)
