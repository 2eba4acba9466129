"""Functions and layers without `dim` warn that they choose one, and choose PyTorch's."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn
from shmtensor.nn import functional as F

CALLS: dict[str, tuple[str, Callable[..., Any], Callable[..., Any]]] = {
    "F.softmax": ("softmax", F.softmax, F.softmax),
    "F.log_softmax": ("log_softmax", F.log_softmax, F.log_softmax),
    "F.softmin": ("softmin", F.softmin, F.softmin),
    "nn.Softmax": ("softmax", lambda x: nn.Softmax()(x), F.softmax),
    "nn.LogSoftmax": ("log_softmax", lambda x: nn.LogSoftmax()(x), F.log_softmax),
    "nn.Softmin": ("softmin", lambda x: nn.Softmin()(x), F.softmin),
    "softmax": ("softmax", lambda x: st.softmax(x), F.softmax),
    "log_softmax": ("log_softmax", lambda x: st.log_softmax(x), F.log_softmax),
    "x.softmax": ("softmax", lambda x: x.softmax(), F.softmax),
    "x.log_softmax": ("log_softmax", lambda x: x.log_softmax(), F.log_softmax),
}


@pytest.mark.parametrize("ndim", range(5))
@pytest.mark.parametrize("name", CALLS)
def test_an_implicit_dim_is_warned_of(name: str, ndim: int) -> None:
    named, call, with_dim = CALLS[name]
    x = st.randn((2, 3, 4, 5)[:ndim])
    with pytest.warns(UserWarning, match=f"Implicit dimension choice for {named} has") as caught:
        out = call(x)
    assert [w.filename for w in caught] == [__file__]
    expected = with_dim(x, {0: 0, 1: 0, 2: 1, 3: 0, 4: 1}[ndim])
    assert np.array_equal(out.numpy(), expected.numpy())


def test_a_dim_is_not_warned_of() -> None:
    x = st.randn(2, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for layer in (nn.Softmax(0), nn.LogSoftmax(-1), nn.Softmin(1)):
            layer(x)
        nn.Softmax2d()(st.randn(1, 2, 3, 3))
        F.softmax(x, dim=0)
        F.gumbel_softmax(x)
        x.softmax(-1)
        st.linalg.cross(x, x)


@pytest.mark.parametrize("call", [lambda x: st.cross(x, x + 1), lambda x: x.cross(x + 1)])
def test_an_implicit_dim_of_cross_is_warned_of(call: Callable[[Any], Any]) -> None:
    x = st.tensor([[1.0, 0, 0], [0, 1, 0]])
    with pytest.warns(UserWarning, match="cross without specifying the dim"):
        assert call(x).tolist() == st.cross(x, x + 1, dim=1).tolist()
