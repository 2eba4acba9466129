"""Writes one number, or a Python function's results, over a tensor's elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import native
from ..autograd.dispatch.op_function import table
from ..cuda_arrays import full_on, move_array
from ..ops.table.python_scalars import as_assigned, fits_dtype

if TYPE_CHECKING:
    from .tensor import Tensor


def fill_(tensor: Tensor, value: Any) -> Tensor:
    """Writes a number, or that of a 0-d tensor, to all elements."""
    if isinstance(value, native.TensorBase) and value.array.ndim:
        raise RuntimeError(
            f"fill_: only supports 0-dimension value tensor but got tensor of shape "
            f"{value.array.shape}"
        )
    if isinstance(value, (int, float, complex)) and value:
        fits_dtype("fill_", value, tensor.array.dtype)
    if not isinstance(tensor.array, np.ndarray):
        if not isinstance(value, native.TensorBase):  # without a copy that waits for the device
            number = as_assigned(value, tensor.array.dtype)
            value = native.wrap(full_on((), number[()], number.dtype, tensor.device))
    elif fits(value, tensor.array.dtype):  # fast path
        value = native.wrap(np.array(value, tensor.array.dtype))
    return table.copy_(tensor, value)  # type: ignore[no-any-return]


def fits(value: Any, dtype: Any) -> bool:
    """Whether the number surely fits: every dtype of this kind holds it, or it is a float for
    float64.
    """
    if dtype.kind in "iu":
        return value.__class__ is int and 0 <= value < 128
    if dtype.kind != "f":
        return False
    if value.__class__ is float and dtype.itemsize == 8:
        return True
    return (value.__class__ is float or value.__class__ is int) and -6e4 < value < 6e4


def fill_diagonal_(tensor: Tensor, value: Any, wrap: bool) -> Tensor:
    """Writes a number on the main diagonal; `wrap` repeats it in a tall matrix."""
    shape = tensor.array.shape
    if len(shape) < 2 or (len(shape) > 2 and len(set(shape)) > 1):
        raise RuntimeError(
            "fill_diagonal_: all dimensions of input must be of equal length, and at least two: "
            f"shape {shape}"
        )
    if len(shape) == 2 and not (wrap and shape[0] > shape[1]):
        table.diagonal(tensor).fill_(value)
        return tensor
    mask = np.zeros(shape, bool)
    np.fill_diagonal(mask, True, wrap=wrap)
    return tensor.masked_fill_(native.wrap(move_array(mask, tensor.device)), value)


def write_map(function: Callable[..., Any], tensor: Tensor, *tensors: Tensor) -> Tensor:
    """Writes `function(x, y, ...)` over each x of a tensor; y, ... are elements of others."""
    for x in (tensor, *tensors):
        if not x.is_cpu:
            name = ("apply_", "map_", "map2_")[len(tensors)]
            raise TypeError(
                f"{name}: {name} is only implemented on CPU tensors: shape {tuple(x.shape)} on "
                f"{x.device}, use x.cpu()"
            )
    operands = [np.broadcast_to(t.array, tensor.array.shape) for t in (tensor, *tensors)]
    flat = [function(*values) for values in zip(*(a.reshape(-1).tolist() for a in operands))]
    return tensor.copy_(native.wrap(np.array(flat, tensor.dtype).reshape(tensor.array.shape)))
