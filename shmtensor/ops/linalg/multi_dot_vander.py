"""Products of vectors and matrices: `torch.linalg` by name."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from ..table.dims import broadcast_shape
from ..table.op_table import composite
from ..table.sizes import check_size


@composite(autocast_cuda="lower", method=False, function=False)
def linalg_multi_dot(ops, tensors):
    """The product of two or more matrices, in the order that costs least.

    Parameters
    ----------
    tensors : sequence of Tensor
        Matrices whose inner sizes fit; the first and the last one may be vectors.

    Returns
    -------
    Tensor
        The product.

    Raises
    ------
    RuntimeError
        There are fewer than two, or sizes or dtypes do not fit.

    See Also
    --------
    matmul, chain_matmul

    Notes
    -----
    Source of the order: dynamic programming over the products' costs (Cormen et al., 15.2).

    Examples
    --------
    >>> st.linalg.multi_dot([st.ones(10, 100), st.ones(100, 5), st.ones(5, 50)]).shape
    Size([10, 50])
    """
    matrices = list(tensors)
    if len(matrices) < 2:
        raise RuntimeError(f"linalg.multi_dot: expected at least 2 tensors but got {len(matrices)}")
    for i, x in enumerate(matrices):
        ranks = (1, 2) if i in (0, len(matrices) - 1) else (2,)
        if x.ndim not in ranks:
            raise RuntimeError(
                f"linalg.multi_dot: tensor {i} must have {' or '.join(map(str, ranks))} dimensions"
                f": {tuple(x.shape)}"
            )
        if x.dtype != matrices[0].dtype:
            raise RuntimeError(
                "linalg.multi_dot: all tensors must have be the same dtype: "
                f"{matrices[0].dtype.name}, "
                f"{x.dtype.name}"
            )
    row, column = matrices[0].ndim == 1, matrices[-1].ndim == 1
    matrices[0] = ops.unsqueeze(matrices[0], 0) if row else matrices[0]
    matrices[-1] = ops.unsqueeze(matrices[-1], -1) if column else matrices[-1]
    for x, y in pairwise(matrices):
        if x.shape[1] != y.shape[0]:
            raise RuntimeError(
                f"linalg.multi_dot: tensors cannot be multiplied: {tuple(x.shape)}, "
                f"{tuple(y.shape)}"
            )
    sizes = [matrices[0].shape[0], *(x.shape[1] for x in matrices)]
    splits = cheapest_splits(sizes)

    def product(i: int, j: int) -> Any:
        if i == j:
            return matrices[i]
        k = splits[i, j]
        return ops.matmul(product(i, k), product(k + 1, j))

    out = product(0, len(matrices) - 1)
    out = ops.squeeze(out, 0) if row else out
    return ops.squeeze(out, -1) if column else out


def cheapest_splits(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Where to split the product of matrices i to j; matrix i is sizes[i] x sizes[i + 1]."""
    n = len(sizes) - 1
    cost = {(i, i): 0 for i in range(n)}
    splits: dict[tuple[int, int], int] = {}
    for span in range(1, n):
        for i in range(n - span):
            j = i + span
            cost[i, j], splits[i, j] = min(
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            )
    return splits


@composite(autocast_cuda="lower", method=False, function=False, autocast="lower")
def linalg_vecdot(ops, x, y, *, dim=-1):
    """The sums of products of vectors along a dimension, the first ones conjugated.

    Parameters
    ----------
    x, y : Tensor
        Of one dtype, broadcast against each other.
    dim : int, optional
        The dimension of the vectors; the last by default.

    Returns
    -------
    Tensor
        sum(conj(x) * y) along `dim`.

    Raises
    ------
    RuntimeError
        The dtypes differ.

    See Also
    --------
    dot, vdot

    Examples
    --------
    >>> st.linalg.vecdot(st.tensor([[1., 2.], [3., 4.]]), st.tensor([1., 10.]))
    tensor([21., 43.])
    """
    if x.dtype != y.dtype:
        raise RuntimeError(
            f"linalg.vecdot: Expected the same dtype: {x.dtype.name}, {y.dtype.name}"
        )
    return ops.sum(ops.mul(ops.conj(x), y), dim)


@composite(autocast_cuda="widest", method=False, function=False)
def linalg_cross(ops, input, other, *, dim=-1):
    """The vector products of vectors of three numbers along a dimension.

    Parameters
    ----------
    input, other : Tensor
        Of one dtype and as many dimensions, broadcast against each other.
    dim : int, optional
        The dimension of the vectors, of size 3; the last by default.

    Returns
    -------
    Tensor
        Of the broadcast shape.

    Raises
    ------
    RuntimeError
        The dimension is not of size 3, or the numbers of dimensions differ.

    See Also
    --------
    vecdot

    Examples
    --------
    >>> st.linalg.cross(st.tensor([1., 0., 0.]), st.tensor([0., 1., 0.]))
    tensor([0., 0., 1.])
    """
    if input.ndim != other.ndim:
        raise RuntimeError(
            "linalg.cross: inputs must have the same number of dimensions: "
            f"{tuple(input.shape)}, {tuple(other.shape)}"
        )
    if not -input.ndim <= dim < input.ndim:
        raise IndexError(f"linalg.cross: dim out of range: {dim} for {tuple(input.shape)}")
    if input.shape[dim] != 3 or other.shape[dim] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3: {tuple(input.shape)}, "
            f"{tuple(other.shape)}"
        )
    shape = broadcast_shape("linalg.cross", input.shape, other.shape)
    return ops.cross(ops.broadcast_to(input, shape), ops.broadcast_to(other, shape), dim)


@composite(method=False, function=False)
def linalg_diagonal(ops, A, *, offset=0, dim1=-2, dim2=-1):
    """The diagonals of matrices, a view.

    Parameters
    ----------
    A : Tensor
        With at least two dimensions.
    offset : int, optional
        Which diagonal: above the main one if positive, below it if negative.
    dim1, dim2 : int, optional
        The dimensions of rows and columns; the last two by default.

    Returns
    -------
    Tensor
        With the diagonal in its last dimension.

    Notes
    -----
    Copies: none.

    Examples
    --------
    >>> st.linalg.diagonal(st.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    return ops.diagonal(A, offset, dim1, dim2)


@composite(method=False, function=False)
def linalg_vander(ops, x, N=None):
    """The powers of numbers, in ascending order along a new last dimension.

    Parameters
    ----------
    x : Tensor
        `(..., n)`.
    N : int, optional
        How many powers, from 0 to N - 1; by default n.

    Returns
    -------
    Tensor
        `(..., n, N)`.

    Raises
    ------
    RuntimeError
        N is 1 or less.

    Examples
    --------
    >>> st.linalg.vander(st.tensor([2, 3]), N=3)
    tensor([[1, 2, 4],
            [1, 3, 9]])
    """
    x = ops.reshape(x, (1,)) if not x.ndim else x
    n = x.shape[-1] if N is None else N
    if n <= 1 and N is not None:
        raise RuntimeError(f"linalg.vander: N must be greater than 1: {N}")
    check_size("linalg.vander", (*x.shape, n))
    if x.dtype.kind in "iub":
        x = ops._to_copy(x, np.dtype(np.int64))
    one = ops.ones_like(ops.unsqueeze(x, -1))
    wide = ops.broadcast_to(ops.unsqueeze(x, -1), (*tuple(x.shape), max(n - 1, 0)))
    return ops.cat([one, ops.cumprod(wide, -1)], -1)
