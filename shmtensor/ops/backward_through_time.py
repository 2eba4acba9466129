"""One recurrent layer in one direction over all steps of a packed batch, as one op, with its gradients
by backpropagation through time (Werbos 1990).

The row's kernels are `native/compute/recurrent.cc`. Gradients that are themselves recorded are put
together here from other ops, of inputs and outputs that carry their history.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import native
from .table import op

__all__ = ["last_rows"]

Sizes = tuple[int, ...]


def rows_before(sizes: Sizes, reverse: bool) -> Any:
    """For each row of packed data the row of the state before it, among the initial states and all
    outputs one after the other.
    """
    n = np.array(sizes)
    starts = np.cumsum(n) - n
    place = np.arange(n.sum()) - np.repeat(starts, n)
    step = 1 if reverse else -1
    origin = np.zeros(len(n), np.int64)  # where the states of the step before lie
    there = np.zeros(len(n), np.int64)  # how many of them there are
    inner = slice(0, -1) if reverse else slice(1, None)
    origin[inner] = np.roll(starts, -step)[inner] + sizes[0]
    there[inner] = np.roll(n, -step)[inner]
    return np.where(place < np.repeat(there, n), np.repeat(origin, n), 0) + place


def last_rows(sizes: Sizes) -> Any:
    """The row of packed data at which each sequence ends."""
    n = np.array(sizes)
    length = (n[:, None] > np.arange(sizes[0])).sum(0)
    return (np.cumsum(n) - n)[length - 1] + np.arange(sizes[0])


def before(ops: Any, initial: Any, outputs: Any, sizes: Sizes, reverse: bool) -> Any:
    """The state before each row."""
    n = sizes[0]
    if n != sizes[-1]:
        both = ops.cat([initial, outputs], 0)
        return ops.index_select(both, 0, rows_before(sizes, reverse))
    rest = outputs.shape[0] - n
    if reverse:
        return ops.cat([ops.narrow(outputs, 0, n, rest), initial], 0)
    return ops.cat([initial, ops.narrow(outputs, 0, 0, rest)], 0)


def operands(kind: str, xs: Any) -> tuple[Any, ...]:
    """(x, h, w_hh, c, b_hh, w_hr) of what the row is given, None for what a kind has not."""
    x, h, w, *rest = xs
    c = rest.pop(0) if kind == "lstm" else None
    extra = rest[0] if rest else None
    return (x, h, w, c, extra, None) if kind == "gru" else (x, h, w, c, None, extra)


@op(outputs="out cells", keeps="gates", inplace=False, method=False, function=False)
def recurrent_layer(xp, xs: list, /, kind, sizes, reverse):
    """(states, cells) after each row.

    xs: the input's share of the gates (rows, gates * n), the initial state, the state's weight, of
    an LSTM the initial cell and perhaps the projection, of a GRU perhaps the state's bias. Of others
    than an LSTM the cells are empty.
    """
    x, h, w, c, b, w_hr = operands(kind, xs)
    return native.recurrent(kind, x, h, c, w, b, w_hr, np.array(sizes, np.int64), reverse)


def gradients(
    ops: Any, g_out: Any, g_cells: Any, xs: Any, out: Any, cells: Any, gates: Any,
    kind: str, sizes: Sizes, reverse: bool,
) -> list[Any]:  # fmt: skip
    """The gradients of all operands of the row."""
    x, h, w, c, b, w_hr = operands(kind, xs)
    states = before(ops, h, out, sizes, reverse)
    if isinstance(g_out, np.ndarray):
        by_x, by_back, by_h, by_c, totals = native.call(
            native.recurrent_slope, kind, g_out, g_cells, h, c, w, w_hr, out, cells, gates,
            np.array(sizes, np.int64), reverse,
        )  # fmt: skip
        o = None if w_hr is None else gates[:, -cells.shape[1] :]
    else:
        earlier = None if c is None else before(ops, c, cells, sizes, reverse)
        shares, o = derivatives(ops, kind, x, states, w, b, earlier, out, cells)
        by_x, by_back, by_h, by_c, totals = through_time(
            ops, kind, shares, h, c, w, w_hr, g_out, g_cells, sizes, reverse
        )
    found = [by_x, by_h, ops.matmul(ops.transpose(by_back, 0, 1), states)]
    if c is not None:
        found.append(by_c)
    if b is not None:
        found.append(ops.sum(by_back, 0))
    if w_hr is not None:
        found.append(ops.matmul(ops.transpose(totals, 0, 1), o * ops.tanh(cells)))
    return found


def derivatives(
    ops: Any, kind: str, x: Any, states: Any, w: Any, b: Any, earlier: Any, out: Any, cells: Any
) -> tuple[Any, Any]:
    """What the gradients of all steps are multiplied by, and the output gate of an LSTM.

    For an LSTM (of c by h, of each gate's sum by c, of the output gate's by h, of c before by c); for
    a GRU (of n's sum by h, of r's by n's, of z's by h, of the state's share by n's, of the state
    before by h); else (of the sum by h,).
    """
    if kind == "tanh":
        return (1 - out * out,), None
    if kind == "relu":
        return (ops.cast(out > 0, out.dtype),), None
    back = ops.linear(states, w, b)
    if kind == "lstm":
        i, f, g, o = ops.chunk(x + back, 4, -1)
        i, f, g, o = ops.sigmoid(i), ops.sigmoid(f), ops.tanh(g), ops.sigmoid(o)
        y = ops.tanh(cells)
        inner = [g * i * (1 - i), earlier * f * (1 - f), i * (1 - g * g)]
        return (o * (1 - y * y), *inner, y * o * (1 - o), f), o
    (r, z, n), (hr, hz, hn) = ops.chunk(x, 3, -1), ops.chunk(back, 3, -1)
    r, z = ops.sigmoid(r + hr), ops.sigmoid(z + hz)
    n = ops.tanh(n + r * hn)
    return ((1 - z) * (1 - n * n), hn * r * (1 - r), (states - n) * z * (1 - z), r, z), None


def through_time(
    ops: Any, kind: str, shares: Any, h: Any, c: Any, w: Any, w_hr: Any, g_out: Any, g_cells: Any,
    sizes: Sizes, reverse: bool,
) -> tuple[Any, ...]:  # fmt: skip
    """What native.recurrent_slope gives: gradients of the gates' sums by the input's share and the
    state's, of the initial state and cell, and of each output.
    """
    cuts = list(sizes)
    each = [ops.split(v, cuts, 0) for v in (g_out, *shares)]
    of_cells = ops.split(g_cells, cuts, 0) if kind == "lstm" else None
    by_h, by_c = h * 0, None if c is None else c * 0
    rows: list[Any] = [None] * len(sizes)
    for t in range(len(sizes)) if reverse else reversed(range(len(sizes))):
        size = sizes[t]
        g, *parts = (v[t] for v in each)
        total = d = g + ops.narrow(by_h, 0, 0, size)
        if kind == "lstm":
            to_c, *to_gates, to_o, keep = parts
            d = d if w_hr is None else ops.matmul(d, w_hr)
            cell = ops.narrow(by_c, 0, 0, size) + of_cells[t] + d * to_c
            by_x = by_back = ops.cat([*(cell * v for v in to_gates), d * to_o], -1)
            by_c = replaced(ops, by_c, cell * keep)
            direct = 0
        elif kind == "gru":
            to_n, to_r, to_z, share, keep = parts
            n = d * to_n
            by_x = ops.cat([n * to_r, d * to_z, n], -1)
            by_back = ops.cat([n * to_r, d * to_z, n * share], -1)
            direct = d * keep
        else:
            by_x = by_back = d * parts[0]
            direct = 0
        by_h = replaced(ops, by_h, ops.matmul(by_back, w) + direct)
        rows[t] = (by_x, by_back, total)
    by_x, by_back, total = (ops.cat([row[i] for row in rows], 0) for i in range(3))
    return by_x, by_back, by_h, by_c, total


def replaced(ops: Any, x: Any, rows: Any) -> Any:
    """x with other first rows."""
    n, total = rows.shape[0], x.shape[0]
    return rows if n == total else ops.cat([rows, ops.narrow(x, 0, n, total - n)], 0)


recurrent_layer.pullback(
    xs=lambda ops, g_out, g_cells, xs, out, cells, gates, kind, sizes, reverse: gradients(
        ops, g_out, g_cells, xs, out, cells, gates, kind, sizes, reverse
    )
)
