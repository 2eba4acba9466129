"""The kernels of recurrent layers against loops in NumPy; their gradients against differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shmtensor import native

GATES = {"lstm": 4, "gru": 3, "tanh": 1, "relu": 1}
Array = np.ndarray[Any, Any]


def sigmoid(x: Any) -> Any:
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


def operands(kind: str, sizes: list[int], n: int, dtype: Any, projected: int = 0) -> list[Any]:
    """[x, h, c, w_hh, b_hh, w_hr]."""
    random = np.random.default_rng(n)

    def draw(*shape: int) -> Array:
        return random.standard_normal(shape).astype(dtype)

    width, h = GATES[kind] * n, projected or n
    c = draw(sizes[0], n) if kind == "lstm" else None
    b = draw(width) if kind == "gru" else None
    w_hr = draw(h, n) if projected else None
    return [draw(sum(sizes), width), draw(sizes[0], h), c, draw(width, h) / 4, b, w_hr]


def step(kind: str, x: Any, h: Any, c: Any, w: Any, b: Any, w_hr: Any) -> tuple[Any, Any]:
    recurrent = h @ w.T
    if kind == "lstm":
        i, f, g, o = np.split(x + recurrent, 4, -1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        return (h if w_hr is None else h @ w_hr.T), c
    if kind == "gru":
        (r, z, n), (hr, hz, hn) = np.split(x, 3, -1), np.split(recurrent + b, 3, -1)
        z = sigmoid(z + hz)
        return (1 - z) * np.tanh(n + sigmoid(r + hr) * hn) + z * h, c
    return (np.tanh(x + recurrent) if kind == "tanh" else np.maximum(x + recurrent, 0)), c


def loop(kind: str, xs: list[Any], sizes: list[int], reverse: bool) -> tuple[Any, Any]:
    """(outputs, cells) step by step."""
    x, h, c, *weights = xs
    ends = np.cumsum(sizes)
    h, c = h.copy(), None if c is None else c.copy()
    outs, cells = np.zeros((len(x), h.shape[1]), x.dtype), None if c is None else np.zeros(
        (len(x), c.shape[1]), x.dtype)  # fmt: skip
    for t in range(len(sizes))[:: -1 if reverse else 1]:
        n, rows = sizes[t], slice(ends[t] - sizes[t], ends[t])
        h[:n], now = step(kind, x[rows], h[:n], None if c is None else c[:n], *weights)
        outs[rows] = h[:n]
        if c is not None and cells is not None:
            c[:n] = cells[rows] = now
    return outs, cells


def forward(kind: str, xs: list[Any], sizes: list[int], reverse: bool) -> tuple[Any, Any, Any]:
    return native.rnn_layer(kind, *xs, np.array(sizes), reverse)


CASES = [(kind, 0) for kind in GATES] + [("lstm", 3)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("kind", "projected"), CASES)
def test_all_steps_are_the_loop(kind: str, projected: int, reverse: bool, dtype: Any) -> None:
    near = 2e-5 if dtype == np.float32 else 1e-12
    for sizes in ([1], [4, 4, 4], [5, 3, 3, 1], [21, 17, 17, 8, 1]):
        for n in (4, 7, 16, 37, 48):
            xs = operands(kind, sizes, n, dtype, projected)
            out, cells, _ = forward(kind, xs, sizes, reverse)
            expected, inner = loop(kind, xs, sizes, reverse)
            np.testing.assert_allclose(out, expected, near, near)
            if inner is not None:
                np.testing.assert_allclose(cells, inner, near, near)


# Sequences one after the other, and in blocks with products in register tiles.
@pytest.mark.parametrize(("sizes", "n"), [([3, 2, 2, 1], 5), ([19, 17, 8, 1], 16)])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("kind", "projected"), CASES)
def test_gradients_are_those_of_differences(
    kind: str, projected: int, reverse: bool, sizes: list[int], n: int
) -> None:
    xs = operands(kind, sizes, n, np.float64, projected)
    _, h, c, w, _, w_hr = xs
    out, cells, gates = forward(kind, xs, sizes, reverse)
    random = np.random.default_rng(1)
    g_out, g_cells = random.standard_normal(out.shape), random.standard_normal(cells.shape)
    by_x, _, by_h, by_c, _ = native.rnn_layer_backward(
        kind, g_out, g_cells, h, c, w, w_hr, out, cells, gates, np.array(sizes), reverse
    )

    def change(i: int, direction: Array) -> float:
        """The loss's directional derivative for operand i."""
        ends = []
        for sign in (1, -1):
            shifted = [*xs]
            shifted[i] = xs[i] + sign * 1e-6 * direction
            outs, inner = loop(kind, shifted, sizes, reverse)
            ends.append((outs * g_out).sum() + (0 if inner is None else (inner * g_cells).sum()))
        return float((ends[0] - ends[1]) / 2e-6)

    for i, gradient in ((0, by_x), (1, by_h), (2, by_c)):
        if gradient is not None:
            direction = random.standard_normal(gradient.shape)
            assert (gradient * direction).sum() == pytest.approx(change(i, direction), 1e-6, 1e-7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gates_saturate_and_keep_nan(dtype: Any) -> None:
    x = np.array([[-1e30, 1e4, -200, 0, 1e-9, 90, np.inf, -np.inf, np.nan]], dtype)
    zero, w = np.zeros((1, 9), dtype), np.zeros((9, 9), dtype)
    out, _, _ = native.rnn_layer("tanh", x, zero, None, w, None, None, np.array([1]), False)
    np.testing.assert_allclose(out, np.tanh(x), 1e-6 if dtype == np.float32 else 1e-14)
    out, _, _ = native.rnn_layer("relu", x, zero, None, w, None, None, np.array([1]), False)
    np.testing.assert_array_equal(out, np.maximum(x, 0))
    rows = np.concatenate([x, np.zeros((1, 18), dtype), x], 1)
    w4 = np.zeros((36, 9), dtype)
    _, _, gates = native.rnn_layer("lstm", rows, zero, zero, w4, None, None, np.array([1]), False)
    np.testing.assert_allclose(gates[:, :9], sigmoid(x), 1e-6, 1e-37)


def test_operands_that_do_not_fit_are_refused() -> None:
    xs = operands("gru", [2, 1], 4, np.float64)
    assert forward("gru", xs, [2, 1], False)[0].shape == (3, 4)
    for sizes in ([1, 2], [2, 2], [3], [2, 1, 0], [2, -1, 2]):
        with pytest.raises(TypeError, match="do not match"):
            forward("gru", xs, sizes, False)
    for i, other in ((0, xs[0][:, :-1]), (1, xs[1].astype(np.float32)), (3, xs[3][:-1])):
        with pytest.raises(TypeError, match="do not match"):
            forward("gru", [*xs[:i], other, *xs[i + 1 :]], [2, 1], False)
    with pytest.raises(TypeError, match="do not match"):
        forward("peephole", xs, [2, 1], False)
