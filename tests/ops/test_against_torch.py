"""Semantics beside PyTorch's own, where it is installed: values, dtypes, shapes and gradients of
the corner cases.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import shmtensor as st

pytestmark = pytest.mark.torch

F = Callable[[Any, Any], Any]
X = np.array([[1.5, -2.0, np.nan, 0.0], [np.inf, -np.inf, 2.0, 2.0], [3.0, 3.0, -1.0, 0.5]])
N = np.array([[3, -7, 0, 5], [2, 2, -2, 9], [1, 1, 1, 0]])

CASES: dict[str, tuple[F, np.ndarray[Any, Any]]] = {
    "sum of ints": (lambda m, x: x.sum(), N),
    "sum of bool": (lambda m, x: (x > 1).sum(0), N),
    "sum over no dims": (lambda m, x: x.sum(()), X),
    "sum as": (lambda m, x: x.sum(1, dtype=m.float64), N),
    "mean keepdim": (lambda m, x: x.mean((0, 1), keepdim=True), X),
    "prod": (lambda m, x: x.prod(1), N),
    "division": (lambda m, x: x / 2, N),
    "floor division": (lambda m, x: x // 2, N),
    "division to floor": (lambda m, x: m.div(x, -2, rounding_mode="floor"), N),
    "division to zero": (lambda m, x: m.div(x, -2, rounding_mode="trunc"), N),
    "remainder": (lambda m, x: x % -3, N),
    "fmod": (lambda m, x: m.fmod(x, 3), N),
    "power of ints": (lambda m, x: x**2, N),
    "comparison": (lambda m, x: x >= 1.0, X),
    "maximum with NaN": (lambda m, x: m.maximum(x, x.flip(0)), X),
    "fmax with NaN": (lambda m, x: m.fmax(x, x.flip(0)), X),
    "max along": (lambda m, x: x.max(1), X),
    "min along": (lambda m, x: x.min(0, keepdim=True).values, X),
    "argmax": (lambda m, x: x.argmax(), X),
    "argmin along": (lambda m, x: x.argmin(1, keepdim=True), X),
    "median": (lambda m, x: x.median(1).values, X),
    "nanmedian": (lambda m, x: x.nanmedian(), X),
    "sort": (lambda m, x: x.sort(1, descending=True).values, X),
    "topk": (lambda m, x: x.topk(2, 0).values, X),
    "nan_to_num": (lambda m, x: m.nan_to_num(x, 1.0), X),
    "clamp": (lambda m, x: x.clamp(-1, 1), X),
    "clamp ints by floats": (lambda m, x: x.clamp(-1.5, 2.5), N),
    "round": (lambda m, x: m.round(x), X),
    "sign": (lambda m, x: x.sign(), X),
    "logsumexp": (lambda m, x: x.logsumexp(1), X),
    "softmax": (lambda m, x: x[1:2, 2:].softmax(1), X),
    "var": (lambda m, x: x[:, :2].var(), X),
    "cumsum": (lambda m, x: x.cumsum(0), N),
    "cummax": (lambda m, x: x.cummax(1).values, X),
    "unique": (lambda m, x: x.unique(return_counts=True), N),
    "nonzero": (lambda m, x: x.nonzero(), N),
    "where": (lambda m, x: m.where(x > 0, x, 0), N),
    "masked_fill": (lambda m, x: x.masked_fill(x > 1, -1), N),
    "gather": (lambda m, x: x.gather(1, m.tensor([[0, 0], [1, 3]])), N),
    "scatter_add": (lambda m, x: x.scatter_add(1, m.tensor([[0, 0, 1, 3]]), x), N),
    "index_add": (lambda m, x: x.index_add(0, m.tensor([0, 0, 2]), x), N),
    "take": (lambda m, x: x.take(m.tensor([0, 11, 5])), N),
    "chunk": (lambda m, x: x.chunk(3, 1), N),
    "tensor_split": (lambda m, x: x.tensor_split(3, 1), N),
    "unfold": (lambda m, x: x.unfold(1, 2, 1), N),
    "diag": (lambda m, x: m.diag(x, 1), N),
    "einsum": (lambda m, x: m.einsum("ij,kj->ik", x, x), N),
    "tensordot": (lambda m, x: m.tensordot(x, x, ([0, 1], [0, 1])), N),
    "cat of dtypes": (lambda m, x: m.cat([x, x > 1, x * 0.5]), N),
    "stack": (lambda m, x: m.stack([x, x], -1), N),
    "roll": (lambda m, x: x.roll((1, -1), (0, 1)), N),
    "rot90": (lambda m, x: m.rot90(x), N),
    "repeat_interleave": (lambda m, x: x.repeat_interleave(2, 0), N),
    "bitwise": (lambda m, x: (x & 3) ^ (x | 1), N),
    "shift": (lambda m, x: x << 2, N),
    "logical": (lambda m, x: m.logical_xor(x, x > 1), N),
    "erf": (lambda m, x: m.erf(x), X),
    "lgamma": (lambda m, x: m.lgamma(x), N),
    "xlogy": (lambda m, x: m.xlogy(x * 0, x), X),
    "norm": (lambda m, x: m.norm(x[2:], 3, 1), X),
    "quantile": (lambda m, x: m.quantile(x[2], m.tensor([0.1, 0.5], dtype=m.float64)), X),
    "arange": (lambda m, x: m.arange(1, 2, 0.3), X),
    "linspace": (lambda m, x: m.linspace(0, 10, 4, dtype=m.int64), X),
    "full": (lambda m, x: m.full((2,), True), X),
    "meshgrid": (lambda m, x: m.meshgrid(x[0], x[1], indexing="xy"), N),
}


def flat(value: Any) -> list[Any]:
    return (
        [v for item in value for v in flat(item)] if isinstance(value, (tuple, list)) else [value]
    )


@pytest.mark.parametrize("name", CASES)
def test_corner_cases_are_pytorchs(name: str) -> None:
    compute, data = CASES[name]
    ours = flat(compute(st, st.tensor(data)))
    with np.errstate(all="ignore"):
        theirs = flat(compute(torch, torch.tensor(data)))
    for x, y in zip(ours, theirs, strict=True):
        assert x.dtype.name == str(y.dtype).removeprefix("torch.")
        assert tuple(x.shape) == tuple(y.shape)
        assert np.allclose(x.numpy(), y.numpy(), 1e-12, 1e-12, equal_nan=True)


SLOPES: dict[str, F] = {
    "max shares": lambda m, x: x.max(),
    "amax shares": lambda m, x: m.amax(x, 1).sum(),
    "max picks": lambda m, x: x.max(1).values.sum(),
    "maximum halves": lambda m, x: m.maximum(x, x * 1.0).sum(),
    "abs at 0": lambda m, x: x.abs().sum(),
    "relu at 0": lambda m, x: x.relu().sum(),
    "clamp at bounds": lambda m, x: x.clamp(0, 2).sum(),
    "prod with 0": lambda m, x: x.prod(1).sum(),
    "cumprod with 0": lambda m, x: x.cumprod(1).sum(),
    "norm at 0": lambda m, x: (x * 0).norm(),
    "std of equals": lambda m, x: (x * 0).std(),
    "pow at 0": lambda m, x: (x**0).sum(),
    "sign": lambda m, x: x.sign().sum(),
}


@pytest.mark.parametrize("name", SLOPES)
def test_subgradients_are_pytorchs(name: str) -> None:
    data = np.array([[0.0, 2.0, 2.0], [1.0, 0.0, 0.0]])
    x, y = st.tensor(data, requires_grad=True), torch.tensor(data, requires_grad=True)
    SLOPES[name](st, x).backward()
    SLOPES[name](torch, y).backward()
    assert x.grad.numpy().tolist() == pytest.approx(np.asarray(y.grad.numpy()), nan_ok=True)
