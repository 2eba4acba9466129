"""Shapes and indices, by the array API standard."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .. import functions
from ..tensor import Tensor
from .creation import sizes
from .dtypes import result_type, same_category

__all__ = [
    "Axis",
    "broadcast_arrays",
    "broadcast_to",
    "clip",
    "concat",
    "expand_dims",
    "flip",
    "matrix_transpose",
    "moveaxis",
    "permute_dims",
    "repeat",
    "reshape",
    "roll",
    "squeeze",
    "stack",
    "take",
    "take_along_axis",
    "tensordot",
    "unstack",
    "vecdot",
    "where",
]

f: Any = functions

Axis = int | tuple[int, ...] | None


def concat(arrays: Any, /, *, axis: int | None = 0) -> Tensor:
    """Tensors concatenated along an axis, or flattened first if that is None."""
    xs = list(arrays)
    if axis is None:
        xs, axis = [x.reshape(-1) for x in xs], 0
    dtype = result_type(*xs)
    return f.cat([x.to(dtype) for x in xs], axis)  # type: ignore[no-any-return]


def stack(arrays: Any, /, *, axis: int = 0) -> Tensor:
    """Tensors stacked along a new axis."""
    return f.stack(list(arrays), axis)  # type: ignore[no-any-return]


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices along an axis."""
    return tuple(x.unbind(axis))


def expand_dims(x: Tensor, /, *, axis: int = 0) -> Tensor:
    """A new axis of length one."""
    return x.unsqueeze(axis)


def squeeze(x: Tensor, /, axis: Any) -> Tensor:
    """Removes axes of length one.

    Raises:
        ValueError: an axis has another length.
    """
    other_axes = [a for a in sizes(axis) if x.shape[a] != 1]
    if other_axes:
        raise ValueError(f"squeeze: axes of another length than one: {other_axes} of {x.shape}")
    return f.squeeze(x, sizes(axis))  # type: ignore[no-any-return]


def reshape(x: Tensor, /, shape: Any, *, copy: Any = None) -> Tensor:
    """The elements in another shape.

    Raises:
        ValueError: it needs a copy, and `copy` is False.
    """
    result = x.reshape(tuple(shape))
    if copy:
        return result.clone() if np.shares_memory(result.array, x.array) else result
    if copy is False and x.numel() and not np.shares_memory(result.array, x.array):
        raise ValueError(f"reshape: a copy is needed: {x.shape} to {tuple(shape)}")
    return result


def permute_dims(x: Tensor, /, axes: Any) -> Tensor:
    """The axes in another order. Copies: none."""
    return x.permute(tuple(axes))


def matrix_transpose(x: Tensor, /) -> Tensor:
    """The last two axes swapped. Copies: none."""
    return x.mT


def moveaxis(x: Tensor, source: Any, destination: Any, /) -> Tensor:
    """Axes moved to other positions. Copies: none."""
    return f.movedim(x, source, destination)  # type: ignore[no-any-return]


def flip(x: Tensor, /, *, axis: Axis = None) -> Tensor:
    """The elements in reverse order along axes, or all of them."""
    return f.flip(x, tuple(range(x.ndim)) if axis is None else sizes(axis))  # type: ignore[no-any-return]


def roll(x: Tensor, /, shift: Any, *, axis: Axis = None) -> Tensor:
    """The elements shifted along axes, with those past the end at the beginning."""
    return f.roll(x, shift, axis)  # type: ignore[no-any-return]


def repeat(x: Tensor, repeats: Any, /, *, axis: int | None = None) -> Tensor:
    """Each element several times."""
    return f.repeat_interleave(x, repeats, axis)  # type: ignore[no-any-return]


def broadcast_to(x: Tensor, /, shape: Any) -> Tensor:
    """The tensor broadcast to a shape. Copies: none."""
    return f.broadcast_to(x, tuple(shape))  # type: ignore[no-any-return]


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """The tensors broadcast to their common shape. Copies: none."""
    return list(f.broadcast_tensors(*arrays))


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """The values limited to [min, max], in the dtype of x."""
    if min is None and max is None:
        return x.clone()
    return f.clamp(x, min, max).to(x.dtype)  # type: ignore[no-any-return]


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """The slices at indices along an axis."""
    return f.index_select(x, 0 if axis is None else axis, indices)  # type: ignore[no-any-return]


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """The elements at indices along an axis, given element by element."""
    return f.take_along_dim(x, indices, axis)  # type: ignore[no-any-return]


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: Any = 2) -> Tensor:
    """A sum of products over axes of both."""
    return f.tensordot(x1, x2, axes)  # type: ignore[no-any-return]


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The sum of products along an axis, the first operand conjugated."""
    dtype = result_type(x1, x2)
    return (x1.to(dtype).conj() * x2.to(dtype)).sum(axis, dtype=dtype)


def where(condition: Tensor, x1: Any, x2: Any, /) -> Tensor:
    """The elements of x1 where the condition holds, else those of x2."""
    return same_category(functools.partial(f.where, condition))(x1, x2)  # type: ignore[no-any-return]
