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
    """Sine of angles in radians."""
    return xp.sin(x)


sin.pullback(x=lambda ops, g, x: g * ops.cos(x).conjugate())


@holomorphic(numpy=parallel(np.cos), samples=UNARY)
def cos(xp, x, /):
    """Cosine of angles in radians."""
    return xp.cos(x)


cos.pullback(x=lambda ops, g, x: -g * ops.sin(x).conjugate())


@holomorphic(autocast_cuda="full", numpy=parallel(np.tan), samples=UNARY)
def tan(xp, x, /):
    """Tangent of angles in radians."""
    return xp.tan(x)


tan.pullback(x=lambda g, out: g * (1 + out * out).conjugate())


@holomorphic(autocast_cuda="full", numpy=parallel(np.arcsin), samples=unary(-0.9, 0.9))
def asin(xp, x, /):
    """Angle whose sine is x, in [-pi / 2, pi / 2]."""
    return xp.arcsin(x)


asin.pullback(x=lambda ops, g, x: g / ops.sqrt(1 - x * x).conjugate())
asin.alias("arcsin")


@holomorphic(autocast_cuda="full", numpy=parallel(np.arccos), samples=unary(-0.9, 0.9))
def acos(xp, x, /):
    """Angle whose cosine is x, in [0, pi]."""
    return xp.arccos(x)


acos.pullback(x=lambda ops, g, x: -g / ops.sqrt(1 - x * x).conjugate())
acos.alias("arccos")


@holomorphic(numpy=parallel(np.arctan), samples=UNARY)
def atan(xp, x, /):
    """Angle whose tangent is x, in [-pi / 2, pi / 2]."""
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
    """Angle of the point (y, x) against the first axis, in [-pi, pi]."""
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
    """Hyperbolic sine."""
    return xp.sinh(x)


sinh.pullback(x=lambda ops, g, x: g * ops.cosh(x).conjugate())


@holomorphic(autocast_cuda="full", numpy=parallel(np.cosh), samples=UNARY)
def cosh(xp, x, /):
    """Hyperbolic cosine."""
    return xp.cosh(x)


cosh.pullback(x=lambda ops, g, x: g * ops.sinh(x).conjugate())


@holomorphic(numpy=parallel(np.tanh), samples=UNARY)
def tanh(xp, x, /):
    """Hyperbolic tangent."""
    return xp.tanh(x)


tanh.pullback(
    x=lambda ops, g, out: (
        ops._tanh_backward(g, out) if out.dtype.kind == "f" else g * (1 - out * out).conjugate()
    )
)


@holomorphic(numpy=parallel(np.arcsinh), samples=UNARY)
def asinh(xp, x, /):
    """The number whose hyperbolic sine is x."""
    return xp.arcsinh(x)


asinh.pullback(x=lambda ops, g, x: g / ops.sqrt(1 + x * x).conjugate())
asinh.alias("arcsinh")


@holomorphic(numpy=parallel(np.arccosh), samples=unary(1.2, 3.0))
def acosh(xp, x, /):
    """The number >= 0 whose hyperbolic cosine is x."""
    return xp.arccosh(x)


acosh.pullback(x=lambda ops, g, x: g / (ops.sqrt(x - 1) * ops.sqrt(x + 1)).conjugate())
acosh.alias("arccosh")


@holomorphic(numpy=parallel(np.arctanh), samples=unary(-0.9, 0.9))
def atanh(xp, x, /):
    """The number whose hyperbolic tangent is x."""
    return xp.arctanh(x)


atanh.pullback(x=lambda g, x: g / (1 - x * x).conjugate())
atanh.alias("arctanh")


@holomorphic(real=elementwise("sinc"), samples=unary(0.1, 2.0), layout="pointwise")
def sinc(xp, x, /):
    """sin(pi x) / (pi x), and 1 at 0."""
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
    """Degrees in radians."""
    return x * (math.pi / 180)


deg2rad.pullback(x=lambda g: g * (math.pi / 180))


@op(numpy=scale_kernel(180 / math.pi), promote="float", samples=UNARY, layout="pointwise")
def rad2deg(xp, x, /):
    """Radians in degrees."""
    return x * (180 / math.pi)


rad2deg.pullback(x=lambda g: g * (180 / math.pi))
