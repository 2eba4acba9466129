"""Sparse gradients, as pullbacks return them: only some slices are stored."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import native
from ..index.index_add import add_at_flat_indices, flat_indices
from .constants import array_module

__all__ = [
    "SparseGradient",
    "add_slices_at",
    "can_be_sparse",
    "sparse_embedding_backward",
    "sparse_gather_backward",
]


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


def can_be_sparse(index: Any) -> bool:
    """Whether the gradient at indices, an array or a Tensor, can be a SparseGradient: on a GPU it
    is dense.
    """
    return isinstance(getattr(index, "array", index), np.ndarray)


def add_slices_at(out: Any, places: Any, numbers: Any) -> None:
    """Adds values to the slices of an array at indices."""
    if not isinstance(out, np.ndarray):
        array_module(out).add.at(out, tuple(places), numbers)
        return
    if len(places) == 1 and native.index_add(out, numbers, places[0], 0):
        return
    if out.flags.c_contiguous:
        add_at_flat_indices(np, out, flat_indices(np, out.shape, tuple(places)), numbers)
    else:
        np.add.at(out, native.private_index(tuple(places)), numbers)


def sparse_embedding_backward(
    ops: Any, g: Any, index: Any, shape: Any, padding_idx: int
) -> SparseGradient:
    """The gradient of an embedding table: g at the rows `index`, without padding_idx.

    Copies: one of the indices, which may be the user's.
    """
    xp = array_module(index)
    places = xp.array(index, xp.int64).reshape(1, -1)
    numbers = ops.reshape(g, (places.shape[1], *shape[1:]))
    if padding_idx >= 0:
        mask = xp.flatnonzero(places[0] != padding_idx)
        places, numbers = places[:, mask], ops._index_select(numbers, mask, 0)
    return SparseGradient(places, numbers, shape)


def sparse_gather_backward(ops: Any, g: Any, index: Any, shape: Any, dim: int) -> SparseGradient:
    """The gradient of a gathered tensor: g at the elements `index` along dim."""
    xp = array_module(index)
    if not shape or not index.ndim:
        places = xp.zeros((len(shape), index.size), xp.int64)
        if shape:
            places[0] = index.reshape(-1)
    else:
        places = xp.indices(index.shape, xp.int64).reshape(index.ndim, -1)
        places[dim] = index.reshape(-1)
    return SparseGradient(places, ops.reshape(g, (-1,)), shape)
