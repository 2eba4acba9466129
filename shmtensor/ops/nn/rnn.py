"""Recurrent networks as functions: cells (Elman 1990; Hochreiter and Schmidhuber 1997; Cho et al.
2014), and layers of them in one or two directions, with projections of an LSTM's output (Sak et al.
2014). Composites of other ops; layers of float32 and float64 use the kernel of `rnn_layer.py`.
"""

from __future__ import annotations

from typing import Any

from ...dtypes import float16, float32, float64
from ..table.constants import constant, on_device
from ..table.op_table import composite
from .rnn_layer import last_rows

GATES = {"lstm": 4, "gru": 3, "tanh": 1, "relu": 1}


def step(
    ops: Any, kind: str, x: Any, state: tuple[Any, ...], w: Any, b: Any, w_hr: Any = None
) -> tuple[Any, ...]:
    """The state after one step; x is the input's contribution to the gates, w and b are the weight
    and bias of the state's, and w_hr projects an LSTM's output.
    """
    h = state[0]
    state_gates = ops.linear(h, w, b)
    if kind == "lstm":
        i, f, g, o = ops.chunk(x + state_gates, 4, -1)
        c = ops.sigmoid(f) * state[1] + ops.sigmoid(i) * ops.tanh(g)
        h = ops.sigmoid(o) * ops.tanh(c)
        return h if w_hr is None else ops.linear(h, w_hr), c
    if kind == "gru":
        (r, z, n), (hr, hz, hn) = ops.chunk(x, 3, -1), ops.chunk(state_gates, 3, -1)
        r, z = ops.sigmoid(r + hr), ops.sigmoid(z + hz)
        n = ops.tanh(n + r * hn)
        return ((h - n) * z + n,)
    return ((ops.tanh if kind == "tanh" else ops.relu)(x + state_gates),)


def check_sizes(kind: str, x: Any, state: Any, weights: Any) -> None:
    """Raises RuntimeError unless sizes of input, state and weights agree."""
    gates, n, h = GATES[kind] * state[-1].shape[-1], state[-1].shape[-1], state[0].shape[-1]
    projected = weights[4] is not None
    expected = [(gates, x.shape[-1]), (gates, h), (gates,), (gates,), (h, n)]
    is_wrong = (h != n and not projected) or any(
        w is not None and tuple(w.shape) != shape for w, shape in zip(weights, expected)
    )
    if is_wrong or any(s.shape[:-1] != state[0].shape[:-1] for s in state):
        shapes = ", ".join("None" if w is None else str(tuple(w.shape)) for w in weights)
        raise RuntimeError(
            f"{kind}: sizes differ: input {tuple(x.shape)}, state "
            f"{', '.join(str(tuple(s.shape)) for s in state)}, weights {shapes}"
        )


def run_direction(
    ops: Any, kind: str, x: Any, state: Any, weights: Any, sizes: list[int], reverse: bool
) -> tuple[Any, Any]:
    """(outputs, last state) of one layer in one direction; x is packed: step after step, of
    sizes[t] sequences each.
    """
    w_ih, w_hh, b_ih, b_hh, w_hr = weights
    check_sizes(kind, x, state, weights)
    if is_fused(x, state, weights):
        return run_fused(ops, kind, x, state, weights, tuple(sizes), reverse)
    parts = ops.split(ops.linear(x, w_ih, b_ih), sizes, 0)
    outputs: list[Any] = [None] * len(sizes)
    for t in reversed(range(len(sizes))) if reverse else range(len(sizes)):
        n, total = sizes[t], state[0].shape[0]
        active = state if n == total else tuple(ops.narrow(s, 0, 0, n) for s in state)
        new = step(ops, kind, parts[t], active, w_hh, b_hh, w_hr)
        outputs[t] = new[0]
        if n < total:
            remaining = (ops.narrow(s, 0, n, total - n) for s in state)
            new = tuple(ops.cat([a, b], 0) for a, b in zip(new, remaining))
        state = new
    return ops.cat(outputs, 0), state


def is_fused(x: Any, state: Any, weights: Any) -> bool:
    """Whether `_rnn_layer` computes a layer: in float32 or float64 only. On a GPU some operands may
    be float16, as under autocast.
    """
    tensors = [x, *state, *(w for w in weights if w is not None)]
    dtypes = {t.dtype for t in tensors}
    return (
        (dtypes in ({float32}, {float64}) or (on_device(x) and dtypes == {float16, float32}))
        and all(str(t.device) == str(x.device) for t in tensors)
        and 0 not in (*x.shape, *state[0].shape, *state[-1].shape)
    )


def run_fused(
    ops: Any, kind: str, x: Any, state: Any, weights: Any, sizes: tuple[int, ...], reverse: bool
) -> tuple[Any, Any]:
    """`run_direction` by the kernel of all steps.

    Where autocast makes the input's product float16 on a GPU, the steps are computed in float32,
    and the results are float16, as PyTorch's.
    """
    w_ih, w_hh, b_ih, b_hh, w_hr = weights
    extras = [*state[1:], w_hr]
    if kind == "gru":
        extras = [b_hh]
    elif b_ih is not None and b_hh is not None:
        b_ih = b_ih + b_hh
    gates = ops.linear(x, w_ih, b_ih)
    operands = [gates, state[0], w_hh, *(v for v in extras if v is not None)]
    if is_mixed := on_device(x) and any(v.dtype == float16 for v in operands):
        operands = [ops._to_copy(v, float32) if v.dtype == float16 else v for v in operands]
    results = ops._rnn_layer(operands, kind, sizes, reverse)[: len(state)]
    if is_mixed and gates.dtype == float16:
        results = [ops._to_copy(v, float16) for v in results]
    n = sizes[0]
    if reverse:
        last = [ops.narrow(v, 0, 0, n) for v in results]
    elif n == sizes[-1]:  # all sequences end at the last step
        last = [ops.narrow(v, 0, x.shape[0] - n, n) for v in results]
    else:
        last = [ops.index_select(v, 0, constant(last_rows(sizes), v)) for v in results]
    return results[0], tuple(last)


def run_layers(
    ops: Any,
    kind: str,
    x: Any,
    states: tuple[Any, ...],
    params: Any,
    biased: bool,
    count: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    sizes: list[int],
) -> tuple[Any, list[Any]]:
    """(outputs, last states) of stacked layers; states are (layers * directions, batch, n)."""
    projected = len(states) > 1 and states[0].shape[-1] != states[1].shape[-1]
    n_weights, n_directions = 4 if biased else 2, 1 + bidirectional
    n_params = n_weights + projected
    expected = n_params * n_directions * count
    if len(params) != expected:
        raise RuntimeError(
            f"{kind}: got an incorrect number of RNN parameters: {expected} are needed, "
            f"not {len(params)}"
        )
    last: list[list[Any]] = [[] for _ in states]
    for layer in range(count):
        outs = []
        for direction in range(n_directions):
            k = layer * n_directions + direction
            weights = [*params[k * n_params : k * n_params + n_weights], None, None][:4]
            weights.append(params[k * n_params + n_weights] if projected else None)
            start = tuple(ops.select(s, 0, k) for s in states)
            out, end = run_direction(ops, kind, x, start, weights, sizes, direction == 1)
            outs.append(out)
            for states_of, s in zip(last, end):
                states_of.append(s)
        x = outs[0] if n_directions == 1 else ops.cat(outs, -1)
        if dropout and train and layer < count - 1:
            x = ops.dropout(x, dropout, True)
    return x, [ops.stack(states_of, 0) for states_of in last]


def check_states(kind: str, states: Any, params: Any, count: int, batch: int) -> None:
    """Raises RuntimeError unless each state is (layers * directions, N, its size)."""
    n_states = 2 if kind == "lstm" else 1
    if len(states) != n_states:
        raise RuntimeError(f"{kind}: the state has {n_states} tensors, (h, c): got {len(states)}")
    if len(params) < 2:
        return  # which is refused with the number that is needed
    w_hh = params[1]
    sizes = (w_hh.shape[-1], w_hh.shape[0] // GATES[kind])
    for i, (state, size) in enumerate(zip(states, sizes)):
        if tuple(state.shape) != (count, batch, size):
            name = f"hidden[{i}]" if n_states > 1 else "hidden"
            raise RuntimeError(
                f"{kind}: Expected {name} size {(count, batch, size)}, got {list(state.shape)}"
            )


def run_network(
    ops: Any, kind: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, ...]:
    """Both forms: (input, hx, params, ...) and (data, batch_sizes, hx, params, ...)."""
    names = ["hx", "params", "has_biases", "num_layers", "dropout", "train", "bidirectional"]
    is_packed = len(args) > 3 and isinstance(args[3], (list, tuple))
    x, *remaining = args
    sizes: Any = None
    if is_packed:
        sizes, *remaining = remaining
    arguments = {**dict(zip([*names, "batch_first"], remaining)), **kwargs}
    if missing := [name for name in names if name not in arguments]:
        raise TypeError(f"{kind}: missing arguments: {', '.join(missing)}")
    hx = arguments["hx"]
    states = tuple(hx) if kind == "lstm" else (hx,)
    batch_first = bool(arguments.get("batch_first", False)) and not is_packed
    if batch_first:
        x = ops.transpose(x, 0, 1)
    lead = tuple(x.shape[:-1])
    if not x.shape[0]:
        raise RuntimeError(f"{kind}: Expected sequence length to be larger than 0: {lead}")
    steps = [int(n) for n in sizes.tolist()] if is_packed else [lead[1]] * lead[0]
    batch, rows = states[0].shape[1], lead[0] if is_packed else lead[0] * lead[1]
    is_wrong = steps[0] != batch or steps != sorted(steps, reverse=True) or sum(steps) != rows
    if is_packed and is_wrong:
        raise RuntimeError(
            f"{kind}: batch sizes must begin with the state's, never increase, and sum to the rows "
            f"of the input: {steps[:8]}, state {tuple(states[0].shape)}, input {tuple(x.shape)}"
        )
    count = arguments["num_layers"] * (1 + bool(arguments["bidirectional"]))
    check_states(kind, states, arguments["params"], count, steps[0])
    flat = x if is_packed else ops.reshape(x, (rows, x.shape[-1]))
    out, last = run_layers(
        ops, kind, flat, states, list(arguments["params"]), arguments["has_biases"],
        arguments["num_layers"], arguments["dropout"], arguments["train"],
        bool(arguments["bidirectional"]), steps,
    )  # fmt: skip
    if not is_packed:
        out = ops.reshape(out, (*lead, out.shape[-1]))
        out = ops.transpose(out, 0, 1) if batch_first else out
    return (out, *last)


def run_cell(ops: Any, kind: str, x: Any, state: tuple[Any, ...], weights: Any) -> tuple[Any, ...]:
    """One step of one cell."""
    w_ih, w_hh, b_ih, b_hh = weights
    if kind == "lstm" and len(state) != 2:
        raise RuntimeError(f"lstm: the state has 2 tensors, (h, c): got {len(state)}")
    check_sizes(kind, x, state, (*weights, None))
    if state[0].shape[:-1] != x.shape[:-1]:
        raise RuntimeError(
            f"{kind}: hidden0 has inconsistent size: got {tuple(state[0].shape)}, expected "
            f"{(*x.shape[:-1], state[0].shape[-1])}"
        )
    return step(ops, kind, ops.linear(x, w_ih, b_ih), state, w_hh, b_hh)


@composite
def _rnn(ops, kind, args, kwargs):
    """Layers of cells of a kind."""
    return run_network(ops, kind, args, kwargs)


@composite
def _rnn_cell(ops, kind, x, state, weights):
    """One step of a cell of a kind."""
    return run_cell(ops, kind, x, state, weights)
