"""Complex tensors have no order on CUDA either: ops that need one raise the CPU's error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.nn import functional as F

X = np.array([[1 + 2j, 3 - 1j], [0.5j, -2.0]], "complex64")

PAIRS = (
    "lt", "le", "gt", "ge", "maximum", "minimum", "fmax", "fmin",
    "atan2", "copysign", "hypot", "nextafter",
)  # fmt: skip


def of_pair(name: str) -> Callable[[Any], Any]:
    return lambda x: getattr(st, name)(x, x.flip(0))


CALLS: dict[str, Callable[[Any], Any]] = {name: of_pair(name) for name in PAIRS} | {
    "number": lambda x: x < 1.0,
    "complex number": lambda x: x.real >= 1j,
    "broadcast": lambda x: st.maximum(x, x[0]),
    "real": lambda x: st.minimum(x, x.real),
    "in place": lambda x: x.clone().clamp_(max=1.0),
    "clamp": lambda x: st.clamp(x, 0, 1),
    "clamp_min": lambda x: st.clamp(x, min=x),
    "clamp_tensor": lambda x: st.clamp(x, x, x),
    "max": lambda x: st.max(x),
    "sort": lambda x: st.sort(x),
    "topk": lambda x: st.topk(x, 1),
    "cummax": lambda x: st.cummax(x, 0),
    "relu": F.relu,
    "gelu": F.gelu,
    "erfinv": st.erfinv,
    "digamma": st.digamma,
}


@pytest.mark.parametrize("name", CALLS)
def test_complex_tensors_have_no_order(cp: Any, name: str) -> None:
    x = st.tensor(X)
    with pytest.raises(NotImplementedError) as expected:
        CALLS[name](x)
    for y in (x.to("cuda"), x.to("cuda").T):
        with pytest.raises(NotImplementedError) as error:
            CALLS[name](y)
        assert str(error.value).split(":")[0] == str(expected.value).split(":")[0]


def test_equality_needs_no_order(cp: Any) -> None:
    x = st.tensor(X).to("cuda")
    assert (x == x.clone()).all()
    assert not (x != x.clone()).any()
