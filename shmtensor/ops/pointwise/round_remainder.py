"""Rounding, and division with an integer quotient or a remainder."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ... import native
from ...native import elementwise, parallel
from ..table.constants import zero_gradient
from ..table.native_or_numpy import copy_to_out
from ..table.op_table import op
from ..table.samples import UNARY, reals

DIVISION = [
    (reals((3, 4), -5.0, 5.0), reals((3, 4), 0.5, 2.0)),
    (reals((2, 1)), reals((3,), -2, -0.5)),
]


def rounding_kernel(kernel: Any) -> Any:
    """The parallel ufunc; integers are copied."""

    def rounded(x: Any, out: Any = None) -> Any:
        return copy_to_out(x.copy(), out) if x.dtype.kind in "iub" else kernel(x, out)

    return rounded


parallel_floor, parallel_ceil = parallel(np.floor), parallel(np.ceil)
parallel_trunc = parallel(np.trunc)


rounding = functools.partial(
    op, out=True, inplace=True, samples=UNARY, layout="pointwise", exact_out=True
)


@rounding(numpy=rounding_kernel(parallel_floor), half=parallel_floor)
def floor(xp, x, /):
    """The largest integer that is not above each element.

    Parameters
    ----------
    input : Tensor
        Of a real dtype; integers are copied.

    Returns
    -------
    Tensor
        Of the same dtype. The gradient is 0.

    See Also
    --------
    ceil, trunc, round, floor_divide

    Examples
    --------
    >>> st.floor(st.tensor([1.7, -1.2]))
    tensor([ 1., -2.])
    """
    return x.copy() if x.dtype.kind in "iub" else xp.floor(x)


@rounding(numpy=rounding_kernel(parallel_ceil), half=parallel_ceil)
def ceil(xp, x, /):
    """The smallest integer that is not below each element.

    Parameters
    ----------
    input : Tensor
        Of a real dtype; integers are copied.

    Returns
    -------
    Tensor
        Of the same dtype. The gradient is 0.

    See Also
    --------
    floor, trunc, round

    Examples
    --------
    >>> st.ceil(st.tensor([1.2, -1.7]))
    tensor([ 2., -1.])
    """
    return x.copy() if x.dtype.kind in "iub" else xp.ceil(x)


@rounding(numpy=rounding_kernel(parallel_trunc), half=parallel_trunc)
def trunc(xp, x, /):
    """Each element without its fraction: rounded towards 0.

    Parameters
    ----------
    input : Tensor
        Of a real dtype; integers are copied.

    Returns
    -------
    Tensor
        Of the same dtype. The gradient is 0.

    See Also
    --------
    floor, ceil, round, frac

    Notes
    -----
    `fix` is another name of `trunc`.

    Examples
    --------
    >>> st.trunc(st.tensor([1.7, -1.7]))
    tensor([ 1., -1.])
    """
    return x.copy() if x.dtype.kind in "iub" else xp.trunc(x)


parallel_rint, parallel_multiply, parallel_divide = (
    parallel(np.rint),
    parallel(np.multiply),
    parallel(np.true_divide),
)


def round_kernel(x: Any, decimals: int) -> Any:
    """The forward, in parallel for floating-point numbers."""
    if x.dtype.kind != "f":
        with np.errstate(all="ignore"):
            return round.forward(np, x, decimals=decimals)
    if decimals == 0:
        return parallel_rint(x)
    scale = 10.0 ** (decimals if decimals > 0 else -decimals)
    if decimals > 0:
        return parallel_divide(parallel_rint(parallel_multiply(x, scale)), scale)
    return parallel_multiply(parallel_rint(parallel_divide(x, scale)), scale)


def half_round_kernel(x: Any, decimals: int) -> Any:
    """The kernel of 16-bit floats; None with decimals."""
    return rint_in_float32(x) if decimals == 0 else None


rint_in_float32 = native.InFloat32(parallel_rint)


@op(
    numpy=round_kernel,
    half=half_round_kernel,
    inplace=True,
    samples=[*UNARY, ((3, 4), {"decimals": 2}), (reals((3,), -900.0, 900.0), {"decimals": -2})],
    layout="pointwise",
    exact_out=True,
)
def round(xp, x, /, *, decimals=0):
    """The nearest integer of each element, or the nearest number with some decimals.

    Parameters
    ----------
    input : Tensor
        Of a real dtype.
    decimals : int, optional
        How many digits after the point; negative: zeros before it.

    Returns
    -------
    Tensor
        Of the same dtype; halves are rounded to the even neighbour. The gradient is 0.

    Raises
    ------
    NotImplementedError
        Decimals of integers.

    See Also
    --------
    floor, ceil, trunc

    Examples
    --------
    >>> st.round(st.tensor([0.5, 1.5, 2.7]))
    tensor([0., 2., 3.])
    >>> st.round(st.tensor([1234.]), decimals=-2)
    tensor([1200.])
    """
    if x.dtype.kind in "iub":
        if decimals:
            raise NotImplementedError(
                f"round: decimals not implemented for {x.dtype.name}: {decimals}"
            )
        return x.copy()
    if decimals == 0:
        return xp.rint(x)
    scale = 10.0 ** (decimals if decimals > 0 else -decimals)
    return xp.rint(x * scale) / scale if decimals > 0 else xp.rint(x / scale) * scale


trunc.alias("fix")

for row in (floor, ceil, trunc, round):
    row.pullback(x=zero_gradient)


@op(real=elementwise("frac"), inplace=True, samples=UNARY, layout="pointwise", exact_out=True)
def frac(xp, x, /):
    """The fraction of each element: x - trunc(x).

    Parameters
    ----------
    input : Tensor
        Of a real dtype.

    Returns
    -------
    Tensor
        Of the sign of the element.

    See Also
    --------
    trunc

    Examples
    --------
    >>> st.frac(st.tensor([1.5, -2.25]))
    tensor([ 0.5000, -0.2500])
    """
    return x - xp.trunc(x)


frac.pullback(x=lambda g: g)


division = functools.partial(op, broadcast=True, promote="common", samples=DIVISION)


@division(operator="floordiv", numbers=True, numpy=parallel(np.floor_divide, "b"))
def floor_divide(xp, x, y, /):
    """The quotient of two tensors, rounded down.

    Parameters
    ----------
    input, other : Tensor or number
        Broadcast against each other, and converted to their common dtype.

    Returns
    -------
    Tensor
        floor(input / other), of the broadcast shape. The gradient is 0.

    Raises
    ------
    RuntimeError
        Integers are divided by 0.

    See Also
    --------
    div, remainder

    Examples
    --------
    >>> st.floor_divide(st.tensor([7, -7]), 2)
    tensor([ 3, -4])
    """
    return x // y


@division(operator="mod", numpy=parallel(np.remainder, "b"))
def remainder(xp, x, y, /):
    """The remainder of a division, with the sign of the divisor, as Python's `%`.

    Parameters
    ----------
    input, other : Tensor or number
        Broadcast against each other, and converted to their common dtype.

    Returns
    -------
    Tensor
        input - other * floor(input / other).

    Raises
    ------
    RuntimeError
        Integers are divided by 0.

    See Also
    --------
    fmod, floor_divide

    Examples
    --------
    >>> st.remainder(st.tensor([7, -7]), 3)
    tensor([1, 2])
    >>> st.remainder(st.tensor([5.5]), -2)
    tensor([-0.5000])
    """
    return x % y


remainder.pullback(x=lambda g: g, y=lambda ops, g, x, y: -g * ops.floor(x / y))


@division(numpy=parallel(np.fmod, "b"), tensors="x")
def fmod(xp, x, y, /):
    """The remainder of a division, with the sign of the dividend, as C's `fmod`.

    Parameters
    ----------
    input : Tensor
        The dividend.
    other : Tensor or number
        The divisor, broadcast against it.

    Returns
    -------
    Tensor
        input - other * trunc(input / other).

    Raises
    ------
    RuntimeError
        Integers are divided by 0.

    See Also
    --------
    remainder

    Examples
    --------
    >>> st.fmod(st.tensor([7, -7]), 3)
    tensor([ 1, -1])
    """
    return xp.fmod(x, y)


fmod.pullback(x=lambda g: g, y=lambda ops, g, x, y: -g * ops.trunc(x / y))


def trunc_quotient(xp: Any, x: Any, y: Any) -> Any:
    """Quotient rounded towards 0, also exact for integers."""
    if x.dtype.kind not in "iu":
        return xp.trunc(x / y)
    if xp is np and np.size(x) and not np.all(y):  # a device would have to be waited for
        raise ZeroDivisionError("integer division by zero")
    quotient = x // y
    return quotient + ((quotient < 0) & (quotient * y != x)).astype(quotient.dtype)


native_trunc_divide = elementwise("trunc_divide")


def trunc_divide_kernel(x: Any, y: Any, out: Any = None) -> Any:
    """The native kernel for its dtypes; NumPy for others."""
    dtypes = {v.dtype.char for v in (x, y) if hasattr(v, "dtype")}
    if len(dtypes) == 1 and dtypes <= set("bBhilfd"):
        return native_trunc_divide(x, y, out)
    with np.errstate(all="ignore"):
        return copy_to_out(trunc_quotient(np, x, y), out)


@division(numpy=trunc_divide_kernel, out=True)
def _trunc_divide(xp, x, y, /):
    """Quotient rounded towards 0: `div(x, y, rounding_mode="trunc")`."""
    return trunc_quotient(xp, x, y)


for row in (floor_divide, _trunc_divide):
    row.pullback(x=zero_gradient, y=zero_gradient)
