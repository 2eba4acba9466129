"""Reductions and cumulative sums of complex numbers, against NumPy's in complex128."""

from __future__ import annotations

from typing import Any

import numpy as np

from shmtensor import native

from ...cases import each

Array = np.ndarray[Any, Any]
SHAPES = [(7,), (16,), (40_000,), (100, 10), (3, 25), (70, 24), (5, 1), (33, 70), (600, 300),
          (4, 20, 6), (2, 9000, 3), (1, 3, 1), (0, 4), (4, 0), (2, 0, 3)]  # fmt: skip


def draw(shape: tuple[int, ...], dtype: str) -> Array:
    """Numbers whose products do not overflow."""
    r = np.random.default_rng(sum(shape))
    size = np.exp(r.normal(scale=1e-4, size=shape))
    return (size * np.exp(2j * np.pi * r.random(shape))).astype(dtype)


def layouts(x: Array) -> dict[str, Array]:
    wide = np.zeros((*x.shape[:-1], x.shape[-1] + 3), x.dtype)
    wide[..., 1:-2] = x
    return {
        "rows": x,
        "turned": x.swapaxes(0, -1).copy().swapaxes(0, -1),
        "part": wide[..., 1:-2],
        "reversed": x[..., ::-1].copy()[..., ::-1],
        "stretched": np.broadcast_to(x[:1], x.shape),
    }


def check(got: Array | None, want: Any, like: Array, ulps: float) -> None:
    assert got is not None
    assert got.dtype == like.dtype
    assert got.shape == np.shape(want)
    tolerance = ulps * (6e-8 if like.dtype in ("c8", "f4") else 1.2e-16)
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@each("dtype", ["c8", "c16"])
@each("shape", SHAPES)
def test_products_along_dimensions(shape: tuple[int, ...], dtype: str) -> None:
    for x in layouts(draw(shape, dtype)).values():
        wide = x.astype("c16")
        n = max(x.size, 1) if dtype == "c16" else 1  # products of complex64 are computed in double
        for dim in (None, *range(x.ndim), -1):
            check(native.prod(x, dim, False), wide.prod(dim), x, 4 + 2 * n)
        check(native.prod(x, 0, True), wide.prod(0, keepdims=True), x, 4 + 2 * n)
        if x.ndim == 3:
            check(native.prod(x, (0, 2), False), wide.prod((0, 2)), x, 4 + 2 * n)


@each("dtype", ["c8", "c16"])
@each("shape", SHAPES)
def test_running_products_and_sums(shape: tuple[int, ...], dtype: str) -> None:
    for x in layouts(draw(shape, dtype)).values():
        wide = x.astype("c16")
        for dim in range(x.ndim):
            n = max(x.shape[dim], 1) if dtype == "c16" else 1
            check(native.cumsum_cumprod(x, dim, True), wide.cumprod(dim), x, 4 + 4 * n)
            check(native.cumsum_cumprod(x, dim, False), wide.cumsum(dim), x, 4 + 60 * n)


@each("dtype", ["c8", "c16"])
@each("shape", SHAPES)
def test_sums_and_variances(shape: tuple[int, ...], dtype: str) -> None:
    for x in layouts(draw(shape, dtype)).values():
        wide = x.astype("c16")
        for dim in (None, *range(x.ndim)):
            check(native.sum(x, dim, False), wide.sum(dim), x, 400)
            n = x.size if dim is None else x.shape[dim]
            if n:
                result = native.var(x, dim, 0, False, False)
                check(result, wide.var(dim), x.real, 400)
                check(native.var(x, dim, 0, False, True), wide.std(dim), x.real, 400)


def test_an_overflowing_cumulative_sum_is_numpys() -> None:
    x = np.ones(200_000, "c8")
    x[10], x[20] = 3e38 + 1j, 3e38
    got = native.cumsum_cumprod(x, 0, False)
    with np.errstate(over="ignore"):
        want = x.astype("c16").cumsum().astype("c8")
    np.testing.assert_array_equal(np.isinf(got.real), np.isinf(want.real))
    np.testing.assert_allclose(got.imag, want.imag)


def test_the_variance_of_too_few_is_infinite() -> None:
    x = np.array([[1 + 1j, 2], [3, 3]], "c8")
    np.testing.assert_array_equal(native.var(x, 1, 2, False, False), [np.inf, np.nan])
