"""Recurrent networks: against plain loops, and finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.autograd import gradcheck

RANDOM = np.random.default_rng(4)
GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
CELLS = {
    "lstm": st.lstm_cell,
    "gru": st.gru_cell,
    "rnn_tanh": st.rnn_tanh_cell,
    "rnn_relu": st.rnn_relu_cell,
}


def draw(*sizes: int) -> Any:
    return st.tensor(RANDOM.standard_normal(sizes) * 0.5)


def weights(name: str, n: int, h: int, layers: int = 1, ways: int = 1) -> list[Any]:
    arrays = []
    for layer in range(layers):
        for _ in range(ways):
            width = GATES[name] * h
            size = n if layer == 0 else h * ways
            arrays += [draw(width, size), draw(width, h), draw(width), draw(width)]
    return arrays


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def step(name: str, x: Any, state: tuple[Any, ...], w: list[Any]) -> tuple[Any, ...]:
    """One step in NumPy."""
    w_ih, w_hh, b_ih, b_hh = (v.numpy() for v in w)
    a, b = x @ w_ih.T + b_ih, state[0] @ w_hh.T + b_hh
    if name == "lstm":
        i, f, g, o = np.split(a + b, 4, -1)
        c = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
        return sigmoid(o) * np.tanh(c), c
    if name == "gru":
        (r, z, n), (hr, hz, hn) = np.split(a, 3, -1), np.split(b, 3, -1)
        n = np.tanh(n + sigmoid(r + hr) * hn)
        z = sigmoid(z + hz)
        return ((1 - z) * n + z * state[0],)
    return (np.tanh(a + b) if name == "rnn_tanh" else np.maximum(a + b, 0),)


def start(name: str, k: int, batch: int, h: int) -> Any:
    return (draw(k, batch, h), draw(k, batch, h)) if name == "lstm" else draw(k, batch, h)


def states(name: str, hx: Any) -> tuple[Any, ...]:
    return tuple(s.numpy() for s in (hx if name == "lstm" else (hx,)))


@pytest.mark.parametrize("name", GATES)
def test_cells_are_one_step(name: str) -> None:
    x, w = draw(3, 5), weights(name, 5, 4)
    hx = start(name, 1, 3, 4)
    state = tuple(s[0] for s in states(name, hx))
    here = (hx[0][0], hx[1][0]) if name == "lstm" else hx[0]
    ours = CELLS[name](x, here, *w)
    ours = ours if name == "lstm" else (ours,)
    for a, b in zip(ours, step(name, x.numpy(), state, w), strict=True):
        assert np.allclose(a.numpy(), b)
    bare = CELLS[name](x, here, *w[:2])
    assert (bare[0] if name == "lstm" else bare).shape == (3, 4)
    with pytest.raises(RuntimeError, match="sizes differ"):
        CELLS[name](draw(3, 6), (hx[0][0], hx[1][0]) if name == "lstm" else hx[0], *w)


@pytest.mark.parametrize("name", GATES)
def test_layers_are_loops(name: str) -> None:
    steps, batch, n, h = 4, 3, 5, 2
    x, w, hx = draw(steps, batch, n), weights(name, n, h, 2, 2), start(name, 4, batch, h)
    out, *last = getattr(st, name)(x, hx, w, True, 2, 0.0, False, True, False)
    rows, at, ends = x.numpy(), states(name, hx), []
    for layer in range(2):
        outs = []
        for direction in range(2):
            k = 2 * layer + direction
            state = tuple(s[k] for s in at)
            outputs: list[Any] = [None] * steps
            for t in reversed(range(steps)) if direction else range(steps):
                state = step(name, rows[t], state, w[4 * k : 4 * k + 4])
                outputs[t] = state[0]
            outs.append(np.stack(outputs))
            ends.append(state)
        rows = np.concatenate(outs, -1)
    assert np.allclose(out.numpy(), rows)
    for i, s in enumerate(last):
        assert np.allclose(s.numpy(), np.stack([end[i] for end in ends]))
    batch_first = getattr(st, name)(x.transpose(0, 1), hx, w, True, 2, 0.0, False, True, True)[0]
    assert np.allclose(batch_first.transpose(0, 1).numpy(), rows)
    with pytest.raises(RuntimeError, match="16 are needed, not 3"):
        getattr(st, name)(x, hx, w[:3], True, 2, 0.0, False, True, False)


@pytest.mark.parametrize("name", GATES)
def test_packed_sequences_end_early(name: str) -> None:
    w, hx = weights(name, 3, 2, 1, 2), start(name, 2, 2, 2)
    long, short = draw(3, 1, 3), draw(2, 1, 3)
    data = st.cat([long[0], short[0], long[1], short[1], long[2]])
    sizes = st.tensor([2, 2, 1])
    out, *last = getattr(st, name)(data, sizes, hx, w, True, 1, 0.0, False, True)
    for i, x in enumerate((long, short)):
        state = (
            (hx[0][:, i : i + 1], hx[1][:, i : i + 1]) if name == "lstm" else hx[:, i : i + 1]
        )  # fmt: skip
        unpadded, *end = getattr(st, name)(x, state, w, True, 1, 0.0, False, True, False)
        rows = [0, 2, 4] if i == 0 else [1, 3]
        assert np.allclose(out[rows].numpy(), unpadded[:, 0].numpy())
        for a, b in zip(last, end, strict=True):
            assert np.allclose(a[:, i].numpy(), b[:, 0].numpy())


@pytest.mark.parametrize("name", GATES)
def test_gradients(name: str) -> None:
    w, hx = weights(name, 2, 2), start(name, 1, 1, 2)
    x = draw(3, 1, 2).requires_grad_()
    for v in w:
        v.requires_grad_()
    function = getattr(st, name)
    assert gradcheck(
        lambda x, *w: function(x, hx, list(w), True, 1, 0.0, False, False, False)[0], (x, *w)
    )
    st.manual_seed(0)
    two = weights(name, 2, 2, 2)
    dropped = function(x, start(name, 2, 1, 2), two, True, 2, 0.5, True, False, False)
    assert dropped[0].shape == (3, 1, 2)
