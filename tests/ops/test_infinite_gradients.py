"""Functions with the derivative 0: their gradient is zeros, also where the incoming one is infinite
or NaN, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.autograd.dispatch.op_function import declare
from shmtensor.ops.table.op_table import Row
from tests.ops.draws import calls, families

declare()  # so that all families are registered

Function = Callable[[Any, Any], Any]  # of the library and a tensor
X = [0.3, 0.2, 1.0, 0.5]
G = [float("inf"), float("nan"), -float("inf"), 1.0]

# What both libraries have.
FUNCTIONS: dict[str, Function] = {
    "floor": lambda lib, x: lib.floor(x),
    "ceil": lambda lib, x: lib.ceil(x),
    "trunc": lambda lib, x: lib.trunc(x),
    "round": lambda lib, x: lib.round(x),
    "round to decimals": lambda lib, x: lib.round(x, decimals=1),
    "sign": lambda lib, x: lib.sign(x),
    "angle": lambda lib, x: lib.angle(x),
    "copysign": lambda lib, x: lib.copysign(lib.ones(4), x),
    "div down": lambda lib, x: lib.div(x, lib.tensor(0.7), rounding_mode="floor"),
    "div towards 0": lambda lib, x: lib.div(lib.tensor(0.7), x, rounding_mode="trunc"),
    "bernoulli": lambda lib, x: lib.bernoulli(x),
    "poisson": lambda lib, x: lib.poisson(x),
    "uniform_": lambda lib, x: x.clone().uniform_(),
    "normal_": lambda lib, x: x.clone().normal_(),
    "exponential_": lambda lib, x: x.clone().exponential_(),
    "bernoulli_": lambda lib, x: x.clone().bernoulli_(),
    "random_": lambda lib, x: x.clone().random_(),
    "cdist of order 0": lambda lib, x: lib.cdist(
        x.reshape(4, 1, 1), lib.zeros(4, 1, 1), p=0.0
    ).reshape(4),
}
# What PyTorch has no derivative of, or represents differently.
OURS: dict[str, Function] = {
    "sgn": lambda lib, x: lib.sgn(x),
    "floor_divide": lambda lib, x: lib.floor_divide(x, lib.tensor(0.7)),
    "floor_divide by x": lambda lib, x: lib.floor_divide(lib.tensor(0.7), x),
    "binomial": lambda lib, x: lib.binomial(lib.full((4,), 3.0), x),
    "norm of order 0": lambda lib, x: lib.linalg.vector_norm(x.reshape(4, 1), 0, dim=1),
}


def gradient(lib: Any, function: Function, create_graph: bool) -> Any:
    x = lib.tensor(X, requires_grad=True)
    (g,) = lib.autograd.grad(function(lib, x), x, lib.tensor(G), create_graph=create_graph)
    return g


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", [*FUNCTIONS, *OURS])
def test_an_infinite_gradient_becomes_zeros(name: str, create_graph: bool) -> None:
    g = gradient(st, (FUNCTIONS | OURS)[name], create_graph)
    assert g.tolist() == [0.0] * 4
    assert g.dtype == st.float32


@pytest.mark.torch
@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_pytorch_has_zeros_as_well(name: str, create_graph: bool) -> None:
    torch = pytest.importorskip("torch")
    theirs = gradient(torch, FUNCTIONS[name], create_graph)
    assert gradient(st, FUNCTIONS[name], create_graph).tolist() == theirs.tolist()


def gradients_of(row: Row, dtype: str, value: float) -> dict[str, list[Any]]:
    """The gradients by each input of all samples, where the incoming one is this number."""
    found: dict[str, list[Any]] = {}
    for call in calls(row, dtype):
        tensors = call.tensors(requires_grad=True)
        outputs = [out for out in call.public(*tensors) if out.requires_grad]
        inputs = [
            (x.name, t)
            for x, t in zip(row.inputs, tensors, strict=True)
            if x.name in row.pullbacks
            and isinstance(t, st.Tensor)
            and t.requires_grad
            and t.numel()
        ]
        if not outputs or not inputs:
            continue
        cotangents = [
            st.full_like(out, complex(value, value) if out.is_complex() else value)
            for out in outputs
        ]
        leaves = [t for _, t in inputs]
        slopes = st.autograd.grad(outputs, leaves, cotangents, allow_unused=True)
        for (name, _), g in zip(inputs, slopes, strict=True):
            found.setdefault(name, []).append(None if g is None else g.numpy())
    return found


@pytest.mark.parametrize(**families(lambda row: row.pullbacks))
def test_what_has_no_slope_at_all_is_zeros_for_every_gradient(family: list[Row]) -> None:
    for row in family:
        if row.name == "_ctc_loss_backward":
            continue  # refuses gradients
        for name, slopes in gradients_of(row, "float64", 1.0).items():
            if any(g is None or g.any() for g in slopes):
                continue
            for value in (float("inf"), float("nan")):
                for g in gradients_of(row, "float64", value)[name]:
                    assert not np.any(g), (row.name, name)


@pytest.mark.torch
@pytest.mark.parametrize("include_self", [False, True])
def test_a_mean_passes_infinite_gradients_where_nothing_is_added(include_self: bool) -> None:
    torch = pytest.importorskip("torch")

    def slope(lib: Any) -> Any:
        x = lib.tensor(X, requires_grad=True)
        index, source = lib.tensor([1, 1]), lib.tensor([2.0, 3.0])
        out = x.scatter_reduce(0, index, source, "mean", include_self=include_self)
        cotangent = lib.tensor([float("inf"), 1.0, -float("inf"), 2.0])
        return lib.autograd.grad(out, x, cotangent)[0].tolist()

    assert slope(st) == slope(torch)
