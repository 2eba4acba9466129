"""SparseDataset: the rows of a SciPy sparse matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shmtensor.autograd import wrap

from ..dataset import Dataset
from ..loader.batch_block import allocate_parts, checked_rows
from ..tensor_dataset import Rows, first_part
from .in_memory_images import shared

__all__ = ["SparseDataset"]


class SparseDataset(Dataset[Any]):
    """Sample i is row i of a sparse matrix, dense, and row i of each of the other columns.

    Only the nonzero values and their indices are in shared memory, as many bytes as in SciPy's CSR;
    a batch is made dense in its block, `(batch, F)`.

    Parameters
    ----------
    matrix : sparse matrix
        Any of SciPy's (with `tocsr()`), `(N, F)`.
    *columns : ndarray
        Of first dimension N, such as labels.
    dtype : dtype, optional
        Of the rows; the matrix's if None.

    Raises
    ------
    TypeError
        `matrix` is not sparse.
    ValueError
        First dimensions differ, or the matrix's indices are out of range.

    Notes
    -----
    Copies: one (matrix to shared memory), one (to the batch's block).

    Examples
    --------
    >>> from scipy.sparse import csr_matrix
    >>> from shmtensor.dataloaders.datasets import SparseDataset
    >>> SparseDataset(csr_matrix([[0.0, 2.0], [1.0, 0.0]]), np.array([5, 6]))[1]
    (tensor([1., 0.], dtype=shmtensor.float64), tensor(6))
    """

    def __init__(self, matrix: Any, *columns: Any, dtype: Any = None) -> None:
        if not hasattr(matrix, "tocsr"):
            raise TypeError(f"SparseDataset: not a sparse matrix: {type(matrix).__name__}")
        if hasattr(matrix, "check_format"):  # SciPy itself reads where indices and indptr point
            matrix.check_format(full_check=True)
        rows = matrix.tocsr()
        if not rows.has_canonical_format:
            rows = rows.copy()  # do not change the caller's matrix
            rows.sum_duplicates()
        if rows.ndim != 2 or rows.dtype.kind not in "biufc":
            raise ValueError(f"SparseDataset: not a matrix of numbers: {rows.dtype} {rows.shape}")
        self.shape: tuple[int, int] = rows.shape
        self.dtype: np.dtype[Any] = np.dtype(rows.dtype if dtype is None else dtype)
        self.data = shared(rows.data, self.dtype)
        self.indices = shared(rows.indices)
        self.indptr = shared(rows.indptr, np.int64)
        arrays = [np.asarray(column) for column in columns]
        for array in arrays:
            if array.ndim == 0 or len(array) != self.shape[0]:
                raise ValueError(
                    f"SparseDataset: first dimensions differ: {self.shape} and {array.shape}"
                )
        self.columns = [shared(array) for array in arrays]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: int) -> Any:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> Sequence[Any]:
        """The rows `indices`, made dense in one block."""
        n, width = self.shape
        rows = checked_rows("SparseDataset", indices, n)
        starts = self.indptr.array[rows]
        counts = self.indptr.array[rows + 1] - starts
        out_rows = np.repeat(np.arange(len(rows)), counts)
        # Value k of the batch is at k - (number of values in earlier rows) + (start of its row).
        source = np.arange(len(out_rows)) + np.repeat(starts - (np.cumsum(counts) - counts), counts)
        columns = [column.array for column in self.columns]
        parts = allocate_parts(
            [((len(rows), width), self.dtype)]
            + [((len(rows), *column.shape[1:]), column.dtype) for column in columns]
        )
        parts[0][...] = 0
        parts[0][out_rows, self.indices.array[source]] = self.data.array[source]
        for column, part in zip(columns, parts[1:], strict=True):
            column.take(rows, 0, part, "clip")
        wrapped: list[Any] = [wrap(part) for part in parts]
        return Rows(wrapped, len(rows), None if self.columns else first_part)
