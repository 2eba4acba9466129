"""Broadcasting's gradient: the sum over the dimensions that were stretched."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import native
from ..dispatch.op_function import arrays, table
from .sparse_grad import SparseGradient, arrived

__all__ = ["sum_to_size"]


def sum_to_size(g: Any, edge: Any, node: Any) -> Any:
    """A gradient brought to the dtype and shape of the input it belongs to.

    Sums over stretched dimensions, casts, takes real parts.

    Raises:
        RuntimeError: the shape cannot be that input's.
    """
    ops: Any = table
    if isinstance(g, SparseGradient):
        g = arrived(g, edge)
        if isinstance(g, SparseGradient):
            return g
    array = g
    if isinstance(g, native.TensorBase):
        array = g.array
    else:
        ops = arrays
        if not isinstance(g, np.ndarray):
            array = g = np.asarray(g)
    shape, dtype = edge.shape, edge.dtype
    if array.shape != shape:
        stretched = [a == b or b == 1 for a, b in zip(array.shape[::-1], shape[::-1])]
        if len(shape) > array.ndim or not all(stretched):
            raise RuntimeError(
                f"backward: {node.row.name.lstrip('_')} returned an invalid gradient: shape "
                f"{array.shape} is not compatible with its input's shape {shape}"
            )
        g = ops._sum_to_size(g, shape)
    if array.dtype is not dtype:
        g = ops._to_copy(g, dtype)
    return g
