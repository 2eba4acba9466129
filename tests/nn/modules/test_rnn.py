"""RNN, LSTM and GRU against loops over time in NumPy; what they accept and refuse."""

from __future__ import annotations

import copy
import functools
import math
import pickle
import re
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn
from shmtensor.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def step(mode: str, x: Any, states: Any, w: list[Any]) -> Any:
    """One step of one layer, all in NumPy; w: weights, biases, and the projection if there is."""
    h, a, b = states[0], x @ w[0].T + w[2], states[0] @ w[1].T + w[3]
    if mode == "LSTM":
        i, f, g, o = np.split(a + b, 4, -1)
        c = sigmoid(f) * states[1] + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        return (h @ w[4].T if len(w) > 4 else h), c
    if mode == "GRU":
        (r, z, n), (hr, hz, hn) = np.split(a, 3, -1), np.split(b, 3, -1)
        z = sigmoid(z + hz)
        return ((1 - z) * np.tanh(n + sigmoid(r + hr) * hn) + z * h,)
    return (np.tanh(a + b) if mode == "RNN_TANH" else np.maximum(a + b, 0),)


def expected(m: Any, x: Any, lengths: list[int]) -> Any:
    """(padded output, states) of x (L, N, n), sequence after sequence."""
    weights = [[p.detach().numpy() for p in w] for w in m.all_weights]
    ways = 2 if m.bidirectional else 1
    outputs, lasts = [], []
    for k, length in enumerate(lengths):
        rows, last = x[:length, k], []
        for layer in range(m.num_layers):
            sides = []
            for direction in range(ways):
                w = weights[layer * ways + direction]
                state: Any = [np.zeros(w[1].shape[1])]
                if m.mode == "LSTM":
                    state.append(np.zeros(m.hidden_size))
                side = np.zeros((length, w[1].shape[1]))
                for t in range(length)[:: -1 if direction else 1]:
                    state = step(m.mode, rows[t], state, w)
                    side[t] = state[0]
                sides.append(side)
                last.append(state)
            rows = np.concatenate(sides, -1)
        outputs.append(np.pad(rows, ((0, len(x) - length), (0, 0))))
        lasts.append(last)
    return np.stack(outputs, 1), [np.array([[s[i] for s in last] for last in lasts]).swapaxes(0, 1)
                                  for i in range(len(lasts[0][0]))]  # fmt: skip


GRID = [
    (nn.RNN, {}),
    (nn.RNN, {"nonlinearity": "relu", "bidirectional": True, "num_layers": 2}),
    (nn.GRU, {"bidirectional": True}),
    (nn.GRU, {"num_layers": 2}),
    (nn.LSTM, {}),
    (nn.LSTM, {"num_layers": 2, "bidirectional": True}),
    (nn.LSTM, {"num_layers": 2, "bidirectional": True, "proj_size": 2}),
]


@pytest.mark.parametrize("dtype", [st.float64, st.float32])
@pytest.mark.parametrize(("kind", "kwargs"), GRID)
def test_layers_are_loops_over_time(kind: Any, kwargs: Any, dtype: Any) -> None:
    m = kind(3, 4, dtype=dtype, **kwargs)
    x = st.randn(5, 3, 3, dtype=dtype)
    near = {"rtol": 1e-4, "atol": 1e-5} if dtype == st.float32 else {"rtol": 1e-9, "atol": 1e-12}
    for lengths in ([5, 5, 5], [5, 3, 1]):
        out, last = expected(m, x.numpy(), lengths)
        if min(lengths) == 5:
            output, states = m(x)
        else:
            packed_output, states = m(pack_padded_sequence(x, lengths))
            output, _ = pad_packed_sequence(packed_output)
        np.testing.assert_allclose(output.detach().numpy(), out, **near)
        states = states if kind is nn.LSTM else (states,)
        for h, value in zip(states, last):
            assert h.shape == value.shape
            np.testing.assert_allclose(h.detach().numpy(), value, **near)


@pytest.mark.parametrize(("kind", "kwargs"), GRID)
def test_unsorted_batch_first_and_single_sequences_agree(kind: Any, kwargs: Any) -> None:
    m = kind(3, 4, batch_first=True, dtype=st.float64, **kwargs)
    x, lengths = st.randn(3, 5, 3, dtype=st.float64), [2, 5, 4]
    packed_output, last = m(
        pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    )
    out, output_lengths = pad_packed_sequence(packed_output, batch_first=True)
    assert output_lengths.tolist() == lengths
    for k, n in enumerate(lengths):
        single, states = m(x[k, :n])
        assert single.shape == (n, out.shape[2])
        np.testing.assert_allclose(out[k, :n].detach().numpy(), single.detach().numpy())
        pairs = zip(states, last) if kind is nn.LSTM else [(states, last)]
        for one, every in pairs:
            np.testing.assert_allclose(one.detach().numpy(), every[:, k].detach().numpy())


@pytest.mark.parametrize(("kind", "kwargs"), GRID)
def test_a_sequence_continues_from_its_last_state(kind: Any, kwargs: Any) -> None:
    if kwargs.get("bidirectional"):
        return
    m = kind(3, 4, dtype=st.float64, **kwargs)
    x = st.randn(6, 2, 3, dtype=st.float64)
    full, _ = m(x)
    first, state = m(x[:2])
    second, _ = m(x[2:], state)
    np.testing.assert_allclose(st.cat([first, second]).detach().numpy(), full.detach().numpy())


def test_dropout_is_between_layers() -> None:
    m = nn.LSTM(2, 3, num_layers=2, dropout=1.0)
    x = st.randn(4, 1, 2)
    first, second = m(x)[0], m(x * 2)[0]
    np.testing.assert_array_equal(first.detach().numpy(), second.detach().numpy())
    m.eval()
    assert not np.array_equal(m(x)[0].detach().numpy(), m(x * 2)[0].detach().numpy())
    with pytest.warns(UserWarning, match=r"dropout=0.5 and num_layers=1"):
        nn.GRU(2, 3, dropout=0.5)


def test_weights_have_pytorchs_names_and_bounds() -> None:
    m = nn.LSTM(5, 16, num_layers=2, bidirectional=True, proj_size=3, bias=False)
    assert list(m.state_dict())[:4] == [
        "weight_ih_l0",
        "weight_hh_l0",
        "weight_hr_l0",
        "weight_ih_l0_reverse",
    ]
    assert [[tuple(p.shape) for p in w] for w in m.all_weights][2] == [(64, 6), (64, 3), (3, 16)]
    for p in m.parameters():
        assert 0.15 < np.abs(p.detach().numpy()).max() <= 1 / math.sqrt(16)
    m.flatten_parameters()


def test_layers_are_copied_pickled_and_cast() -> None:
    m = nn.GRU(2, 3)
    x = st.randn(3, 1, 2)
    for other in (copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        np.testing.assert_array_equal(other(x)[0].detach().numpy(), m(x)[0].detach().numpy())
    assert m.double()(x.double())[0].dtype == st.float64
    m.weight_ih_l0 = nn.Parameter(st.zeros(9, 2, dtype=st.float64))
    assert (m(x.double())[0][0] - m(x.double() * 2)[0][0]).abs().max().item() == 0


def test_old_pickles_have_no_projection() -> None:
    m = nn.LSTM(2, 3)
    state = m.__dict__.copy()
    del state["proj_size"]
    old = nn.LSTM.__new__(nn.LSTM)
    old.__setstate__(state)
    assert old.proj_size == 0
    assert old(st.ones(2, 1, 2))[0].shape == (2, 1, 3)


def test_16_bits_and_autocast() -> None:
    m = nn.LSTM(2, 3)
    x = st.randn(3, 1, 2)
    out = m(x)[0].detach().numpy()
    half = copy.deepcopy(m).bfloat16()(x.bfloat16())[0]
    assert half.dtype == st.bfloat16
    np.testing.assert_allclose(half.detach().float().numpy(), out, atol=0.05)
    with st.autocast("cpu", dtype=st.bfloat16):
        result = m(x.bfloat16(), None)[0]
    np.testing.assert_allclose(result.detach().float().numpy(), out, atol=0.05)


def test_an_empty_batch_is_allowed_and_an_empty_sequence_is_an_error() -> None:
    m = nn.LSTM(2, 3, proj_size=1)
    out, (h, c) = m(st.ones(2, 0, 2))
    assert (out.shape, h.shape, c.shape) == ((2, 0, 1), (1, 0, 1), (1, 0, 3))
    out.sum().backward()
    assert m.weight_hh_l0.grad.shape == (12, 1)
    with pytest.raises(RuntimeError, match="larger than 0"):
        m(st.ones(0, 2, 2))


def test_rnn_base_has_no_forward() -> None:
    m = nn.RNNBase("GRU", 2, 3)
    assert m.get_expected_hidden_size(st.ones(4, 5, 2), None) == (1, 5, 3)
    with pytest.raises(NotImplementedError):
        m(st.ones(4, 5, 2))


@pytest.mark.parametrize(
    ("kwargs", "error", "words"),
    [
        ({"dropout": 2}, ValueError, ": 2"),
        ({"dropout": True}, ValueError, "True"),
        ({"bias": 1}, TypeError, "got int, 1"),
        ({"batch_first": 1}, TypeError, "got int, 1"),
        ({"input_size": 2.0}, TypeError, "float, 2.0"),
        ({"input_size": 0}, ValueError, "zero: 0"),
        ({"hidden_size": 0}, ValueError, "zero: 0"),
        ({"num_layers": 0}, ValueError, "zero: 0"),
        ({"proj_size": 3}, ValueError, "3, hidden_size is 3"),
        ({"proj_size": -1}, ValueError, "-1"),
    ],
)
def test_wrong_arguments_are_named(kwargs: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        nn.LSTM(**{"input_size": 2, "hidden_size": 3, **kwargs})
    if "proj_size" in kwargs:
        with pytest.raises(ValueError, match="proj_size"):
            nn.GRU(2, 3, **kwargs)


def test_unknown_modes_are_named() -> None:
    with pytest.raises(ValueError, match="'sigmoid'"):
        nn.RNN(2, 3, nonlinearity="sigmoid")
    with pytest.raises(ValueError, match="'GR'"):
        nn.RNNBase("GR", 2, 3)
    with pytest.raises(ValueError, match=r"only supported for LSTM.*: 2"):
        nn.RNN(2, 3, proj_size=2)


@pytest.mark.parametrize(
    ("x", "hx", "error", "words"),
    [
        ((2,), None, ValueError, r"1D: \(2,\)"),
        ((2, 2, 3), None, RuntimeError, "Expected 2, got 3"),
        ((2, 2, 2), (2, 2, 3), RuntimeError, r"hidden\[0\] size \(1, 2, 3\), got \[2, 2, 3\]"),
        ((2, 2, 2), (2, 3), RuntimeError, r"batched 3-D input.*2-D, 2-D"),
        ((2, 2), (1, 1, 3), RuntimeError, r"unbatched 2-D input.*3-D, 3-D"),
    ],
)
def test_wrong_calls_are_named(x: Any, hx: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        nn.LSTM(2, 3)(st.ones(*x), hx and (st.zeros(*hx), st.zeros(*hx)))


def test_another_dtype_is_named() -> None:
    with pytest.raises(ValueError, match=r"float64.*float32"):
        nn.LSTM(2, 3)(st.ones(2, 2, 2).double())


def state_cases() -> Any:
    """(layer, index of the wrong part of the state, its right shape, a wrong one); N is 3."""
    for bidirectional in (False, True):
        for layers in (1, 2):
            n = layers * (1 + bidirectional)
            for make, sizes in (
                (nn.RNN, [4]), (nn.GRU, [4]), (nn.LSTM, [4, 4]),
                (functools.partial(nn.LSTM, proj_size=2), [2, 4]),
            ):  # fmt: skip
                for i, size in enumerate(sizes):
                    for wrong in ((n, 1, size), (n, 2, size), (n, 5, size), (n, 3, size + 1),
                                  (n + 1, 3, size)):  # fmt: skip
                        layer = make(3, 4, num_layers=layers, bidirectional=bidirectional)
                        yield layer, sizes, i, (n, 3, size), wrong


@pytest.mark.parametrize("form", ["plain", "packed", "packed in any order", "batch first"])
def test_a_state_of_another_size_is_named(form: str) -> None:
    x = st.randn(5, 3, 3)
    for layer, sizes, i, right, wrong in state_cases():
        input: Any = x
        if form == "batch first":
            layer.batch_first, input = True, x.transpose(0, 1)
        elif form != "plain":
            in_order = form == "packed"
            lengths = [5, 4, 2] if in_order else [2, 5, 4]
            input = nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=in_order)
        states = [st.zeros(*right[:2], size) for size in sizes]
        states[i] = st.zeros(wrong)
        hx = tuple(states) if len(sizes) == 2 else states[0]
        name = rf"hidden\[{i}\]" if len(sizes) == 2 else "hidden"
        message = rf"Expected {name} size {re.escape(f'{right}, got {list(wrong)}')}"
        with pytest.raises(RuntimeError, match=message):
            layer(input, hx)


@pytest.mark.parametrize("packed", [False, True])
def test_a_state_of_other_parts_is_named(packed: bool) -> None:
    x: Any = st.randn(5, 3, 3)
    x = nn.utils.rnn.pack_padded_sequence(x, [2, 5, 4], enforce_sorted=False) if packed else x
    h = st.zeros(1, 3, 4)
    for hx in (h, (h,), (h, h, h), (h, None)):
        with pytest.raises(TypeError, match=r"LSTM: the state has to be two tensors, \(h, c\)"):
            nn.LSTM(3, 4)(x, hx)
    with pytest.raises(TypeError, match="GRU: the state has to be a tensor: got tuple"):
        nn.GRU(3, 4)(x, (h, h))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn_tanh", "rnn_relu"])
def test_states_and_weights_that_do_not_fit_are_named_by_the_functions(kind: str) -> None:
    layer = {"lstm": nn.LSTM, "gru": nn.GRU}.get(kind, nn.RNN)(3, 4)
    x, right = st.randn(5, 3, 3), st.zeros(1, 3, 4)
    options = (layer._flat_weights, True, 1, 0.0, False, False, False)
    with pytest.raises(RuntimeError, match="4 are needed, not 3"):
        getattr(st, kind)(
            x, (right, right) if kind == "lstm" else right, options[0][:3], *options[1:]
        )
    for shape in ((1, 2, 4), (1, 4, 4), (2, 3, 4), (1, 3, 5)):
        wrong = st.zeros(shape)
        for hx in ((wrong, right), (right, wrong)) if kind == "lstm" else (wrong,):
            with pytest.raises(RuntimeError, match=rf"{re.escape(str(list(shape)))}"):
                getattr(st, kind)(x, hx, *options)
