"""Products of vectors and matrices: `torch.linalg` by name."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from ..table.dims import together
from ..table.op_definition import composite


@composite(method=False, function=False)
def linalg_multi_dot(ops, tensors):
    """The product of two or more matrices in the order that costs least; the first and the last may
    be vectors.

    Source of the order: dynamic programming over the products' costs (Cormen et al., 15.2).
    """
    given = list(tensors)
    if len(given) < 2:
        raise RuntimeError(f"linalg.multi_dot: expected at least 2 tensors but got {len(given)}")
    for i, x in enumerate(given):
        ends = (1, 2) if i in (0, len(given) - 1) else (2,)
        if x.ndim not in ends:
            raise RuntimeError(
                f"linalg.multi_dot: tensor {i} must have {' or '.join(map(str, ends))} dimensions: "
                f"{tuple(x.shape)}"
            )
        if x.dtype != given[0].dtype:
            raise RuntimeError(
                f"linalg.multi_dot: all tensors must have be the same dtype: {given[0].dtype}, "
                f"{x.dtype}"
            )
    row, column = given[0].ndim == 1, given[-1].ndim == 1
    given[0] = ops.unsqueeze(given[0], 0) if row else given[0]
    given[-1] = ops.unsqueeze(given[-1], -1) if column else given[-1]
    for x, y in pairwise(given):
        if x.shape[1] != y.shape[0]:
            raise RuntimeError(
                f"linalg.multi_dot: tensors cannot be multiplied: {tuple(x.shape)}, "
                f"{tuple(y.shape)}"
            )
    sizes = [given[0].shape[0], *(x.shape[1] for x in given)]
    cuts = cheapest(sizes)

    def product(i: int, j: int) -> Any:
        if i == j:
            return given[i]
        k = cuts[i, j]
        return ops.matmul(product(i, k), product(k + 1, j))

    out = product(0, len(given) - 1)
    out = ops.squeeze(out, 0) if row else out
    return ops.squeeze(out, -1) if column else out


def cheapest(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Where to cut the product of matrices i to j, whose sizes are sizes[i] x sizes[i + 1]."""
    n = len(sizes) - 1
    cost = {(i, i): 0 for i in range(n)}
    cuts: dict[tuple[int, int], int] = {}
    for span in range(1, n):
        for i in range(n - span):
            j = i + span
            cost[i, j], cuts[i, j] = min(
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            )
    return cuts


@composite(method=False, function=False, autocast="lower")
def linalg_vecdot(ops, x, y, *, dim=-1):
    """The sum of conj(x) * y along a dimension, with broadcasting."""
    if x.dtype != y.dtype:
        raise RuntimeError(f"linalg.vecdot: Expected the same dtype: {x.dtype}, {y.dtype}")
    return ops.sum(ops.mul(ops.conj(x), y), dim)


@composite(method=False, function=False)
def linalg_cross(ops, input, other, *, dim=-1):
    """The vector product of vectors of three along a dimension, with broadcasting."""
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
    shape = together("linalg.cross", input.shape, other.shape)
    return ops.cross(ops.broadcast_to(input, shape), ops.broadcast_to(other, shape), dim)


@composite(method=False, function=False)
def linalg_diagonal(ops, A, *, offset=0, dim1=-2, dim2=-1):
    """The diagonals of matrices, a view; by default of the last two dimensions."""
    return ops.diagonal(A, offset, dim1, dim2)


@composite(method=False, function=False)
def linalg_vander(ops, x, N=None):
    """The powers 0 to N - 1 of numbers (..., n): (..., n, N), by default N = n."""
    x = ops.reshape(x, (1,)) if not x.ndim else x
    n = x.shape[-1] if N is None else N
    if n <= 1 and N is not None:
        raise RuntimeError(f"linalg.vander: N must be greater than 1: {N}")
    if x.dtype.kind in "iub":
        x = ops._to_copy(x, np.dtype(np.int64))
    one = ops.ones_like(ops.unsqueeze(x, -1))
    wide = ops.broadcast_to(ops.unsqueeze(x, -1), (*tuple(x.shape), max(n - 1, 0)))
    return ops.cat([one, ops.cumprod(wide, -1)], -1)
