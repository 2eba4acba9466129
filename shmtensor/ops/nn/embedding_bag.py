"""embedding_bag: sums, means and maxima of bags of embeddings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..table.constants import array_module, at_operands, computed, constant, data_of, filled
from ..table.native_or_numpy import restore_half, upcast_half
from ..table.op_table import composite

MODES = ("sum", "mean", "max")


@at_operands
def bag_of_each(input: Any, offsets: Any, include_last_offset: bool) -> tuple[Any, int]:
    """The bag of each element, and the number of bags."""
    n, xp = math.prod(input.shape), array_module(input)
    if input.ndim == 2:
        if offsets is not None:
            raise ValueError(
                f"embedding_bag: offsets need a 1-d input: input has {tuple(input.shape)}"
            )
        bags = xp.broadcast_to(xp.arange(input.shape[0])[:, None], input.shape)
        return bags.reshape(-1), input.shape[0]
    if input.ndim != 1:
        raise ValueError(f"embedding_bag: input has to be 1-d or 2-d: {tuple(input.shape)}")
    if offsets is None or offsets.ndim != 1:
        raise ValueError(f"embedding_bag: offsets has to be 1-d: {offsets}")
    starts = offsets
    if xp is np:
        starts = np.array(starts)  # a copy: others may write the tensor
        check_offsets(starts, n)
    if include_last_offset:
        if not starts.size:
            raise RuntimeError("embedding_bag: include_last_offset needs at least one offset: 0")
        starts = starts[:-1]
    return xp.searchsorted(starts, xp.arange(n), "right") - 1, len(starts)


def check_offsets(starts: Any, n: int) -> None:
    """Raises RuntimeError unless offsets into n elements begin with 0 and do not decrease. Those on
    a device are not checked: see Note [Indices on a device].
    """
    if starts.size and starts[0]:
        raise RuntimeError(f"embedding_bag: offsets must begin with 0: {starts[0]}")
    if (starts[1:] < starts[:-1]).any():
        raise RuntimeError(f"embedding_bag: offsets must not decrease: {starts.tolist()}")
    if starts.size and starts[-1] > n:
        raise RuntimeError(f"embedding_bag: offset is out of range: {starts[-1]}, {n} elements")


@at_operands
def kept(indices: Any, bag: Any, padding_row: int | None) -> tuple[Any, Any, Any]:
    """The indices that are in a bag and not of the padding row, their bags, and which they are."""
    mask = bag >= 0  # without offsets there is no bag
    if padding_row is not None:
        mask &= indices != padding_row
    return indices[mask], bag[mask], mask


@at_operands
def places_of(mask: Any) -> Any:
    """The positions of the true elements of a vector."""
    return array_module(mask).nonzero(mask)[0]


@at_operands
def sizes_of_bags(bag: Any, n: int, dtype: Any) -> Any:
    """The number of elements in each of n bags, or 1 for an empty one: (n, 1)."""
    xp = array_module(bag)
    return xp.maximum(xp.bincount(bag, minlength=n), 1).astype(dtype)[:, None]


@composite
def _embedding_bag(
    ops, input, weight, offsets, mode, sample_weights, include_last_offset, padding_idx, sparse
):
    """Rows of weight (V, D) at indices, reduced bag by bag: (bags, D)."""
    if mode not in MODES:
        raise ValueError(f"embedding_bag: no such mode: {mode!r}, one of {MODES} is needed")
    if weight.ndim != 2:
        raise ValueError(f"embedding_bag: weight has to be 2-d: {tuple(weight.shape)}")
    if weight.dtype.kind != "f":
        raise RuntimeError(f"embedding_bag: weight has to be floating point: {weight.dtype.name}")
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
                f"{sample_weights.dtype.name}, {weight.dtype.name}"
            )
    bag, n = bag_of_each(input, offsets, include_last_offset)
    flat = ops.reshape(input, (-1,))
    size = weight.shape[0]
    if padding_idx is not None:
        if not -size <= padding_idx < size:
            raise RuntimeError(f"embedding_bag: no such row: {padding_idx}, there are {size}")
        padding_idx %= size
    if getattr(weight, "is_meta", False):  # all indices are kept: it makes no difference there
        rows = ops._embedding(weight, flat, -1, sparse)
        return ops._index_select_backward(rows, flat, (n, weight.shape[1]), 0)
    indices, bag, mask = kept(flat, bag, padding_idx)
    rows = ops._embedding(weight, constant(indices, weight), -1, sparse)
    if mode == "max" and len(indices):
        return max_of_bags(ops, rows, bag, n)
    if sample_weights is not None:
        places = constant(places_of(mask), weight)
        weights = ops._index_select(ops.reshape(sample_weights, (-1,)), places, 0)
        rows = ops.mul(rows, ops.unsqueeze(weights, 1))
    sums = ops._index_select_backward(
        upcast_half(ops, rows), constant(bag, weight), (n, weight.shape[1]), 0
    )
    if mode != "mean":
        return restore_half(ops, sums, rows.dtype)
    number = sizes_of_bags(bag, n, sums.dtype)
    return restore_half(ops, ops.div(sums, constant(number, weight)), rows.dtype)


def max_of_bags(ops: Any, rows: Any, bag: Any, n: int) -> Any:
    """The largest of each column in each bag; 0 where a bag is empty."""
    values = data_of(rows)
    if not isinstance(values, np.ndarray):
        return max_of_bags_on_device(ops, rows, bag, n)
    out = np.full((n, values.shape[1]), -np.inf, values.dtype)
    np.maximum.at(out, bag, values)
    first = np.full(out.shape, len(values), np.int64)
    positions = np.where(values == out[bag], np.arange(len(values))[:, None], len(values))
    np.minimum.at(first, bag, positions)
    empty = first == len(values)
    return ops._where_other(empty, ops._gather(rows, np.where(empty, 0, first), 0), 0.0)


def max_of_bags_on_device(ops: Any, rows: Any, bag: Any, n: int) -> Any:
    """`max_of_bags` by the device's reductions."""
    values, xp = constant(data_of(rows), rows), array_module(rows)
    shape = tuple(rows.shape)
    index = constant(xp.broadcast_to(bag[:, None], shape), rows)
    lowest = filled((n, shape[1]), -math.inf, rows.dtype, rows)
    out = ops._scatter_reduce(lowest, values, index, 0, "amax", True)
    positions = computed(lambda xp: xp.broadcast_to(xp.arange(shape[0])[:, None], shape), rows)
    positions = ops._where(values == ops._gather(out, index, 0), positions, shape[0])
    end = filled((n, shape[1]), shape[0], np.int64, rows)
    first = ops._scatter_reduce(end, positions, index, 0, "amin", True)
    empty = first == shape[0]
    return ops._where_other(empty, ops._gather(rows, ops._where_other(empty, first, 0), 0), 0.0)
