"""The gradient of a sum: one element, expanded to the shape of the operand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from shmtensor import native

BACKWARD: dict[str, Callable[[Any, Any], Any]] = {
    "relu": native.relu_backward,
    "sigmoid": native.sigmoid_backward,
    "tanh": native.tanh_backward,
    "gelu": native.gelu_backward,
    "elu": lambda g, x: native.activation_backward(g, x, "elu", 1.0, 0.0, 0.0),
    "silu": lambda g, x: native.activation_backward(g, x, "silu", 0.0, 0.0, 0.0),
}


@pytest.mark.parametrize("name", BACKWARD)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_an_expanded_gradient_equals_its_copy(name: str, dtype: type) -> None:
    """Sizes below, at and above a block of 2048 copies, and in several slices."""
    for shape in ((5,), (2048,), (2049,), (3, 1, 1000), (7, 5001)):
        x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
        g = np.broadcast_to(np.array(0.7, dtype), shape)
        partly = np.broadcast_to(
            np.linspace(1, 2, shape[0], dtype=dtype).reshape(-1, *[1] * (len(shape) - 1)), shape
        )
        for gradient in (g, partly):
            out = BACKWARD[name](gradient, x)
            np.testing.assert_array_equal(out, BACKWARD[name](gradient.copy(), x))
            assert out.dtype == dtype
