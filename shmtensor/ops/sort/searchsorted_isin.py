"""isin, searchsorted and bucketize."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import native
from ..table.constants import constant
from ..table.dims import check_ordered
from ..table.op_table import check_tensors, composite, op
from ..table.samples import ascending, reals

parallel_equal = native.parallel(np.equal)


def isin_kernel(x: Any, tests: Any, invert: bool = False) -> Any:
    """Searches each element among the sorted test elements; None if a kernel refuses."""
    result = None
    if x.dtype == tests.dtype and tests.size and x.dtype.kind in "iuf":
        sorted_tests = native.unique(tests)
        if (
            sorted_tests is not None
            and (indices := native.searchsorted(sorted_tests, x, None, "left")) is not None
        ):
            np.minimum(indices, sorted_tests.size - 1, out=indices)
            result = parallel_equal(native.item(sorted_tests, indices), x)
    return ~result if invert and result is not None else result


@op(native=isin_kernel, samples=[((3, 4), reals((5,)))])
def _isin(xp, x, tests, /, *, invert=False):
    """Which elements occur among the test elements?"""
    for part in (x, tests):
        check_ordered("isin", part)
        if part.dtype.kind == "b":
            raise RuntimeError(f"isin: not for bool: shape {part.shape}, hint: x.int()")
    return xp.isin(x, tests, invert=invert)


@composite(method=False)
def isin(ops, elements, test_elements, *, assume_unique=False, invert=False):
    """Which elements occur among other elements.

    Parameters
    ----------
    elements : Tensor or number
        What is looked for.
    test_elements : Tensor or number
        Among which; one of the two may be a number.
    assume_unique : bool, optional
        Accepted; has no effect.
    invert : bool, optional
        Whether the result is the opposite.

    Returns
    -------
    Tensor
        bool, of the shape of `elements`.

    Raises
    ------
    RuntimeError
        A tensor is of bool.

    See Also
    --------
    searchsorted, unique

    Examples
    --------
    >>> st.isin(st.tensor([1, 2, 3, 4]), st.tensor([2, 4]))
    tensor([False,  True, False,  True])
    """
    x, tests = elements, test_elements
    if not hasattr(x, "dtype"):
        check_tensors("isin", tests)
        x = as_comparable(x, tests)
    elif not hasattr(tests, "dtype"):
        tests = as_comparable(tests, x)
    return ops._isin(x, tests, invert=invert)


def as_comparable(number: Any, like: Any) -> Any:
    """A number as a 0-d array, in the dtype of a floating-point tensor, so that 0.1 is its 0.1."""
    if not isinstance(number, (bool, int, float, complex)):
        raise TypeError(f"isin: a tensor or a number is needed, not {type(number).__name__}")
    takes_dtype = like.dtype.kind == "f" and not isinstance(number, complex)
    return constant(np.asarray(number, like.dtype if takes_dtype else None), like)


@op(
    native=native.searchsorted,
    samples=[(ascending((5,)), (3, 4), None, "left"), (ascending((3, 5)), (3, 4), None, "right")],
)
def _searchsorted(xp, sorted_sequence, x, sorter=None, /, side="left"):
    """The indices at which elements can be inserted into sorted rows."""
    check_ordered("searchsorted", sorted_sequence)
    check_ordered("searchsorted", x)
    kind = np.dtype(np.int64)
    if sorter is not None:
        sorted_sequence = xp.take_along_axis(sorted_sequence, native.private_index(sorter), -1)
    if sorted_sequence.ndim > 1 and sorted_sequence.shape[:-1] != x.shape[:-1]:
        raise RuntimeError(
            f"searchsorted: leading sizes differ: {sorted_sequence.shape}, {x.shape}"
        )
    if sorted_sequence.ndim == 1:
        return xp.searchsorted(sorted_sequence, x, side).astype(kind)
    out = xp.empty(x.shape, kind)
    for i in np.ndindex(x.shape[:-1]):
        out[i] = xp.searchsorted(sorted_sequence[i], x[i], side)
    return out


@composite(method=False, exact_out=True)
def searchsorted(
    ops, sorted_sequence, input, *, out_int32=False, right=False, side=None, sorter=None
):
    """The positions at which elements can be inserted into sorted rows, so that they stay sorted.

    Parameters
    ----------
    sorted_sequence : Tensor
        A vector, or rows of shape `(..., n)`, in ascending order.
    input : Tensor or number
        The elements; for rows of shape `(..., m)`.
    out_int32 : bool, optional
        Whether the result is int32 instead of int64.
    right : bool, optional
        Whether the position is behind equal elements instead of before them.
    side : str, optional
        "left" or "right": another form of `right`.
    sorter : Tensor, optional
        Indices that sort the rows, as of `argsort`: then they need not be in order.

    Returns
    -------
    Tensor
        int64, of the shape of `input`, from 0 to n.

    Raises
    ------
    RuntimeError
        `right` and `side` do not agree, or the shapes do not fit.

    See Also
    --------
    bucketize, isin

    Examples
    --------
    >>> x = st.tensor([1, 3, 5])
    >>> st.searchsorted(x, st.tensor([0, 3, 6]))
    tensor([0, 1, 3])
    >>> st.searchsorted(x, st.tensor([0, 3, 6]), right=True)
    tensor([0, 2, 3])
    """
    if side not in (None, "left", "right") or (side == "left" and right):
        raise RuntimeError(
            f"searchsorted: side and right do not agree: side={side!r}, right={right}"
        )
    if isinstance(input, (int, float)):
        input = constant(np.asarray(input), sorted_sequence)
    if sorted_sequence.dtype.kind == "b":
        raise NotImplementedError(f"searchsorted: not for bool: {sorted_sequence.dtype.name}")
    side = side or ("right" if right else "left")
    indices = ops._searchsorted(sorted_sequence, input, sorter, side)
    return ops._to_copy(indices, np.dtype(np.int32)) if out_int32 else indices


@composite(exact_out=True)
def bucketize(ops, input, boundaries, *, out_int32=False, right=False):
    """The index of the bucket, between sorted boundaries, that contains each element.

    Parameters
    ----------
    input : Tensor or number
        The elements.
    boundaries : Tensor
        A vector in ascending order.
    out_int32 : bool, optional
        Whether the result is int32 instead of int64.
    right : bool, optional
        Whether a bucket contains its lower boundary instead of its upper one.

    Returns
    -------
    Tensor
        int64, of the shape of `input`: 0 below all boundaries, n above.

    Raises
    ------
    RuntimeError
        `boundaries` is not a vector.

    See Also
    --------
    searchsorted, histogram

    Examples
    --------
    >>> st.bucketize(st.tensor([1, 3, 4, 9]), st.tensor([3, 6]))
    tensor([0, 0, 1, 2])
    >>> st.bucketize(st.tensor([1, 3, 4, 9]), st.tensor([3, 6]), right=True)
    tensor([0, 1, 1, 2])
    """
    if boundaries.ndim != 1:
        raise RuntimeError(
            f"bucketize: boundaries tensor must be 1 dimension: shape {tuple(boundaries.shape)}"
        )
    return ops.searchsorted(boundaries, input, out_int32=out_int32, right=right)
