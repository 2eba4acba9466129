"""Sparse gradients in the walk: what a pullback kept of a gradient arrives at a leaf as it is, and
is added up there; on its way to anything else it becomes dense.

Note [Sparse and dense]: two sparse gradients are put one behind the other, uncoalesced; a dense one
makes the sum dense.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import native
from ...ops.table.sparse_gradient import SparseGradient, add_slices_at
from ..dispatch.op_function import table
from .accumulate_grad import AccumulateGrad

__all__ = ["SparseGradient", "added", "arrived", "shows"]

made: Any = None  # the class of a sparse tensor, which stands above this layer


def shows(sparse: Any) -> Any:
    """Declares the class that users see a sparse gradient as: (places, numbers, shape)."""
    global made
    made = sparse
    return sparse


def arrived(g: Any, edge: Any) -> Any:
    """A gradient from a pullback, or a hook, as its edge takes it: sparse at a leaf of this shape,
    else dense.

    Copies: one of the kept elements if they are part of something else.
    """
    numbers = g.numbers
    if not isinstance(numbers, native.TensorBase):
        numbers = native.wrap(np.array(numbers) if numbers.base is not None else numbers)
        if edge.__class__ is not AccumulateGrad or edge.shape != g.shape:
            return made(native.wrap(g.places), numbers, g.shape).to_dense().array
    if numbers.dtype != edge.dtype:
        numbers = numbers.to(edge.dtype)
    places = g.places if isinstance(g.places, native.TensorBase) else native.wrap(g.places)
    sparse = made(places, numbers, g.shape)
    return (
        sparse if edge.__class__ is AccumulateGrad and edge.shape == g.shape else sparse.to_dense()
    )


def added(old: Any, g: Any, create: bool, inplace: bool = False) -> Any:
    """The sum of two gradients of which one is sparse, as Note [Sparse and dense] says.

    Args:
        old, g: sparse tensors, Tensors or arrays.
        inplace: old, if it is dense, may be written.
    """
    if isinstance(old, SparseGradient) and isinstance(g, SparseGradient):
        places = table.cat([old.places, g.places], 1)
        numbers = table.cat([old.numbers, g.numbers], 0)
        return made(places, numbers if create else numbers.detach(), g.shape)
    dense: Any
    sparse: Any
    dense, sparse = (g, old) if isinstance(old, SparseGradient) else (old, g)
    if create:
        return table.add(dense, sparse.to_dense())
    is_tensor = isinstance(dense, native.TensorBase)
    array = dense.array if is_tensor else dense
    if not inplace or dense is g or (is_tensor and dense.node is not None):
        array = np.array(array, order="C")
        dense = (
            native.wrap(array) if isinstance(old, (native.TensorBase, SparseGradient)) else array
        )
    add_slices_at(array, sparse.places.array, sparse.numbers.array)
    if dense is old and is_tensor:
        native.wrote(dense)
    return dense
