"""shmtensor.signal.windows against SciPy, and the windows of the top module against them."""

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


@pytest.mark.parametrize(
    "name", ["hann_window", "hamming_window", "blackman_window", "bartlett_window", "kaiser_window"]
)
def test_windows_of_the_top_module(name: str) -> None:
    kwargs = {"beta": 12.0} if name == "kaiser_window" else {}
    for n in (1, 2, 7, 16):
        for periodic in (True, False):
            out = getattr(st, name)(n, periodic, dtype=st.float64)
            assert out.is_shared()
            expected = getattr(windows, name.removesuffix("_window"))(
                n, sym=not periodic, dtype=st.float64, **kwargs
            )
            np.testing.assert_allclose(out, expected, atol=1e-14)


def test_options() -> None:
    assert st.hann_window(0).shape == (0,)
    assert st.hann_window(4).dtype == st.get_default_dtype()
    assert st.hann_window(4, requires_grad=True).requires_grad
    flat = st.hamming_window(5, alpha=1.0, beta=0.0)
    assert flat.tolist() == [1.0] * 5
    kaiser = st.kaiser_window(9, beta=3.0, dtype=st.float64)
    np.testing.assert_allclose(kaiser, scipys.kaiser(9, 3.0, False), atol=1e-14)
    with pytest.raises(RuntimeError, match="hann_window: window_length must not be negative: -1"):
        st.hann_window(-1)
    with pytest.raises(RuntimeError, match="bartlett_window: dtype must be floating point: int64"):
        st.bartlett_window(3, dtype=st.int64)
