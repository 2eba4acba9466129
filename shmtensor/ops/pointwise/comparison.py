"""Comparisons and tests, element by element; the results are bool."""

from __future__ import annotations

import functools

import numpy as np

from ...native import parallel
from ..table.check_dtypes import same_dtype_check, unsupported_dtype
from ..table.op_table import composite, op
from ..table.samples import PAIR, UNARY

comparison = functools.partial(
    op, comparison=True, broadcast=True, promote="common", samples=PAIR, tensors="x", wraps=False
)


@comparison(operator="eq", numpy=parallel(np.equal))
def eq(xp, x, y, /):
    """Where the elements of two tensors are equal.

    Parameters
    ----------
    input : Tensor
        Any dtype.
    other : Tensor or number
        Broadcast against `input`, and converted to their common dtype.

    Returns
    -------
    Tensor
        bool, of the broadcast shape. NaN is not equal to itself.

    See Also
    --------
    ne, equal, isclose

    Examples
    --------
    >>> st.eq(st.tensor([1, 2, 3]), st.tensor([1, 5, 3]))
    tensor([ True, False,  True])
    """
    return x == y


@comparison(operator="ne", numpy=parallel(np.not_equal))
def ne(xp, x, y, /):
    """Where the elements of two tensors differ.

    Parameters
    ----------
    input : Tensor
        Any dtype.
    other : Tensor or number
        Broadcast against `input`, and converted to their common dtype.

    Returns
    -------
    Tensor
        bool, of the broadcast shape; True for NaN.

    See Also
    --------
    eq

    Notes
    -----
    `not_equal` is another name.

    Examples
    --------
    >>> st.ne(st.tensor([1, 2, 3]), 2)
    tensor([ True, False,  True])
    """
    return x != y


ne.alias("not_equal")


@comparison(operator="lt", numpy=parallel(np.less, "c"))
def lt(xp, x, y, /):
    """Where the elements of one tensor are less than those of another.

    Parameters
    ----------
    input : Tensor
        Of a real dtype.
    other : Tensor or number
        Broadcast against `input`, and converted to their common dtype.

    Returns
    -------
    Tensor
        bool, of the broadcast shape: input < other. False for NaN.

    See Also
    --------
    le, gt, ge

    Notes
    -----
    `less` is another name of `lt`.

    Examples
    --------
    >>> st.lt(st.tensor([1, 2, 3]), 2)
    tensor([ True, False, False])
    """
    return x < y


lt.alias("less")


@comparison(operator="le", numpy=parallel(np.less_equal, "c"))
def le(xp, x, y, /):
    """Where the elements of one tensor are less than those of another or equal to them.

    Parameters
    ----------
    input : Tensor
        Of a real dtype.
    other : Tensor or number
        Broadcast against `input`, and converted to their common dtype.

    Returns
    -------
    Tensor
        bool, of the broadcast shape: input <= other. False for NaN.

    See Also
    --------
    lt, gt, ge

    Notes
    -----
    `less_equal` is another name.

    Examples
    --------
    >>> st.le(st.tensor([1, 2, 3]), 2)
    tensor([ True,  True, False])
    """
    return x <= y


le.alias("less_equal")


@comparison(operator="gt", numpy=parallel(np.greater, "c"))
def gt(xp, x, y, /):
    """Where the elements of one tensor are greater than those of another.

    Parameters
    ----------
    input : Tensor
        Of a real dtype.
    other : Tensor or number
        Broadcast against `input`, and converted to their common dtype.

    Returns
    -------
    Tensor
        bool, of the broadcast shape: input > other. False for NaN.

    See Also
    --------
    ge, lt, le

    Notes
    -----
    `greater` is another name of `gt`.

    Examples
    --------
    >>> st.gt(st.tensor([1, 2, 3]), 2)
    tensor([False, False,  True])
    """
    return x > y


gt.alias("greater")


@comparison(operator="ge", numpy=parallel(np.greater_equal, "c"))
def ge(xp, x, y, /):
    """Where the elements of one tensor are greater than those of another or equal to them.

    Parameters
    ----------
    input : Tensor
        Of a real dtype.
    other : Tensor or number
        Broadcast against `input`, and converted to their common dtype.

    Returns
    -------
    Tensor
        bool, of the broadcast shape: input >= other. False for NaN.

    See Also
    --------
    gt, lt, le

    Notes
    -----
    `greater_equal` is another name.

    Examples
    --------
    >>> st.ge(st.tensor([1, 2, 3]), 2)
    tensor([False,  True,  True])
    """
    return x >= y


ge.alias("greater_equal")


@op(numpy=parallel(np.isnan), samples=UNARY)
def isnan(xp, x, /):
    """Where the elements are NaN, that is not a number.

    Parameters
    ----------
    input : Tensor
        Any dtype; integers never are NaN.

    Returns
    -------
    Tensor
        bool; of complex numbers where one of the two parts is NaN.

    See Also
    --------
    isfinite, isinf, nan_to_num

    Examples
    --------
    >>> st.isnan(st.tensor([1., float("nan"), float("inf")]))
    tensor([False,  True, False])
    """
    return xp.isnan(x)


@op(numpy=parallel(np.isinf), samples=UNARY)
def isinf(xp, x, /):
    """Where the elements are infinite, of either sign.

    Parameters
    ----------
    input : Tensor
        Any dtype; integers never are infinite.

    Returns
    -------
    Tensor
        bool; of complex numbers where one of the two parts is infinite.

    See Also
    --------
    isfinite, isposinf, isneginf

    Examples
    --------
    >>> st.isinf(st.tensor([1., float("nan"), -float("inf")]))
    tensor([False, False,  True])
    """
    return xp.isinf(x)


@op(numpy=parallel(np.isfinite), samples=UNARY)
def isfinite(xp, x, /):
    """Where the elements are neither infinite nor NaN.

    Parameters
    ----------
    input : Tensor
        Any dtype.

    Returns
    -------
    Tensor
        bool.

    See Also
    --------
    isnan, isinf

    Examples
    --------
    >>> st.isfinite(st.tensor([1., float("nan"), float("inf")]))
    tensor([ True, False, False])
    """
    return xp.isfinite(x)


@op(samples=UNARY, layout="pointwise")
def isposinf(xp, x, /):
    """Where the elements are plus infinity.

    Parameters
    ----------
    input : Tensor
        Of a real dtype.

    Returns
    -------
    Tensor
        bool.

    See Also
    --------
    isneginf, isinf

    Examples
    --------
    >>> st.isposinf(st.tensor([float("inf"), -float("inf"), 1.]))
    tensor([ True, False, False])
    """
    return x == xp.inf


@op(samples=UNARY, layout="pointwise")
def isneginf(xp, x, /):
    """Where the elements are minus infinity.

    Parameters
    ----------
    input : Tensor
        Of a real dtype.

    Returns
    -------
    Tensor
        bool.

    See Also
    --------
    isposinf, isinf

    Examples
    --------
    >>> st.isneginf(st.tensor([float("inf"), -float("inf"), 1.]))
    tensor([False,  True, False])
    """
    return x == -xp.inf


@op(samples=UNARY, layout="pointwise")
def isreal(xp, x, /):
    """Where the imaginary part is 0.

    Parameters
    ----------
    input : Tensor
        Any dtype.

    Returns
    -------
    Tensor
        bool; all True for a real dtype.

    See Also
    --------
    real, imag

    Examples
    --------
    >>> st.isreal(st.tensor([1 + 0j, 1j]))
    tensor([ True, False])
    """
    return x.imag == 0 if x.dtype.kind == "c" else xp.ones(x.shape, bool)


@op(samples=UNARY, layout="pointwise")
def signbit(xp, x, /):
    """Where the sign bit is set: for negative numbers, and for -0.0.

    Parameters
    ----------
    input : Tensor
        Of a real dtype.

    Returns
    -------
    Tensor
        bool.

    See Also
    --------
    sign

    Examples
    --------
    >>> st.signbit(st.tensor([-0.0, 0.0, -3.0]))
    tensor([ True, False,  True])
    """
    return xp.signbit(x) if x.dtype.kind == "f" else x < 0


@op(
    check_dtypes=same_dtype_check("isclose"),
    broadcast=True,
    promote="common",
    samples=PAIR,
    tensors="x y",
)
def isclose(xp, x, y, /, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Where the elements of two tensors are close to each other.

    Parameters
    ----------
    input, other : Tensor
        Of one dtype, broadcast against each other.
    rtol, atol : float, optional
        The tolerances: relative to `other`, and absolute.
    equal_nan : bool, optional
        Whether two NaN count as close.

    Returns
    -------
    Tensor
        bool: abs(input - other) <= atol + rtol * abs(other). Infinite numbers are close only to
        themselves.

    Raises
    ------
    RuntimeError
        The dtypes differ, or a tolerance is negative.

    See Also
    --------
    allclose, eq

    Examples
    --------
    >>> st.isclose(st.tensor([1., 100.]), st.tensor([1.01, 100.1]), rtol=0.005)
    tensor([False,  True])
    """
    if rtol < 0 or atol < 0:
        raise RuntimeError(f"isclose: tolerances must not be negative: rtol={rtol}, atol={atol}")
    if x.dtype.kind in "iub":
        x, y = x.astype(xp.float64), y.astype(xp.float64)
    near = xp.abs(x - y) <= atol + rtol * xp.abs(y)
    near = (near & xp.isfinite(y)) | (x == y)
    return near | ((x != x) & (y != y)) if equal_nan else near


@op(numpy=parallel(np.logical_and), broadcast=True, inplace=True, samples=PAIR, tensors="x y")
def logical_and(xp, x, y, /):
    """Where both of two elements are true.

    Parameters
    ----------
    input, other : Tensor
        Any dtype, broadcast against each other; numbers other than 0 are true.

    Returns
    -------
    Tensor
        bool, of the broadcast shape.

    See Also
    --------
    logical_or, logical_xor, logical_not, bitwise_and

    Examples
    --------
    >>> st.logical_and(st.tensor([0, 1, 2]), st.tensor([True, True, False]))
    tensor([False,  True, False])
    """
    return xp.logical_and(x, y)


@op(numpy=parallel(np.logical_or), broadcast=True, inplace=True, samples=PAIR, tensors="x y")
def logical_or(xp, x, y, /):
    """Where at least one of two elements is true.

    Parameters
    ----------
    input, other : Tensor
        Any dtype, broadcast against each other; numbers other than 0 are true.

    Returns
    -------
    Tensor
        bool, of the broadcast shape.

    See Also
    --------
    logical_and, logical_xor, bitwise_or

    Examples
    --------
    >>> st.logical_or(st.tensor([0, 1, 2]), st.tensor([False, True, False]))
    tensor([False,  True,  True])
    """
    return xp.logical_or(x, y)


@op(numpy=parallel(np.logical_xor), broadcast=True, inplace=True, samples=PAIR, tensors="x y")
def logical_xor(xp, x, y, /):
    """Where exactly one of two elements is true.

    Parameters
    ----------
    input, other : Tensor
        Any dtype, broadcast against each other; numbers other than 0 are true.

    Returns
    -------
    Tensor
        bool, of the broadcast shape.

    See Also
    --------
    logical_and, logical_or, bitwise_xor

    Examples
    --------
    >>> st.logical_xor(st.tensor([0, 1, 2]), st.tensor([True, True, False]))
    tensor([ True, False,  True])
    """
    return xp.logical_xor(x, y)


@op(numpy=parallel(np.logical_not), inplace=True, samples=UNARY)
def logical_not(xp, x, /):
    """Where the elements are false, that is 0.

    Parameters
    ----------
    input : Tensor
        Any dtype.

    Returns
    -------
    Tensor
        bool.

    See Also
    --------
    logical_and, bitwise_not

    Examples
    --------
    >>> st.logical_not(st.tensor([0, 1, 5]))
    tensor([ True, False, False])
    """
    return xp.logical_not(x)


@op(
    check_dtypes=same_dtype_check("heaviside"),
    broadcast=True,
    promote="common",
    samples=PAIR,
    tensors="x values",
)
def heaviside(xp, x, values, /):
    """The step function: 0 for negative elements, 1 for positive ones, and a given value at 0.

    Parameters
    ----------
    input : Tensor
        Of a real dtype.
    values : Tensor
        Of the same dtype, broadcast against `input`: the results where it is 0.

    Returns
    -------
    Tensor
        Of the broadcast shape.

    Raises
    ------
    RuntimeError
        The dtypes differ.

    See Also
    --------
    sign

    Examples
    --------
    >>> st.heaviside(st.tensor([-2., 0., 3.]), st.tensor([0.5]))
    tensor([0.0000, 0.5000, 1.0000])
    """
    if x.dtype.kind == "c":
        raise unsupported_dtype("heaviside", x)
    return xp.where(x == 0, values, (x > 0).astype(x.dtype))


@composite
def allclose(ops, input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether all elements of two tensors are close to each other.

    Parameters
    ----------
    input, other : Tensor
        Of one dtype, broadcast against each other.
    rtol, atol : float, optional
        The tolerances: relative to `other`, and absolute.
    equal_nan : bool, optional
        Whether two NaN count as close.

    Returns
    -------
    bool
        abs(input - other) <= atol + rtol * abs(other) for each pair.

    Raises
    ------
    RuntimeError
        The dtypes differ, or a tolerance is negative.

    See Also
    --------
    isclose, equal

    Notes
    -----
    On a GPU the result is waited for.

    Examples
    --------
    >>> x = st.tensor([1., 2.])
    >>> st.allclose(x, x + 1e-6)
    True
    >>> st.allclose(x, x + 0.1, atol=0.2)
    True
    """
    return bool(ops.all(ops.isclose(input, other, rtol, atol, equal_nan)))


@composite
def equal(ops, input, other):
    """Whether two tensors have the same shape and equal elements.

    Parameters
    ----------
    input, other : Tensor
        Tensors of any dtype.

    Returns
    -------
    bool
        False if an element is NaN.

    See Also
    --------
    eq, allclose

    Examples
    --------
    >>> st.equal(st.tensor([1, 2]), st.tensor([1, 2]))
    True
    >>> st.equal(st.tensor([1, 2]), st.tensor([[1, 2]]))
    False
    """
    return bool(input.shape == other.shape and ops.all(ops.eq(input, other)))
