"""Products of a sparse matrix and a dense one.

A sparse matrix is its values (nnz,) and their rows and columns. Two bilinear rows are each other's
gradients.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import native
from ..table.op_table import op
from ..table.samples import ints

multiply = native.parallel(np.multiply)


def rows_at(xp: Any, x: Any, index: Any) -> Any:
    """Rows of a matrix at indices, as an array of its own."""
    part = native.take(x, index, 0) if xp is np else None
    return x.take(index, 0) if part is None else part


@op(
    promote="common x y",
    inplace=False,
    samples=[
        ((4,), (3, 2), ints((4,), 5), ints((4,), 3), 5),
        ((0,), (3, 2), ints((0,), 5), ints((0,), 3), 2),
    ],
)
def _sparse_mm(xp, x, y, rows, columns, /, n, ordered=False):
    """The product (n, k) of a sparse matrix of n rows, whose values are x, and a matrix y (m, k).
    Values at the same place are added. ordered: the rows do not decrease.
    """
    terms = rows_at(xp, y, columns)
    terms = (multiply if xp is np else xp.multiply)(terms, x[:, None])
    zeros = xp.zeros((n, y.shape[1]), terms.dtype)
    if xp is np:  # a result beside its base is not checked in advance
        out = np.empty(zeros.shape, zeros.dtype)
        if native.index_add(out, terms, rows, 0, zeros):
            return out
    xp.add.at(zeros, native.private_index(rows) if xp is np else rows, terms)
    return zeros


@op(promote="common x y", inplace=False, samples=[((5, 2), (3, 2), ints((4,), 5), ints((4,), 3))])
def _sampled_mm(xp, x, y, rows, columns, /):
    """The elements (nnz,) of the product x @ y.T at rows and columns."""
    first, second = rows_at(xp, x, rows), rows_at(xp, y, columns)
    if x.shape[1] == 1:
        return (multiply if xp is np else xp.multiply)(first, second).reshape(-1)
    return xp.einsum("ij,ij->i", first, second)


_sparse_mm.pullback(
    x=lambda ops, g, y, rows, columns: ops._sampled_mm(g, y.conjugate(), rows, columns),
    y=lambda ops, g, x, rows, columns, y_shape: ops._sparse_mm(
        x.conjugate(), g, columns, rows, y_shape[0]
    ),
)
_sampled_mm.pullback(
    x=lambda ops, g, y, rows, columns, x_shape: ops._sparse_mm(
        g, y.conjugate(), rows, columns, x_shape[0]
    ),
    y=lambda ops, g, x, rows, columns, y_shape: ops._sparse_mm(
        g, x.conjugate(), columns, rows, y_shape[0]
    ),
)
