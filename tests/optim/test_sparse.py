"""Optimizers on sparse gradients: the trajectory of dense gradients where it is the same, otherwise
that of the formula and PyTorch's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn, optim

START = np.random.default_rng(0).normal(size=(6, 3))
STEPS = [
    (np.random.default_rng(i).integers(0, 6, 4), np.random.default_rng(-i & 9).normal(size=(4, 3)))
    for i in range(1, 6)
]


def trained(kind: str, options: dict[str, Any], sparse: bool = True, lib: Any = st) -> Any:
    w = lib.nn.Parameter(lib.tensor(START.copy()))
    o = getattr(lib.optim, kind)([w], **options)
    for index, factors in STEPS:
        o.zero_grad()
        rows = lib.nn.functional.embedding(lib.tensor(index), w, sparse=sparse)
        (rows.sin() * lib.tensor(factors)).sum().backward()
        o.step()
    return w.detach().numpy()


SAME = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "maximize": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.2}),
    ("Adagrad", {"lr": 0.1, "initial_accumulator_value": 0.3, "maximize": True}),
]
LAZY = [("SparseAdam", {"lr": 0.1}), ("SparseAdam", {"betas": (0.5, 0.9), "eps": 0.1})]


@pytest.mark.parametrize(("kind", "options"), SAME)
def test_steps_are_those_of_dense_gradients(kind: str, options: dict[str, Any]) -> None:
    dense = trained(kind, options, sparse=False)
    assert not np.allclose(dense, START)
    np.testing.assert_allclose(trained(kind, options), dense, rtol=1e-10)


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:Sparse invariant")  # PyTorch's
@pytest.mark.parametrize(("kind", "options"), LAZY)
def test_trajectory_is_pytorchs(kind: str, options: dict[str, Any]) -> None:
    import torch

    theirs = trained(kind, options, lib=torch)
    np.testing.assert_allclose(trained(kind, options), theirs, rtol=1e-10)


def test_sparse_adam_updates_only_its_elements() -> None:
    p, m, v = START.copy(), np.zeros((6, 3)), np.zeros((6, 3))
    for t, (index, factors) in enumerate(STEPS, 1):
        g = np.zeros((6, 3))
        np.add.at(g, index, factors * np.cos(p[index]))
        for row in set(index.tolist()):
            m[row] = 0.9 * m[row] + 0.1 * g[row]
            v[row] = 0.999 * v[row] + 0.001 * g[row] ** 2
            length = 0.05 * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
            p[row] -= length * m[row] / (np.sqrt(v[row]) + 1e-8)
    np.testing.assert_allclose(trained("SparseAdam", {"lr": 0.05}), p, rtol=1e-10)


def test_state_is_restored() -> None:
    table = nn.Embedding(5, 2, sparse=True)
    o = optim.SparseAdam(table.parameters())
    table(st.tensor([1, 3])).sum().backward()
    o.step()
    other = optim.SparseAdam(table.parameters())
    other.load_state_dict(o.state_dict())
    (state,) = other.state.values()
    assert state["step"] == 1
    assert set(state) == {"step", "exp_avg", "exp_avg_sq"}
    assert state["exp_avg"][1].tolist() == pytest.approx([0.1, 0.1])
    table.zero_grad(set_to_none=False)  # a gradient without elements counts as a step
    before = table.weight.detach().clone()
    o.step()
    assert o.state[table.weight]["step"] == 2
    assert np.array_equal(before.numpy(), table.weight.detach().numpy())


def test_incompatible_arguments_are_an_error() -> None:
    table = nn.Embedding(5, 2, sparse=True)
    table(st.tensor([1])).sum().backward()
    before = table.weight.detach().clone()
    for kind, options, text in (
        (optim.Adam, {}, "Adam does not support sparse gradients, please consider SparseAdam"),
        (optim.AdamW, {}, "does not support sparse gradients"),
        (optim.SGD, {"weight_decay": 0.1}, "weight_decay"),
        (optim.Adagrad, {"weight_decay": 0.1}, "weight_decay option is not compatible"),
    ):
        with pytest.raises(RuntimeError, match=text):
            kind(table.parameters(), **options).step()
    dense = nn.Linear(2, 2)
    dense(st.ones(1, 2)).sum().backward()
    with pytest.raises(RuntimeError, match="SparseAdam does not support dense gradients"):
        optim.SparseAdam([*table.parameters(), *dense.parameters()]).step()
    assert np.array_equal(before.numpy(), table.weight.detach().numpy())
    for kind, options in (
        (optim.SparseAdam, {"lr": 0}),
        (optim.SparseAdam, {"eps": 0}),
        (optim.SparseAdam, {"betas": (1.0, 0.9)}),
        (optim.Adagrad, {"lr_decay": -1}),
        (optim.Adagrad, {"initial_accumulator_value": -1}),
    ):
        with pytest.raises(ValueError, match="Invalid"):
            kind(table.parameters(), **options)


def test_sparse_and_dense_parameters_in_one_optimizer_and_a_gradient_that_changes_its_layout() -> (
    None
):
    model = nn.Sequential(nn.Embedding(6, 3, sparse=True), nn.Linear(3, 2)).double()
    twin = nn.Sequential(nn.Embedding(6, 3), nn.Linear(3, 2)).double()
    twin.load_state_dict(model.state_dict())
    for m in (model, twin):
        o = optim.SGD(m.parameters(), lr=0.1)
        for index, factors in STEPS:
            o.zero_grad()
            out = m(st.tensor(index))
            (out * st.tensor(factors[:, :2])).sum().backward()
            if index[0] % 2:
                m[0].weight.square().sum().backward()
            o.step()
    for p, q in zip(model.parameters(), twin.parameters(), strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-12)


def test_a_table_with_sparse_gradients_takes_no_memory_for_dense_ones() -> None:
    table = nn.Embedding(6, 3, sparse=True)
    o = optim.SGD(table.parameters(), lr=0.1)
    table(st.tensor([1])).sum().backward()
    o.step()
    (flat,) = o._flats
    assert flat.gradient is None
    table.weight.sum().backward()
    o.step()
    assert flat.gradient is not None
