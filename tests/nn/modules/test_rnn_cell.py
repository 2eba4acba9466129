"""Cells: a sequence through a cell is a sequence through the layer with its weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn

CELLS = [
    (nn.RNNCell, nn.RNN, {}),
    (nn.RNNCell, nn.RNN, {"nonlinearity": "relu"}),
    (nn.LSTMCell, nn.LSTM, {}),
    (nn.GRUCell, nn.GRU, {}),
]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("cell", "layer", "kwargs"), CELLS)
def test_a_cell_step_by_step_is_the_layer(cell: Any, layer: Any, kwargs: Any, bias: bool) -> None:
    one = cell(3, 4, bias=bias, dtype=st.float64, **kwargs)
    rnn = layer(3, 4, bias=bias, dtype=st.float64, **kwargs)
    rnn.load_state_dict({f"{name}_l0": p for name, p in one.state_dict().items()})
    x = st.randn(5, 2, 3, dtype=st.float64)
    out, _ = rnn(x)
    state = None
    for t in range(5):
        state = one(x[t], state)
        h = state[0] if cell is nn.LSTMCell else state
        np.testing.assert_allclose(h.detach().numpy(), out[t].detach().numpy())


@pytest.mark.parametrize(("cell", "layer", "kwargs"), CELLS)
def test_one_sequence_needs_no_batch(cell: Any, layer: Any, kwargs: Any) -> None:
    one = cell(3, 4, **kwargs)
    x, h = st.randn(3), st.randn(4)
    hx: Any = (h, h) if cell is nn.LSTMCell else h
    rows: Any = (h[None], h[None]) if cell is nn.LSTMCell else h[None]
    single, batch = one(x, hx), one(x[None], rows)
    if cell is not nn.LSTMCell:
        single, batch = (single,), (batch,)
    for a, b in zip(single, batch):
        assert a.shape == (4,)
        np.testing.assert_allclose(a.detach().numpy(), b[0].detach().numpy(), rtol=1e-6)


def test_repr_and_weights() -> None:
    assert repr(nn.RNNCell(2, 3, False, "relu")) == ("RNNCell(2, 3, bias=False, nonlinearity=relu)")
    m = nn.GRUCell(2, 3, bias=False)
    assert isinstance(m, nn.RNNCellBase)
    assert m.bias_ih is None
    assert {k: tuple(v.shape) for k, v in m.state_dict().items()} == {
        "weight_ih": (9, 2),
        "weight_hh": (9, 3),
    }


def test_wrong_use_is_named() -> None:
    m = nn.LSTMCell(2, 3)
    for x, hx, error, words in (
        (st.ones(1, 1, 2), None, ValueError, r"3D: \(1, 1, 2\)"),
        (st.ones(1, 3), None, RuntimeError, "got 3, expected 2"),
        (st.ones(2, 2), (st.ones(2, 3), st.ones(2, 4)), RuntimeError, r"hidden1.*\(2, 4\)"),
        (st.ones(2, 2), (st.ones(3, 3), st.ones(3, 3)), RuntimeError, r"hidden0.*\(3, 3\)"),
        (st.ones(2, 2), (st.ones(1, 2, 3), st.ones(2, 3)), ValueError, r"hx\[0\].*3D"),
    ):
        with pytest.raises(error, match=words):
            m(x, hx)
    with pytest.raises(RuntimeError, match="'gelu'"):
        nn.RNNCell(2, 3, nonlinearity="gelu")(st.ones(1, 2))


@pytest.mark.parametrize("shape", [(1, 4), (2, 4), (4, 4), (3, 5), (4,), (1, 3, 4)])
@pytest.mark.parametrize("name", ["LSTMCell", "GRUCell", "RNNCell"])
def test_a_state_of_another_size_is_an_error(name: str, shape: tuple[int, ...]) -> None:
    cell = getattr(nn, name)(3, 4)
    functions = {"LSTMCell": st.lstm_cell, "GRUCell": st.gru_cell, "RNNCell": st.rnn_tanh_cell}
    weights = (cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh)
    x, right, wrong = st.randn(3, 3), st.zeros(3, 4), st.zeros(shape)
    for hx in ((wrong, right), (right, wrong)) if name == "LSTMCell" else (wrong,):
        with pytest.raises((RuntimeError, ValueError), match=r"hidden|hx"):
            cell(x, hx)
        with pytest.raises(RuntimeError, match=r"inconsistent size|sizes differ"):
            functions[name](x, hx, *weights)


@pytest.mark.parametrize("n", [1, 3])
def test_an_lstm_cell_needs_two_states(n: int) -> None:
    with pytest.raises(RuntimeError, match=rf"2 tensors, \(h, c\): got {n}"):
        nn.LSTMCell(3, 4)(st.ones(2, 3), (st.zeros(2, 4),) * n)
