"""Reductions: one number, or one per row, out of many.

Longer than other files: the columns that each row declares are here.
"""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from ... import native
from ..table.dims import axes, each_or, expand_reduced, flat_or, in_order, shared
from ..table.named_results import named
from ..table.native_or_numpy import kernel_or_fallback
from ..table.op_definition import PRIVATE, composite, dtype, op
from ..table.samples import bools

DIMS: list[tuple[Any, ...]] = [
    ((3, 4),), ((3, 4), 1), ((2, 3, 4), (0, -1), True), ((2, 3, 4), -2, True), ((),), ((), 0),
    ((0, 3), 0),
]  # fmt: skip
FULL = [s for s in DIMS if 0 not in s[0]]


def accumulator(dtype: Any, given: Any) -> Any:
    """The dtype of a sum: whole numbers and bool are summed as int64."""
    if given is not None:
        return given
    return np.dtype(np.int64) if dtype.kind in "iub" else dtype


# ---- sums


@op(numpy=native.sum, samples=DIMS, layout="rows", vmap="along")
def sum(xp, x, /, dim=None, keepdim=False):
    """Sum of all elements, or along dimensions; whole numbers and bool are summed as int64."""
    return x.sum(axes(x, dim), accumulator(x.dtype, None), keepdims=keepdim)


sum.pullback(x=lambda ops, g, x_shape, dim, keepdim: expand_reduced(ops, g, x_shape, dim, keepdim))


@sum.rare(dtype=None)
def sum_as(ops, x, /, dim=None, keepdim=False, *, dtype):
    """The sum in another dtype."""
    if dtype == np.bool_:
        found = ops.any(x, None if axes(x, dim) is None else dim, keepdim)
        return ops._to_copy(found, dtype)  # of uint8 `any` gives uint8
    return ops._to_copy(ops.sum(ops._to_copy(x, dtype), dim, keepdim), dtype)


@op(samples=DIMS, layout="rows", vmap="along")
def nansum(xp, x, /, dim=None, keepdim=False):
    """Sum in which NaN counts as 0."""
    if x.dtype.kind == "f":
        x = xp.where(xp.isnan(x), xp.zeros((), x.dtype), x)
    return x.sum(axes(x, dim), accumulator(x.dtype, None), keepdims=keepdim)


def fast_nansum(x: Any, dim: Any, keepdim: bool) -> Any:
    """The sum, if it is a number: then nothing was none. Else after a pass that puts 0 for NaN."""
    if x.dtype.kind == "f":
        total = native.sum(x, dim, keepdim)
        if total.dtype.itemsize > 2 and not np.isnan(total).any():
            return total
        full = native.numbers(x)
        if full is not None:
            return native.sum(full, dim, keepdim)
    with np.errstate(all="ignore"):
        return nansum.forward(np, x, dim, keepdim)


@nansum.rare(dtype=None)
def nansum_as(ops, x, /, dim=None, keepdim=False, *, dtype):
    """The sum in another dtype."""
    return ops._to_copy(ops.nansum(ops._to_copy(x, dtype), dim, keepdim), dtype)


nansum.numpy = fast_nansum
nansum.pullback(
    x=lambda ops, g, x, x_shape, dim, keepdim: ops._where_other(
        x != x, expand_reduced(ops, g, x_shape, dim, keepdim), 0.0
    )
)


def reduced(shape: tuple[int, ...], dim: Any) -> int:
    """How many elements make one result."""
    return math.prod(shape[d] for d in flat_or(dim, shape))


def averaged(name: str, x: Any, dtype: Any) -> Any:
    """x in the dtype of the average; whole numbers have none."""
    if dtype is not None:
        x = x.astype(dtype, copy=False)
    if x.dtype.kind in "iub":
        raise RuntimeError(
            f"{name}: the tensor must be floating point or complex: {x.dtype}, "
            f"convert it or give dtype="
        )
    return x


def fast_mean(x: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    """The native sum, divided; of float16 NumPy's mean, which does not overflow."""
    if dtype is not None or x.dtype.kind in "iub" or x.dtype.itemsize == 2:
        return mean.forward(np, x, dim, keepdim, dtype=dtype)
    total = native.sum(x, dim, keepdim)
    n = x.size if dim is None or not x.ndim else reduced(x.shape, dim)
    total *= 1 / n if n else math.nan
    return total


@op(numpy=fast_mean, samples=DIMS, layout="rows", vmap="along")
def mean(xp, x, /, dim=None, keepdim=False, *, dtype: dtype = None):
    """Average of all elements, or along dimensions; NaN of none."""
    if dtype is not None or x.dtype.kind in "iub":
        x = averaged("mean", x, dtype)
    if not x.size:
        return xp.true_divide(x.sum(axes(x, dim), keepdims=keepdim), reduced(x.shape, dim))
    return x.mean(axes(x, dim), keepdims=keepdim)


mean.pullback(
    x=lambda ops, g, x_shape, dim, keepdim: expand_reduced(
        ops, g / (reduced(x_shape, dim) or math.nan), x_shape, dim, keepdim
    )
)


@op(
    name="_prod",
    **PRIVATE,
    samples=[((3, 4), 1, False), ((3, 4), 0, True)],
    layout="rows",
    vmap="along",
)
def _prod(xp, x, /, dim, keepdim):
    """Product along one dimension, or of all elements (None)."""
    return x.prod(axes(x, dim), accumulator(x.dtype, None), keepdims=keepdim)


def prod_backward(ops: Any, g: Any, x: Any, out: Any, dim: Any, keepdim: bool) -> Any:
    """The product of the others. Where elements are 0 it cannot be had by division:
    then all n products of n - 1 elements are formed, which is slow but right to every order."""
    if dim is None or not x.ndim:
        flat = ops.reshape(x, (-1,))
        return ops.reshape(prod_backward(ops, g, flat, out, 0, False), x.shape)
    shape = tuple(x.shape)
    g = expand_reduced(ops, g, shape, dim, keepdim)
    if not bool((x == 0).any()):
        return g * (expand_reduced(ops, out, shape, dim, keepdim) / x).conjugate()
    n, dim = shape[dim], dim % len(shape)
    rows = ops.movedim(x, dim, -1)
    own = np.eye(n, dtype=bool)
    others = ops._where_other(own, ops.unsqueeze(rows, -2), 1.0)
    return g * ops.movedim(ops._prod(others, -1, False), -1, dim).conjugate()


_prod.numpy = kernel_or_fallback(native.prod, _prod.forward)
_prod.pullback(x=lambda ops, g, x, out, dim, keepdim: prod_backward(ops, g, x, out, dim, keepdim))


@composite(autocast="full")
def prod(ops, input, dim=None, keepdim=False, *, dtype=None):
    """Product of all elements, or along one dimension; of whole numbers an int64."""
    found = ops._prod(input if dtype is None else ops._to_copy(input, dtype), dim, keepdim)
    return found if dtype is None else ops._to_copy(found, dtype)


# ---- extremes


def nonempty(name: str, x: Any, dim: Any) -> Any:
    """The axes, after a look whether there is something to choose from.

    Raises:
        IndexError: a reduced dimension has size 0 (RuntimeError if all are reduced).
    """
    if not x.size and not reduced(x.shape, dim):
        whole = dim is None or dim == () or dim == []
        kind = RuntimeError if whole and not name.startswith("arg") else IndexError
        raise kind(f"{name}: nothing to choose from: shape {x.shape}, dim={dim}")
    return axes(in_order(name, x), dim)


@op(samples=FULL, layout="rows", vmap="along")
def amax(xp, x, /, dim=(), keepdim=False):
    """The largest element, of all or along dimensions; equal ones share the gradient."""
    return x.max(nonempty("amax", x, dim), keepdims=keepdim)


@op(samples=FULL, layout="rows", vmap="along")
def amin(xp, x, /, dim=(), keepdim=False):
    """The smallest element, of all or along dimensions; equal ones share the gradient."""
    return x.min(nonempty("amin", x, dim), keepdims=keepdim)


amax.numpy = kernel_or_fallback(
    lambda x, dim, keep: native.minmax(x, dim, keep, True), amax.forward
)
amin.numpy = kernel_or_fallback(
    lambda x, dim, keep: native.minmax(x, dim, keep, False), amin.forward
)

for row in (amax, amin):
    row.pullback(x=lambda ops, g, x, out, dim, keepdim: shared(ops, g, x, out, dim, keepdim))


@composite(exact_out=True)
def aminmax(ops, input, *, dim=None, keepdim=False):
    """The smallest and the largest element."""
    dims = () if dim is None else dim
    return named("aminmax", min=ops.amin(input, dims, keepdim), max=ops.amax(input, dims, keepdim))


@op(
    samples=[((3, 4),), ((3, 4), 1), ((3, 4), 0, True), ((),), ((), 0)], layout="rows", vmap="along"
)
def argmax(xp, x, /, dim=None, keepdim=False):
    """Where the largest element is: its index along dim, or in the flattened tensor."""
    return position(xp.argmax, "argmax", x, dim, keepdim)


@op(
    samples=[((3, 4),), ((3, 4), 1), ((3, 4), 0, True), ((),), ((), 0)], layout="rows", vmap="along"
)
def argmin(xp, x, /, dim=None, keepdim=False):
    """Where the smallest element is: its index along dim, or in the flattened tensor."""
    return position(xp.argmin, "argmin", x, dim, keepdim)


argmax.numpy = kernel_or_fallback(
    lambda x, dim, keep: native.argminmax(x, dim, keep, True), argmax.forward
)
argmin.numpy = kernel_or_fallback(
    lambda x, dim, keep: native.argminmax(x, dim, keep, False), argmin.forward
)


def position(find: Any, name: str, x: Any, dim: int | None, keepdim: bool) -> Any:
    """argmax or argmin, with a 0-d tensor taken as one row."""
    nonempty(name, x, dim)
    if not x.ndim:
        axes(x, dim)
        return np.zeros((), np.int64)
    return find(x, dim, keepdims=keepdim)


# ---- truth and counts


COUNTS = [(bools((3, 4)),), (bools((3, 4)), 1), (bools((2, 3, 4)), (0, 2)), (bools(()),)]
BOOLS = [*((bools((3, 4)), *dim) for dim in ((), (1,), ((),))),
         (bools((2, 3, 4)), (0, 2), True), (bools(()),)]  # fmt: skip


@op(samples=BOOLS, layout="rows", vmap="along")
def all(xp, x, /, dim=None, keepdim=False):
    """Are all elements true? A bool, but of uint8 a uint8; with dim=() each is asked alone."""
    out = xp.logical_and.reduce(x, each_or(x, dim), keepdims=keepdim)
    return out if x.dtype != np.uint8 else xp.asarray(out, x.dtype)


@op(samples=BOOLS, layout="rows", vmap="along")
def any(xp, x, /, dim=None, keepdim=False):
    """Is any element true? A bool, but of uint8 a uint8; with dim=() each is asked alone."""
    out = xp.logical_or.reduce(x, each_or(x, dim), keepdims=keepdim)
    return out if x.dtype != np.uint8 else xp.asarray(out, x.dtype)


def truth(every: bool) -> Any:
    """Of bools the native smallest or largest; of nothing, and of numbers, NumPy's."""

    def kernel(x: Any, dim: Any, keepdim: bool) -> Any:
        if x.dtype.char != "?" or each_or(x, dim) == ():
            return None
        return native.minmax(x, dim, keepdim, not every)

    return kernel


all.numpy = kernel_or_fallback(truth(True), all.forward)
any.numpy = kernel_or_fallback(truth(False), any.forward)


@op(samples=COUNTS, layout="rows", vmap="along")
def count_nonzero(xp, x, /, dim=None):
    """How many elements are not 0."""
    return (x != 0).sum(axes(x, dim), np.dtype(np.int64))


count_nonzero.numpy = kernel_or_fallback(
    lambda x, dim: native.count(x, dim, False), count_nonzero.forward
)


# ---- spread


@op(
    **PRIVATE,
    samples=[((3, 4), None, 1, False), ((3, 4), 1, 0, True), ((2, 3, 4), (0, 2), 1, False)],
    layout="rows",
    vmap="along",
)
def _var(xp, x, /, dim, correction, keepdim):
    """Mean squared distance from the mean, over n - correction."""
    away = x - x.mean(axes(x, dim), keepdims=True)
    if x.dtype.kind == "c":
        away = xp.sqrt(away.real * away.real + away.imag * away.imag)
    n = builtins.max(reduced(x.shape, dim) - correction, 0)
    total = (away * away).sum(axes(x, dim), keepdims=keepdim)
    return xp.true_divide(total, total.dtype.type(n))


_var.numpy = kernel_or_fallback(
    lambda x, dim, correction, keep: native.var(x, dim, correction, keep, False),
    _var.forward,
)


def var_backward(ops: Any, g: Any, x: Any, dim: Any, correction: float, keepdim: bool) -> Any:
    """2 (x - mean) / (n - correction)."""
    shape = tuple(x.shape)
    n = reduced(shape, dim) - correction
    if n <= 0:
        return expand_reduced(ops, g, shape, dim, keepdim) * math.nan
    all_dims = tuple(range(len(shape))) if dim is None else dim
    away = x - ops.mean(x, all_dims, True)
    return expand_reduced(ops, g * (2 / n), shape, dim, keepdim) * away


_var.pullback(
    x=lambda ops, g, x, dim, correction, keepdim: var_backward(ops, g, x, dim, correction, keepdim)
)


@op(
    **PRIVATE, samples=[((3, 4), None, 1, False), ((3, 4), 1, 0, True)], layout="rows", vmap="along"
)
def _std(xp, x, /, dim, correction, keepdim):
    """The square root of the variance."""
    return xp.sqrt(_var.forward(xp, x, dim, correction, keepdim))


_std.numpy = kernel_or_fallback(
    lambda x, dim, correction, keep: native.var(x, dim, correction, keep, True),
    _std.forward,
)


def std_backward(
    ops: Any, g: Any, x: Any, out: Any, dim: Any, correction: float, keepdim: bool
) -> Any:
    """Of the variance, over 2 out; 0 where nothing varies."""
    half = ops._where_other(out == 0, g / (2 * ops._where_other(out == 0, out, 1.0)), 0.0)
    return var_backward(ops, half, x, dim, correction, keepdim)


_std.pullback(
    x=lambda ops, g, x, out, dim, correction, keepdim: std_backward(
        ops, g, x, out, dim, correction, keepdim
    )
)


def freedom(dim: Any, unbiased: Any, keepdim: Any, correction: Any) -> tuple[Any, float, bool]:
    """Sorts out PyTorch's three signatures: (unbiased), (dim, unbiased, keepdim), (dim,
    correction=, keepdim=).
    """
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    return (None if dim is None or dim == () or dim == [] else dim), correction, keepdim


def measurable(name: str, input: Any) -> None:
    """Only real and complex numbers vary."""
    if input.dtype.kind in "iub":
        raise RuntimeError(
            f"{name}: the tensor must be floating point or complex: {input.dtype}, convert it"
        )


@composite
def var(ops, input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    """Variance of all elements, or along dimensions: divided by n - correction (1 by default)."""
    measurable("var", input)
    return ops._var(input, *freedom(dim, unbiased, keepdim, correction))


@composite
def std(ops, input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    """Standard deviation of all elements, or along dimensions: the square root of `var`."""
    measurable("std", input)
    return ops._std(input, *freedom(dim, unbiased, keepdim, correction))


@composite(method=False)
def var_mean(ops, input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    """Variance and mean."""
    dim, correction, keepdim = freedom(dim, unbiased, keepdim, correction)
    return ops._var(input, dim, correction, keepdim), ops.mean(input, dim, keepdim)


@composite(method=False)
def std_mean(ops, input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    """Standard deviation and mean."""
    dim, correction, keepdim = freedom(dim, unbiased, keepdim, correction)
    return ops._std(input, dim, correction, keepdim), ops.mean(input, dim, keepdim)
