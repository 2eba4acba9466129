"""The vector product, and combinations of elements."""

from __future__ import annotations

import warnings

from ... import native
from ..table.check_dtypes import check_same_dtype
from ..table.constants import constant
from ..table.dims import broadcast_shape
from ..table.op_table import composite, op


@op(
    native=native.cross,
    promote="common",
    inplace=False,
    samples=[((4, 3), (4, 3), 1), ((3, 2, 2), (3, 2, 2), 0)],
    vmap="along",
)
def _cross(xp, x, y, /, dim):
    """Vector product of tensors of one shape along a dimension of size 3."""
    first = xp.roll(x, -1, dim) * xp.roll(y, -2, dim)
    return first - xp.roll(x, -2, dim) * xp.roll(y, -1, dim)


_cross.pullback(
    x=lambda ops, g, y, dim: ops._cross(ops.conj(y), g, dim),
    y=lambda ops, g, x, dim: ops._cross(g, ops.conj(x), dim),
)


@composite(autocast_cuda="widest")
def cross(ops, input, other, dim=None):
    """The vector product of vectors of three numbers.

    Parameters
    ----------
    input, other : Tensor
        Of one dtype, broadcast against each other.
    dim : int, optional
        The dimension of the vectors, of size 3; by default the first such one, with a warning.

    Returns
    -------
    Tensor
        Of the broadcast shape.

    Raises
    ------
    RuntimeError
        The dimension is not of size 3.

    See Also
    --------
    linalg.cross, dot

    Examples
    --------
    >>> st.cross(st.tensor([1., 0., 0.]), st.tensor([0., 1., 0.]), dim=0)
    tensor([0., 0., 1.])
    """
    check_same_dtype("cross", input, other)
    if dim is None:
        dims = [d for d, n in enumerate(input.shape) if n == 3]
        if not dims:
            raise RuntimeError(f"cross: a dimension of size 3 is needed: {tuple(input.shape)}")
        dim = dims[0]
        warnings.warn(
            "Using cross without specifying the dim arg is deprecated. Please either pass the dim "
            "explicitly or simply use linalg.cross. The default value of dim will change to agree "
            "with that of linalg.cross in a future release.",
            stacklevel=2,
        )
    shape = broadcast_shape("cross", input.shape, other.shape)
    if not -len(shape) <= dim < len(shape):
        raise IndexError(f"cross: dim out of range: {dim} for {shape}")
    dim = dim % len(shape)
    if input.shape[dim - len(shape)] != 3 or other.shape[dim - len(shape)] != 3:
        raise RuntimeError(
            f"cross: dim {dim} must have size 3: {tuple(input.shape)}, {tuple(other.shape)}"
        )
    a, b = ops.broadcast_to(input, shape), ops.broadcast_to(other, shape)
    return ops._cross(a, b, dim)


@composite(method=False)
def combinations(ops, input, r=2, with_replacement=False):
    """All combinations of elements of a vector, as the rows of a matrix.

    Parameters
    ----------
    input : Tensor
        A vector.
    r : int, optional
        How many elements are in a combination.
    with_replacement : bool, optional
        Whether an element may occur several times.

    Returns
    -------
    Tensor
        Of shape `(count, r)`, in the order of the positions.

    Raises
    ------
    RuntimeError
        The tensor is not a vector, or r is negative.

    See Also
    --------
    cartesian_prod

    Examples
    --------
    >>> st.combinations(st.tensor([1, 2, 3]))
    tensor([[1, 2],
            [1, 3],
            [2, 3]])
    >>> st.combinations(st.tensor([1, 2]), with_replacement=True)
    tensor([[1, 1],
            [1, 2],
            [2, 2]])
    """
    if input.ndim != 1 or r < 0:
        raise RuntimeError(
            f"combinations: a vector and r >= 0 are needed: {tuple(input.shape)}, {r}"
        )
    if not r:
        return ops.reshape(input, (-1,))[:0]
    rows = native.call(native.combinations, input.shape[0], r, bool(with_replacement))
    if rows is None:
        raise RuntimeError(f"combinations: too many rows: {r} out of {input.shape[0]} elements")
    return ops._getitem(input, constant(rows, input))
