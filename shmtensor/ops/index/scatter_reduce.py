"""Scattering that combines: several elements that meet at one place are added, multiplied, averaged
or compared.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import native
from ...dtypes import as_dtype
from ...native import parallel
from ..table.check_dtypes import insist_on_indices
from ..table.dims import axis
from ..table.native_or_numpy import WRITES, writes
from ..table.op_definition import composite, op
from ..table.samples import ints
from .gather_scatter import checked, cropped, fits, resized
from .getitem_index_put_where import Shape
from .index_add import flat_indices_along

COMBINE = {"sum": "add", "prod": "multiply", "mean": "add", "amax": "maximum", "amin": "minimum"}
HOW = {"sum": 1, "mean": 1, "prod": 2, "amax": 3, "amin": 4}  # native.scatter's
KERNEL_DTYPES = "bBhHiIlLqQfd"
at_least = parallel(np.maximum)
NEUTRAL = {"sum": 0, "prod": 1, "mean": 0}


@op(
    **WRITES,
    samples=[
        ((3, 4), (2, 4), ints((2, 4), 4), 1, how, own)
        for how in ("sum", "prod", "mean", "amax", "amin")
        for own in (True, False)
    ],
)
def _scatter_reduce(xp, x, source, index, /, dim, reduce, include_self):
    """x with elements of source combined into it at indices along dim."""
    if reduce not in COMBINE:
        raise RuntimeError(
            f"scatter_reduce: no such reduction: {reduce!r}, one of {tuple(COMBINE)}"
        )
    if not index.size:
        return x.copy()
    dim, out = fits("scatter_reduce", x, index, dim), x.copy(order="C")
    if source.dtype != x.dtype:
        raise RuntimeError(f"scatter_reduce: dtypes differ: {x.dtype}, src has {source.dtype}")
    flat = not x.ndim or not index.ndim
    at = index if flat else flat_indices_along(xp, x.shape, dim, index)
    at = at.reshape(-1)
    full = source.reshape(-1)[: index.size] if flat else cropped("scatter_reduce", source, index)
    part, target = full.reshape(-1), out.reshape(-1)
    if not include_self:
        target[at] = neutral(x.dtype, reduce)
    getattr(xp, COMBINE[reduce]).at(target, at, part)
    if reduce == "mean":
        n = counts_at(xp, target.shape, at, include_self)
        target[...] = target // n if x.dtype.kind in "iu" else target / n.astype(x.dtype)
    return out


divided = parallel(np.true_divide)


def fast_scatter_reduced(
    x: Any, source: Any, index: Any, dim: int, reduce: str, include_self: bool
) -> Any:
    """By the kernels of scatter; what they leave is done, or refused, by the forward."""
    if reduce in HOW and index.size and x.dtype == source.dtype and x.dtype.char in KERNEL_DTYPES:
        if index.shape == source.shape and (places := along_alone(index, dim)) is not None:
            out = slices_reduced(x, source, places, dim, reduce, include_self)
            if out is not None:
                return out
        out, base = np.empty(x.shape, x.dtype), x
        done = True
        if not include_self:
            start = np.full(index.shape, neutral(x.dtype, reduce), x.dtype)
            done = native.scatter(out, start, index, dim, 0, x)
            base = None
        done = done and native.scatter(out, source, index, dim, HOW[reduce], base)
        if done and reduce == "mean":
            done = averaged(out, index, dim, include_self)
        if done:
            return out
    with np.errstate(all="ignore"):
        return _scatter_reduce.forward(np, x, source, index, dim, reduce, include_self)


def along_alone(index: Any, dim: int) -> Any:
    """The places along dim, where a stretched index names the same ones everywhere; else None."""
    if index.ndim < 2 or not -index.ndim <= dim < index.ndim:
        return None
    dim %= index.ndim
    for d, (n, stride) in enumerate(zip(index.shape, index.strides)):
        if d != dim and n > 1 and stride:
            return None
    return index[(0,) * dim + (slice(None),) + (0,) * (index.ndim - dim - 1)]


def slices_reduced(
    x: Any, source: Any, places: Any, dim: int, reduce: str, include_self: bool
) -> Any:
    """Whole slices combined at places, which all lie within x; else None."""
    dim %= x.ndim
    out, base = np.empty(x.shape, x.dtype), x
    if not include_self:
        if int(places.min()) < 0 or int(places.max()) >= x.shape[dim]:
            return None
        base = x.copy(order="C")
        base[(slice(None),) * dim + (places,)] = neutral(x.dtype, reduce)
    if not native.index_add(out, source, places, dim, base, HOW[reduce]):
        return None
    if reduce == "mean":
        n = np.maximum(np.bincount(places, minlength=x.shape[dim]) + int(include_self), 1)
        n = n.reshape(-1, *(1,) * (x.ndim - dim - 1))
        if x.dtype.kind in "iu":
            np.floor_divide(out, n, out, casting="unsafe")
        else:
            divided(out, n.astype(out.dtype), out)
    return out


def averaged(out: Any, index: Any, dim: int, include_self: bool) -> bool:
    """Divides sums by how many there are, as `counts_at` counts them."""
    kind = np.dtype(np.int64) if out.dtype.kind in "iu" else out.dtype
    if kind == np.float32 and index.size >= 1 << 24:  # where its whole numbers end
        kind = np.dtype(np.float64)
    n = np.full(out.shape, int(include_self), kind)
    if not native.scatter(n, np.ones(index.shape, kind), index, dim, 1):
        return False
    n = at_least(n, 1)
    if out.dtype.kind in "iu":
        np.floor_divide(out, n, out, casting="unsafe")
    else:
        divided(out, n.astype(out.dtype, copy=False), out)
    return True


def reduce_at(x: Any, source: Any, index: Any, dim: int, reduce: str, include_self: bool) -> bool:
    """Combines in place; where it answers False after elements were written, those are the ones
    that `include_self=False` leaves out anyway.
    """
    if reduce == "mean" or reduce not in HOW:
        return False
    if x.dtype != source.dtype or x.dtype.char not in KERNEL_DTYPES:
        return False
    if not index.size:
        return True
    if not x.ndim or not index.ndim:
        return False
    if source.shape != index.shape:
        source = cropped("scatter_reduce", source, index)
    how, places = HOW[reduce], along_alone(index, dim)
    if not include_self:
        start = np.full(index.shape, neutral(x.dtype, reduce), x.dtype)
        if not native.scatter(x, start, index, dim, 0):
            return False
    if places is not None and native.index_add(x, source, places, dim, None, how):
        return True
    return native.scatter(x, source, index, dim, how)


in_place = writes(reduce_at, _scatter_reduce.forward)
_scatter_reduce.numpy = lambda *a: fast_scatter_reduced(*a) if len(a) == 6 else in_place(*a)


def neutral(dtype: Any, reduce: str) -> Any:
    """What changes nothing in a reduction."""
    if reduce in NEUTRAL:
        return NEUTRAL[reduce]
    if dtype.kind == "b":
        return reduce == "amin"
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return info.min if reduce == "amax" else info.max
    return -np.inf if reduce == "amax" else np.inf


def counts_at(xp: Any, shape: Shape, at: Any, include_self: bool) -> Any:
    """How many elements meet at each place, 1 at least."""
    n = xp.full(shape, int(include_self))
    xp.add.at(n, at, 1)
    return xp.maximum(n, 1)


def scatter_reduce_backward(
    ops: Any, g: Any, x: Any, source: Any, index: Any, out: Any, dim: int, reduce: str, own: bool
) -> tuple[Any, Any]:
    """The gradients by x and by source."""
    read = lambda t: ops._gather(t, index, dim)  # noqa: E731
    shape, held = tuple(x.shape), tuple(index.shape)
    part = source[tuple(slice(0, n) for n in held)] if tuple(source.shape) != held else source
    keep = g if own else ops._scatter_zeros(g, index, dim)
    if reduce == "sum":
        return keep, resized(ops, read(g), tuple(source.shape))
    ones = np.ones(held, as_dtype(x.dtype))
    if reduce == "mean":
        n = ops._scatter_add(np.full(shape, float(own)), ones.astype(np.float64), index, dim)
        share = g / ops._clamp(n, 1.0, None)
        keep = share if own else ops._scatter_zeros(share, index, dim) + 0 * keep
        return keep, resized(ops, read(share), tuple(source.shape))
    if reduce == "prod":
        start = x if own else ops._scatter(x, ones, index, dim)
        by_x = ops._scatter_reduce(np.ones(shape, ones.dtype), part, index, dim, "prod", True)
        by_source = read(out) / part
        if bool((part == 0).any()) or bool((start == 0).any()):
            by_source = others(ops, start, part, index, dim)
        slope = g * by_x
        return (slope if own else ops._scatter_zeros(slope, index, dim)), resized(
            ops, read(g) * by_source, tuple(source.shape)
        )
    mine = (x == out) if own else ops._scatter_zeros((x == out) * 1.0, index, dim) != 0
    theirs = part == read(out)
    n = ops._scatter_add((mine * 1.0), theirs * 1.0, index, dim)
    share = g / ops._clamp(n, 1.0, None)
    return ops._where(mine, share, 0.0), resized(
        ops, ops._where(theirs, read(share), 0.0), tuple(source.shape)
    )


def others(ops: Any, start: Any, part: Any, index: Any, dim: int) -> Any:
    """For each element of source the product of everything else at its place, without division.

    One zero at a place: its own slope is the product of the rest; two: all slopes are 0.
    """
    zero = part == 0
    filled = ops._where_other(zero, part, 1.0)
    rest = ops._scatter_reduce(start, filled, index, dim, "prod", True)
    n = ops._scatter_add(np.zeros(tuple(start.shape)), zero * 1.0, index, dim)
    many = ops._gather(n, index, dim) - zero * 1.0
    return ops._where_other(many > 0, ops._gather(rest, index, dim) / filled, 0.0)


_scatter_reduce.pullback(
    x=lambda ops, g, x, source, index, out, dim, reduce, include_self: scatter_reduce_backward(
        ops, g, x, source, index, out, dim, reduce, include_self
    )[0],
    source=lambda ops, g, x, source, index, out, dim, reduce, include_self: scatter_reduce_backward(
        ops, g, x, source, index, out, dim, reduce, include_self
    )[1],
)


@composite(inplace="_scatter_reduce")
def scatter_reduce(ops, input, dim, index, src, reduce, *, include_self=True):
    """Elements of src combined ("sum", "prod", "mean", "amax", "amin") into the tensor at indices.
    Copies: one.
    """
    insist_on_indices("scatter_reduce", index)
    return ops._scatter_reduce(input, src, index, dim, reduce, include_self)


@composite(inplace="_scatter_reduce")
def index_reduce(ops, input, dim, index, source, reduce, *, include_self=True):
    """Slices of source combined ("prod", "mean", "amax", "amin") into the tensor at indices.
    Copies: one.
    """
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"index_reduce: no such reduction: {reduce!r}")
    insist_on_indices("index_reduce", index)
    if not input.ndim:
        return ops._scatter_reduce(
            input, ops.reshape(source, ()), ops.reshape(index, ()), 0, reduce, include_self
        )
    dim = axis(input, dim)
    column = ops.reshape(index, tuple(-1 if d == dim else 1 for d in range(input.ndim)))
    full = ops.broadcast_to(column, tuple(source.shape))
    try:
        return ops._scatter_reduce(input, source, full, dim, reduce, include_self)
    except RuntimeError:
        checked("index_reduce", getattr(index, "array", index), input.shape[dim])
        raise
