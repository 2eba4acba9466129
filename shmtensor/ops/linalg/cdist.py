"""Distances of pairs of points."""

from __future__ import annotations

import math
from typing import Any

from ... import native
from ..reduce.norm_logsumexp import _vector_norm, norm_backward
from ..table.check_dtypes import check_same_dtype
from ..table.constants import array_module, constant
from ..table.dims import broadcast_shape
from ..table.op_table import composite, op
from ..table.sizes import check_size

# Orders with a kernel; for the others all differences are formed.
KERNEL_ORDERS = (0, 1, 2, math.inf)


def row_norms(xp: Any, difference: Any, p: float) -> Any:
    """The p-norms of rows, 0 where a row is empty."""
    if not difference.shape[-1]:
        return difference.sum(-1)
    return _vector_norm.forward(xp, difference, p, -1, False)


@op(
    native=native.cdist,
    samples=[
        ((5, 4), (3, 4)),
        ((2, 1), (4, 1), 1.0),
        ((0, 3), (2, 3)),
        ((2, 3, 4), (2, 2, 4)),
        ((2, 3, 4), (2, 2, 4), math.inf),
        ((3, 4), (2, 4), 0.0),
    ],
    vmap="cdist",
)
def _cdist(xp, x, y, /, p=2.0):
    """Distances of all rows of x and y: (..., P, M) and (..., R, M) give (..., P, R)."""
    return row_norms(xp, x[..., :, None, :] - y[..., None, :, :], p)


def cdist_backward(
    ops: Any, needed: tuple[bool, ...], g: Any, x: Any, y: Any, out: Any, p: float
) -> tuple[Any, Any]:
    """The sums over j (for x) and over i (for y) of g[i, j] times the derivative of the distance of
    x[i] and y[j]; 0 where the two rows are equal.
    """
    needs_x, needs_y = needed
    g_x = g_y = None
    if p == 2:
        weights = ops._where_other(out == 0, g / ops._where_other(out == 0, out, 1.0), 0.0)
        if needs_x:
            g_x = x * ops.sum(weights, -1, True) - ops.matmul(weights, y)
        if needs_y:
            weights = ops.transpose(weights, -2, -1)
            g_y = y * ops.sum(weights, -1, True) - ops.matmul(weights, x)
        return g_x, g_y
    difference = ops.sub(ops.unsqueeze(x, -2), ops.unsqueeze(y, -3))
    by_difference = norm_backward(ops, g, difference, out, p, -1, False)
    if needs_x:
        g_x = ops.sum(by_difference, -2)
    return g_x, ops.neg(ops.sum(by_difference, -3)) if needs_y else None


_cdist.joint_pullback(cdist_backward, x="x y", y="x y")


@composite(autocast_cuda="full", method=False, autocast="full")
def cdist(ops, x1, x2, p=2.0, compute_mode=None):
    """The distances of all pairs of rows of two tensors.

    Parameters
    ----------
    x1, x2 : Tensor
        `(..., P, M)` and `(..., R, M)`, of one floating-point dtype.
    p : number, optional
        The order of the norm of the difference. 0, 1, 2 and infinity have kernels.
    compute_mode : str, optional
        Accepted; has no effect. Differences are always taken, because a matrix product cancels
        where points are close.

    Returns
    -------
    Tensor
        `(..., P, R)`.

    Raises
    ------
    RuntimeError
        The rows differ in size, the dtypes do not fit, or p is negative.

    See Also
    --------
    dist, norm

    Examples
    --------
    >>> x = st.tensor([[0., 0.], [3., 4.]])
    >>> st.cdist(x, x)
    tensor([[0., 5.],
            [5., 0.]])
    >>> st.cdist(x, x[:1], p=1)
    tensor([[0.],
            [7.]])
    """
    if x1.ndim < 2 or x2.ndim < 2 or x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(
            f"cdist: rows of one size are needed: {tuple(x1.shape)}, {tuple(x2.shape)}"
        )
    check_same_dtype("cdist", x1, x2)
    if x1.dtype.kind != "f":
        raise RuntimeError(f"cdist: floating-point points are needed: {x1.dtype.name}")
    if p < 0:
        raise RuntimeError(f"cdist: p must not be negative: {p}")
    check_size("cdist", (x1.shape[-2], x2.shape[-2]), x1.dtype.itemsize)
    if p in KERNEL_ORDERS and x1.dtype == x2.dtype and x1.dtype.kind == "f":
        if x1.ndim == x2.ndim == 2:
            return ops._cdist(x1, x2, float(p))
        batch = broadcast_shape("cdist", x1.shape[:-2], x2.shape[:-2])
        x1, x2 = (ops.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (x1, x2))
        batches = (ops.reshape(x, (math.prod(batch), *x.shape[-2:])) for x in (x1, x2))
        out = ops._cdist(*batches, float(p))
        return ops.reshape(out, (*batch, x1.shape[-2], x2.shape[-2]))
    difference = ops.sub(ops.unsqueeze(x1, -2), ops.unsqueeze(x2, -3))
    if not difference.shape[-1]:
        return ops.sum(difference, -1)
    return ops._vector_norm(difference, p, -1, False)


@op(
    native=native.pdist,
    samples=[((5, 4),), ((4, 1), 1.0), ((1, 3),), ((4, 3), math.inf), ((3, 4), 0.0)],
)
def _pdist(xp, x, /, p=2.0):
    """Distances of the rows of a matrix from each later one: (N, M) gives (N * (N - 1) / 2)."""
    first, second = xp.triu_indices(x.shape[0], 1)
    return row_norms(xp, x[first] - x[second], p)


def pairs(x: Any) -> tuple[Any, Any]:
    """The first and second row of each pair of rows of a matrix."""
    first, second = array_module(x).triu_indices(x.shape[0], 1)
    return constant(first, x), constant(second, x)


def pdist_backward(ops: Any, g: Any, x: Any, out: Any, p: float) -> Any:
    """The gradient of `_pdist` by x."""
    n = x.shape[0]
    first, second = pairs(x)
    if p == 2:

        def matrix(v: Any) -> Any:
            """The values of pairs as a symmetric matrix."""
            upper = ops.reshape(
                ops._index_select_backward(v, first * n + second, (n * n,), 0), (n, n)
            )
            return upper + ops.transpose(upper, 0, 1)

        return cdist_backward(ops, (True, False), matrix(g), x, x, matrix(out), p)[0]
    difference = ops.sub(ops._index_select(x, first, 0), ops._index_select(x, second, 0))
    g_difference = norm_backward(ops, g, difference, out, p, 1, False)
    shape = tuple(x.shape)
    return ops._index_select_backward(g_difference, first, shape, 0) - ops._index_select_backward(
        g_difference, second, shape, 0
    )


_pdist.pullback(x=pdist_backward)


@composite(autocast_cuda="full", method=False, function=False)
def pdist(ops, input, p=2.0):
    """The p-norm distance of each pair of rows.

    Parameters
    ----------
    input : Tensor
        `(N, M)`, floating.
    p : float, optional
        The order of the norm, at least 0; inf gives the maximum of the differences.

    Returns
    -------
    Tensor
        `(N * (N - 1) / 2)`: rows 0 and 1, 0 and 2, ..., 1 and 2, ...

    See Also
    --------
    cdist

    Examples
    --------
    >>> x = st.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]])
    >>> F.pdist(x)[:2]
    tensor([5., 1.])
    >>> F.pdist(x, p=1)
    tensor([7., 1., 6.])
    """
    if input.ndim != 2:
        raise RuntimeError(f"pdist: a matrix is needed: {tuple(input.shape)}")
    if p < 0:
        raise RuntimeError(f"pdist: p must not be negative: {p}")
    if p in KERNEL_ORDERS and input.dtype.kind == "f":
        return ops._pdist(input, float(p))
    first, second = pairs(input)
    difference = ops.sub(ops._index_select(input, first, 0), ops._index_select(input, second, 0))
    return (
        ops._vector_norm(difference, p, 1, False) if difference.shape[1] else ops.sum(difference, 1)
    )
