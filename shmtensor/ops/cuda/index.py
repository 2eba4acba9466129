"""Embeddings, and sums at indices, on CUDA: index_add, scatter_add, index_put(accumulate=True), and
the gradients of embedding, index_select, gather and indexing.

Sums are made by atomics, so the order of their terms is not fixed. Indices are not checked, which
would wait for the device: sums leave out what is not there, an embedding has NaN for it.
"""

from __future__ import annotations

import math
from typing import Any

import cupy
import numpy as np

from ...dtypes import bfloat16
from ..index.gather_scatter import as_vector, crop_to_index
from ..index.getitem_index_put_where import is_basic
from ..index.index_add import flat_indices_along
from ..table.dims import axis
from ..table.op_table import ROWS
from .launch import acc_dtype, contiguous, is_floating, launch, split_at

FAR = -(2**62)  # an index that is nowhere


def layout(rows: int, columns: int) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Grid and block for rows of some columns."""
    x = 1
    while x < 64 and x < columns:
        x *= 2
    y = 256 // x
    grid = max(1, min(-(-columns // x), 1024)), max(1, min(-(-rows // y), 32768)), 1
    return grid, (x, y, 1)


def as_indices(index: Any) -> Any:
    """Contiguous int64."""
    return contiguous(index.astype(np.int64, copy=False))


# ---- embedding


def embedding(weight: Any, index: Any) -> Any:
    """Rows of a table (V, D) at indices (...): (..., D)."""
    weight, index = contiguous(weight), as_indices(index)
    out = cupy.empty((*index.shape, *weight.shape[1:]), weight.dtype)
    width = math.prod(weight.shape[1:])
    if out.size:
        pack = 16 // weight.itemsize
        packs = width % pack == 0 and weight.data.ptr % 16 == 0 and out.data.ptr % 16 == 0
        width = width // pack if packs else width
        grid, block = layout(index.size, width)
        sizes = np.int64(index.size), np.int64(width), np.int64(weight.shape[0]), np.int32(packs)
        launch("index", "embedding", weight.dtype, grid, block, (weight, index, out, *sizes))
    return out


@ROWS["_embedding"].on("cuda")
def _embedding(
    xp: Any, weight: Any, index: Any, padding_idx: int = -1, sparse: bool = False
) -> Any:
    if not is_floating(weight):
        return weight.take(index, 0)
    return embedding(weight, index)


# ---- sums at indices


def sums_like(x: Any, out: Any = None) -> Any:
    """An array for sums that begin with x: of the type that is computed in, contiguous."""
    if out is x and x.flags.c_contiguous and acc_dtype(x.dtype) == x.dtype:
        return x
    return x.astype(acc_dtype(x.dtype), order="C", copy=True)


def rounded(sums: Any, dtype: Any, out: Any) -> Any:
    """The sums in their dtype; in `out`, if it is given."""
    if out is None:
        return sums.astype(dtype, copy=False)
    if out is not sums:
        out[...] = sums
    return out


def add_slices(
    sums: Any, index: Any, values: Any, dim: int, skipped: int = FAR, wrap: bool = False
) -> None:
    """sums[index[j]] += values[j] along a dimension, in place.

    Args:
        sums: contiguous, of the type that is computed in.
        index: a vector.
        values: of sums' shape but for the index's length along dim; may be float16.
        skipped: an index that is left out.
        wrap: negative indices count from the end.
    """
    outer, size, inner = split_at(sums.shape, dim)
    n = index.size
    if not (outer and n and inner):
        return
    index, values = as_indices(index), contiguous(values)
    grid, block = layout(outer * n, inner)
    numbers = tuple(np.int64(v) for v in (outer, n, inner, size, skipped))
    arguments = (sums, index, values, *numbers, np.int32(wrap))
    launch("index", "index_add", values.dtype, grid, block, arguments)


def scatter_add(sums: Any, index: Any, values: Any, dim: int) -> None:
    """sums[i, index[i, j]] += values[i, j] for dim = 1, in place; index may be smaller than sums in
    other dimensions. sums is contiguous, of the type that is computed in.
    """
    others_equal = (
        index.shape[:dim] == sums.shape[:dim] and index.shape[dim + 1 :] == sums.shape[dim + 1 :]
    )
    if not others_equal:
        outside = (index < 0) | (index >= sums.shape[dim])
        flat = cupy.where(outside, FAR, flat_indices_along(cupy, sums.shape, dim, index))
        add_slices(sums.reshape(-1), flat.reshape(-1), contiguous(values).reshape(-1), 0)
        return
    outer, n, inner = split_at(index.shape, dim)
    if not index.size:
        return
    grid, block = layout(outer * n, inner)
    numbers = tuple(np.int64(v) for v in (outer, n, inner, sums.shape[dim]))
    arguments = (sums, as_indices(index), contiguous(values), *numbers)
    launch("index", "scatter_add", values.dtype, grid, block, arguments)


def add_anywhere(out: Any, index: Any, values: Any) -> Any:
    """out[index] += values for other dtypes and indices, by CuPy; the result."""
    if out.dtype.kind == "b":
        return add_anywhere(out.astype(np.int32), index, values.astype(np.int32)) != 0
    if out.dtype.kind == "c":  # CuPy adds real numbers only
        part = np.dtype(np.float64 if out.dtype == np.complex128 else np.float32)
        sums, terms = (
            contiguous(v).reshape(*v.shape, 1).view(part) for v in (out, values.astype(out.dtype))
        )
        cupy.add.at(sums, (*(index if isinstance(index, tuple) else (index,)), slice(None)), terms)
        return sums.view(out.dtype).reshape(out.shape)
    wide = out
    if out.dtype.kind in "iu":  # CuPy adds 32 and 64 bits; signed ones as unsigned
        wide = out.astype(np.uint64 if out.itemsize == 8 else np.int32)
    values = values.astype(wide.dtype)
    cupy.add.at(wide, index, values)
    return wide.astype(out.dtype, copy=False)


def add_flat(out: Any, index: Any, values: Any, in_place: Any = None) -> Any:
    """The result of out[index] += values, for an index tuple or one index."""
    parts = index if isinstance(index, tuple) else (index,)
    arrays = [i for i in parts if hasattr(i, "dtype")]
    if is_basic(index) or all(i.dtype == np.bool_ for i in arrays):
        result = out.copy() if in_place is None else in_place
        result[index] += values
        return result
    plain = len(arrays) == len(parts) and all(i.dtype.kind in "iu" for i in arrays)
    if not plain or not is_floating(out):
        half = out.dtype == np.float16 or out.dtype is bfloat16
        result = add_anywhere(out.astype(np.float32) if half else out.copy(), index, values)
        return rounded(result, out.dtype, in_place)
    n = len(parts)
    row_shape = out.shape[n:]
    values = values.astype(out.dtype, copy=False)
    if n == 1:
        flat = parts[0]
    else:
        flat = 0
        for i, size in zip(parts, out.shape[:n], strict=True):
            i = cupy.where((i < -size) | (i >= size), FAR, cupy.where(i < 0, i + size, i))
            flat = cupy.where((flat < 0) | (i < 0), FAR, flat * size + i)
    sums = sums_like(out, in_place)
    table = sums.reshape(math.prod(out.shape[:n]), math.prod(row_shape))
    rows = contiguous(cupy.broadcast_to(values, (*flat.shape, *row_shape)))
    add_slices(table, flat.reshape(-1), rows.reshape(flat.size, table.shape[1]), 0, wrap=n == 1)
    return rounded(sums, out.dtype, in_place)


@ROWS["_embedding_dense_backward"].on("cuda")
def _embedding_dense_backward(xp: Any, x: Any, index: Any, n: int, padding_idx: int) -> Any:
    if not is_floating(x):
        return ROWS["_embedding_dense_backward"].forward(xp, x, index, n, padding_idx)
    sums = cupy.zeros((n, x.shape[-1]), acc_dtype(x.dtype))
    skipped = padding_idx if padding_idx >= 0 else FAR
    add_slices(sums, index.reshape(-1), x.reshape(index.size, x.shape[-1]), 0, skipped)
    return sums.astype(x.dtype, copy=False)


@ROWS["_index_select_backward"].on("cuda")
def _index_select_backward(xp: Any, x: Any, index: Any, shape: tuple[int, ...], dim: int) -> Any:
    if not shape:
        return x.reshape(())
    dim %= len(shape)
    if not is_floating(x):
        places = (slice(None),) * dim + (index.reshape(-1),)
        return add_anywhere(cupy.zeros(shape, x.dtype), places, x)
    sums = cupy.zeros(shape, acc_dtype(x.dtype))
    add_slices(sums, index.reshape(-1), x, dim)
    return sums.astype(x.dtype, copy=False)


@ROWS["_index_add"].on("cuda")
def _index_add(xp: Any, x: Any, source: Any, index: Any, dim: int, out: Any = None) -> Any:
    index = as_vector("index_add", index)
    if not x.ndim:
        return rounded(x + source.sum().astype(x.dtype), x.dtype, out)
    dim = axis(x, dim)
    expected = (*x.shape[:dim], index.size, *x.shape[dim + 1 :])
    if source.shape != expected:
        raise RuntimeError(f"index_add: source must have shape {expected}: {source.shape}")
    if not is_floating(x):
        places = (slice(None),) * dim + (index,)
        return rounded(add_anywhere(x.copy(), places, source), x.dtype, out)
    sums = sums_like(x, out)
    add_slices(sums, index, source, dim)
    return rounded(sums, x.dtype, out)


def index_fits(name: str, x_shape: tuple[int, ...], index: Any, dim: int) -> int:
    """The dimension, counted from the front, if the index's shape fits.

    Raises:
        RuntimeError: it does not. IndexError: there is no such dimension.
    """
    rank = max(len(x_shape), 1)
    if not -rank <= dim < rank:
        raise IndexError(f"{name}: dim is out of range: {dim} for shape {x_shape}")
    dim %= rank
    larger = any(
        n > m for d, (n, m) in enumerate(zip(index.shape, x_shape, strict=False)) if d != dim
    )
    if max(index.ndim, 1) != rank or (larger and index.size):
        raise RuntimeError(f"{name}: the index must fit in the tensor: {index.shape} in {x_shape}")
    return dim


def add_scattered(name: str, sums: Any, source: Any, index: Any, dim: int) -> Any:
    """sums with elements of source added at indices along dim; in place for kernels' dtypes."""
    dim = index_fits(name, sums.shape, index, dim)
    if not sums.ndim or not index.ndim:
        part, places = source.reshape(-1)[: index.size], index.reshape(-1)
        shape, flat, dim = sums.shape, sums.reshape(-1), 0
    else:
        part, places, shape, flat = crop_to_index(name, source, index), index, sums.shape, sums
    part = cupy.broadcast_to(part, places.shape)
    if source.dtype.name in ("float16", "float32", "float64"):
        scatter_add(flat, places, part, dim)
        return sums
    at = flat_indices_along(cupy, flat.shape, dim, places).reshape(-1)
    return add_anywhere(flat.reshape(-1), (at,), part.reshape(-1)).reshape(shape)


@ROWS["_gather_backward"].on("cuda")
def _gather_backward(xp: Any, x: Any, index: Any, shape: tuple[int, ...], dim: int) -> Any:
    dtype = acc_dtype(x.dtype) if is_floating(x) else x.dtype
    sums = cupy.zeros(shape, dtype)
    if index.size:
        sums = add_scattered("gather", sums, x, index, dim)
    return sums.astype(x.dtype, copy=False)


@ROWS["_scatter_add"].on("cuda")
def _scatter_add(xp: Any, x: Any, source: Any, index: Any, dim: int, out: Any = None) -> Any:
    if not index.size:
        return x.copy() if out is None else out
    sums = sums_like(x, out) if is_floating(x) else x.copy()
    return rounded(add_scattered("scatter_add", sums, source, index, dim), x.dtype, out)


@ROWS["_index_put"].on("cuda")
def _index_put(xp: Any, x: Any, values: Any, index: Any, accumulate: bool, out: Any = None) -> Any:
    if accumulate:
        return add_flat(x, index, values, out)
    result = x.copy() if out is None else out
    result[index] = values
    return result


@ROWS["_index_backward"].on("cuda")
def _index_backward(xp: Any, x: Any, shape: tuple[int, ...], index: Any) -> Any:
    out = cupy.zeros(shape, x.dtype)
    if is_basic(index):
        out[index] = x
        return out
    return add_flat(out, index, x)
