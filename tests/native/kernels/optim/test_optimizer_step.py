"""adam_ and sgd_ against the papers' formulas, step by step, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shmtensor import native

from ...cases import each

RNG = np.random.default_rng(0)
N = 20_011
TOLERANCE = {"float32": 2e-6, "float64": 1e-13}


def draw(dtype: str) -> Any:
    return RNG.standard_normal(N).astype(dtype)


@each("dtype", TOLERANCE)
@each("decay", [0.0, 0.1])
@each("decoupled", [False, True])
@each("amsgrad", [False, True])
@each("maximize", [False, True])
def test_adam(dtype: str, decay: float, decoupled: bool, amsgrad: bool, maximize: bool) -> None:
    lr, b1, b2, eps = 0.01, 0.9, 0.999, 1e-8
    p = draw(dtype)
    m, v = np.zeros_like(p), np.zeros_like(p)
    top = np.zeros_like(p) if amsgrad else None
    q = p.astype("float64")
    first, second, largest = np.zeros(N), np.zeros(N), np.zeros(N)
    for step in range(1, 5):
        g = draw(dtype)
        native.adam_(p, g, m, v, top, step, lr, b1, b2, eps, decay, decoupled, maximize)
        d = g.astype("float64") * (-1 if maximize else 1)
        if decoupled:
            q = q * (1 - lr * decay)
        else:
            d = d + decay * q
        first = b1 * first + (1 - b1) * d
        second = b2 * second + (1 - b2) * d * d
        largest = np.maximum(largest, second)
        root = np.sqrt((largest if amsgrad else second) / (1 - b2**step))
        q = q - lr * (first / (1 - b1**step)) / (root + eps)
        np.testing.assert_allclose(p, q, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * 5)


@pytest.mark.parametrize("dtype", TOLERANCE)
@each("decay", [0.0, 0.1])
@each(
    ("momentum", "dampening", "nesterov"),
    [(0.0, 0.0, False), (0.9, 0.0, False), (0.9, 0.0, True), (0.9, 0.3, False)],
)
@each("maximize", [False, True])
def test_sgd(
    dtype: str, decay: float, momentum: float, dampening: float, nesterov: bool, maximize: bool
) -> None:
    lr = 0.01
    p = draw(dtype)
    buffer = np.full_like(p, np.nan) if momentum else None  # the first step must not read it
    q, velocity = p.astype("float64"), np.zeros(N)
    for step in range(4):
        g = draw(dtype)
        first = step == 0
        native.sgd_(p, g, buffer, lr, momentum, dampening, decay, nesterov, maximize, first)
        d = g.astype("float64") * (-1 if maximize else 1) + decay * q
        if momentum:
            velocity = d if first else momentum * velocity + (1 - dampening) * d
            d = d + momentum * velocity if nesterov else velocity
        q = q - lr * d
        np.testing.assert_allclose(p, q, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * 5)


def test_a_part_is_stepped_like_the_full_array() -> None:
    """The trainer steps shards: results must not depend on where a shard begins."""
    p, g = draw("float32"), draw("float32")
    m, v = abs(draw("float32")), abs(draw("float32"))
    args = (3, 0.01, 0.9, 0.999, 1e-8, 0.1, False, False)
    full, parts = p.copy(), p.copy()
    native.adam_(full, g, m.copy(), v.copy(), None, *args)
    for start, stop in ((0, 7001), (7001, N)):
        s = slice(start, stop)
        native.adam_(parts[s], g[s], m[s].copy(), v[s].copy(), None, *args)
    np.testing.assert_allclose(full, parts, rtol=1e-7)


def test_errors_show_the_values() -> None:
    p, g = draw("float32"), draw("float32")
    args = (1, 0.01, 0.9, 0.999, 1e-8, 0.0, False, False)
    with pytest.raises(ValueError, match=r"g has another shape: \(3,\), expected \(20011,\)"):
        native.adam_(p, g[:3], p.copy(), p.copy(), None, *args)
    with pytest.raises(TypeError, match="dtype of m does not match: float64, expected float32"):
        native.adam_(p, g, p.astype("float64"), p.copy(), None, *args)
    with pytest.raises(ValueError, match="adam_: p is not contiguous and writeable: strides of 8"):
        native.adam_(p[::2], g[::2].copy(), p[::2].copy(), p[::2].copy(), None, *args)
    with pytest.raises(ValueError, match="adam_: step counts from 1: 0"):
        native.adam_(p, g, p.copy(), p.copy(), None, 0, *args[1:])
    with pytest.raises(ValueError, match=r"momentum needs a buffer: 0\.9"):
        native.sgd_(p, g, None, 0.1, 0.9, 0.0, 0.0, False, False, True)
