"""The gradient of broadcasting: the sum over the broadcast dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import native
from ...ops.table.sparse_gradient import SparseGradient
from ..dispatch.op_function import array_ops, arrays, table
from .sparse_grad import sparse_or_dense


def sum_to_size(g: Any, edge: Any, node: Any) -> Any:
    """A gradient with the dtype and shape of its input.

    Sums over broadcast dimensions, casts, takes real parts.
    """
    ops: Any = table
    if isinstance(g, SparseGradient):
        g = sparse_or_dense(g, edge)
        if isinstance(g, SparseGradient):
            return g
    array = g
    if isinstance(g, native.TensorBase):
        array = g.array
    else:
        ops = array_ops(g)
        if ops is arrays and not isinstance(g, np.ndarray):
            array = g = np.asarray(g)
    shape, dtype = edge.shape, edge.dtype
    if array.shape != shape:
        is_broadcast = [a == b or b == 1 for a, b in zip(array.shape[::-1], shape[::-1])]
        if len(shape) > array.ndim or not all(is_broadcast):
            raise RuntimeError(
                f"backward: {node.row.name.lstrip('_')} returned an invalid gradient: shape "
                f"{array.shape} is not compatible with its input's shape {shape}"
            )
        g = ops._sum_to_size(g, shape)
    if array.dtype is not dtype:
        g = ops._to_copy(g, dtype)
    return g
