"""Recurrent layers and packed sequences against PyTorch, with the same weights."""

from __future__ import annotations

import inspect
import itertools
from typing import Any

import numpy as np
import pytest
import torch

import shmtensor as st

pytestmark = pytest.mark.torch

KINDS = ["RNN", "GRU", "LSTM"]
GRID = [
    (kind, layers, two, proj)
    for kind, layers, two, proj in itertools.product(KINDS, (1, 2), (False, True), (0, 2))
    if not proj or kind == "LSTM"
]


def both(kind: str, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """Our layer and PyTorch's with the same weights, float64."""
    theirs = getattr(torch.nn, kind)(*args, **kwargs).double()
    ours = getattr(st.nn, kind)(*args, **kwargs).double()
    ours.load_state_dict({k: st.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    return ours, theirs


def close(ours: Any, theirs: Any) -> None:
    assert tuple(ours.shape) == tuple(theirs.shape)
    np.testing.assert_allclose(
        ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-8, atol=1e-10
    )


def flat(values: Any) -> list[Any]:
    return [v for x in values for v in flat(x)] if isinstance(values, (tuple, list)) else [values]


def compare(ours: Any, theirs: Any, call: Any, x: Any) -> None:
    """Outputs, and gradients of input and weights."""
    a = st.tensor(x, requires_grad=True)
    b = torch.tensor(x, requires_grad=True)
    result, expected = flat(call(st, ours, a)), flat(call(torch, theirs, b))
    assert len(result) == len(expected)
    factors = [np.random.default_rng(i).standard_normal(v.shape) for i, v in enumerate(expected)]
    for v, w in zip(result, expected):
        close(v, w)
    sum((v * st.tensor(f)).sum() for v, f in zip(result, factors)).backward()
    sum((v * torch.tensor(f)).sum() for v, f in zip(expected, factors)).backward()
    close(a.grad, b.grad)
    for (name, p), (other, q) in zip(ours.named_parameters(), theirs.named_parameters()):
        assert name == other
        close(p.grad, q.grad)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("kind", "layers", "two", "proj"), GRID)
def test_layers(kind: str, layers: int, two: bool, proj: int, bias: bool) -> None:
    kwargs = {"proj_size": proj} if proj else {}
    ours, theirs = both(kind, 3, 4, layers, bias=bias, bidirectional=two, **kwargs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert repr(ours) == repr(theirs)
    x = np.random.default_rng(0).standard_normal((5, 3, 3))
    compare(ours, theirs, lambda xp, m, v: m(v), x)
    compare(ours.float().double(), theirs.float().double(), lambda xp, m, v: m(v[:, 0]), x)

    def states(xp: Any, v: Any) -> Any:
        size = (layers * (1 + two), v.shape[1], proj or 4)
        h = v.sum() + xp.ones(size, dtype=xp.float64)
        c = v.mean() * xp.ones((*size[:2], 4), dtype=xp.float64)
        return (h, c) if kind == "LSTM" else h

    def run_packed(xp: Any, m: Any, v: Any) -> Any:
        pack = xp.nn.utils.rnn.pack_padded_sequence(v, [2, 5, 4], enforce_sorted=False)
        out, last = m(pack, states(xp, v))
        return xp.nn.utils.rnn.pad_packed_sequence(out)[0], last

    compare(ours, theirs, run_packed, x)


@pytest.mark.parametrize("kind", KINDS)
def test_batch_first(kind: str) -> None:
    ours, theirs = both(kind, 3, 4, batch_first=True, bidirectional=True)
    x = np.random.default_rng(1).standard_normal((2, 4, 3))
    compare(ours, theirs, lambda xp, m, v: m(v), x)


@pytest.mark.parametrize("kind", ["RNNCell", "GRUCell", "LSTMCell"])
def test_cells(kind: str) -> None:
    ours, theirs = both(kind, 3, 4)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert repr(ours) == repr(theirs)
    assert list(inspect.signature(getattr(st.nn, kind)).parameters) == list(
        inspect.signature(getattr(torch.nn, kind)).parameters
    )
    x = np.random.default_rng(2).standard_normal((2, 3))
    compare(ours, theirs, lambda xp, m, v: m(v, m(v)), x)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("sort", [False, True])
@pytest.mark.parametrize("tail", [(), (2,), (2, 3)])
def test_packed_sequences(batch_first: bool, sort: bool, tail: tuple[int, ...]) -> None:
    x = np.random.default_rng(3).standard_normal((4, 4, *tail))
    lengths = [4, 1, 2, 3] if sort else [4, 4, 2, 1]
    results = []
    for xp in (st, torch):
        rnn = xp.nn.utils.rnn
        packed_sequence = rnn.pack_padded_sequence(xp.tensor(x), lengths, batch_first, not sort)
        assert type(packed_sequence).__name__ == "PackedSequence"
        padded = rnn.pad_packed_sequence(packed_sequence, not batch_first, 7.0, 5)
        results.append([*packed_sequence, *padded, *rnn.unpack_sequence(packed_sequence)])
    assert len(results[0]) == len(results[1])
    for a, b in zip(*results):
        assert (a is None) == (b is None)
        if a is not None:
            close(a, b)
            assert a.dtype.name == str(b.dtype).removeprefix("torch.")


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding(batch_first: bool, side: str) -> None:
    rows = [np.random.default_rng(4).standard_normal((n, 2)) for n in (2, 0, 3)]
    a, b = (
        xp.nn.utils.rnn.pad_sequence([xp.tensor(r) for r in rows], batch_first, 1.5, side)
        for xp in (st, torch)
    )
    close(a, b)


@pytest.mark.parametrize(
    "call",
    [
        lambda xp, x: xp.nn.utils.rnn.pack_padded_sequence(x, [1, 2, 3]),
        lambda xp, x: xp.nn.utils.rnn.pack_padded_sequence(x, [1, 0, 2], enforce_sorted=False),
        lambda xp, x: xp.nn.utils.rnn.pack_padded_sequence(x, [2, 1]),
        lambda xp, x: xp.nn.utils.rnn.pad_sequence([x[0], xp.ones(2, 3)]),
        lambda xp, x: xp.nn.utils.rnn.PackedSequence(x),
        lambda xp, x: xp.nn.LSTM(2, 3, proj_size=3),
        lambda xp, x: xp.nn.LSTM(2.0, 3),
        lambda xp, x: xp.nn.GRU(2, 3, dropout=3),
        lambda xp, x: xp.nn.RNN(2, 3, proj_size=1),
        lambda xp, x: xp.nn.GRU(2, 3)(x[:, 0, 0]),
        lambda xp, x: xp.nn.GRU(3, 3)(x),
        lambda xp, x: xp.nn.GRU(2, 3)(x.double()),
        lambda xp, x: xp.nn.GRU(2, 3)(x, x),
        lambda xp, x: xp.nn.GRU(2, 3)(x[0], x),
        lambda xp, x: xp.nn.GRU(2, 3)(x[:0]),
        lambda xp, x: xp.nn.LSTMCell(2, 3)(x),
        lambda xp, x: xp.nn.GRUCell(2, 3)(x[0], x[0]),
    ],
)
def test_wrong_use_has_the_same_class(call: Any) -> None:
    with pytest.raises(Exception, match=r".") as theirs:
        call(torch, torch.ones(4, 3, 2))
    with pytest.raises(theirs.type, match=r"."):
        call(st, st.ones(4, 3, 2))
