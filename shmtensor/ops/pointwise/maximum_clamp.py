"""maximum, minimum, fmax, fmin and clamp."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ... import native
from ...dtypes import get_default_dtype
from ...native import parallel
from ..table.op_table import check_tensors, composite, op
from ..table.samples import PAIR

NUMBERS = (bool, int, float, type(None))


# ---- pairs: equal elements share the gradient


extreme = functools.partial(op, broadcast=True, promote="common", samples=PAIR, tensors="x y")


@extreme(numpy=parallel(np.maximum, "c"))
def maximum(xp, x, y, /):
    """The larger of two elements.

    Parameters
    ----------
    input, other : Tensor
        Of a real dtype, broadcast against each other.

    Returns
    -------
    Tensor
        Of the broadcast shape; NaN if one of the two is.

    See Also
    --------
    minimum, fmax, max, clamp

    Notes
    -----
    The gradient goes to the larger one; both get half of it where they are equal.

    Examples
    --------
    >>> st.maximum(st.tensor([1, 5]), st.tensor([3, 2]))
    tensor([3, 5])
    """
    return xp.maximum(x, y)


maximum.pullback(
    x=lambda ops, g, x, y: ops._where_other(x < y, ops._where(x == y, g / 2, g), 0.0),
    y=lambda ops, g, x, y: ops._where_other(x > y, ops._where(x == y, g / 2, g), 0.0),
)


@extreme(numpy=parallel(np.minimum, "c"))
def minimum(xp, x, y, /):
    """The smaller of two elements.

    Parameters
    ----------
    input, other : Tensor
        Of a real dtype, broadcast against each other.

    Returns
    -------
    Tensor
        Of the broadcast shape; NaN if one of the two is.

    See Also
    --------
    maximum, fmin, min, clamp

    Notes
    -----
    The gradient goes to the smaller one; both get half of it where they are equal.

    Examples
    --------
    >>> st.minimum(st.tensor([1, 5]), st.tensor([3, 2]))
    tensor([1, 2])
    """
    return xp.minimum(x, y)


minimum.pullback(
    x=lambda ops, g, x, y: ops._where_other(x > y, ops._where(x == y, g / 2, g), 0.0),
    y=lambda ops, g, x, y: ops._where_other(x < y, ops._where(x == y, g / 2, g), 0.0),
)


@extreme(numpy=parallel(np.fmax, "c"))
def fmax(xp, x, y, /):
    """The larger of two elements, where a number is larger than NaN.

    Parameters
    ----------
    input, other : Tensor
        Of a real dtype, broadcast against each other.

    Returns
    -------
    Tensor
        Of the broadcast shape; NaN only if both are.

    See Also
    --------
    fmin, maximum

    Examples
    --------
    >>> st.fmax(st.tensor([1., float("nan")]), st.tensor([3., 2.]))
    tensor([3., 2.])
    """
    return xp.fmax(x, y)


fmax.pullback(
    x=lambda ops, g, x, y: ops._where((x >= y) | (y != y), g, 0.0),
    y=lambda ops, g, x, y: ops._where_other((x >= y) | (y != y), g, 0.0),
)


@extreme(numpy=parallel(np.fmin, "c"))
def fmin(xp, x, y, /):
    """The smaller of two elements, where a number is smaller than NaN.

    Parameters
    ----------
    input, other : Tensor
        Of a real dtype, broadcast against each other.

    Returns
    -------
    Tensor
        Of the broadcast shape; NaN only if both are.

    See Also
    --------
    fmax, minimum

    Examples
    --------
    >>> st.fmin(st.tensor([1., float("nan")]), st.tensor([3., 2.]))
    tensor([1., 2.])
    """
    return xp.fmin(x, y)


fmin.pullback(
    x=lambda ops, g, x, y: ops._where((x <= y) | (y != y), g, 0.0),
    y=lambda ops, g, x, y: ops._where_other((x <= y) | (y != y), g, 0.0),
)


parallel_maximum, parallel_minimum = parallel(np.maximum, "c"), parallel(np.minimum, "c")


def clamp_kernel(x: Any, min: Any, max: Any, out: Any = None) -> Any:
    """The native kernel; for integers two passes, the second one in place."""
    result = native.clamp(x, min, max, out)
    if result is not None:
        return result
    if min is None:
        return parallel_minimum(x, max, out)
    out = parallel_maximum(x, min, out)
    if max is None:
        return out
    return parallel_minimum(out, max, out) if out.ndim else parallel_minimum(out, max)


@op(
    numpy=clamp_kernel,
    half=native.clamp,
    selects=True,
    inplace=True,
    out=True,
    samples=[((3, 4), -0.5, 0.5), ((3, 4), None, 0.2), ((0,), 0.1, None)],
    layout="pointwise",
)
def _clamp(xp, x, /, min, max):
    """Each element, but at least the number `min` and at most the number `max`."""
    out = x if min is None else xp.maximum(x, min)
    return out if max is None else xp.minimum(out, max)


@op(numpy=parallel_maximum, broadcast=True, promote="common", samples=PAIR)
def _clamp_min(xp, x, bound, /):
    """The larger one; where they are equal, or x is NaN, only x has the gradient."""
    return xp.maximum(x, bound)


@op(numpy=parallel_minimum, broadcast=True, promote="common", samples=PAIR)
def _clamp_max(xp, x, bound, /):
    """The smaller one; where they are equal, or x is NaN, only x has the gradient."""
    return xp.minimum(x, bound)


_clamp_min.pullback(
    x=lambda ops, g, x, bound: ops._where((x >= bound) | (x != x), g, 0.0),
    bound=lambda ops, g, x, bound: ops._where_other((x >= bound) | (x != x), g, 0.0),
)
_clamp_max.pullback(
    x=lambda ops, g, x, bound: ops._where((x <= bound) | (x != x), g, 0.0),
    bound=lambda ops, g, x, bound: ops._where_other((x <= bound) | (x != x), g, 0.0),
)


@op(
    numpy=lambda x, min, max: parallel_minimum(parallel_maximum(x, min), max),
    broadcast=True,
    promote="common",
    samples=[((3, 4), (3, 4), (3, 4)), ((2, 1, 4), (3, 1), (4,)), ((), (3,), ())],
)
def _clamp_tensor(xp, x, min, max, /):
    """Each element, but at least the one of `min` and at most the one of `max`, in their common
    dtype. Gradients are PyTorch's: none where x is below a minimum that equals the maximum.
    """
    return xp.minimum(xp.maximum(x, min), max)


_clamp_tensor.pullback(
    x=lambda ops, g, x, min, max: ops._where(is_within(x, min, max), g, 0.0),
    min=lambda ops, g, x, min, max: ops._where((x < min) & (min < max), g, 0.0),
    max=lambda ops, g, x, min, max: ops._where((x > max) | (max < min), g, 0.0),
)


def is_within(x: Any, min: Any, max: Any) -> Any:
    """Where x is within the bounds, inclusive."""
    if min is None:
        return x <= max
    return x >= min if max is None else (x >= min) & (x <= max)


_clamp.pullback(x=lambda ops, g, x, min, max: ops._where(is_within(x, min, max), g, 0.0))


def clamp_in_place(ops: Any, input: Any, min: Any = None, max: Any = None) -> Any:
    """One pass if both bounds are numbers of the dtype; else None."""
    if min.__class__ not in NUMBERS or max.__class__ not in NUMBERS or min is max is None:
        return None
    if input.dtype.kind in "iu" and float not in (min.__class__, max.__class__):
        min, max = limit_bound(input.dtype, min), limit_bound(input.dtype, max)
    elif input.dtype.kind != "f":
        return None
    return ops._clamp_(input, min, max)


@composite(inplace=clamp_in_place)
def clamp(ops, input, min=None, max=None):
    """Each element limited to a range: at least `min` and at most `max`.

    Parameters
    ----------
    input : Tensor
        Of a real dtype.
    min, max : number or Tensor, optional
        The bounds; tensors are broadcast. One of them may be None.
    out : Tensor, optional
        Where the result is written.

    Returns
    -------
    Tensor
        Where `min` exceeds `max` it is `max`. Integers with a fraction as a bound become the
        default dtype. `clamp_` writes into the tensor itself.

    Raises
    ------
    RuntimeError
        Both bounds are None.

    See Also
    --------
    maximum, minimum

    Notes
    -----
    The gradient is 0 where an element was limited. `clip` is another name.

    Examples
    --------
    >>> st.clamp(st.tensor([-2., 0.5, 3.]), -1, 1)
    tensor([-1.0000,  0.5000,  1.0000])
    >>> st.clamp(st.tensor([1, 5, 9]), min=st.tensor([4, 4, 4]))
    tensor([4, 5, 9])
    """
    if min is None and max is None:
        raise RuntimeError("clamp: no bound given: min=None, max=None, give at least one of them")
    if min.__class__ in NUMBERS and max.__class__ in NUMBERS:
        if input.dtype.kind in "iub" and (min.__class__ is float or max.__class__ is float):
            input = ops._to_copy(input, get_default_dtype())
        if input.dtype.kind in "iu":  # bounds beyond the dtype act as the dtype's own
            min, max = limit_bound(input.dtype, min), limit_bound(input.dtype, max)
        return ops._clamp(input, min, max)
    if hasattr(min, "dtype") and hasattr(max, "dtype"):
        return ops._clamp_tensor(input, min, max)
    out = input if min is None else ops._clamp_min(input, min)
    return out if max is None else ops._clamp_max(out, max)


def limit_bound(dtype: Any, bound: Any) -> Any:
    """A bound, limited to the numbers of the dtype."""
    if bound is None:
        return None
    smallest, largest = limits(dtype)
    return int(smallest if bound < smallest else largest if bound > largest else bound)


@functools.cache
def limits(dtype: Any) -> tuple[int, int]:
    """The smallest and the largest number of an integer dtype."""
    info = np.iinfo(dtype)
    return info.min, info.max


clamp.alias("clip")


@composite(inplace=lambda ops, input, min: clamp_in_place(ops, input, min, None))
def clamp_min(ops, input, min):
    """Each element, but at least `min`.

    Parameters
    ----------
    input : Tensor
        Of a real dtype.
    min : number or Tensor
        The lower bound.

    Returns
    -------
    Tensor
        Of the broadcast shape.

    See Also
    --------
    clamp, clamp_max

    Examples
    --------
    >>> st.clamp_min(st.tensor([-2., 3.]), 0)
    tensor([0., 3.])
    """
    check_tensors("clamp_min", input)
    return ops.clamp(input, min, None)


@composite(inplace=lambda ops, input, max: clamp_in_place(ops, input, None, max))
def clamp_max(ops, input, max):
    """Each element, but at most `max`.

    Parameters
    ----------
    input : Tensor
        Of a real dtype.
    max : number or Tensor
        The upper bound.

    Returns
    -------
    Tensor
        Of the broadcast shape.

    See Also
    --------
    clamp, clamp_min

    Examples
    --------
    >>> st.clamp_max(st.tensor([-2., 3.]), 0)
    tensor([-2.,  0.])
    """
    check_tensors("clamp_max", input)
    return ops.clamp(input, None, max)
