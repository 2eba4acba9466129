"""cross_entropy.cu on the host: weights, an ignored index, label smoothing, sums in two stages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.cuda.kernels.check import TOLERANCE, acc, check, host_kernel, values

DTYPES = ["float32", "float64", "float16"]
I64, IGNORE = np.int64, 2
NULL = np.uint64(0)
ROWS, COLUMNS = 11, 45


def acc_dtype(dtype: str) -> str:
    return "float64" if dtype == "float64" else "float32"


def problem(dtype: str, weighted: bool) -> tuple[Any, Any, Any]:
    x = values((ROWS, COLUMNS), dtype, 0, 2.0)
    target = np.random.default_rng(1).integers(0, 5, ROWS)
    weight = np.abs(values((COLUMNS,), dtype, 2)) + acc(dtype, 0.5) if weighted else None
    return x, target, None if weight is None else weight.astype(dtype)


def expected(x: Any, target: Any, weight: Any, smoothing: float) -> tuple[Any, Any, Any, Any]:
    """The losses, the targets' weights, the logarithms of the sums, and the gradients for ones."""
    x = x.astype(np.float64)
    w = np.ones(x.shape[1]) if weight is None else weight.astype(np.float64)
    lse = np.log(np.exp(x - x.max(1, keepdims=True)).sum(1)) + x.max(1)
    logp, mask = x - lse[:, None], target != IGNORE
    rows, n = np.arange(len(x)), x.shape[1]
    one = (1 - smoothing) * w[target]
    losses = -one * logp[rows, target] - smoothing / n * (w * logp).sum(1)
    onehot = np.eye(n)[target]
    p = np.exp(logp)
    gradient = one[:, None] * (p - onehot) + smoothing / n * (w.sum() * p - w)
    return losses * mask, w[target] * mask, lse, gradient * mask[:, None]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("smoothing", [0.0, 0.25])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("suffix", "threads"), [("warp", 64), ("block", 64)])
def test_cross_entropy(
    suffix: str, threads: int, weighted: bool, smoothing: float, dtype: str
) -> None:
    x, target, weight = problem(dtype, weighted)
    wanted, weights, lse, gradient = expected(x, target, weight, smoothing)
    pointer = NULL if weight is None else weight
    saved, losses = np.full(ROWS + 1, np.nan, acc_dtype(dtype)), np.empty(ROWS, dtype)
    out_lse, total = saved[:ROWS], saved[ROWS:]
    sums, out = np.empty((2, 2), acc_dtype(dtype)), np.empty(1, dtype)
    sizes = (I64(ROWS), I64(COLUMNS), I64(IGNORE), acc(dtype, smoothing))
    kernel = host_kernel("cross_entropy", dtype, f"cross_entropy_{suffix}")
    arguments = (x, target, pointer, saved, losses, sums, out, *sizes, np.int32(1))
    tolerance = 3 * TOLERANCE[dtype]
    check(kernel, 2, threads, arguments, [(losses, wanted), (out_lse, lse)], tolerance)
    check(kernel, 2, threads, (*arguments[:4], NULL, *arguments[5:]), [(out_lse, lse)], tolerance)

    for mean in (0, 1):
        loss = wanted.sum() / (weights.sum() if mean else 1)
        kernel = host_kernel("cross_entropy", dtype, "finish")
        pairs = [(out, [loss]), (total, [weights.sum()])]
        check(kernel, 1, 64, (sums, out, total, I64(2), np.int32(mean)), pairs, tolerance)
        alone = host_kernel("cross_entropy", dtype, f"cross_entropy_{suffix}")
        more = (NULL, NULL, out, *sizes, np.int32(mean))
        pairs = [(out_lse, lse), *pairs]
        check(alone, 1, threads, (x, target, pointer, saved, *more), pairs, tolerance)

    g, result = values((ROWS,), dtype, 4), np.full_like(x, np.nan)
    kernel = host_kernel("cross_entropy", dtype, f"cross_entropy_backward_{suffix}")
    for per_row, mean in ((1, 0), (0, 1)):
        factor = g.astype(np.float64)[:, None] if per_row else float(g[0]) / weights.sum()
        more = (*sizes, np.int32(per_row), np.int32(mean))
        arguments = (g, x, saved, target, pointer, result, *more)
        check(kernel, 2, threads, arguments, [(result, gradient * factor)], tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("weighted", [False, True])
def test_nll_loss(weighted: bool, dtype: str) -> None:
    outer, classes, inner = 3, 5, 7
    x = values((outer, classes, inner), dtype)
    target = np.random.default_rng(1).integers(0, classes, (outer, inner))
    weight = np.abs(values((classes,), dtype, 2)) if weighted else np.ones(classes, dtype)
    pointer = weight if weighted else NULL
    w = weight.astype(np.float64)[target] * (target != IGNORE)
    wanted = -w * np.take_along_axis(x, target[:, None], 1)[:, 0]
    losses, sums = np.empty((outer, inner), dtype), np.empty((2, 1), acc_dtype(dtype))
    sizes = (I64(outer), I64(classes), I64(inner), I64(IGNORE))
    kernel = host_kernel("cross_entropy", dtype, "nll_loss")
    arguments = (x, target, pointer, losses, sums, *sizes)
    pairs = [(losses, wanted), (sums, [[wanted.sum()], [w.sum()]])]
    tolerance = 3 * TOLERANCE[dtype]
    check(kernel, 1, 64, arguments, pairs, tolerance)
    check(kernel, 1, 64, (NULL, *arguments[1:]), [(sums, [[0], [w.sum()]])], tolerance)

    g, out = values((outer, inner), dtype, 3), np.zeros_like(x)
    total = np.array([w.sum()], acc_dtype(dtype))
    kernel = host_kernel("cross_entropy", dtype, "nll_loss_backward")
    for per_row, divisor in ((1, NULL), (0, total)):
        factor = g.astype(np.float64) if per_row else float(g[0, 0]) / w.sum()
        gradient = np.zeros(x.shape)
        np.put_along_axis(gradient, target[:, None], (-w * factor)[:, None], 1)
        arguments = (g, target, pointer, divisor, out, *sizes, np.int32(per_row))
        check(kernel, 2, 32, arguments, [(out, gradient)], tolerance)


def test_a_class_that_is_not_there_gives_nan() -> None:
    x, target = values((3, 4), "float32"), np.array([1, 4, -1])
    lse, losses, sums = (
        np.empty(4, np.float32),
        np.empty(3, np.float32),
        np.empty((2, 1), np.float32),
    )
    sizes = (I64(3), I64(4), I64(-100), np.float32(0))
    kernel = host_kernel("cross_entropy", "float32", "cross_entropy_warp")
    out = np.empty(1, np.float32)
    arguments = (x, target, NULL, lse, losses, sums, out, *sizes, np.int32(0))
    kernel((1, 1, 1), (32, 1, 1), arguments)
    assert np.isnan(losses).tolist() == [False, True, True]
    kernel = host_kernel("cross_entropy", "float32", "cross_entropy_backward_warp")
    g, out = np.ones(1, np.float32), np.empty((3, 4), np.float32)
    arguments = (g, x, lse, target, NULL, out, *sizes, np.int32(0), np.int32(0))
    kernel((1, 1, 1), (32, 1, 1), arguments)
    assert np.isnan(out).all(1).tolist() == [False, True, True]
