"""Trigonometric and hyperbolic functions, their inverses, and angles."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ...native import elementwise, parallel
from ..table.op_table import op
from ..table.samples import UNARY, reals, unary

# Of complex numbers, too; integers give the default dtype.
holomorphic = functools.partial(op, complex_gradients=True, promote="float")


@holomorphic(numpy=parallel(np.sin), samples=UNARY)
def sin(xp, x, /):
    """The sine of each element.

    Parameters
    ----------
    input : Tensor
        Angles in radians, real or complex; integers are converted to the default dtype.

    Returns
    -------
    Tensor
        In [-1, 1] for real numbers; NaN at infinity.

    See Also
    --------
    cos, asin, sinh

    Examples
    --------
    >>> st.sin(st.tensor([0., float("inf")]))
    tensor([0., nan])
    """
    return xp.sin(x)


sin.pullback(x=lambda ops, g, x: g * ops.cos(x).conjugate())


@holomorphic(numpy=parallel(np.cos), samples=UNARY)
def cos(xp, x, /):
    """The cosine of each element.

    Parameters
    ----------
    input : Tensor
        Angles in radians, real or complex; integers are converted to the default dtype.

    Returns
    -------
    Tensor
        In [-1, 1] for real numbers; NaN at infinity.

    See Also
    --------
    sin, acos, cosh

    Examples
    --------
    >>> st.cos(st.tensor([0., float("inf")]))
    tensor([1., nan])
    """
    return xp.cos(x)


cos.pullback(x=lambda ops, g, x: -g * ops.sin(x).conjugate())


@holomorphic(autocast_cuda="full", numpy=parallel(np.tan), samples=UNARY)
def tan(xp, x, /):
    """The tangent of each element.

    Parameters
    ----------
    input : Tensor
        Angles in radians, real or complex; integers are converted to the default dtype.

    Returns
    -------
    Tensor
        sin(x) / cos(x).

    See Also
    --------
    atan, tanh

    Notes
    -----
    The gradient is 1 + tan(x) ** 2.

    Examples
    --------
    >>> st.tan(st.tensor([0.]))
    tensor([0.])
    """
    return xp.tan(x)


tan.pullback(x=lambda g, out: g * (1 + out * out).conjugate())


@holomorphic(autocast_cuda="full", numpy=parallel(np.arcsin), samples=unary(-0.9, 0.9))
def asin(xp, x, /):
    """The angle whose sine is each element.

    Parameters
    ----------
    input : Tensor
        In [-1, 1], or complex; integers are converted to the default dtype.

    Returns
    -------
    Tensor
        Radians in [-pi / 2, pi / 2]; NaN for real numbers outside [-1, 1].

    See Also
    --------
    sin, acos

    Notes
    -----
    `arcsin` is another name of `asin`. The gradient is 1 / sqrt(1 - x * x).

    Examples
    --------
    >>> st.asin(st.tensor([0., 2.]))
    tensor([0., nan])
    """
    return xp.arcsin(x)


asin.pullback(x=lambda ops, g, x: g / ops.sqrt(1 - x * x).conjugate())
asin.alias("arcsin")


@holomorphic(autocast_cuda="full", numpy=parallel(np.arccos), samples=unary(-0.9, 0.9))
def acos(xp, x, /):
    """The angle whose cosine is each element.

    Parameters
    ----------
    input : Tensor
        In [-1, 1], or complex; integers are converted to the default dtype.

    Returns
    -------
    Tensor
        Radians in [0, pi]; NaN for real numbers outside [-1, 1].

    See Also
    --------
    cos, asin

    Notes
    -----
    `arccos` is another name. The gradient is -1 / sqrt(1 - x * x).

    Examples
    --------
    >>> st.acos(st.tensor([1., 2.]))
    tensor([0., nan])
    """
    return xp.arccos(x)


acos.pullback(x=lambda ops, g, x: -g / ops.sqrt(1 - x * x).conjugate())
acos.alias("arccos")


@holomorphic(numpy=parallel(np.arctan), samples=UNARY)
def atan(xp, x, /):
    """The angle whose tangent is each element.

    Parameters
    ----------
    input : Tensor
        Of a real or complex dtype; integers are converted to the default dtype.

    Returns
    -------
    Tensor
        Radians in [-pi / 2, pi / 2].

    See Also
    --------
    tan, atan2

    Notes
    -----
    `arctan` is another name of `atan`. The gradient is 1 / (1 + x * x).

    Examples
    --------
    >>> st.atan(st.tensor([0., 1.])) / st.pi
    tensor([0.0000, 0.2500])
    """
    return xp.arctan(x)


atan.pullback(x=lambda g, x: g / (1 + x * x).conjugate())
atan.alias("arctan")


@op(
    autocast_cuda="widest",
    numpy=parallel(np.arctan2),
    broadcast=True,
    promote="float",
    samples=[((3, 4), reals((3, 4), 0.3, 2.0)), ((3, 1), reals((4,), -2.0, -0.3))],
    tensors="x y",
)
def atan2(xp, x, y, /):
    """The angle of points in the plane against the first axis, in the right quadrant.

    Parameters
    ----------
    input : Tensor
        The second coordinate of the points, y.
    other : Tensor
        The first coordinate, x, broadcast against it.

    Returns
    -------
    Tensor
        Radians in [-pi, pi]; integers give the default dtype.

    See Also
    --------
    atan, hypot, angle

    Notes
    -----
    `arctan2` is another name of `atan2`.

    Examples
    --------
    >>> st.atan2(st.tensor([1., -1.]), st.tensor([-1., -1.])) / st.pi
    tensor([ 0.7500, -0.7500])
    """
    return xp.arctan2(x, y)


atan2.pullback(
    x=lambda ops, g, x, y: g * y / replace_zero(ops, x * x + y * y),
    y=lambda ops, g, x, y: -g * x / replace_zero(ops, x * x + y * y),
)
atan2.alias("arctan2")


def replace_zero(ops: Any, x: Any) -> Any:
    """x with 1 instead of 0, as a divisor of what is 0 there."""
    return ops._where_other(x == 0, x, 1.0)


@holomorphic(autocast_cuda="full", numpy=parallel(np.sinh), samples=UNARY)
def sinh(xp, x, /):
    """The hyperbolic sine of each element: (exp(x) - exp(-x)) / 2.

    Parameters
    ----------
    input : Tensor
        Of a real or complex dtype; integers are converted to the default dtype.

    Returns
    -------
    Tensor
        Infinite where it exceeds the dtype's range.

    See Also
    --------
    cosh, asinh

    Examples
    --------
    >>> st.sinh(st.tensor([0., float("inf")]))
    tensor([0., inf])
    """
    return xp.sinh(x)


sinh.pullback(x=lambda ops, g, x: g * ops.cosh(x).conjugate())


@holomorphic(autocast_cuda="full", numpy=parallel(np.cosh), samples=UNARY)
def cosh(xp, x, /):
    """The hyperbolic cosine of each element: (exp(x) + exp(-x)) / 2.

    Parameters
    ----------
    input : Tensor
        Of a real or complex dtype; integers are converted to the default dtype.

    Returns
    -------
    Tensor
        At least 1 for real numbers; infinite where it exceeds the dtype's range.

    See Also
    --------
    sinh, acosh

    Examples
    --------
    >>> st.cosh(st.tensor([0., -float("inf")]))
    tensor([1., inf])
    """
    return xp.cosh(x)


cosh.pullback(x=lambda ops, g, x: g * ops.sinh(x).conjugate())


@holomorphic(numpy=parallel(np.tanh), samples=UNARY)
def tanh(xp, x, /):
    """The hyperbolic tangent of each element: sinh(x) / cosh(x).

    Parameters
    ----------
    input : Tensor
        Of a real or complex dtype; integers are converted to the default dtype.
    out : Tensor, optional
        Where the result is written.

    Returns
    -------
    Tensor
        In [-1, 1] for real numbers.

    See Also
    --------
    sigmoid, atanh

    Notes
    -----
    The gradient is 1 - tanh(x) ** 2.

    Examples
    --------
    >>> st.tanh(st.tensor([0., 100., -100.]))
    tensor([ 0.,  1., -1.])
    >>> x = st.zeros(1, requires_grad=True)
    >>> st.tanh(x).backward()
    >>> x.grad
    tensor([1.])
    """
    return xp.tanh(x)


tanh.pullback(
    x=lambda ops, g, out: (
        ops._tanh_backward(g, out) if out.dtype.kind == "f" else g * (1 - out * out).conjugate()
    )
)


@holomorphic(numpy=parallel(np.arcsinh), samples=UNARY)
def asinh(xp, x, /):
    """The number whose hyperbolic sine is each element.

    Parameters
    ----------
    input : Tensor
        Of a real or complex dtype; integers are converted to the default dtype.

    Returns
    -------
    Tensor
        log(x + sqrt(x * x + 1)).

    See Also
    --------
    sinh, acosh

    Notes
    -----
    `arcsinh` is another name of `asinh`.

    Examples
    --------
    >>> st.asinh(st.tensor([0., float("inf")]))
    tensor([0., inf])
    """
    return xp.arcsinh(x)


asinh.pullback(x=lambda ops, g, x: g / ops.sqrt(1 + x * x).conjugate())
asinh.alias("arcsinh")


@holomorphic(numpy=parallel(np.arccosh), samples=unary(1.2, 3.0))
def acosh(xp, x, /):
    """The number, not negative, whose hyperbolic cosine is each element.

    Parameters
    ----------
    input : Tensor
        At least 1, or complex; integers are converted to the default dtype.

    Returns
    -------
    Tensor
        log(x + sqrt(x * x - 1)); NaN for real numbers below 1.

    See Also
    --------
    cosh, asinh

    Notes
    -----
    `arccosh` is another name.

    Examples
    --------
    >>> st.acosh(st.tensor([1., 0.]))
    tensor([0., nan])
    """
    return xp.arccosh(x)


acosh.pullback(x=lambda ops, g, x: g / (ops.sqrt(x - 1) * ops.sqrt(x + 1)).conjugate())
acosh.alias("arccosh")


@holomorphic(numpy=parallel(np.arctanh), samples=unary(-0.9, 0.9))
def atanh(xp, x, /):
    """The number whose hyperbolic tangent is each element.

    Parameters
    ----------
    input : Tensor
        In [-1, 1], or complex; integers are converted to the default dtype.

    Returns
    -------
    Tensor
        log((1 + x) / (1 - x)) / 2: -inf at -1, inf at 1, NaN for real numbers outside.

    See Also
    --------
    tanh

    Notes
    -----
    `arctanh` is another name of `atanh`.

    Examples
    --------
    >>> st.atanh(st.tensor([0., 1., 2.]))
    tensor([0., inf, nan])
    """
    return xp.arctanh(x)


atanh.pullback(x=lambda g, x: g / (1 - x * x).conjugate())
atanh.alias("arctanh")


@holomorphic(real=elementwise("sinc"), samples=unary(0.1, 2.0), layout="pointwise")
def sinc(xp, x, /):
    """The normalized sinc function: sin(pi x) / (pi x), and 1 at 0.

    Parameters
    ----------
    input : Tensor
        Of a real or complex dtype; integers are converted to the default dtype.

    Returns
    -------
    Tensor
        0 at the other integers, up to rounding.

    See Also
    --------
    sin, special.spherical_bessel_j0

    Examples
    --------
    >>> st.sinc(st.tensor([0.]))
    tensor([1.])
    """
    return xp.where(x == x, xp.sinc(x), x).astype(x.dtype)  # CuPy's sinc of NaN is 1


def sinc_backward(ops: Any, g: Any, x: Any) -> Any:
    """g times (pi x cos(pi x) - sin(pi x)) / (pi x * x), and 0 at 0."""
    a = math.pi * x
    derivative = (a * ops.cos(a) - ops.sin(a)) / ops._where_other(x == 0, a * x, 1.0)
    return ops._where_other(x == 0, g * derivative.conjugate(), 0.0)


sinc.pullback(x=sinc_backward)


def scale_kernel(factor: float) -> Any:
    """A kernel that multiplies by a number, in parallel."""
    times = parallel(np.multiply)
    return lambda x: times(x, factor)


@op(numpy=scale_kernel(math.pi / 180), promote="float", samples=UNARY, layout="pointwise")
def deg2rad(xp, x, /):
    """Angles in degrees, converted to radians.

    Parameters
    ----------
    input : Tensor
        Degrees; integers are converted to the default dtype.

    Returns
    -------
    Tensor
        input * pi / 180.

    See Also
    --------
    rad2deg

    Examples
    --------
    >>> st.deg2rad(st.tensor([180., 90.])) / st.pi
    tensor([1.0000, 0.5000])
    """
    return x * (math.pi / 180)


deg2rad.pullback(x=lambda g: g * (math.pi / 180))


@op(numpy=scale_kernel(180 / math.pi), promote="float", samples=UNARY, layout="pointwise")
def rad2deg(xp, x, /):
    """Angles in radians, converted to degrees.

    Parameters
    ----------
    input : Tensor
        Radians; integers are converted to the default dtype.

    Returns
    -------
    Tensor
        input * 180 / pi.

    See Also
    --------
    deg2rad

    Examples
    --------
    >>> st.rad2deg(st.tensor([0., st.pi]))
    tensor([  0., 180.])
    """
    return x * (180 / math.pi)


rad2deg.pullback(x=lambda g: g * (180 / math.pi))
