"""One recurrent layer in one direction over all steps of a packed batch, as one op.

The row's kernels are in `native/kernels/nn/rnn.cc`. Its gradients go back through time (Werbos
1990). Gradients that are themselves recorded are put together here from other ops, of inputs and
outputs that carry their history.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import native
from ...dtypes import HALVES
from ..table.native_or_numpy import widened
from ..table.op_definition import op

__all__ = ["last_rows"]

Sizes = tuple[int, ...]


def rows_before(sizes: Sizes, reverse: bool) -> Any:
    """For each row of packed data the row of the state before it, among the initial states and all
    outputs one after the other.
    """
    n = np.array(sizes)
    place = np.arange(n.sum()) - np.repeat(np.cumsum(n) - n, n)
    outputs = np.cumsum(n) - n + sizes[0]  # where those of each step begin
    if reverse:  # sequences that end at a step start there
        origin, count = np.append(outputs[1:], 0), np.append(n[1:], 0)
    else:
        origin, count = np.append(0, outputs[:-1]), n
    return np.where(place < np.repeat(count, n), np.repeat(origin, n), 0) + place


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


@op(
    outputs="out cells",
    keeps="gates",
    inplace=False,
    method=False,
    function=False,
    samples=[
        ([(6, 8), (3, 2), (8, 2), (3, 2)], "lstm", (3, 3), False),
        ([(6, 8), (3, 1), (8, 1), (3, 2), (1, 2)], "lstm", (3, 2, 1), True),
        ([(5, 6), (3, 2), (6, 2), (6,)], "gru", (3, 2), False),
        ([(4, 6), (2, 2), (6, 2)], "gru", (2, 2), True),
        ([(4, 2), (2, 2), (2, 2)], "tanh", (2, 1, 1), True),
        ([(4, 2), (2, 2), (2, 2)], "relu", (2, 2), False),
    ],
)
def _rnn_layer(xp, xs: list[Any], /, kind, sizes, reverse):
    """(states, cells) after each row.

    xs: the input's share of the gates (rows, gates * n), the initial state, the state's weight; of
    an LSTM also the initial cell and perhaps the projection, of a GRU perhaps the state's bias.
    Only an LSTM has cells, of others they are empty.
    """
    x, h, w, c, b, w_hr = operands(kind, xs)
    return native.rnn_layer(kind, x, h, c, w, b, w_hr, np.array(sizes, np.int64), reverse)


def gradients(
    ops: Any, g_out: Any, g_cells: Any, xs: Any, out: Any, cells: Any, gates: Any,
    kind: str, sizes: Sizes, reverse: bool,
) -> list[Any]:  # fmt: skip
    """The gradients of all operands of the row."""
    x, h, w, c, b, w_hr = operands(kind, xs)
    states = before(ops, h, out, sizes, reverse)
    if isinstance(g_out, np.ndarray):
        if out.dtype in HALVES:  # computed in float32, as forward was; the gates are kept in it
            halves = (g_out, g_cells, h, c, w, w_hr, out, cells)
            g_out, g_cells, h, c, w, w_hr, out, cells = (widened(ops, x) for x in halves)
            states = widened(ops, states)
        by_x, by_back, by_h, by_c, totals = native.call(
            native.rnn_layer_backward, kind, g_out, g_cells, h, c, w, w_hr, out, cells, gates,
            np.array(sizes, np.int64), reverse,
        )  # fmt: skip
        o = None if w_hr is None else gates[:, -cells.shape[1] :]
    else:
        earlier = None if c is None else before(ops, c, cells, sizes, reverse)
        shares, o = derivatives(ops, kind, x, states, w, b, earlier, out, cells)
        by_x, by_back, by_h, by_c, totals = rnn_layer_backward(
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

    They lead, for an LSTM, from h to c, from c to the sums of i, f and g, from h to that of o, from
    c to c before; for a GRU from h to n's sum, from that to r's, from h to z's, from n's sum to the
    state's share in it, from h to h before; else from h to the sum.
    """
    if kind == "tanh":
        return (1 - out * out,), None
    if kind == "relu":
        return (1 - ops._to_copy(out <= 0, out.dtype),), None  # of NaN 1, as the kernel has it
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


def rnn_layer_backward(
    ops: Any, kind: str, shares: Any, h: Any, c: Any, w: Any, w_hr: Any, g_out: Any, g_cells: Any,
    sizes: Sizes, reverse: bool,
) -> tuple[Any, ...]:  # fmt: skip
    """What native.rnn_layer_backward gives: gradients of the gates' sums by the input's share and
    the state's, of the initial state and cell, and of each output.
    """
    cuts = list(sizes)
    each = [ops.split(v, cuts, 0) for v in (g_out, *shares)]
    of_cells = ops.split(g_cells, cuts, 0) if kind == "lstm" else ()
    by_h, by_c = ops.zeros_like(h), None if c is None else ops.zeros_like(c)
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


_rnn_layer.pullback(
    xs=lambda ops, g_out, g_cells, xs, out, cells, gates, kind, sizes, reverse: gradients(
        ops, g_out, g_cells, xs, out, cells, gates, kind, sizes, reverse
    )
)
