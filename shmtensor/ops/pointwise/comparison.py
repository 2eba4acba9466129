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
    """Is x equal to y?"""
    return x == y


@comparison(operator="ne", numpy=parallel(np.not_equal))
def ne(xp, x, y, /):
    """Is x not equal to y?"""
    return x != y


ne.alias("not_equal")


@comparison(operator="lt", numpy=parallel(np.less, "c"))
def lt(xp, x, y, /):
    """Is x less than y?"""
    return x < y


lt.alias("less")


@comparison(operator="le", numpy=parallel(np.less_equal, "c"))
def le(xp, x, y, /):
    """Is x less than or equal to y?"""
    return x <= y


le.alias("less_equal")


@comparison(operator="gt", numpy=parallel(np.greater, "c"))
def gt(xp, x, y, /):
    """Is x greater than y?"""
    return x > y


gt.alias("greater")


@comparison(operator="ge", numpy=parallel(np.greater_equal, "c"))
def ge(xp, x, y, /):
    """Is x greater than or equal to y?"""
    return x >= y


ge.alias("greater_equal")


@op(numpy=parallel(np.isnan), samples=UNARY)
def isnan(xp, x, /):
    """Is it not a number?"""
    return xp.isnan(x)


@op(numpy=parallel(np.isinf), samples=UNARY)
def isinf(xp, x, /):
    """Is it infinite?"""
    return xp.isinf(x)


@op(numpy=parallel(np.isfinite), samples=UNARY)
def isfinite(xp, x, /):
    """Is it neither infinite nor NaN?"""
    return xp.isfinite(x)


@op(samples=UNARY, layout="pointwise")
def isposinf(xp, x, /):
    """Is it plus infinity?"""
    return x == xp.inf


@op(samples=UNARY, layout="pointwise")
def isneginf(xp, x, /):
    """Is it minus infinity?"""
    return x == -xp.inf


@op(samples=UNARY, layout="pointwise")
def isreal(xp, x, /):
    """Is its imaginary part 0?"""
    return x.imag == 0 if x.dtype.kind == "c" else xp.ones(x.shape, bool)


@op(samples=UNARY, layout="pointwise")
def signbit(xp, x, /):
    """Is its sign bit set (also that of -0.0)?"""
    return xp.signbit(x) if x.dtype.kind == "f" else x < 0


@op(
    check_dtypes=same_dtype_check("isclose"),
    broadcast=True,
    promote="common",
    samples=PAIR,
    tensors="x y",
)
def isclose(xp, x, y, /, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Is |x - y| <= atol + rtol * |y|?"""
    if rtol < 0 or atol < 0:
        raise RuntimeError(f"isclose: tolerances must not be negative: rtol={rtol}, atol={atol}")
    if x.dtype.kind in "iub":
        x, y = x.astype(xp.float64), y.astype(xp.float64)
    near = xp.abs(x - y) <= atol + rtol * xp.abs(y)
    near = (near & xp.isfinite(y)) | (x == y)
    return near | ((x != x) & (y != y)) if equal_nan else near


@op(numpy=parallel(np.logical_and), broadcast=True, inplace=True, samples=PAIR, tensors="x y")
def logical_and(xp, x, y, /):
    """Are both true? Numbers other than 0 are."""
    return xp.logical_and(x, y)


@op(numpy=parallel(np.logical_or), broadcast=True, inplace=True, samples=PAIR, tensors="x y")
def logical_or(xp, x, y, /):
    """Is at least one of the two true?"""
    return xp.logical_or(x, y)


@op(numpy=parallel(np.logical_xor), broadcast=True, inplace=True, samples=PAIR, tensors="x y")
def logical_xor(xp, x, y, /):
    """Is exactly one of the two true?"""
    return xp.logical_xor(x, y)


@op(numpy=parallel(np.logical_not), inplace=True, samples=UNARY)
def logical_not(xp, x, /):
    """Is it false, that is 0?"""
    return xp.logical_not(x)


@op(
    check_dtypes=same_dtype_check("heaviside"),
    broadcast=True,
    promote="common",
    samples=PAIR,
    tensors="x values",
)
def heaviside(xp, x, values, /):
    """0 where x is negative, 1 where it is positive, `values` where it is 0."""
    if x.dtype.kind == "c":
        raise unsupported_dtype("heaviside", x)
    return xp.where(x == 0, values, (x > 0).astype(x.dtype))


@composite
def allclose(ops, input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Are all elements close to each other, as `isclose` has it? A Python bool."""
    return bool(ops.all(ops.isclose(input, other, rtol, atol, equal_nan)))


@composite
def equal(ops, input, other):
    """Are shapes and all elements equal? A Python bool."""
    return bool(input.shape == other.shape and ops.all(ops.eq(input, other)))
