"""Functions that no layer has, beside PyTorch's: values, dtypes, shapes and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import shmtensor as st
from shmtensor.nn import functional

pytestmark = pytest.mark.torch

RANDOM = np.random.default_rng(3)
IMAGE, VOLUME = (RANDOM.normal(size=(2, 4, *(9, 8, 5)[:n])) for n in (2, 3))

Compare = Callable[..., Any]  # (F, module, tensors...) -> tensor

CASES: dict[str, tuple[Compare, tuple[Any, ...]]] = {
    "pad constant": (lambda f, m, x: f.pad(x, (-1, 3, 2, 0, 1, 1), value=2.0), (IMAGE,)),
    "nearest-exact": (lambda f, m, x: f.interpolate(x, (5, 11), mode="nearest-exact"), (IMAGE,)),
    "bicubic": (lambda f, m, x: f.interpolate(x, (5, 11), mode="bicubic"), (IMAGE,)),
    "bilinear smooth": (
        lambda f, m, x: f.interpolate(x, (3, 11), mode="bilinear", antialias=True),
        (IMAGE,),
    ),
    "bicubic smooth": (
        lambda f, m, x: f.interpolate(x, (3, 4), mode="bicubic", antialias=True),
        (IMAGE,),
    ),
    "attention": (
        lambda f, m, q, k: f.scaled_dot_product_attention(q, k, k * k, is_causal=True),
        (IMAGE, IMAGE[:, :, ::-1].copy()),
    ),
    "pdist": (lambda f, m, x: f.pdist(x, 3.0), (RANDOM.normal(size=(5, 3)),)),
    "grid bilinear": (
        lambda f, m, x, g: f.grid_sample(x, g, align_corners=False),
        (IMAGE, RANDOM.uniform(-1.3, 1.3, (2, 4, 5, 2))),
    ),
    "grid reflection": (
        lambda f, m, x, g: f.grid_sample(x, g, "bilinear", "reflection", True),
        (IMAGE, RANDOM.uniform(-4, 4, (2, 4, 5, 2))),
    ),
    "grid bicubic border": (
        lambda f, m, x, g: f.grid_sample(x, g, "bicubic", "border", False),
        (IMAGE, RANDOM.uniform(-1.3, 1.3, (2, 4, 5, 2))),
    ),
    "grid of volumes": (
        lambda f, m, x, g: f.grid_sample(x, g, align_corners=True),
        (VOLUME, RANDOM.uniform(-1.3, 1.3, (2, 3, 4, 5, 3))),
    ),
    "affine_grid": (
        lambda f, m, t: f.affine_grid(t, (2, 3, 4, 5), align_corners=False),
        (RANDOM.normal(size=(2, 2, 3)),),
    ),
    "gradient": (lambda f, m, x: m.gradient(x, spacing=0.5, dim=(2, 3), edge_order=2), (IMAGE,)),
    "area": (lambda f, m, x: f.interpolate(x, (3, 5), mode="area"), (IMAGE,)),
}  # fmt: skip


def flat(value: Any) -> list[Any]:
    return (
        [v for part in value for v in flat(part)] if isinstance(value, (tuple, list)) else [value]
    )


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_pytorchs(name: str, dtype: str) -> None:
    compute, arrays = CASES[name]
    close = 1e-9 if dtype == "float64" else 2e-4
    results: list[list[Any]] = []
    slopes: list[list[Any]] = []
    for module, f in ((st, functional), (torch, torch.nn.functional)):
        tensors = [module.tensor(x if x.dtype.kind in "ib" else x.astype(dtype)) for x in arrays]
        for x, t in zip(arrays, tensors, strict=True):
            t.requires_grad_(x.dtype.kind == "f")
        outputs = flat(compute(f, module, *tensors))
        weighted: Any = sum(
            (out * module.tensor(np.cos(np.arange(out.numel()).reshape(tuple(out.shape))))).sum()
            for out in outputs
            if out.requires_grad
        )
        if not isinstance(weighted, int):
            weighted.backward()
        results.append([out.detach() for out in outputs])
        slopes.append([t.grad for t in tensors])
    for ours, theirs in zip(*results, strict=True):
        assert ours.dtype.name == str(theirs.dtype).removeprefix("torch.")
        assert tuple(ours.shape) == tuple(theirs.shape)
        assert np.allclose(ours.numpy(), theirs.numpy(), close, close, equal_nan=True)
    for ours, theirs in zip(*slopes, strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            assert np.allclose(ours.numpy(), theirs.numpy(), close, close, equal_nan=True)
