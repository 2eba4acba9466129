"""Sparse gradients: a leaf accumulates the slices that a pullback returns as they are; on the way
to any other node they become dense.

Note [Sparse and dense]: the sum of two sparse gradients concatenates them, uncoalesced; a dense one
makes the sum dense.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from ... import native
from ...cuda_arrays import copy_array
from ...ops.table.sparse_gradient import SparseGradient, add_slices_at
from ..dispatch.op_function import table
from .accumulate_grad import AccumulateGrad

SparseClass = TypeVar("SparseClass", bound=type)

sparse_class: Any = None  # the class of sparse tensors, in a higher layer


def register_sparse_class(sparse: SparseClass) -> SparseClass:
    """Registers the class of the sparse gradients that users see: (places, numbers, shape)."""
    global sparse_class
    sparse_class = sparse
    return sparse


def sparse_or_dense(g: Any, edge: Any) -> Any:
    """A gradient from a pullback, or a hook, for an edge: sparse for a leaf of its shape, else
    dense.

    Copies: one of the elements if they are a view.
    """
    numbers = g.numbers
    if not isinstance(numbers, native.TensorBase):
        numbers = native.wrap(contiguous_copy(numbers) if numbers.base is not None else numbers)
        if edge.__class__ is not AccumulateGrad or edge.shape != g.shape:
            return sparse_class(native.wrap(g.places), numbers, g.shape).to_dense().array
    if numbers.dtype != edge.dtype:
        numbers = numbers.to(edge.dtype)
    places = g.places if isinstance(g.places, native.TensorBase) else native.wrap(g.places)
    sparse = sparse_class(places, numbers, g.shape)
    return (
        sparse if edge.__class__ is AccumulateGrad and edge.shape == g.shape else sparse.to_dense()
    )


def contiguous_copy(array: Any) -> Any:
    """A copy in C order, on the array's device. Copies: one."""
    if isinstance(array, np.ndarray):
        return array.copy()
    with array.device:
        return array.copy()


def add_sparse(old: Any, g: Any, create_graph: bool, inplace: bool = False) -> Any:
    """The sum of two gradients, at least one of them sparse: Note [Sparse and dense].

    Args:
        old, g: sparse tensors, Tensors or arrays.
        inplace: a dense `old` may be written.
    """
    if isinstance(old, SparseGradient) and isinstance(g, SparseGradient):
        places = table.cat([old.places, g.places], 1)
        numbers = table.cat([old.numbers, g.numbers], 0)
        return sparse_class(places, numbers if create_graph else numbers.detach(), g.shape)
    dense: Any
    sparse: Any
    dense, sparse = (g, old) if isinstance(old, SparseGradient) else (old, g)
    if create_graph:
        return table.add(dense, sparse.to_dense())
    is_tensor = isinstance(dense, native.TensorBase)
    array = dense.array if is_tensor else dense
    if not inplace or dense is g or (is_tensor and dense.node is not None):
        is_plain = isinstance(array, np.ndarray)
        array = np.array(array, order="C") if is_plain else copy_array(array)
        dense = (
            native.wrap(array) if isinstance(old, (native.TensorBase, SparseGradient)) else array
        )
    add_slices_at(array, sparse.places.array, sparse.numbers.array)
    if dense is old and is_tensor:
        native.wrote(dense)
    return dense


def sparse_root(where: str, edge: Any, device: Any, g: Any, create_graph: bool) -> Any:
    """A sparse gradient of a result: it stays sparse if that is a leaf. Copies: one of the values.

    Raises:
        RuntimeError: it is of another shape or on another device, or only one of both is complex.
    """
    if (tuple(g.shape), g.device) != (tuple(edge.shape), device):
        raise RuntimeError(
            f"{where}: Mismatch in shape or device: the sparse gradient is {tuple(g.shape)} on "
            f"{g.device}, the output {tuple(edge.shape)} on {device}"
        )
    if (g.dtype.kind == "c") != (edge.dtype.kind == "c"):
        raise RuntimeError(
            f"{where}: For complex Tensors, both grad_output and output are required to have the "
            f"same dtype: the gradient is {g.dtype}, the output is {edge.dtype}"
        )
    g = sparse_or_dense(g if create_graph else g.detach().clone(), edge)
    return g if create_graph or isinstance(g, SparseGradient) else g.array
