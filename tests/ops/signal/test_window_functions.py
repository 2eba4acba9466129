"""Windows of signal processing, against SciPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import signal

import shmtensor as st

WINDOWS: dict[str, Any] = {
    "hann_window": "hann",
    "hamming_window": "hamming",
    "blackman_window": "blackman",
    "bartlett_window": "bartlett",
    "kaiser_window": ("kaiser", 12.0),
}


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("n", [1, 2, 7, 16])
@pytest.mark.parametrize("periodic", [True, False])
def test_windows_are_scipys(name: str, n: int, periodic: bool) -> None:
    out = getattr(st, name)(n, periodic, dtype=st.float64)
    assert out.is_shared()
    np.testing.assert_allclose(out, signal.get_window(WINDOWS[name], n, periodic), atol=1e-14)


def test_options() -> None:
    assert st.hann_window(0).shape == (0,)
    assert st.hann_window(4).dtype == st.get_default_dtype()
    assert st.hann_window(4, requires_grad=True).requires_grad
    flat = st.hamming_window(5, alpha=1.0, beta=0.0)
    assert flat.tolist() == [1.0] * 5
    kaiser = st.kaiser_window(9, beta=3.0, dtype=st.float64)
    np.testing.assert_allclose(kaiser, signal.get_window(("kaiser", 3.0), 9), atol=1e-14)
    with pytest.raises(RuntimeError, match="hann_window: window_length must not be negative: -1"):
        st.hann_window(-1)
    with pytest.raises(RuntimeError, match="bartlett_window: dtype must be floating point: int64"):
        st.bartlett_window(3, dtype=st.int64)
