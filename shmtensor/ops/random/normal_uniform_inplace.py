"""Random numbers written to a tensor in place."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from ... import native
from ..table.op_definition import composite, op
from . import philox
from .bounds import check_random_bounds, check_random_dtype, check_uniform_bounds, max_exact_integer
from .rand_multinomial import claim, numel, parallel_less, random_integers, uniform_float64

parallel_exp, parallel_log = native.parallel(np.exp), native.parallel(np.log)

# ---- rows in place; their gradient is 0, because the old values are overwritten


def native_fill(kernel: Any) -> Any:
    """A kernel that fills the array itself, or a new one like it."""

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
    halves="checks",
)
def _uniform(xp, x, /, seed, offset, low, high):
    """Uniformly distributed numbers in the shape of x."""
    return philox.fill_uniform(xp.empty_like(x), seed, offset, low, high)


@op(
    numpy=native_fill(native.normal_),
    out=True,
    inplace=True,
    method=False,
    function=False,
    samples=[((3, 4), 5, 0, 0.0, 1.0)],
    halves="checks",
)
def _normal(xp, x, /, seed, offset, mean, std):
    """Normally distributed numbers in the shape of x."""
    return philox.fill_normal(xp.empty_like(x), seed, offset, mean, std)


@op(inplace=True, method=False, function=False, samples=[])
def _refill(xp, x, /, values):
    """The values, in the dtype of x."""
    return xp.asarray(values).astype(x.dtype).reshape(x.shape)


for row in (_uniform, _normal, _refill):
    row.pullback(x=lambda g: g * 0)


@composite(function=False)
def uniform_(ops, input, low=0.0, high=1.0, *, generator=None):
    """Fills the tensor with uniformly distributed numbers from [low, high)."""
    check_uniform_bounds("uniform_", low, high, input.dtype)
    if input.dtype.kind == "c":
        parts = low + (high - low) * uniform_float64(2 * numel(input), generator)
        return ops._refill_(input, parts.view(np.complex128))
    stream = claim(generator, numel(input), input.dtype == np.float64)
    return ops._uniform_(input, *stream, low, high)


@composite(function=False)
def normal_(ops, input, mean=0.0, std=1.0, *, generator=None):
    """Fills the tensor with normally distributed numbers."""
    check_random_dtype("normal_", input.dtype)
    if std < 0:
        raise RuntimeError(f"normal_: std must not be negative: {std}")
    if input.dtype.kind == "c":  # half of the variance in each part
        n = 2 * numel(input)
        parts = philox.normal(*claim(generator, n, True), n, np.dtype(np.float64))
        return ops._refill_(input, mean + std * math.sqrt(0.5) * parts.view(np.complex128))
    stream = claim(generator, numel(input), input.dtype == np.float64)
    return ops._normal_(input, *stream, mean, std)


@composite(function=False)
def bernoulli_(ops, input, p=0.5, *, generator=None):
    """Fills the tensor with 1 (probability p, a number or a tensor) and 0."""
    check_random_dtype("bernoulli_", input.dtype, "biuf")
    p = getattr(p, "array", p)
    low, high = (p, p) if isinstance(p, (int, float)) else (np.min(p), np.max(p))
    if low < 0 or high > 1:
        raise RuntimeError(f"bernoulli_: probabilities must lie in [0, 1]: {p}")
    u = uniform_float64(numel(input), generator).reshape(tuple(input.shape))
    return ops._refill_(input, parallel_less(u, p))


@composite(function=False)
def exponential_(ops, input, lambd=1.0, *, generator=None):
    """Fills the tensor with exponentially distributed numbers of rate lambd."""
    check_random_dtype("exponential_", input.dtype, "f", RuntimeError)
    if lambd <= 0:
        raise RuntimeError(f"exponential_: lambd must be positive: {lambd}")
    complement = 1.0 - uniform_float64(numel(input), generator)  # exact, and never 0
    return ops._refill_(input, (0.0 - parallel_log(complement)) / lambd)


@composite(function=False)
def cauchy_(ops, input, median=0.0, sigma=1.0, *, generator=None):
    """Fills the tensor with Cauchy-distributed numbers."""
    check_random_dtype("cauchy_", input.dtype, "f", RuntimeError)
    if sigma <= 0:
        raise RuntimeError(f"cauchy_: sigma must be positive: {sigma}")
    u = uniform_float64(numel(input), generator) - 0.5
    return ops._refill_(input, median + sigma * np.tan(math.pi * u))


@composite(function=False)
def geometric_(ops, input, p, *, generator=None):
    """Fills the tensor with numbers of trials up to a success of probability p."""
    check_random_dtype("geometric_", input.dtype, "fiu")
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_: p must lie between 0 and 1: {p}")
    u = uniform_float64(numel(input), generator)
    return ops._refill_(input, np.maximum(np.ceil(np.log1p(-u) / math.log1p(-p)), 1))


@composite(function=False)
def log_normal_(ops, input, mean=1.0, std=2.0, *, generator=None):
    """Fills the tensor with numbers whose logarithms are normally distributed."""
    check_random_dtype("log_normal_", input.dtype, "f")
    if std <= 0:
        raise RuntimeError(f"log_normal_: std must be positive: {std}")
    n = numel(input)
    logarithms = native.normal_(np.empty(n), *claim(generator, n, True), mean, std)
    return ops._refill_(input, parallel_exp(logarithms))


@composite(function=False)
def random_(ops, input, low=None, high=..., *, generator=None):
    """Fills the tensor with integers: `random_(high)` from [0, high), `random_(low, high)` from
    [low, high), `random_(low, None)` from low to the dtype's largest, `random_()` from 0 to it. The
    largest of a floating-point dtype is the one up to which it has all integers.
    """
    if low is None:
        low, high = 0, None
    elif high is ...:
        low, high = 0, low
    check_random_dtype("random_", input.dtype, "biuf")
    low = operator.index(low)
    high = max_exact_integer(input.dtype) + 1 if high is None else operator.index(high)
    check_random_bounds("random_", low, high, input.dtype)
    return ops._refill_(
        input, random_integers(tuple(input.shape), low, high, np.dtype(np.int64), generator)
    )
