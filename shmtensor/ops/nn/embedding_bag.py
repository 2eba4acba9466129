"""embedding_bag: sums, means and maxima of bags of embeddings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..table.native_or_numpy import restore_half, upcast_half
from ..table.op_definition import composite

MODES = ("sum", "mean", "max")


def bag_of_each(input: Any, offsets: Any, include_last_offset: bool) -> tuple[Any, int]:
    """The bag of each element, and the number of bags."""
    n = math.prod(input.shape)
    if input.ndim == 2:
        if offsets is not None:
            raise ValueError(
                f"embedding_bag: offsets need a 1-d input: input has {tuple(input.shape)}"
            )
        return np.repeat(np.arange(input.shape[0]), input.shape[1]), input.shape[0]
    if input.ndim != 1:
        raise ValueError(f"embedding_bag: input has to be 1-d or 2-d: {tuple(input.shape)}")
    if offsets is None or offsets.ndim != 1:
        raise ValueError(f"embedding_bag: offsets has to be 1-d: {offsets}")
    starts = np.array(getattr(offsets, "array", offsets))  # a copy: others may write the tensor
    if starts.size and starts[0]:
        raise RuntimeError(f"embedding_bag: offsets must begin with 0: {starts[0]}")
    if (starts[1:] < starts[:-1]).any():
        raise RuntimeError(f"embedding_bag: offsets must not decrease: {starts.tolist()}")
    if starts.size and starts[-1] > n:
        raise RuntimeError(f"embedding_bag: offset is out of range: {starts[-1]}, {n} elements")
    if include_last_offset:
        if not starts.size:
            raise RuntimeError("embedding_bag: include_last_offset needs at least one offset: 0")
        starts = starts[:-1]
    return np.searchsorted(starts, np.arange(n), "right") - 1, len(starts)


@composite(method=False, function=False)
def _embedding_bag(
    ops, input, weight, offsets, mode, sample_weights, include_last_offset, padding_idx, sparse
):
    """Rows of weight (V, D) at indices, reduced bag by bag: (bags, D)."""
    if mode not in MODES:
        raise ValueError(f"embedding_bag: no such mode: {mode!r}, one of {MODES} is needed")
    if weight.ndim != 2:
        raise ValueError(f"embedding_bag: weight has to be 2-d: {tuple(weight.shape)}")
    if weight.dtype.kind != "f":
        raise RuntimeError(f"embedding_bag: weight has to be floating point: {weight.dtype}")
    if sample_weights is not None:
        if tuple(sample_weights.shape) != tuple(input.shape):
            raise ValueError(
                "embedding_bag: one weight for each index is needed: "
                f"{tuple(sample_weights.shape)}, {tuple(input.shape)}"
            )
        if mode != "sum":
            raise NotImplementedError(
                f"embedding_bag: per_sample_weights needs mode='sum': {mode!r}"
            )
        if sample_weights.dtype != weight.dtype:
            raise RuntimeError(
                "embedding_bag: per_sample_weights has to be of weight's dtype: "
                f"{sample_weights.dtype}, {weight.dtype}"
            )
    bag, n = bag_of_each(input, offsets, include_last_offset)
    flat = ops.reshape(input, (-1,))
    indices = np.asarray(getattr(flat, "array", flat))
    size = weight.shape[0]
    mask = bag >= 0  # without offsets there is no bag
    if padding_idx is not None:
        if not -size <= padding_idx < size:
            raise RuntimeError(f"embedding_bag: no such row: {padding_idx}, there are {size}")
        mask &= indices != padding_idx % size
    indices, bag = indices[mask], bag[mask]
    rows = ops._embedding(weight, indices, -1, sparse)
    if mode == "max" and len(indices):
        return max_of_bags(ops, rows, bag, n)
    if sample_weights is not None:
        weights = ops._index_select(ops.reshape(sample_weights, (-1,)), np.nonzero(mask)[0], 0)
        rows = ops.mul(rows, ops.unsqueeze(weights, 1))
    sums = ops._index_select_backward(upcast_half(ops, rows), bag, (n, weight.shape[1]), 0)
    if mode != "mean":
        return restore_half(ops, sums, rows.dtype)
    number = np.maximum(np.bincount(bag, minlength=n), 1).astype(sums.dtype)
    return restore_half(ops, ops.div(sums, number[:, None]), rows.dtype)


def max_of_bags(ops: Any, rows: Any, bag: Any, n: int) -> Any:
    """The largest of each column in each bag; 0 where a bag is empty."""
    values = np.asarray(getattr(rows, "array", rows))
    out = np.full((n, values.shape[1]), -np.inf, values.dtype)
    np.maximum.at(out, bag, values)
    first = np.full(out.shape, len(values), np.int64)
    positions = np.where(values == out[bag], np.arange(len(values))[:, None], len(values))
    np.minimum.at(first, bag, positions)
    empty = first == len(values)
    return ops._where_other(empty, ops._gather(rows, np.where(empty, 0, first), 0), 0.0)
