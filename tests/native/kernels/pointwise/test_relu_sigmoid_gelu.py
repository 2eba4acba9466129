"""relu, sigmoid, gelu, dropout and the backwards against their formulas in float64."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, ndtr

import shmtensor as st
from shmtensor import native

RNG = np.random.default_rng(0)
SHAPES = [(), (0,), (5,), (3, 7), (17, 33), (2, 3, 4), (50, 1001)]
TOLERANCE = {"float32": 3e-6, "float64": 1e-13, "float16": 2e-3}
Function = Callable[..., Any]


def gelu_tanh(x: Any) -> Any:
    return x * expit(2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))


def bell(x: Any) -> Any:
    return np.exp(-x * x / 2) / np.sqrt(2 * np.pi)


FORWARD: dict[str, tuple[Function, Function]] = {
    "relu": (native.relu, lambda x: np.maximum(x, 0)),
    "sigmoid": (native.sigmoid, expit),
    "gelu": (native.gelu, lambda x: x * ndtr(x)),
    "gelu_tanh": (lambda x: native.gelu(x, True), gelu_tanh),
}
BACKWARD: dict[str, tuple[Function, Function]] = {
    "relu": (native.relu_backward, lambda g, y: g * (y > 0)),
    "sigmoid": (native.sigmoid_backward, lambda g, y: g * y * (1 - y)),
    "tanh": (native.tanh_backward, lambda g, y: g * (1 - y * y)),
    "gelu": (native.gelu_backward, lambda g, x: g * (ndtr(x) + x * bell(x))),
    "gelu_tanh": (
        lambda g, x: native.gelu_backward(g, x, True),
        lambda g, x: g * ((gelu_tanh(x + 1e-6) - gelu_tanh(x - 1e-6)) / 2e-6),
    ),
}


def orders(x: Any) -> list[Any]:
    return [x, np.asfortranarray(x), np.repeat(x, 2, 0)[::2] if x.ndim else x, x.T]


@pytest.mark.parametrize("name", FORWARD)
def test_forward(name: str) -> None:
    ours, formula = FORWARD[name]
    for dtype, shape in itertools.product(TOLERANCE, SHAPES):
        for x in orders(np.asarray(RNG.standard_normal(shape) * 4).astype(dtype)):
            got = ours(x)
            assert got.shape == x.shape
            assert got.dtype == x.dtype
            want = formula(x.astype("float64"))
            np.testing.assert_allclose(got, want, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("name", BACKWARD)
def test_backward(name: str) -> None:
    ours, formula = BACKWARD[name]
    for dtype, shape in itertools.product(TOLERANCE, SHAPES):
        g0 = np.asarray(RNG.standard_normal(shape)).astype(dtype)
        for g, x in zip(orders(g0), orders(np.asarray(np.tanh(g0 * 2))), strict=True):
            got = ours(g, x)
            assert got.dtype == g.dtype
            want = formula(g.astype("float64"), x.astype("float64"))
            tolerance = max(TOLERANCE[dtype], 1e-8 if name == "gelu_tanh" else 0)
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_special_values(dtype: str) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 0], dtype)
    nan = np.nan
    with np.errstate(all="raise"):
        np.testing.assert_array_equal(native.relu(x), [nan, np.inf, 0, np.array(1e30, dtype), 0, 0])
        np.testing.assert_array_equal(native.sigmoid(x), [nan, 1, 0, 1, 0, 0.5])
        for tanh in (False, True):
            result = native.gelu(x, tanh)
            np.testing.assert_array_equal(result, [nan, np.inf, 0, np.array(1e30, dtype), 0, 0])
            result = native.gelu_backward(np.ones_like(x), x, tanh)
            np.testing.assert_array_equal(result[3:], [1, 0, 0.5])


def test_integers_become_float32() -> None:
    assert native.sigmoid(np.arange(3)).dtype == np.float32


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dropout_keeps_and_scales(dtype: str) -> None:
    for n in (1, 63, 64, 65, 100_000):
        x = RNG.standard_normal(n).astype(dtype)
        out, mask = native.dropout(x, 0.25, 7, 0)
        assert mask.dtype == bool
        np.testing.assert_allclose(out, x * mask / 0.75, rtol=1e-6)
        if n > 1000:
            assert abs(mask.mean() - 0.75) < 0.01
        assert native.dropout(x, 0.0, 7, 0)[1].all()
        assert not native.dropout(x, 1.0, 7, 0)[0].any()


def test_dropout_continues_where_the_offset_says() -> None:
    x = np.ones(1024, "float32")
    _, full = native.dropout(x, 0.5, 3, 0)
    _, part = native.dropout(x[512:], 0.5, 3, 512 // 4)
    np.testing.assert_array_equal(full[512:], part)


def test_errors_show_the_values() -> None:
    x = np.ones((2, 3), "float32")
    with pytest.raises(TypeError, match="relu: input is not an array: float"):
        native.relu(1.0)  # type: ignore[arg-type]
    with pytest.raises(NotImplementedError, match="gelu: not implemented for complex64"):
        native.gelu(x.astype("complex64"))
    with pytest.raises(RuntimeError, match=r"shapes differ: g \(2, 3\), input \(3, 2\)"):
        native.relu_backward(x, x.T)
    with pytest.raises(RuntimeError, match=r"dropout: p is not a probability: 1\.5"):
        native.dropout(x, 1.5, 0, 0)
    with pytest.raises(TypeError, match="wrong number of arguments: 1, expected 2"):
        native.relu_backward(x)  # type: ignore[call-arg]


@pytest.mark.parametrize("dtype", [st.float16, st.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (5,), (2048,), (50, 1001)])
def test_16_bit_floats_are_rounded_once(shape: tuple[int, ...], dtype: Any) -> None:
    """Through native.InFloat32, as an op calls them; contiguous or not."""
    g, y = (st.randn(*shape).to(dtype).array for _ in range(2))
    for function, n in [(native.gelu, 1), (native.gelu_backward, 2), (native.relu_backward, 2),
                        (native.sigmoid_backward, 2), (native.tanh_backward, 2)]:  # fmt: skip
        extra = (True,) if "gelu" in function.__name__ else ()
        for layout in (np.ascontiguousarray, np.asfortranarray):
            halves = [layout(x) if x.ndim else x for x in (g, y)[:n]]
            got = native.InFloat32(function)(*halves, *extra)
            want = function(*(native.recast(x, np.dtype("f")) for x in halves), *extra)
            assert got.dtype == g.dtype
            np.testing.assert_array_equal(
                got.view(np.int16), native.recast(want, g.dtype).view(np.int16)
            )
