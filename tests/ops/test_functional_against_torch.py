"""nn.functional beside PyTorch's, where it is installed: values, dtypes, shapes and gradients."""

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
LINE, IMAGE, VOLUME = (RANDOM.normal(size=(2, 4, *(9, 8, 5)[:n])) for n in (1, 2, 3))
LINES, FILTERS, CUBES = (RANDOM.normal(size=(6, 2, *(3, 3, 2)[:n])) for n in (1, 2, 3))
BIAS, UNBIAS = RANDOM.normal(size=6), RANDOM.normal(size=4)

Compare = Callable[..., Any]  # (F, module, tensors...) -> tensor

CASES: dict[str, tuple[Compare, tuple[Any, ...]]] = {
    "conv1d": (lambda f, m, x, w, b: f.conv1d(x, w, b, 2, 1, 1, 2), (LINE, LINES, BIAS)),
    "conv2d": (
        lambda f, m, x, w, b: f.conv2d(x, w, b, (2, 1), 1, (1, 2), 2),
        (IMAGE, FILTERS, BIAS),
    ),
    "conv2d same": (lambda f, m, x, w: f.conv2d(x, w, None, 1, "same", 2, 2), (IMAGE, FILTERS)),
    "conv3d": (lambda f, m, x, w, b: f.conv3d(x, w, b, 1, 1, 1, 2), (VOLUME, CUBES, BIAS)),
    "conv_transpose1d": (
        lambda f, m, x, w, b: f.conv_transpose1d(x, w, b, 2, 1, 1, 2),
        (RANDOM.normal(size=(2, 6, 4)), LINES, UNBIAS),
    ),
    "conv_transpose2d": (
        lambda f, m, x, w, b: f.conv_transpose2d(x, w, b, (2, 3), 1, (1, 0), 2, (1, 2)),
        (RANDOM.normal(size=(2, 6, 4, 3)), FILTERS, UNBIAS),
    ),
    "max_pool2d": (lambda f, m, x: f.max_pool2d(x, 3, 2, 1, 1, True), (IMAGE,)),
    "max_pool3d": (lambda f, m, x: f.max_pool3d(x, 2, 1, 0, 2), (VOLUME,)),
    "avg_pool2d": (lambda f, m, x: f.avg_pool2d(x, 3, 2, 1, True, False), (IMAGE,)),
    "avg_pool3d": (lambda f, m, x: f.avg_pool3d(x, 2, 3, 1, True, True), (VOLUME,)),
    "lp_pool2d": (lambda f, m, x: f.lp_pool2d(x.abs(), 3, 2), (IMAGE,)),
    "adaptive_avg_pool2d": (lambda f, m, x: f.adaptive_avg_pool2d(x, (5, None)), (IMAGE,)),
    "adaptive_max_pool2d": (lambda f, m, x: f.adaptive_max_pool2d(x, (5, 3)), (IMAGE,)),
    "pad reflect": (lambda f, m, x: f.pad(x, (2, 3, 1, 0), "reflect"), (IMAGE,)),
    "pad replicate": (lambda f, m, x: f.pad(x, (2, -3, 1, 0), "replicate"), (IMAGE,)),
    "pad circular": (lambda f, m, x: f.pad(x, (-1, 3, -2, 1), "circular"), (IMAGE,)),
    "pad constant": (lambda f, m, x: f.pad(x, (-1, 3, 2, 0, 1, 1), value=2.0), (IMAGE,)),
    "nearest": (lambda f, m, x: f.interpolate(x, scale_factor=1.7), (IMAGE,)),
    "nearest-exact": (lambda f, m, x: f.interpolate(x, (5, 11), mode="nearest-exact"), (IMAGE,)),
    "bilinear": (lambda f, m, x: f.interpolate(x, scale_factor=1.7, mode="bilinear"), (IMAGE,)),
    "bilinear recomputed": (
        lambda f, m, x: f.interpolate(
            x, scale_factor=1.7, mode="bilinear", recompute_scale_factor=True
        ),
        (IMAGE,),
    ),
    "bicubic": (lambda f, m, x: f.interpolate(x, (5, 11), mode="bicubic"), (IMAGE,)),
    "bicubic corners": (
        lambda f, m, x: f.interpolate(x, (5, 11), mode="bicubic", align_corners=True),
        (IMAGE,),
    ),
    "bilinear smooth": (
        lambda f, m, x: f.interpolate(x, (3, 11), mode="bilinear", antialias=True),
        (IMAGE,),
    ),
    "bicubic smooth": (
        lambda f, m, x: f.interpolate(x, (3, 4), mode="bicubic", antialias=True),
        (IMAGE,),
    ),
    "trilinear": (lambda f, m, x: f.interpolate(x, (3, 9, 4), mode="trilinear"), (VOLUME,)),
    "fold": (lambda f, m, x: f.fold(f.unfold(x, 3, 1, 1, 2), (9, 8), 3, 1, 1, 2), (IMAGE,)),
    "batch_norm": (
        lambda f, m, x, w, b: f.batch_norm(x, None, None, w, b, True, 0.1, 0.2),
        (IMAGE, UNBIAS, UNBIAS),
    ),
    "instance_norm": (lambda f, m, x: f.instance_norm(x), (IMAGE,)),
    "group_norm": (lambda f, m, x, w, b: f.group_norm(x, 2, w, b), (IMAGE, UNBIAS, UNBIAS)),
    "local_response_norm": (lambda f, m, x: f.local_response_norm(x, 3, 0.5), (IMAGE,)),
    "attention": (
        lambda f, m, q, k: f.scaled_dot_product_attention(q, k, k * k, is_causal=True),
        (IMAGE, IMAGE[:, :, ::-1].copy()),
    ),
    "embedding_bag": (
        lambda f, m, at, w: f.embedding_bag(at, w, mode="max"),
        (RANDOM.integers(0, 6, (3, 5)), RANDOM.normal(size=(6, 4))),
    ),
    "multi_margin_loss": (
        lambda f, m, x, t: f.multi_margin_loss(x, t, p=2, margin=0.7),
        (RANDOM.normal(size=(5, 3)), RANDOM.integers(0, 3, 5)),
    ),
    "multilabel_margin_loss": (
        lambda f, m, x, t: f.multilabel_margin_loss(x, t),
        (RANDOM.normal(size=(5, 3)), RANDOM.integers(-1, 3, (5, 3))),
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
