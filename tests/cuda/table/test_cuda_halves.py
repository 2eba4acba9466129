"""float16 on CUDA: the CPU's dtypes, and numbers that float16 does not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.nn import functional as F
from tests.cuda.table.device_rows import COMPARISONS
from tests.cuda.table.device_tensors import compare_calls

X = np.array([[0.25, -0.5, 1.0, 2.0], [0.375, -0.75, 3.0, 0.125]], "float16")
LARGE, SMALL = 1e5, 1e-6  # infinite, or rounded to one digit, in float16

WITH_NUMBERS: dict[str, Callable[[Any], Any]] = {
    "mul": lambda x: x * LARGE * SMALL,
    "reflected": lambda x: SMALL * x,
    "div": lambda x: x / LARGE,
    "add": lambda x: x * 4096 + LARGE / 2,
    "sub": lambda x: 0.3 - x,
    "alpha": lambda x: st.add(x, x, alpha=0.3),
    "lerp": lambda x: st.lerp(x, x * 2, 0.3),
    "addcmul": lambda x: st.addcmul(x, x, x * 1e-3, value=LARGE / 10),
    "pow": lambda x: abs(x) ** 0.3,
    "clamp": lambda x: st.clamp(x, 0.3, 60000),
    "where": lambda x: st.where(x > 0, x, 0.3),
}
LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "contiguous": lambda x: x + 0,
    "strided": lambda x: x[:, ::2],
    "transposed": lambda x: x.T,
    "broadcast": lambda x: x[0].expand(3, 4),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", WITH_NUMBERS)
def test_halves_with_numbers(cp: Any, name: str, layout: str) -> None:
    call, laid_out = WITH_NUMBERS[name], LAYOUTS[layout]
    compare_calls(lambda x: call(laid_out(x)), (X,), f"{name}, {layout}", 0, 2e-3)


def test_gradients_of_products_with_a_number(cp: Any) -> None:
    x = st.tensor(X).to("cuda").requires_grad_()
    g = st.full((2, 8), 0.01, dtype=st.float16, device="cuda")[:, ::2]
    (x * LARGE).backward(g)
    np.testing.assert_allclose(x.grad.cpu().float().numpy(), np.full((2, 4), 1e3), 1e-3)
    assert x.grad.dtype is st.float16


def test_in_place_with_a_number(cp: Any) -> None:
    def write(x: Any) -> Any:
        y = st.zeros_like(x)
        y[:, ::2] = x[:, ::2]
        y[:, ::2].mul_(SMALL)
        return y

    compare_calls(write, (X,), "mul_", 0, 1e-3)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons_round_a_number(cp: Any, name: str, layout: str) -> None:
    x = np.array([[0.3, 0.25, np.inf, 1.0], [65504.0, 0.3, -1.0, 0.1]], "float16")

    def compared(x: Any) -> Any:
        return [getattr(st, name)(LAYOUTS[layout](x), number) for number in (0.3, 0.1, LARGE)]

    compare_calls(compared, (x,), name, 0)


@pytest.mark.parametrize("name", [f"{name}_" for name in COMPARISONS])
def test_comparisons_in_place_round_a_number(cp: Any, name: str) -> None:
    x = np.array([0.3, 0.25, np.inf, 0.1], "float16")

    def compared(x: Any) -> Any:
        return [getattr(x.clone(), name)(number) for number in (0.3, 0.1, LARGE)]

    compare_calls(compared, (x,), name, 0)


@pytest.mark.parametrize("shape", [(4,), (2, 4)])
def test_layer_norm_has_the_inputs_dtype(cp: Any, shape: tuple[int, ...]) -> None:
    weight, bias = np.ones(shape, "f") * 1.5, np.ones(shape, "f")
    compare_calls(
        lambda x, w, b: F.layer_norm(x, shape, w, b), (X, weight, bias), "layer_norm", close=4e-3
    )
    compare_calls(lambda x, w: F.layer_norm(x, shape, w), (X, weight), "weight only", close=4e-3)
    half = weight.astype("float16"), bias.astype("float16")
    compare_calls(lambda x, w, b: F.layer_norm(x, shape, w, b), (X, *half), "of halves", close=4e-3)
