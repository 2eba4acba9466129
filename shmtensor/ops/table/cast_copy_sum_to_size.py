"""Rows that the engine itself uses: cast, sum to a smaller shape, copy, clone, contiguous."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ... import native
from ...cuda_arrays import device_of, move_array
from .constants import zero_gradient
from .native_or_numpy import is_host_array, kernel_or_forward
from .op_table import dtype, op
from .tensor_like import order_in, order_of


def cast_preserving_strides(x: Any, dtype: Any) -> Any:
    """x in another dtype, with its dimensions in the same order in memory."""
    order = None if x.ndim < 2 or x.flags.c_contiguous else order_of(x)
    if order is None:
        return cast_contiguous(x, dtype)
    return cast_contiguous(x.transpose(order), dtype).transpose(np.argsort(order))


@op(numpy=cast_preserving_strides, samples=(), layout="like", halves="copies", vmap="alone")
def _to_copy(xp, x, /, dtype: dtype):
    """The tensor in another dtype; complex to real keeps the real part, as for gradients."""
    if x.dtype.kind == "c" and dtype.kind != "c":
        if dtype.kind == "b":
            return x != 0
        x = x.real
    return native.recast(x, dtype)


cast_directly = kernel_or_forward(
    # the kernel takes the real part, for bool (number 0) as well
    lambda x, dtype: native.cast(x, dtype.num) if dtype.num or x.dtype.kind != "c" else None,
    _to_copy.forward,
)
FLOAT = np.dtype(np.float32)


def is_half(dtype: Any) -> bool:
    """Is it one of the floats of 16 bits?"""
    return bool(dtype.itemsize == 2 and dtype.kind == "f")


def cast_contiguous(x: Any, dtype: Any) -> Any:
    """x in another dtype; in C order if x is."""
    source = x.dtype
    if is_half(source) == is_half(dtype) or (dtype.kind == "b" and source.char != "e"):
        return cast_directly(x, dtype)
    # 16-bit floats are cast by way of float32, as in PyTorch, without warnings.
    if "f" not in (source.char, dtype.char):
        result = native.cast(x, dtype.num)
        if result is not None:
            return result
    if is_half(dtype):
        return native.recast(x if source.char == "f" else cast_directly(x, FLOAT), dtype)
    wide = native.recast(x, FLOAT)
    return wide if dtype.char == "f" else cast_directly(wide, dtype)


def gradient_of_cast(g: Any, into: Any) -> Any:
    """g, or its cast in a leaf's buffer; else the engine brings it to x's dtype."""
    if into is None or not is_half(g.dtype) or into.dtype != FLOAT or not is_host_array(into):
        return g
    return native.recast(g, into)


_to_copy.pullback(x=gradient_of_cast)


@op(between_devices=True, samples=(), halves="copies", vmap="alone")
def _to_device(xp, x, /, target, source):
    """The values on the Device `target`; `source` is the one that they are on."""
    return move_array(x, target)


_to_device.pullback(x=lambda ops, g, target, source: ops._to_device(g, source, target))


@functools.lru_cache(1024)
def broadcast_dims(shape: tuple[int, ...], target: tuple[int, ...]) -> tuple[int, ...]:
    """The dimensions along which `target` would be broadcast to a shape."""
    extra = len(shape) - len(target)
    return tuple(d for d, n in enumerate(shape) if d < extra or (target[d - extra] == 1 and n != 1))


def sum_to_size_kernel(x, shape):
    """The native sum; None where nothing is summed."""
    shape = tuple(shape)
    dims = broadcast_dims(x.shape, shape)
    return native.sum(x, dims).reshape(shape) if dims else None


@op(
    complex_gradients=True,
    native=sum_to_size_kernel,
    samples=[((2, 3, 4), (3, 1)), ((2, 3), ()), ((2, 3), (2, 3))],
)
def _sum_to_size(xp, x, /, shape):
    """Sums over the dimensions along which `shape` would be broadcast to x's shape."""
    shape = tuple(shape)
    return x.sum(broadcast_dims(x.shape, shape), keepdims=True).reshape(shape)


_sum_to_size.pullback(x=lambda ops, g, x_shape: ops.expand(g, x_shape))


def copy_values(x, y, out=None):
    """Copies y into x's memory (`out`), or into new memory like it."""
    if out is None:
        out = np.empty_like(x)
    if not out.flags.writeable:  # copyto does not check it if both are the same array
        raise ValueError("assignment destination is read-only")
    if y.dtype.kind == "c" and out.dtype.kind != "c":
        y = y.real
    if out.size > 4096 and y.dtype != out.dtype and not y.ndim:
        with np.errstate(all="ignore"):
            y = y.astype(out.dtype)
    if not (out.size > 4096 and native.copy_into(out, y)):
        np.copyto(out, y, casting="unsafe")
    return out


def copy_on_cuda(xp, x, y):
    """y as x's dtype and shape, for an in-place form, which copies it."""
    y = move_array(y, device_of(x))
    if y.dtype.kind == "c" and x.dtype.kind != "c":
        y = y.real
    with x.device:
        return xp.broadcast_to(y.astype(x.dtype, copy=False), x.shape)


@op(
    between_devices=True,
    numpy=copy_values,
    cuda=copy_on_cuda,
    out=True,
    broadcast=True,
    inplace=True,
    halves="copies",
)
def _overwrite(xp, x, y, /):
    """The second tensor, in the first one's shape and dtype."""
    return copy_values(x, y)


_overwrite.pullback(y=lambda g: g)


@op(
    between_devices=True,
    numpy=copy_values,
    cuda=copy_on_cuda,
    out=True,
    broadcast=True,
    inplace=True,
    method=False,
    function=False,
    halves="copies",
)
def copy(xp, x, y, /):
    """`_overwrite` as users call it: Tensor.copy_. The old values have the gradient 0."""
    return copy_values(x, y)


copy.pullback(x=zero_gradient, y=lambda g: g)


@op(
    complex_gradients=True,
    numpy=native.clone,
    samples=[((3, 4),), ((),)],
    layout="like",
    halves="copies",
    vmap="alone",
)
def clone(xp, x, /):
    """A copy of a tensor.

    Parameters
    ----------
    input : Tensor
        The tensor.
    memory_format : memory_format, optional
        By default the order of dimensions stays; `contiguous_format`: row order; `channels_last`
        (4 dimensions) and `channels_last_3d` (5 dimensions).

    Returns
    -------
    Tensor
        Memory of its own. Gradients pass through to `input`; `x.detach().clone()` is a copy
        without history.

    Raises
    ------
    RuntimeError
        The memory format is for another number of dimensions.

    See Also
    --------
    detach, Tensor.copy_, Tensor.contiguous

    Notes
    -----
    Copies: one (the result).

    Examples
    --------
    >>> x = st.tensor([1, 2])
    >>> y = st.clone(x)
    >>> x[0] = 9
    >>> y
    tensor([1, 2])
    """
    return x.copy("K")


clone.pullback(x=lambda g: g)


@clone.rare(memory_format=None)
def clone_in_format(ops, x, /, *, memory_format):
    """A copy in a memory format."""
    if getattr(memory_format, "name", "preserve_format") == "preserve_format":
        return ops.clone(x)
    is_row_order = order_in(x.shape, memory_format) is None
    return ops._contiguous(x) if is_row_order else ops._contiguous_channels_last(x)


@op(complex_gradients=True, samples=[((3, 4),), ((),)], halves="copies", vmap="alone")
def _contiguous(xp, x, /):
    """A copy in C order."""
    return native.contiguous(x) if xp is np else xp.array(x, order="C", copy=True)


_contiguous.pullback(x=lambda g: g)


@op(complex_gradients=True, samples=[((2, 3, 4, 5),), ((2, 3, 2, 2, 2),)], halves="copies")
def _contiguous_channels_last(xp, x, /):
    """A copy in the order of channels_last: dimension 1 is the innermost."""
    moved = xp.moveaxis(x, 1, -1)
    copy = native.contiguous(moved) if xp is np else moved.copy("C")
    return xp.moveaxis(copy, -1, 1)


_contiguous_channels_last.pullback(x=lambda g: g)
