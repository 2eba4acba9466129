"""One recurrent layer in one direction over all steps of a packed batch, as one op.

The row's kernels are in `native/kernels/nn/rnn.cc`. Its gradients go back through time (Werbos
1990). Gradients that are recorded themselves are composed here of other ops, on inputs and outputs
that carry their history.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import native
from ...dtypes import HALVES
from ..table.constants import constant, zeros
from ..table.native_or_numpy import upcast_half
from ..table.op_table import op

Sizes = tuple[int, ...]


def previous_rows(sizes: Sizes, reverse: bool) -> Any:
    """For each row of packed data the row of its previous state, in the concatenation of the
    initial states and all outputs.
    """
    n = np.array(sizes)
    position = np.arange(n.sum()) - np.repeat(np.cumsum(n) - n, n)
    outputs = np.cumsum(n) - n + sizes[0]  # where those of each step begin
    if reverse:  # sequences that end at a step start there
        origin, count = np.append(outputs[1:], 0), np.append(n[1:], 0)
    else:
        origin, count = np.append(0, outputs[:-1]), n
    return np.where(position < np.repeat(count, n), np.repeat(origin, n), 0) + position


def last_rows(sizes: Sizes) -> Any:
    """The row of packed data at which each sequence ends."""
    n = np.array(sizes)
    length = (n[:, None] > np.arange(sizes[0])).sum(0)
    return (np.cumsum(n) - n)[length - 1] + np.arange(sizes[0])


def previous_states(ops: Any, initial: Any, outputs: Any, sizes: Sizes, reverse: bool) -> Any:
    """The previous state of each row."""
    n = sizes[0]
    if n != sizes[-1]:
        states = ops.cat([initial, outputs], 0)
        return ops.index_select(states, 0, constant(previous_rows(sizes, reverse), states))
    others_count = outputs.shape[0] - n
    if reverse:
        return ops.cat([ops.narrow(outputs, 0, n, others_count), initial], 0)
    return ops.cat([initial, ops.narrow(outputs, 0, 0, others_count)], 0)


def unpack_operands(kind: str, xs: Any) -> tuple[Any, ...]:
    """(x, h, w_hh, c, b_hh, w_hr) of the row's operands, None for those that the kind lacks."""
    x, h, w, *optional = xs
    c = optional.pop(0) if kind == "lstm" else None
    extra = optional[0] if optional else None
    return (x, h, w, c, extra, None) if kind == "gru" else (x, h, w, c, None, extra)


@op(
    outputs="out cells",
    saves="gates",
    inplace=False,
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

    xs: the input's contribution to the gates (rows, gates * n), the initial state, the state's
    weight; of an LSTM also the initial cell and optionally the projection, of a GRU optionally the
    state's bias. Only an LSTM has cells; for others they are empty.
    """
    x, h, w, c, b, w_hr = unpack_operands(kind, xs)
    return native.rnn_layer(kind, x, h, c, w, b, w_hr, np.array(sizes, np.int64), reverse)


def rnn_layer_gradients(
    ops: Any, needed: tuple[tuple[bool, ...]], g_out: Any, g_cells: Any, xs: Any, out: Any,
    cells: Any, gates: Any, kind: str, sizes: Sizes, reverse: bool,
) -> tuple[list[Any]]:  # fmt: skip
    """The gradients of all operands of the row; those of weights only if they are needed."""
    _, _, needs_w, *needs_extra = needed[0]
    x, h, w, c, b, w_hr = unpack_operands(kind, xs)
    states = previous_states(ops, h, out, sizes, reverse)
    if isinstance(g_out, np.ndarray):
        if out.dtype in HALVES:  # computed in float32, as forward was; the gates are saved in it
            half_tensors = (g_out, g_cells, h, c, w, w_hr, out, cells)
            g_out, g_cells, h, c, w, w_hr, out, cells = (upcast_half(ops, x) for x in half_tensors)
            states = upcast_half(ops, states)
        g_x, g_back, g_h, g_c, totals = native.call(
            native.rnn_layer_backward, kind, g_out, g_cells, h, c, w, w_hr, out, cells, gates,
            np.array(sizes, np.int64), reverse,
        )  # fmt: skip
        o = None if w_hr is None else gates[:, -cells.shape[1] :]
    else:
        previous_cells = None if c is None else previous_states(ops, c, cells, sizes, reverse)
        factors, o = derivatives(ops, kind, x, states, w, b, previous_cells, out, cells)
        g_x, g_back, g_h, g_c, totals = rnn_layer_backward(
            ops, kind, factors, h, c, w, w_hr, g_out, g_cells, sizes, reverse
        )
    g_w = ops.matmul(ops.transpose(g_back, 0, 1), states) if needs_w else None
    gradients = [g_x, g_h, g_w]
    if c is not None:
        gradients.append(g_c)
    if b is not None:
        gradients.append(ops.sum(g_back, 0) if needs_extra[-1] else None)
    if w_hr is not None:
        by_projection = None
        if needs_extra[-1]:
            by_projection = ops.matmul(ops.transpose(totals, 0, 1), o * ops.tanh(cells))
        gradients.append(by_projection)
    return (gradients,)


def derivatives(
    ops: Any,
    kind: str,
    x: Any,
    states: Any,
    w: Any,
    b: Any,
    previous_cells: Any,
    out: Any,
    cells: Any,
) -> tuple[Any, Any]:
    """The local derivatives of all steps, and the output gate of an LSTM.

    LSTM: of h by c; of c by the sums of i, f and g; of h by the sum of o; of c by the previous c.
    GRU: of h by n's sum; of n's sum by r's; of h by z's sum; of n's sum by the state's part in it;
    of h by the previous h. Others: of h by the sum.
    """
    if kind == "tanh":
        return (1 - out * out,), None
    if kind == "relu":
        return (1 - ops._to_copy(out <= 0, out.dtype),), None  # 1 for NaN, as in the kernel
    state_gates = ops.linear(states, w, b)
    if kind == "lstm":
        i, f, g, o = ops.chunk(x + state_gates, 4, -1)
        i, f, g, o = ops.sigmoid(i), ops.sigmoid(f), ops.tanh(g), ops.sigmoid(o)
        y = ops.tanh(cells)
        inner = [g * i * (1 - i), previous_cells * f * (1 - f), i * (1 - g * g)]
        return (o * (1 - y * y), *inner, y * o * (1 - o), f), o
    (r, z, n), (hr, hz, hn) = ops.chunk(x, 3, -1), ops.chunk(state_gates, 3, -1)
    r, z = ops.sigmoid(r + hr), ops.sigmoid(z + hz)
    n = ops.tanh(n + r * hn)
    return ((1 - z) * (1 - n * n), hn * r * (1 - r), (states - n) * z * (1 - z), r, z), None


def rnn_layer_backward(
    ops: Any, kind: str, factors: Any, h: Any, c: Any, w: Any, w_hr: Any, g_out: Any, g_cells: Any,
    sizes: Sizes, reverse: bool,
) -> tuple[Any, ...]:  # fmt: skip
    """The results of native.rnn_layer_backward: gradients of the input's and the state's
    contribution to the gates, of the initial state and cell, and of each output.
    """
    step_sizes = list(sizes)
    step_values = [ops.split(v, step_sizes, 0) for v in (g_out, *factors)]
    g_cell_steps = ops.split(g_cells, step_sizes, 0) if kind == "lstm" else ()
    g_h = zeros(ops, tuple(h.shape), h.dtype, h)
    g_c = None if c is None else zeros(ops, tuple(c.shape), c.dtype, c)
    rows: list[Any] = [None] * len(sizes)
    for t in range(len(sizes)) if reverse else reversed(range(len(sizes))):
        size = sizes[t]
        g, *parts = (v[t] for v in step_values)
        total = d = g + ops.narrow(g_h, 0, 0, size)
        if kind == "lstm":
            h_by_c, *c_by_gates, h_by_o, c_by_previous = parts
            d = d if w_hr is None else ops.matmul(d, w_hr)
            cell = ops.narrow(g_c, 0, 0, size) + g_cell_steps[t] + d * h_by_c
            g_x = g_back = ops.cat([*(cell * v for v in c_by_gates), d * h_by_o], -1)
            g_c = replace_rows(ops, g_c, cell * c_by_previous)
            direct = 0
        elif kind == "gru":
            h_by_n, n_by_r, h_by_z, n_by_state, h_by_previous = parts
            n = d * h_by_n
            g_x = ops.cat([n * n_by_r, d * h_by_z, n], -1)
            g_back = ops.cat([n * n_by_r, d * h_by_z, n * n_by_state], -1)
            direct = d * h_by_previous
        else:
            g_x = g_back = d * parts[0]
            direct = 0
        g_h = replace_rows(ops, g_h, ops.matmul(g_back, w) + direct)
        rows[t] = (g_x, g_back, total)
    g_x, g_back, total = (ops.cat([row[i] for row in rows], 0) for i in range(3))
    return g_x, g_back, g_h, g_c, total


def replace_rows(ops: Any, x: Any, rows: Any) -> Any:
    """x with its first rows replaced."""
    n, total = rows.shape[0], x.shape[0]
    return rows if n == total else ops.cat([rows, ops.narrow(x, 0, n, total - n)], 0)


_rnn_layer.joint_pullback(rnn_layer_gradients, xs="xs")
