"""Sparse gradients, as pullbacks return them: only some slices are stored."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import native
from ..index.index_add import add_at_flat_indices, flat_indices
from .constants import array_module, at_operands, constant
from .op_table import ROWS


class SparseGradient:
    """A gradient that is zero except at some indices; slices at the same index are summed.

    Attributes:
        places: the indices, int64, (sparse dimensions, nnz).
        numbers: the values, (nnz, *dense dimensions): an array, or a Tensor with its history.
        shape: of the dense gradient.
    """

    places: Any
    numbers: Any
    shape: tuple[int, ...]

    def __init__(self, places: Any, numbers: Any, shape: tuple[int, ...]) -> None:
        self.places, self.numbers, self.shape = places, numbers, shape


def add_slices_at(out: Any, places: Any, numbers: Any) -> None:
    """Adds values to the slices of an array at indices."""
    if not isinstance(out, np.ndarray):
        add_on_device = ROWS["_index_put"].forward_on("cuda")
        with out.device:
            add_on_device(array_module(out), out, numbers, tuple(places), True, out)
        return
    if len(places) == 1 and native.index_add(out, numbers, places[0], 0):
        return
    if out.flags.c_contiguous:
        add_at_flat_indices(np, out, flat_indices(np, out.shape, tuple(places)), numbers)
    else:
        np.add.at(out, native.private_index(tuple(places)), numbers)


@at_operands
def places_of_rows(index: Any, padding_idx: int) -> tuple[Any, Any]:
    """Row indices as places (1, nnz), a copy, without padding_idx; and the positions that are left,
    or None for all.
    """
    xp = array_module(index)
    places = xp.array(index, xp.int64).reshape(1, -1)
    if padding_idx < 0:
        return places, None
    kept = xp.flatnonzero(places[0] != padding_idx)
    return places[:, kept], kept


def sparse_embedding_backward(
    ops: Any, g: Any, index: Any, shape: Any, padding_idx: int
) -> SparseGradient:
    """The gradient of an embedding table: g at the rows `index`, without padding_idx.

    Copies: one of the indices, which may be the user's.
    """
    places, kept = places_of_rows(index, padding_idx)
    numbers = ops.reshape(g, (math.prod(index.shape), *shape[1:]))
    if kept is not None:
        numbers = ops._index_select(numbers, constant(kept, numbers), 0)
    return SparseGradient(places, numbers, shape)


@at_operands
def places_of_elements(index: Any, rank: int, dim: int) -> Any:
    """The places (rank, nnz) of the elements that `gather` takes along dim."""
    xp = array_module(index)
    if not rank or not index.ndim:
        places = xp.zeros((rank, index.size), xp.int64)
        if rank:
            places[0] = index.reshape(-1)
        return places
    places = xp.indices(index.shape, xp.int64).reshape(index.ndim, -1)
    places[dim] = index.reshape(-1)
    return places


def sparse_gather_backward(ops: Any, g: Any, index: Any, shape: Any, dim: int) -> SparseGradient:
    """The gradient of a gathered tensor: g at the elements `index` along dim."""
    places = places_of_elements(index, len(shape), dim)
    return SparseGradient(places, ops.reshape(g, (-1,)), shape)
