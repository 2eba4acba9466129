"""A recurrent layer: for each step a product of the state and its weights, and one kernel for the
gates.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import cupy

from ..nn.rnn_layer import _rnn_layer, unpack_operands
from .sliding_window import kernel_of

__all__: list[str] = []

SIGMOID = "T(1) / (T(1) + exp(-({})))"

# x and s are the contributions of the input and of the state to the gates.
INPUTS = "raw T x, raw T s, T before, int64 n"
LSTM = f"""
const long long at = i / n * 4 * n + i % n;
const T in = {SIGMOID.format("x[at] + s[at]")};
const T forget = {SIGMOID.format("x[at + n] + s[at + n]")};
const T g = tanh(x[at + 2 * n] + s[at + 2 * n]);
const T o = {SIGMOID.format("x[at + 3 * n] + s[at + 3 * n]")};
cell = forget * before + in * g;
h = o * tanh(cell);
"""
GRU = f"""
const long long at = i / n * 3 * n + i % n;
const T r = {SIGMOID.format("x[at] + s[at]")};
const T z = {SIGMOID.format("x[at + n] + s[at + n]")};
const T g = tanh(x[at + 2 * n] + r * s[at + 2 * n]);
h = (before - g) * z + g;
"""
TANH = "h = tanh(x[i] + s[i]);"
RELU = "h = x[i] + s[i]; if (h < T(0)) h = T(0);"
CODES = {"gru": GRU, "tanh": TANH, "relu": RELU}


@_rnn_layer.on("cuda")
def rnn_layer(xp, xs: list[Any], /, kind, sizes, reverse):
    """The gates are not saved: the gradients compute them again, for all steps at once."""
    x, h, w, c, b, w_hr = unpack_operands(kind, xs)
    x = cupy.ascontiguousarray(x)
    rows, n = len(x), (h if c is None else c).shape[1]
    out, cells = cupy.empty((rows, h.shape[1]), x.dtype), cupy.empty((0, n), x.dtype)
    h = h.copy(order="C")
    if kind == "lstm":
        c, cells = c.copy(order="C"), cupy.empty((rows, n), x.dtype)
        run = kernel_of("lstm_step", INPUTS, "T h, T cell", LSTM)
    else:
        run = kernel_of(f"{kind}_step", INPUTS, "T h", CODES[kind])
    weights, projection = w.T, None if w_hr is None else w_hr.T
    ends = list(accumulate(sizes))
    for t in range(len(sizes) - 1, -1, -1) if reverse else range(len(sizes)):
        size, part = sizes[t], slice(ends[t] - sizes[t], ends[t])
        state = h[:size]
        contribution = cupy.matmul(state, weights)
        if b is not None:
            contribution += b
        if kind != "lstm":
            run(x[part], contribution, state, n, out[part])
        elif projection is None:
            run(x[part], contribution, c[:size], n, out[part], cells[part])
            c[:size] = cells[part]
        else:
            wide = cupy.empty((size, n), x.dtype)
            run(x[part], contribution, c[:size], n, wide, cells[part])
            c[:size] = cells[part]
            cupy.matmul(wide, projection, out=out[part])
        h[:size] = out[part]
    return out, cells, cupy.empty(0, x.dtype)
