"""A layer as one op equals the loop over other ops: values and gradients of every order."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.autograd import gradcheck, gradgradcheck
from shmtensor.ops.nn import rnn as recurrent
from shmtensor.ops.nn.rnn_layer import last_rows, previous_rows

KINDS = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
CASES = [
    (name, projected, sizes, two)
    for name, projected, sizes, two in itertools.product(
        KINDS, (False, True), ([3, 3], [3, 2, 2, 1]), (False, True)
    )
    if not projected or name == "lstm"
]


def layer(
    name: str, projected: bool, sizes: list[int], two: bool, n: int = 3, dtype: Any = st.float64
) -> tuple[Any, list[Any]]:
    """(function, operands) of a layer over packed data."""
    ways, h = 1 + two, n - 1 if projected else n
    weights = [(KINDS[name] * n, 2), (KINDS[name] * n, h), (KINDS[name] * n,), (KINDS[name] * n,)]
    if projected:
        weights.append((h, n))
    states = [(ways, sizes[0], h)] + [(ways, sizes[0], n)] * (name == "lstm")
    shapes = [(sum(sizes), 2), *states, *weights * ways]
    xs = [(st.randn(*s, dtype=dtype) * 0.7).requires_grad_() for s in shapes]

    def run(x: Any, *args: Any) -> Any:
        hx = args[:2] if name == "lstm" else args[0]
        w = list(args[len(states) :])
        return getattr(st, name)(x, st.tensor(sizes), hx, w, True, 1, 0.0, False, two)

    return run, xs


def outcome(run: Any, xs: list[Any]) -> list[Any]:
    """Values and gradients."""
    outputs = run(*xs)
    factors = [st.arange(v.numel(), dtype=v.dtype).reshape(v.shape).cos() for v in outputs]
    loss = sum((v * f).sum() for v, f in zip(outputs, factors))
    return [v.detach().numpy() for v in (*outputs, *st.autograd.grad(loss, xs))]


@pytest.mark.parametrize("dtype", [st.float32, st.float64])
@pytest.mark.parametrize(("name", "projected", "sizes", "two"), CASES)
def test_one_op_is_the_loop(
    name: str, projected: bool, sizes: list[int], two: bool, dtype: Any, monkeypatch: Any
) -> None:
    run, xs = layer(name, projected, sizes, two, 5, dtype)
    result = outcome(run, xs)
    monkeypatch.setattr(recurrent, "is_fused", lambda *_: False)
    near = 1e-4 if dtype == st.float32 else 1e-11
    for a, b in zip(result, outcome(run, xs)):
        np.testing.assert_allclose(a, b, near, near)


@pytest.mark.parametrize(("name", "projected", "sizes", "two"), [c for c in CASES if c[2][-1] == 1])
def test_gradients(name: str, projected: bool, sizes: list[int], two: bool) -> None:
    run, xs = layer(name, projected, sizes, two, 2)
    assert gradcheck(run, xs)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("kind", "extras"),
    [
        ("lstm", [(2, 2)]),
        ("lstm", [(2, 2), (1, 2)]),
        ("gru", []),
        ("gru", [(6,)]),
        ("tanh", []),
        ("relu", []),
    ],
)
def test_second_gradients(kind: str, extras: list[Any], reverse: bool) -> None:
    row, gates = recurrent.GATES[kind] * 2, 1 if len(extras) > 1 else 2
    shapes = [(3, row), (2, gates), (row, gates), *extras]
    xs = [st.randn(*s, dtype=st.float64, requires_grad=True) for s in shapes]
    ops = st.autograd.table

    def run(*xs: Any) -> Any:
        out, cells = ops._rnn_layer(list(xs), kind, (2, 1), reverse)
        return (out, cells) if kind == "lstm" else out

    assert gradgradcheck(run, xs)


@pytest.mark.parametrize("name", KINDS)
def test_recorded_gradients_are_the_kernels(name: str) -> None:
    run, xs = layer(name, False, [3, 2, 2, 1], True)
    plain = st.autograd.grad(run(*xs)[0].cos().sum(), xs)
    recorded = st.autograd.grad(run(*xs)[0].cos().sum(), xs, create_graph=True)
    for a, b in zip(plain, recorded):
        np.testing.assert_allclose(a.numpy(), b.detach().numpy(), 1e-10, 1e-12)


@pytest.mark.parametrize("name", KINDS)
def test_forward_mode_and_vmap(name: str) -> None:
    run, xs = layer(name, False, [2, 1], False)
    direction = st.randn_like(xs[0])
    _, tangent = st.func.jvp(lambda x: run(x, *xs[1:])[0], (xs[0].detach(),), (direction,))
    step = 1e-6 * direction
    ends = [run(xs[0].detach() + s, *xs[1:])[0].detach().numpy() for s in (step, -step)]
    np.testing.assert_allclose(tangent.detach().numpy(), (ends[0] - ends[1]) / 2e-6, 1e-5, 1e-8)
    batch = st.stack([xs[0].detach(), direction])
    result = st.func.vmap(lambda x: run(x, *xs[1:])[0])(batch)
    for a, b in zip(result, batch):
        np.testing.assert_allclose(a.detach().numpy(), run(b, *xs[1:])[0].detach().numpy())


def test_other_dtypes_go_by_the_loop() -> None:
    run, xs = layer("lstm", False, [2, 1], False)
    halves = [x.detach().half() for x in xs]
    out = run(*halves)[0]
    assert out.dtype == st.float16
    np.testing.assert_allclose(out.float().numpy(), run(*xs)[0].detach().numpy(), 0.05, 0.02)


def test_rows_before_and_last_rows() -> None:
    # the rows of three sequences of lengths 3, 2, 1: 0 1 2 | 3 4 | 5, behind the initial states
    assert previous_rows((3, 2, 1), False).tolist() == [0, 1, 2, 3, 4, 6]
    assert previous_rows((3, 2, 1), True).tolist() == [6, 7, 2, 8, 1, 0]
    assert last_rows((3, 2, 1)).tolist() == [5, 4, 2]


def test_batch_sizes_that_do_not_fit_are_named() -> None:
    run, xs = layer("gru", False, [2, 1], False)
    for sizes in ([1, 2], [3], [2, 2]):
        with pytest.raises(RuntimeError, match=r"never increase.*state \(1, 2, 3\)"):
            st.gru(xs[0], st.tensor(sizes), xs[1], xs[2:], True, 1, 0.0, False, False)
    with pytest.raises(RuntimeError, match=r"sizes differ.*\(8,\)"):
        run(*xs[:-1], st.ones(8, dtype=st.float64))
