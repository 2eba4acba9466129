"""Random numbers and dropout on CUDA: for a seed and an offset the numbers of the CPU.

Uniform numbers and integers have the same bits; normal numbers and other functions of uniform
numbers differ by rounding, gamma numbers among them; Poisson and binomial numbers are the same. But
where such a difference decides (once in 10**13 numbers) they are others. Probabilities, rates and
weights in device memory are not checked, which would wait for the device: Poisson and binomial
numbers of wrong ones are NaN.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import cupy
import numpy as np
from cupy._core._scalar import CScalar

from ...dtypes import bfloat16
from ..random.philox import half_below
from ..table.op_table import ROWS
from .launch import PLANS, as_acc, blocks_for, contiguous, is_floating, launch, prepare

__all__ = ["dropout", "fill_normal", "fill_uniform", "random_integers"]

DISTRIBUTIONS = ("bernoulli", "exponential", "cauchy", "geometric", "log_normal")
FLOAT64, BOOL = np.dtype(np.float64), np.dtype(np.bool_)


def per_counter(dtype: Any) -> int:
    """The numbers of a dtype that one counter gives."""
    return 2 if dtype == np.float64 else 4


def stream(seed: int, offset: int) -> tuple[Any, Any]:
    """Seed and offset as arguments."""
    return np.uint64(seed % 2**64), np.uint64(offset % 2**64)


def largest_below(bound: Any) -> float:
    """The largest float16 below a float16."""
    return float(np.nextafter(bound, np.float16(-np.inf)))


def fill(function: str, out: Any, seed: int, offset: int, a: float, b: float) -> Any:
    """Writes uniform or normal numbers to a floating-point array."""
    if not is_floating(out):
        raise NotImplementedError(f"{function}: not implemented for {out.dtype} on CUDA")
    target = out if out._c_contiguous else cupy.empty(out.shape, out.dtype)
    n = out.size
    if n:
        prepare_fill(function, out.dtype, n, a, b)(target, n, *stream(seed, offset))
    if target is not out:
        out[...] = target
    return out


@functools.lru_cache(PLANS, typed=True)
def prepare_fill(function: str, dtype: Any, n: int, a: float, b: float) -> Callable[..., None]:
    """The launch (out, n, seed, offset) that writes n numbers."""
    numbers = [as_acc(dtype, a), as_acc(dtype, b)]
    if function == "uniform":
        bound = np.float16(b) if dtype == np.float16 and a < b else np.float16(np.inf)
        numbers += [as_acc(dtype, float(bound)), as_acc(dtype, largest_below(bound))]
    return prepare("random", function, dtype, blocks_for(-(-n // per_counter(dtype))), 256, numbers)


def fill_uniform(out: Any, seed: int, offset: int, low: float = 0.0, high: float = 1.0) -> Any:
    """Writes the uniform numbers from [low, high) of a stream; the CPU's `native.uniform_`."""
    if out.dtype is bfloat16:
        wide = fill("uniform", cupy.empty(out.shape, np.float32), seed, offset, low, high)
        if low < high:  # none is rounded up to `high`
            below = half_below(np.array(high).astype(bfloat16))
            wide = cupy.minimum(wide, below.astype(np.float32))
        out[...] = wide
        return out
    return fill("uniform", out, seed, offset, low, high)


def fill_normal(out: Any, seed: int, offset: int, mean: float = 0.0, std: float = 1.0) -> Any:
    """Writes the normal numbers of a stream; the CPU's `native.normal_`."""
    if out.dtype is bfloat16:
        out[...] = fill("normal", cupy.empty(out.shape, np.float32), seed, offset, mean, std)
        return out
    return fill("normal", out, seed, offset, mean, std)


def random_integers(n: int, seed: int, offset: int, low: int, span: int) -> Any:
    """n integers (int64) from [low, low + span); span 0 is 2**64. The CPU's `native.randint`."""
    out = cupy.empty(n, np.int64)
    if n:
        blocks = blocks_for(-(-n // (4 if 0 < span < 2**32 else 2)))
        bounds = np.uint64(low % 2**64), np.uint64(span)
        arguments = (out, np.int64(n), *stream(seed, offset), *bounds)
        launch("random", "integers", FLOAT64, blocks, 256, arguments)
    return out


def new_like(x: Any, out: Any) -> Any:
    """The array to write to: `out`, or a new one like x."""
    return cupy.empty(x.shape, x.dtype) if out is None else out


@ROWS["_uniform"].on("cuda")
def _uniform(
    xp: Any, x: Any, seed: int, offset: int, low: float, high: float, out: Any = None
) -> Any:
    return fill_uniform(new_like(x, out), seed, offset, low, high)


@ROWS["_normal"].on("cuda")
def _normal(
    xp: Any, x: Any, seed: int, offset: int, mean: float, std: float, out: Any = None
) -> Any:
    return fill_normal(new_like(x, out), seed, offset, mean, std)


@ROWS["_distribution"].on("cuda")
def _distribution(
    xp: Any, x: Any, seed: int, offset: int, name: str, a: float = 0.0, b: float = 0.0
) -> Any:
    n = x.size * (2 if x.dtype.kind == "c" else 1)
    values = cupy.empty(n, np.float64)
    if name == "uniform":
        fill_uniform(values, seed, offset, a, b)
    elif name == "normal":
        fill_normal(values, seed, offset, 0.0, b)
    elif n:
        first = math.log1p(-a) if name == "geometric" else a
        arguments = (values, np.int64(n), *stream(seed, offset))
        numbers = np.int32(DISTRIBUTIONS.index(name)), np.float64(first), np.float64(b)
        launch("random", "distribution", FLOAT64, blocks_for(-(-n // 2)), 256, arguments + numbers)
    if x.dtype.kind == "c":
        values = values.view(np.complex128) + (a if name == "normal" else 0)
    return values.astype(x.dtype, copy=False).reshape(x.shape)


@ROWS["_random"].on("cuda")
def _random(xp: Any, x: Any, seed: int, offset: int, low: int, span: int) -> Any:
    values = random_integers(x.size, seed, offset, low, span)
    return values.astype(x.dtype, copy=False).reshape(x.shape)


@ROWS["_bernoulli"].on("cuda")
def _bernoulli(xp: Any, x: Any, seed: int, offset: int) -> Any:
    x = contiguous(x)
    out = cupy.empty(x.shape, x.dtype)
    if x.size:
        arguments = (x, out, np.int64(x.size), *stream(seed, offset))
        launch("random", "bernoulli", x.dtype, blocks_for(-(-x.size // 2)), 256, arguments)
    return out


@ROWS["_bernoulli_of"].on("cuda")
def _bernoulli_of(xp: Any, x: Any, y: Any, seed: int, offset: int) -> Any:
    probabilities = cupy.broadcast_to(y, x.shape)
    if not is_floating(y):
        probabilities = probabilities.astype(np.float64)
    return _bernoulli(xp, probabilities, seed, offset).astype(x.dtype, copy=False)


@ROWS["_multinomial"].on("cuda")
def _multinomial(
    xp: Any, x: Any, num_samples: int, replacement: bool, seed: int, offset: int
) -> Any:
    rows = x.reshape(-1, x.shape[-1]).astype(np.float64)
    shape = (len(rows), num_samples if replacement else rows.shape[1])
    u = fill_uniform(cupy.empty(shape), seed, offset)
    if replacement:
        ends = contiguous(cupy.cumsum(rows, 1))
        indices = cupy.empty(shape, np.int64)
        if indices.size:
            sizes = np.int64(indices.size), np.int64(num_samples), np.int64(rows.shape[1])
            blocks = blocks_for(indices.size)
            launch("random", "multinomial", FLOAT64, blocks, 256, (ends, u, indices, *sizes))
    else:
        times = cupy.where(rows > 0, -cupy.log(1 - u) / rows, math.inf)
        indices = cupy.argsort(times, 1)[:, :num_samples]
    return indices.astype(np.int64, copy=False).reshape(*x.shape[:-1], num_samples)


@ROWS["_poisson"].on("cuda")
def _poisson(xp: Any, x: Any, seed: int, offset: int) -> Any:
    x = contiguous(x)
    out = cupy.empty(x.shape, x.dtype)
    if x.size:
        arguments = (x, out, np.int64(x.size), *stream(seed, offset))
        launch("random", "poisson", x.dtype, blocks_for(x.size), 256, arguments)
    return out


@ROWS["_binomial"].on("cuda")
def _binomial(xp: Any, x: Any, y: Any, seed: int, offset: int) -> Any:
    x, y = contiguous(x), contiguous(y)
    out = cupy.empty(y.shape, y.dtype)
    if y.size:
        arguments = (x, y, out, np.int64(y.size), *stream(seed, offset))
        launch("random", "binomial", y.dtype, blocks_for(y.size), 256, arguments)
    return out


@ROWS["_gamma"].on("cuda")
def _gamma(xp: Any, x: Any, seed: int, offset: int, log: bool = False) -> Any:
    x = contiguous(x)
    out = cupy.empty(x.shape, x.dtype)
    if x.size:
        arguments = (x, out, np.int64(x.size), *stream(seed, offset), np.int32(log))
        launch("random", "standard_gamma", x.dtype, blocks_for(x.size), 256, arguments)
    return out


@ROWS["_standard_gamma_grad"].on("cuda")
def _standard_gamma_grad(xp: Any, x: Any, y: Any, log: bool = False) -> Any:
    x, y = contiguous(x), contiguous(y)
    out = cupy.empty(x.shape, x.dtype)
    if x.size:
        arguments = (x, y, out, np.int64(x.size), np.int32(log))
        launch("random", "standard_gamma_grad", x.dtype, blocks_for(x.size), 256, arguments)
    return out


def dropout(x: Any, p: float, seed: int, offset: int) -> tuple[Any, Any]:
    """x / (1 - p) where the element's word is at least p * 2**32, else 0; and the mask of those
    elements. The CPU's `native.dropout`.
    """
    if not is_floating(x):
        raise NotImplementedError(f"dropout: not implemented for {x.dtype} on CUDA")
    x = contiguous(x)
    shape, dtype = x.shape, x.dtype
    out, mask = cupy.ndarray(shape, dtype), cupy.ndarray(shape, BOOL)
    if p == 1:  # 1 / (1 - p) is undefined
        out.fill(0)
        mask.fill(False)
    elif n := x.size:
        run, numbers = prepare_dropout(dtype, n, p)
        run(x, out, mask, *numbers, *stream(seed, offset))
    return out, mask


@functools.lru_cache(PLANS)
def prepare_dropout(dtype: Any, n: int, p: float) -> tuple[Callable[..., None], tuple[Any, ...]]:
    """The launch of dropout of n elements, (x, out, mask, numbers, seed, offset), and its numbers:
    n, the factor of the elements that stay, and the words below which they do not.
    """
    threshold = np.uint32(min(int(p * 2**32), 2**32 - 1))
    numbers = CScalar(n), CScalar(as_acc(dtype, 1 / (1 - p))), CScalar(threshold)
    return prepare("random", "dropout", dtype, blocks_for(-(-n // 4)), 256, ()), numbers


@ROWS["_dropout"].on("cuda")
def _dropout(xp: Any, x: Any, p: float, seed: int, offset: int) -> Any:
    return dropout(x, p, seed, offset)
