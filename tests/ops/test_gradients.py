"""Gradients of two orders of all differentiable functions that are not rows; of one order where
PyTorch has no second.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from gradient_cases import CHECKED, FLAT, ONCE, REACHED, case
from test_composites import CASES

import shmtensor as st
from shmtensor.autograd import gradcheck, gradgradcheck


@pytest.mark.parametrize("name", sorted(CHECKED - set(REACHED)))
def test_gradients_of_two_orders_are_differences(name: str) -> None:
    function, arrays = case(name)
    xs = tuple(st.tensor(a, requires_grad=a.dtype.kind in "fc") for a in arrays)
    assert gradcheck(function, xs, fast_mode=True)
    assert name in ONCE or gradgradcheck(function, xs, fast_mode=True)


@pytest.mark.parametrize("name", sorted(FLAT & set(CASES)))
def test_flat_functions_have_no_gradient(name: str) -> None:
    function, arrays = case(name)
    result = function(*(st.tensor(a, requires_grad=True) for a in arrays))
    outputs = result if isinstance(result, (tuple, list)) else [result]
    assert not any(getattr(out, "requires_grad", False) for out in outputs)


INF, NAN = math.inf, math.nan
POWERS = {  # PyTorch's results and gradients at the bases
    0.5: ([NAN, INF, 0.0, -0.0, 2.0], [NAN, 0.0, INF, -INF, 0.25]),
    -0.5: ([NAN, 0.0, INF, -INF, 0.5], [0.0, -0.0, -INF, -INF, -0.0625]),
    0: ([1.0] * 5, [0.0] * 5),
}


@pytest.mark.parametrize("exponent", POWERS)
def test_roots_of_infinities_and_signed_zeros_are_pytorchs(exponent: Any) -> None:
    x = st.tensor([-INF, INF, 0.0, -0.0, 4.0], requires_grad=True)
    y = x**exponent
    y.backward(st.ones_like(y))
    values, gradients = POWERS[exponent]
    np.testing.assert_array_equal(y.detach().numpy(), np.float32(values))
    np.testing.assert_array_equal(x.grad.numpy(), np.float32(gradients))
    np.testing.assert_array_equal(np.signbit(y.detach().numpy()[1:]), np.signbit(values[1:]))


def test_the_gradient_of_a_constant_power_is_zero_whatever_comes_in() -> None:
    for exponent in (0, 0.0):
        x = st.tensor([1.0, 0.0, NAN, 2.0], requires_grad=True)
        (x**exponent).backward(st.tensor([NAN, INF, 1.0, 1.0]))
        assert x.grad.tolist() == [0.0] * 4
