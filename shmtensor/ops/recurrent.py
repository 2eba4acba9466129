"""Recurrent networks as functions: cells (Elman 1990; Hochreiter and Schmidhuber 1997; Cho et al.
2014), and layers of them in one or two directions. Plain Python over other ops.
"""

from __future__ import annotations

from typing import Any

from .table import composite

GATES = {"lstm": 4, "gru": 3, "tanh": 1, "relu": 1}


def stepped(ops: Any, kind: str, x: Any, state: tuple[Any, ...], w: Any, b: Any) -> tuple[Any, ...]:
    """The state after one step; x is the input's share of the gates, w and b are the state's."""
    h = state[0]
    back = ops.linear(h, w, b)
    if kind == "lstm":
        i, f, g, o = ops.chunk(x + back, 4, -1)
        c = ops.sigmoid(f) * state[1] + ops.sigmoid(i) * ops.tanh(g)
        return ops.sigmoid(o) * ops.tanh(c), c
    if kind == "gru":
        (r, z, n), (hr, hz, hn) = ops.chunk(x, 3, -1), ops.chunk(back, 3, -1)
        r, z = ops.sigmoid(r + hr), ops.sigmoid(z + hz)
        n = ops.tanh(n + r * hn)
        return ((h - n) * z + n,)
    return ((ops.tanh if kind == "tanh" else ops.relu)(x + back),)


def fitting(kind: str, x: Any, h: Any, w_ih: Any, w_hh: Any) -> None:
    """Raises RuntimeError unless sizes of input, state and weights agree."""
    n = GATES[kind] * h.shape[-1]
    if w_ih.shape[-1] != x.shape[-1] or w_ih.shape[0] != n or w_hh.shape[0] != n:
        raise RuntimeError(
            f"{kind}: sizes differ: input {tuple(x.shape)}, state {tuple(h.shape)}, weights "
            f"{tuple(w_ih.shape)}, {tuple(w_hh.shape)}"
        )


def one_way(
    ops: Any, kind: str, x: Any, state: Any, weights: Any, sizes: list[int], turned: bool
) -> tuple[Any, Any]:
    """(outputs, last state) of one layer in one direction; x is packed: step after step, of
    sizes[t] sequences each.
    """
    w_ih, w_hh, b_ih, b_hh = weights
    fitting(kind, x, state[0], w_ih, w_hh)
    parts = ops.split(ops.linear(x, w_ih, b_ih), sizes, 0)
    made: list[Any] = [None] * len(sizes)
    for t in reversed(range(len(sizes))) if turned else range(len(sizes)):
        n, total = sizes[t], state[0].shape[0]
        here = state if n == total else tuple(ops.narrow(s, 0, 0, n) for s in state)
        new = stepped(ops, kind, parts[t], here, w_hh, b_hh)
        made[t] = new[0]
        if n < total:
            rest = (ops.narrow(s, 0, n, total - n) for s in state)
            new = tuple(ops.cat([a, b], 0) for a, b in zip(new, rest))
        state = new
    return ops.cat(made, 0), state


def layers(
    ops: Any,
    kind: str,
    x: Any,
    states: tuple[Any, ...],
    params: Any,
    biased: bool,
    count: int,
    dropout: float,
    train: bool,
    two: bool,
    sizes: list[int],
) -> tuple[Any, list[Any]]:
    """(outputs, last states) of layers one on the other; states are (layers * ways, batch, n)."""
    step, ways = 4 if biased else 2, 1 + two
    if len(params) != step * ways * count:
        raise RuntimeError(
            f"{kind}: {step * ways * count} weights are needed, not {len(params)} (projections are "
            "not supported)"
        )
    last: list[list[Any]] = [[] for _ in states]
    for layer in range(count):
        outs = []
        for way in range(ways):
            k = layer * ways + way
            weights = [*params[k * step : (k + 1) * step], None, None][:4]
            start = tuple(ops.select(s, 0, k) for s in states)
            out, end = one_way(ops, kind, x, start, weights, sizes, way == 1)
            outs.append(out)
            for found, s in zip(last, end):
                found.append(s)
        x = outs[0] if ways == 1 else ops.cat(outs, -1)
        if dropout and train and layer < count - 1:
            x = ops.dropout(x, dropout, True)
    return x, [ops.stack(found, 0) for found in last]


def run(ops: Any, kind: str, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
    """Both forms: (input, hx, params, ...) and (data, batch_sizes, hx, params, ...)."""
    names = ["hx", "params", "has_biases", "num_layers", "dropout", "train", "bidirectional"]
    packed = len(args) > 3 and isinstance(args[3], (list, tuple))
    x, *rest = args
    sizes: Any = None
    if packed:
        sizes, *rest = rest
    given = {**dict(zip([*names, "batch_first"], rest)), **named}
    if missing := [name for name in names if name not in given]:
        raise TypeError(f"{kind}: missing arguments: {', '.join(missing)}")
    hx = given["hx"]
    states = tuple(hx) if kind == "lstm" else (hx,)
    first = bool(given.get("batch_first", False)) and not packed
    if first:
        x = ops.transpose(x, 0, 1)
    lead = tuple(x.shape[:-1])
    steps = [int(n) for n in sizes.tolist()] if packed else [lead[1]] * lead[0]
    flat = x if packed else ops.reshape(x, (-1, x.shape[-1]))
    out, last = layers(
        ops, kind, flat, states, list(given["params"]), given["has_biases"], given["num_layers"],
        given["dropout"], given["train"], bool(given["bidirectional"]), steps,
    )  # fmt: skip
    if not packed:
        out = ops.reshape(out, (*lead, out.shape[-1]))
        out = ops.transpose(out, 0, 1) if first else out
    return (out, *last)


def cell(ops: Any, kind: str, x: Any, state: tuple[Any, ...], weights: Any) -> tuple[Any, ...]:
    """One step of one cell."""
    w_ih, w_hh, b_ih, b_hh = weights
    fitting(kind, x, state[0], w_ih, w_hh)
    return stepped(ops, kind, ops.linear(x, w_ih, b_ih), state, w_hh, b_hh)


@composite(method=False, function=False)
def recurrent_run(ops, kind, args, named):
    """Layers of cells of a kind."""
    return run(ops, kind, args, named)


@composite(method=False, function=False)
def recurrent_cell(ops, kind, x, state, weights):
    """One step of a cell of a kind."""
    return cell(ops, kind, x, state, weights)
