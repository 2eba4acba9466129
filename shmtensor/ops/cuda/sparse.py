"""Products of sparse and dense matrices on CUDA.

Where the rows are in order each thread sums one element of the result, in the order of the matrix's
elements. Otherwise sums are made by atomics, so the order of their terms is not fixed.
"""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

from ..table.op_table import ROWS
from .index import add_anywhere, as_indices, layout
from .launch import THREADS, acc_dtype, blocks_for, contiguous, is_floating, launch

__all__ = ["csr_matmul", "row_starts"]


def row_starts(rows: Any, n: int) -> Any:
    """The first element of each of n rows, and the end, for rows that do not decrease: (n + 1,)."""
    return cupy.searchsorted(rows, cupy.arange(n + 1)).astype(np.int64, copy=False)


def csr_matmul(starts: Any, columns: Any, values: Any, y: Any) -> Any:
    """The product of a sparse matrix by rows, (n, m), and a matrix y (m, k)."""
    n, (m, width) = starts.size - 1, y.shape
    out = cupy.empty((n, width), y.dtype)
    if out.size:
        grid, block = layout(n, width)
        operands = (starts, columns, values, y, out)
        sizes = np.int64(n), np.int64(width), np.int64(m)
        launch("sparse", "csr_matmul", y.dtype, grid, block, (*operands, *sizes))
    return out


@ROWS["_sparse_mm"].on("cuda")
def _sparse_mm(
    xp: Any, x: Any, y: Any, rows: Any, columns: Any, n: int, ordered: bool = False
) -> Any:
    if not is_floating(x, y):
        terms = y.take(columns, 0) * x[:, None]
        return add_anywhere(cupy.zeros((n, y.shape[1]), terms.dtype), (rows,), terms)
    rows, columns, x, y = as_indices(rows), as_indices(columns), contiguous(x), contiguous(y)
    if ordered:
        return csr_matmul(row_starts(rows, n), columns, x, y)
    sums = cupy.zeros((n, y.shape[1]), acc_dtype(y.dtype))
    if sums.size and x.size:
        grid, block = layout(x.size, y.shape[1])
        sizes = (np.int64(v) for v in (x.size, n, y.shape[1], y.shape[0]))
        launch("sparse", "coo_matmul", y.dtype, grid, block, (rows, columns, x, y, sums, *sizes))
    return sums.astype(y.dtype, copy=False)


@ROWS["_sampled_mm"].on("cuda")
def _sampled_mm(xp: Any, x: Any, y: Any, rows: Any, columns: Any) -> Any:
    if not is_floating(x, y):
        return (x.take(rows, 0) * y.take(columns, 0)).sum(1, dtype=x.dtype)
    rows, columns, x, y = as_indices(rows), as_indices(columns), contiguous(x), contiguous(y)
    out = cupy.empty(rows.shape, x.dtype)
    if out.size:
        sizes = (np.int64(v) for v in (out.size, x.shape[0], x.shape[1], y.shape[0]))
        blocks = blocks_for(out.size, THREADS // 32)
        arguments = (x, y, rows, columns, out, *sizes)
        launch("sparse", "sampled_matmul", x.dtype, blocks, THREADS, arguments)
    return out
