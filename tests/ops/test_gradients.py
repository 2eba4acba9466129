"""Gradients of two orders of all differentiable functions that are not rows; of one order where
PyTorch has no second.
"""

from __future__ import annotations

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
