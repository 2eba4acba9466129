"""shmtensor.signal.windows, against SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.signal import windows as scipys

import shmtensor as st
from shmtensor.signal import windows

CASES: dict[str, tuple[dict[str, Any], tuple[Any, ...]]] = {
    "bartlett": ({}, ()),
    "blackman": ({}, ()),
    "cosine": ({}, ()),
    "exponential": ({"tau": 2.0}, (None, 2.0)),
    "gaussian": ({"std": 0.9}, (0.9,)),
    "general_cosine": ({"a": [0.4, 0.3, 0.2]}, ([0.4, 0.3, 0.2],)),
    "general_hamming": ({"alpha": 0.6}, (0.6,)),
    "hamming": ({}, ()),
    "hann": ({}, ()),
    "kaiser": ({"beta": 7.0}, (7.0,)),
    "nuttall": ({}, ()),
}


@pytest.mark.parametrize("name", CASES)
def test_windows_are_scipys(name: str) -> None:
    kwargs, args = CASES[name]
    for n in (0, 1, 2, 7, 8):
        for sym in (True, False):
            ours = getattr(windows, name)(n, sym=sym, dtype=st.float64, **kwargs)
            theirs = getattr(scipys, name)(n, *args, sym=sym)
            assert np.allclose(ours.numpy(), theirs), (n, sym)
    assert getattr(windows, name)(4, requires_grad=True, **kwargs).requires_grad
    with pytest.raises(ValueError, match="non-negative"):
        getattr(windows, name)(-1, **kwargs)
    with pytest.raises(ValueError, match="dtypes"):
        getattr(windows, name)(3, dtype=st.int64, **kwargs)


def test_wrong_shapes_of_windows() -> None:
    with pytest.raises(ValueError, match="tau"):
        windows.exponential(3, tau=0)
    with pytest.raises(ValueError, match="symmetric"):
        windows.exponential(3, center=1.0)
    with pytest.raises(ValueError, match="deviation"):
        windows.gaussian(3, std=-1)
    with pytest.raises(ValueError, match="beta"):
        windows.kaiser(3, beta=-1)
    with pytest.raises(ValueError, match="empty"):
        windows.general_cosine(3, a=[])
    off = windows.exponential(5, center=1.0, sym=False, dtype=st.float64)
    assert np.allclose(off.numpy(), scipys.exponential(5, 1.0, 1.0, False))
