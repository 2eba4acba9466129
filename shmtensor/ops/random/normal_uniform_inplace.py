"""Random numbers written over a tensor, in place."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from ... import native
from ..table.op_definition import composite, op
from . import philox
from .bounds import check_drawable, check_random_bounds, check_uniform_bounds, most_exact
from .rand_multinomial import below, claimed, size_of, uniform_float64, whole

exponential, logarithm = native.parallel(np.exp), native.parallel(np.log)

# ---- in place: rows whose gradient is 0, since what was there is gone


def native_fill(kernel: Any) -> Any:
    """The kernel on the array itself, or on a fresh one like it."""

    def fill(x: Any, seed: int, offset: int, low: float, high: float, out: Any = None) -> Any:
        out = np.empty_like(x) if out is None else out
        if out.dtype.kind == "f" and out.dtype.itemsize == 2:
            return philox.fill_half(kernel, out, seed, offset, low, high)
        return kernel(out, seed, offset, low, high)

    return fill


@op(
    numpy=native_fill(native.uniform_),
    out=True,
    inplace=True,
    method=False,
    function=False,
    samples=[((3, 4), 5, 0, 0.0, 1.0)],
    halves="asked",
)
def _uniform(xp, x, /, seed, offset, low, high):
    """Evenly distributed numbers in the shape of x."""
    return philox.fill_uniform(xp.empty_like(x), seed, offset, low, high)


@op(
    numpy=native_fill(native.normal_),
    out=True,
    inplace=True,
    method=False,
    function=False,
    samples=[((3, 4), 5, 0, 0.0, 1.0)],
    halves="asked",
)
def _normal(xp, x, /, seed, offset, mean, std):
    """Normally distributed numbers in the shape of x."""
    return philox.fill_normal(xp.empty_like(x), seed, offset, mean, std)


@op(inplace=True, method=False, function=False, samples=[])
def _refill(xp, x, /, values):
    """Values drawn elsewhere, in the dtype of x."""
    return xp.asarray(values).astype(x.dtype).reshape(x.shape)


for row in (_uniform, _normal, _refill):
    row.pullback(x=lambda g: g * 0)


@composite(function=False)
def uniform_(ops, input, low=0.0, high=1.0, *, generator=None):
    """Fills the tensor with evenly distributed numbers from [low, high)."""
    check_uniform_bounds("uniform_", low, high, input.dtype)
    if input.dtype.kind == "c":
        parts = low + (high - low) * uniform_float64(2 * size_of(input), generator)
        return ops._refill_(input, parts.view(np.complex128))
    stream = claimed(generator, size_of(input), input.dtype == np.float64)
    return ops._uniform_(input, *stream, low, high)


@composite(function=False)
def normal_(ops, input, mean=0.0, std=1.0, *, generator=None):
    """Fills the tensor with normally distributed numbers."""
    check_drawable("normal_", input.dtype)
    if std < 0:
        raise RuntimeError(f"normal_: std must not be negative: {std}")
    if input.dtype.kind == "c":  # half of the variance in each part
        n = 2 * size_of(input)
        parts = philox.normal(*claimed(generator, n, True), n, np.dtype(np.float64))
        return ops._refill_(input, mean + std * math.sqrt(0.5) * parts.view(np.complex128))
    stream = claimed(generator, size_of(input), input.dtype == np.float64)
    return ops._normal_(input, *stream, mean, std)


@composite(function=False)
def bernoulli_(ops, input, p=0.5, *, generator=None):
    """Fills the tensor with 1 (probability p, a number or a tensor) and 0."""
    check_drawable("bernoulli_", input.dtype, "biuf")
    p = getattr(p, "array", p)
    low, high = (p, p) if isinstance(p, (int, float)) else (np.min(p), np.max(p))
    if low < 0 or high > 1:
        raise RuntimeError(f"bernoulli_: probabilities must lie in [0, 1]: {p}")
    u = uniform_float64(size_of(input), generator).reshape(tuple(input.shape))
    return ops._refill_(input, below(u, p))


@composite(function=False)
def exponential_(ops, input, lambd=1.0, *, generator=None):
    """Fills the tensor with exponentially distributed numbers of rate lambd."""
    check_drawable("exponential_", input.dtype, "f", RuntimeError)
    if lambd <= 0:
        raise RuntimeError(f"exponential_: lambd must be positive: {lambd}")
    left = 1.0 - uniform_float64(size_of(input), generator)  # exact, and never 0
    return ops._refill_(input, (0.0 - logarithm(left)) / lambd)


@composite(function=False)
def cauchy_(ops, input, median=0.0, sigma=1.0, *, generator=None):
    """Fills the tensor with Cauchy-distributed numbers."""
    check_drawable("cauchy_", input.dtype, "f", RuntimeError)
    if sigma <= 0:
        raise RuntimeError(f"cauchy_: sigma must be positive: {sigma}")
    turns = uniform_float64(size_of(input), generator) - 0.5
    return ops._refill_(input, median + sigma * np.tan(math.pi * turns))


@composite(function=False)
def geometric_(ops, input, p, *, generator=None):
    """Fills the tensor with how many trials it takes to a success of probability p."""
    check_drawable("geometric_", input.dtype, "fiu")
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_: p must lie between 0 and 1: {p}")
    u = uniform_float64(size_of(input), generator)
    return ops._refill_(input, np.maximum(np.ceil(np.log1p(-u) / math.log1p(-p)), 1))


@composite(function=False)
def log_normal_(ops, input, mean=1.0, std=2.0, *, generator=None):
    """Fills the tensor with numbers whose logarithms are normally distributed."""
    check_drawable("log_normal_", input.dtype, "f")
    if std <= 0:
        raise RuntimeError(f"log_normal_: std must be positive: {std}")
    n = size_of(input)
    logarithms = native.normal_(np.empty(n), *claimed(generator, n, True), mean, std)
    return ops._refill_(input, exponential(logarithms))


@composite(function=False)
def random_(ops, input, low=None, high=..., *, generator=None):
    """Fills the tensor with whole numbers: `random_(high)` from [0, high), `random_(low, high)`
    from [low, high), `random_(low, None)` from low to the dtype's largest, `random_()` from 0 to
    it. Of floating-point dtypes the largest is the one up to which they have all whole numbers.
    """
    if low is None:
        low, high = 0, None
    elif high is ...:
        low, high = 0, low
    check_drawable("random_", input.dtype, "biuf")
    low = operator.index(low)
    high = most_exact(input.dtype) + 1 if high is None else operator.index(high)
    check_random_bounds("random_", low, high, input.dtype)
    return ops._refill_(input, whole(tuple(input.shape), low, high, np.dtype(np.int64), generator))
