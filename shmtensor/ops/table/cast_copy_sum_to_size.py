"""Rows that the engine itself uses: to another dtype, back to a smaller shape, into given
memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import native
from .native_or_numpy import kernel_or_fallback
from .op_definition import op
from .tensor_like import order_of


@op(method=False, function=False, samples=(), layout="like", halves="moved", vmap="alone")
def _to_copy(xp, x, /, dtype):
    """The tensor in another dtype; complex to real keeps the real part, as for gradients."""
    if x.dtype.kind == "c" and dtype.kind != "c":
        if dtype.kind == "b":
            return x != 0
        x = x.real
    return native.recast(x, dtype)


at_once = kernel_or_fallback(
    # the kernel takes the real part, for bool (number 0) as well
    lambda x, dtype: native.cast(x, dtype.num) if dtype.num or x.dtype.kind != "c" else None,
    _to_copy.forward,
)
FLOAT = np.dtype(np.float32)


def is_half(dtype: Any) -> bool:
    """Is it one of the floats of 16 bits?"""
    return bool(dtype.itemsize == 2 and dtype.kind == "f")


def in_rows(x: Any, dtype: Any) -> Any:
    """The result in C order, if x nearly is."""
    given = x.dtype
    if is_half(given) == is_half(dtype) or (dtype.kind == "b" and given.char != "e"):
        return at_once(x, dtype)
    # Floats of 16 bits meet all others as float32, as in PyTorch; and nothing warns.
    if "f" not in (given.char, dtype.char):
        found = native.cast(x, dtype.num)
        if found is not None:
            return found
    if is_half(dtype):
        return native.recast(x if given.char == "f" else at_once(x, FLOAT), dtype)
    wide = native.recast(x, FLOAT)
    return wide if dtype.char == "f" else at_once(wide, dtype)


def in_its_order(x: Any, dtype: Any) -> Any:
    """The dimensions of the result lie in memory as those of x."""
    order = None if x.ndim < 2 or x.flags.c_contiguous else order_of(x)
    if order is None:
        return in_rows(x, dtype)
    return in_rows(x.transpose(order), dtype).transpose(np.argsort(order))


_to_copy.numpy = in_its_order
_to_copy.pullback(x=lambda g: g)  # the engine brings it to x's dtype


@op(method=False, function=False, samples=[((2, 3, 4), (3, 1)), ((2, 3), ())])
def _sum_to_size(xp, x, /, shape):
    """Sums over the dimensions along which `shape` would be stretched to x's shape."""
    extra = x.ndim - len(shape)
    axes = tuple(
        i for i in range(x.ndim) if i < extra or (shape[i - extra] == 1 and x.shape[i] != 1)
    )
    return x.sum(axes, keepdims=True).reshape(shape)


_sum_to_size.pullback(x=lambda ops, g, x_shape: ops.expand(g, x_shape))


def store(x, y, out=None):
    """y written over x's memory (`out`), or over fresh memory like it."""
    if out is None:
        out = np.empty_like(x)
    if not out.flags.writeable:  # which copyto overlooks if both are the same array
        raise ValueError("assignment destination is read-only")
    if y.dtype.kind == "c" and out.dtype.kind != "c":
        y = y.real
    if out.size > 4096 and y.dtype != out.dtype and not y.ndim:
        with np.errstate(all="ignore"):
            y = y.astype(out.dtype)
    if not (out.size > 4096 and native.copy_into(out, y)):
        np.copyto(out, y, casting="unsafe")
    return out


@op(
    numpy=store,
    out=True,
    broadcast=True,
    inplace=True,
    method=False,
    function=False,
    halves="moved",
)
def _overwrite(xp, x, y, /):
    """The second tensor, in the first one's shape and dtype."""
    return store(x, y)


_overwrite.pullback(y=lambda g: g)


@op(
    numpy=store,
    out=True,
    broadcast=True,
    inplace=True,
    method=False,
    function=False,
    halves="moved",
)
def copy(xp, x, y, /):
    """`_overwrite` as users call it: Tensor.copy_. What was there has a gradient, 0."""
    return store(x, y)


copy.pullback(x=lambda ops, g: ops.zeros_like(g), y=lambda g: g)


@op(
    numpy=(np.ndarray.copy, 'x, "K"'),
    method=False,
    samples=[((3, 4),), ((),)],
    layout="like",
    halves="moved",
    vmap="alone",
)
def clone(xp, x, /):
    """The same values in memory of their own. Copies: one."""
    return x.copy("K")


clone.numpy = native.clone
clone.pullback(x=lambda g: g)


@op(method=False, function=False, samples=[((3, 4),), ((),)], halves="moved", vmap="alone")
def _contiguous(xp, x, /):
    """A copy whose elements lie in order in memory."""
    return native.contiguous(x) if xp is np else x.copy("C")


_contiguous.pullback(x=lambda g: g)


@op(method=False, function=False, samples=[((2, 3, 4, 5),), ((2, 3, 2, 2, 2),)])
def _contiguous_channels_last(xp, x, /):
    """A copy whose elements lie in order with dimension 1 as the last: channels_last."""
    return xp.moveaxis(xp.moveaxis(x, 1, -1).copy("C"), -1, 1)


_contiguous_channels_last.pullback(x=lambda g: g)
