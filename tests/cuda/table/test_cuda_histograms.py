"""Histograms on CuPy's arrays, at the edges of their bins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import cupy_runtime
from shmtensor.autograd.dispatch.op_function import declare
from shmtensor.ops import ROWS

WHOLE = np.array([-3, -1, 0, 0, 1, 1, 1, 2, 5])
# values, range
CASES: dict[str, tuple[Any, tuple[float, float]]] = {
    "1 is not in [-0.5, 0.5]": (WHOLE, (-0.5, 0.5)),
    "the last edge belongs to the last bin": (WHOLE, (-3, 2)),
    "no whole number is at the last edge": (WHOLE, (-2.25, 1.75)),
    "the range of the data": (WHOLE, (0, 0)),
    "unsigned": (np.array([0, 3, 255, 255], np.uint8), (0, 254.5)),
    "bool": (np.array([True, False, True]), (-1, 0.5)),
    "float32 from 2**24 on": (np.array([0, 2.0**24, 2.0**24], np.float32), (0, 2.0**24)),
    "large": (np.array([-1e30, 1e30, 3e29, 1e30], np.float32), (0, 0)),
    "float64 from 2**53 on": (np.array([0, 2.0**53, 2.0**60]), (0, 0)),
    "float16": (np.array([0, 2048, 4096, 4096, 1], np.float16), (0, 4096)),
    "a negative range": (
        -np.array([2.0**25, 2.0**24, 1, 2.0**24], np.float32),
        (-(2.0**25), -(2.0**24)),
    ),
    "what is outside, infinite or NaN": (
        np.array([np.nan, np.inf, -np.inf, 1e38, 0.5, 1], np.float32),
        (0, 1),
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("n", [1, 3, 7])
def test_histc_counts_as_numpy(cp: Any, name: str, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without cupy.histogram: its bins are others on a GPU than on the stand-in."""
    declare()
    cupy_runtime.initialize()
    monkeypatch.delattr(cp, "histogram")
    x, (low, high) = CASES[name]
    if low == high:
        expected = np.histogram(x, n, (float(x.min()), float(x.max())))[0]
    else:
        expected = np.histogram(x.astype(np.float64) if x.dtype == bool else x, n, (low, high))[0]
    ours = ROWS["_histc"].device_forwards["cuda"](cp, cp.asarray(x), n, low, high)
    assert ours.dtype == x.dtype
    assert ours.get().tolist() == expected.astype(x.dtype).tolist()


def test_histc_of_tensors(cp: Any) -> None:
    x = st.tensor([[0.0, 2.0**24], [2.0**25, 2.0**25]])
    for arguments in ((4,), (3, 0, 2.0**25), (2, 1, 5)):
        expected = x.histc(*arguments)
        for far in (x.cuda(), x.cuda().T, x.cuda().double()):
            assert far.histc(*arguments).tolist() == expected.tolist()
    assert x.cuda()[:0].histc(3, 0, 1).tolist() == [0, 0, 0]
    with pytest.raises(RuntimeError, match="the range must be finite"):
        (x.cuda() * float("inf")).histc(3)
