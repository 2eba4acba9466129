"""`nn.grad`: gradients of convolutions as functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn
from shmtensor.nn import functional as F
from shmtensor.nn import grad

CASES = [
    (1, (2, 4, 9), (6, 2, 3), {"stride": 2, "padding": 1, "groups": 2}),
    (2, (2, 2, 6, 5), (3, 2, 3, 2), {"stride": (1, 2), "padding": (1, 0), "dilation": (2, 1)}),
    (2, (2, 5, 5), (3, 2, 2, 2), {}),  # without a batch
    (3, (1, 2, 4, 4, 3), (2, 2, 2, 2, 2), {"stride": 2}),
]


@pytest.mark.parametrize(("n", "size", "weight_size", "options"), CASES)
def test_gradients_are_those_of_the_convolution(
    n: int, size: Any, weight_size: Any, options: Any
) -> None:
    st.manual_seed(0)
    x = st.randn(size, requires_grad=True)
    weight = st.randn(weight_size, requires_grad=True)
    out = getattr(F, f"conv{n}d")(x, weight, **options)
    g = st.randn(out.shape)
    of_x, of_weight = st.autograd.grad(out, (x, weight), g)
    of_input = getattr(grad, f"conv{n}d_input")(size, weight.detach(), g, **options)
    np.testing.assert_allclose(of_input, of_x, rtol=1e-5, atol=1e-6)
    result = getattr(grad, f"conv{n}d_weight")(x.detach(), weight_size, g, **options)
    np.testing.assert_allclose(result, of_weight, rtol=1e-5, atol=1e-5)
    assert not result.requires_grad


def test_gradients_have_gradients() -> None:
    weight = st.ones(1, 1, 2, requires_grad=True)
    g = st.ones(1, 1, 3, requires_grad=True)
    out = grad.conv1d_input((1, 1, 4), weight, g)
    out.sum().backward()
    assert weight.grad.tolist() == [[[3.0, 3.0]]]
    assert g.grad.tolist() == [[[2.0, 2.0, 2.0]]]
    with st.no_grad():
        assert not grad.conv1d_input((1, 1, 4), weight, g).requires_grad


def test_names_and_wrong_shapes() -> None:
    assert F.grad is nn.grad is grad
    assert nn.common_types._size_2_t
    with pytest.raises(RuntimeError, match=r"the gradient has \(1, 1, 5\)"):
        grad.conv1d_weight(st.ones(1, 1, 4), (1, 1, 2), st.ones(1, 1, 5))
    names = ("conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight")
    assert all(getattr(grad, name).__name__ == name for name in names)
