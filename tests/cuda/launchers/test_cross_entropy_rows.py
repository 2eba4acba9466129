"""cross entropy and nll_loss on a device, and their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shmtensor.ops import ROWS
from tests.cuda.kernels.check import values
from tests.cuda.kernels.rows import compare, device_forward, laid_out

DTYPES = ["float32", "float64", "float16"]
TOLERANCE = {"float16": 5e-3, "float32": 2e-5, "float64": 1e-11}


def classes(shape: tuple[int, ...], n: int) -> Any:
    return np.asarray(np.random.default_rng(3).integers(0, n, shape))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("shape", [(5, 4), (70, 10), (400, 100), (3, 1500)], ids=str)
def test_cross_entropy(cp: Any, shape: tuple[int, int], reduction: str, dtype: str) -> None:
    x, target = values(shape, dtype, 0, 2.0), classes(shape[:1], shape[1])
    ignore = int(target[0])
    wide = x.astype(np.float64)
    row, backward = ROWS["_cross_entropy"], ROWS["_cross_entropy_backward"]
    wanted, p = row.forward(np, wide, target, ignore, reduction)
    g = np.asarray(1.5, dtype)
    wanted_gradient = backward.forward(np, g.astype(float), wide, p, target, ignore, reduction)
    for place in (cp.asarray, lambda v: laid_out(cp, v)):
        logits = place(x)
        for of in (np.int64, np.uint8) if shape[1] < 256 else (np.int64,):
            arguments = (place(target.astype(of)), ignore, reduction)
            out, saved = device_forward("_cross_entropy")(cp, logits, *arguments)
            assert (out.dtype, out.shape) == (x.dtype, ())
            np.testing.assert_allclose(out.get(), wanted, TOLERANCE[dtype])
            gradient = device_forward("_cross_entropy_backward")(
                cp, cp.asarray(g), logits, saved, *arguments
            )
            assert (gradient.dtype, gradient.shape) == (x.dtype, shape)
            np.testing.assert_allclose(
                gradient.get(), wanted_gradient, TOLERANCE[dtype], TOLERANCE[dtype]
            )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weighted", [False, True])
def test_weights_and_smoothing(
    cp: Any, weighted: bool, smoothing: float, reduction: str, dtype: str
) -> None:
    x, target = values((9, 6), dtype, 0, 2.0), classes((9,), 6)
    weight = (np.abs(values((6,), dtype, 2)) + 0.5).astype(dtype) if weighted else None
    options = (int(target[0]), reduction, smoothing)
    wide = [None if v is None else v.astype(np.float64) for v in (x, weight)]
    row, backward = ROWS["_cross_entropy_weighted"], ROWS["_cross_entropy_weighted_backward"]
    wanted, p = row.forward(np, wide[0], target, wide[1], *options)
    g = values(wanted.shape, dtype, 3)
    gradient = backward.forward(np, g.astype(float), wide[0], p, target, wide[1], *options)
    t, w = cp.asarray(target), None if weight is None else cp.asarray(weight)
    logits = cp.asarray(x)
    out, saved = device_forward("_cross_entropy_weighted")(cp, logits, t, w, *options)
    np.testing.assert_allclose(out.get(), wanted, TOLERANCE[dtype], TOLERANCE[dtype])
    ours = device_forward("_cross_entropy_weighted_backward")(
        cp, cp.asarray(g), logits, saved, t, w, *options
    )
    assert ours.dtype == x.dtype
    np.testing.assert_allclose(ours.get(), gradient, TOLERANCE[dtype], TOLERANCE[dtype])


NLL: list[tuple[tuple[int, ...], bool]] = [
    ((5, 4), False),
    ((5, 4), True),
    ((2, 4, 3), True),
    ((4,), False),
    ((300, 3, 2, 2), True),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize(("shape", "weighted"), NLL, ids=str)
def test_nll_loss(
    cp: Any, shape: tuple[int, ...], weighted: bool, reduction: str, dtype: str
) -> None:
    n = shape[0 if len(shape) == 1 else 1]
    x, target = values(shape, dtype), classes(shape[:1] + shape[2:] if len(shape) > 1 else (), n)
    weight = (np.abs(values((n,), dtype, 2)) + np.dtype(dtype).type(0.5)) if weighted else None
    compare(cp, "_nll_loss", (x, target, weight), (1, reduction), TOLERANCE[dtype])
    g = values(target.shape if reduction == "none" else (), dtype, 4)
    compare(cp, "_nll_loss_backward", (g, target, weight), (shape, 1, reduction), TOLERANCE[dtype])
    if weighted:
        wanted = np.where(target != 1, weight[target], 0).sum(dtype=np.float64)
        out = device_forward("_nll_loss_total_weight")(
            cp, cp.asarray(target), cp.asarray(weight), 1
        )
        np.testing.assert_allclose(out.get(), wanted, TOLERANCE[dtype])


def test_what_does_not_fit_is_named(cp: Any) -> None:
    x, target = cp.zeros((3, 4), np.float32), cp.zeros(2, np.int64)
    with pytest.raises(RuntimeError, match=r"target does not fit input: \(2,\), expected \(3,\)"):
        device_forward("_cross_entropy")(cp, x, target, -100, "mean")
    with pytest.raises(RuntimeError, match="classes must be whole numbers: float32"):
        device_forward("_nll_loss")(cp, x, cp.zeros(3, np.float32), None, -100, "mean")
    with pytest.raises(NotImplementedError, match="int64"):
        device_forward("_nll_loss")(cp, x.astype(np.int64), cp.zeros(3, np.int64))


def test_no_targets(cp: Any) -> None:
    x, target = values((0, 4), "float32"), classes((0,), 4)
    compare(cp, "_nll_loss", (x, target, None), (-100, "none"))
    compare(cp, "_nll_loss", (x, target, None), (-100, "sum"))
    assert np.isnan(
        device_forward("_nll_loss")(cp, cp.asarray(x), cp.asarray(target), None, -100, "mean").get()
    )
