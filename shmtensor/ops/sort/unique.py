"""unique and unique_consecutive."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import native
from ..table.dims import axis
from ..table.op_table import composite, op
from ..table.samples import ints


@op(
    sized_by_values="unique",
    native=native.unique2,
    cuda="sort:unique2",
    outputs="values inverse counts",
    samples=[(ints((3, 4), 4),), (ints((6, 2), 2), 0)],
)
def _unique2(xp, x, /, dim=None):
    """The unique values (along a dimension: slices) in order, the index of each element's value,
    and their counts.
    """
    check_real(x)
    if dim is not None:
        dim = axis(x, dim)
    values, inverse, counts = xp.unique(x, return_inverse=True, return_counts=True, axis=dim)
    inverse = inverse.reshape(x.shape if dim is None else (x.shape[dim],))
    return values, inverse.astype(np.int64), counts.astype(np.int64)


def check_real(x: Any) -> Any:
    """x; raises NotImplementedError for complex numbers, which are not ordered."""
    if x.dtype.kind == "c":
        raise NotImplementedError(f"unique: not implemented for {x.dtype.name}: shape {x.shape}")
    return x


def refuse_backward(g: Any) -> Any:
    raise NotImplementedError(
        f"unique: the derivative is not implemented, as in PyTorch: shape {tuple(g.shape)}, "
        "hint: compute the indices of detach(), and index the tensor with them"
    )


_unique2.pullback(x=refuse_backward)


@op(
    sized_by_values="unique_consecutive",
    native=native.unique_consecutive,
    outputs="values inverse counts",
    samples=[(ints((3, 4), 2),), (ints((6, 2), 2), 0)],
)
def _unique_consecutive(xp, x, /, dim=None):
    """The first value (slice) of each run of equal ones, the run of each element, and the lengths
    of the runs.
    """
    check_real(x)
    rows = x.reshape(-1) if dim is None else xp.moveaxis(x, axis(x, dim), 0)
    n = rows.shape[0]
    flat = rows.reshape(n, math.prod(rows.shape[1:]))
    new = xp.ones(n, bool)
    new[1:] = (flat[1:] != flat[:-1]).any(1)
    starts = xp.flatnonzero(new)
    values = rows[starts]
    inverse = xp.cumsum(new) - 1
    counts = xp.diff(xp.append(starts, n))
    if dim is None:
        inverse = inverse.reshape(x.shape)
    else:
        values = xp.ascontiguousarray(xp.moveaxis(values, 0, dim))
    return values, inverse.astype(np.int64), counts.astype(np.int64)


_unique_consecutive.pullback(x=refuse_backward)


@op(
    sized_by_values="unique_consecutive",
    native=native.unique_consecutive_values,
    samples=[(ints((3, 4), 2),)],
)
def _unique_consecutive_values(xp, x, /):
    """The first of each run of equal values."""
    return _unique_consecutive.forward(xp, x)[0]


_unique_consecutive_values.pullback(x=refuse_backward)


def select_results(results: Any, return_inverse: bool, return_counts: bool) -> Any:
    """The values, and the inverse and counts if they are to be returned."""
    values, inverse, counts = results
    if not (return_inverse or return_counts):
        return values
    return (values, *([inverse] if return_inverse else []), *([counts] if return_counts else []))


@op(sized_by_values="unique", native=native.unique, samples=[(ints((3, 4), 4),)])
def _unique(xp, x, /):
    """The unique values, in order."""
    return xp.unique(check_real(x))


_unique.pullback(x=refuse_backward)


@composite
def unique(ops, input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The distinct elements of a tensor, in ascending order.

    Parameters
    ----------
    input : Tensor
        Of a real dtype.
    sorted : bool, optional
        Whether they have to be in order; they always are.
    return_inverse : bool, optional
        Whether the index of each element among the distinct ones is returned, too.
    return_counts : bool, optional
        Whether the number of each is returned, too.
    dim : int, optional
        The dimension whose slices are compared; by default the tensor is flattened.

    Returns
    -------
    Tensor or tuple of Tensor
        The distinct elements; then `inverse`, of the shape of `input` (with `dim` a vector), and
        `counts`, if they are asked for.

    See Also
    --------
    unique_consecutive, bincount, isin

    Notes
    -----
    No gradient. On a GPU the number of elements is waited for.

    Examples
    --------
    >>> st.unique(st.tensor([3, 1, 3, 2]))
    tensor([1, 2, 3])
    >>> values, inverse, counts = st.unique(
    ...     st.tensor([3, 1, 3]), return_inverse=True, return_counts=True
    ... )
    >>> values, inverse, counts
    (tensor([1, 3]), tensor([1, 0, 1]), tensor([1, 2]))
    """
    if dim is None and not (return_inverse or return_counts):
        return ops._unique(input)
    return select_results(ops._unique2(input, dim), return_inverse, return_counts)


@composite
def unique_consecutive(ops, input, return_inverse=False, return_counts=False, dim=None):
    """The elements of a tensor without those that repeat the one before.

    Parameters
    ----------
    input : Tensor
        Of a real dtype.
    return_inverse : bool, optional
        Whether the index of each element among the results is returned, too.
    return_counts : bool, optional
        Whether the length of each repetition is returned, too.
    dim : int, optional
        The dimension whose slices are compared; by default the tensor is flattened.

    Returns
    -------
    Tensor or tuple of Tensor
        The elements; then `inverse` and `counts`, if they are asked for.

    See Also
    --------
    unique

    Examples
    --------
    >>> st.unique_consecutive(st.tensor([1, 1, 2, 2, 1]), return_counts=True)
    (tensor([1, 2, 1]), tensor([2, 2, 1]))
    """
    if dim is None and not (return_inverse or return_counts):
        return ops._unique_consecutive_values(input)
    return select_results(ops._unique_consecutive(input, dim), return_inverse, return_counts)
