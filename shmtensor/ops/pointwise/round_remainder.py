"""Whole numbers from real ones: rounding, and division with a whole quotient or a remainder."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import native
from ...native import elementwise, parallel
from ..table.native_or_numpy import for_floats, stored
from ..table.op_definition import op
from ..table.samples import UNARY, reals

DIVISION = [
    (reals((3, 4), -5.0, 5.0), reals((3, 4), 0.5, 2.0)),
    (reals((2, 1)), reals((3,), -2, -0.5)),
]


def for_real(ufunc: Any) -> Any:
    """The ufunc on all threads; whole numbers are copied."""
    kernel = parallel(ufunc)

    def rounded(x: Any, out: Any = None) -> Any:
        return stored(x.copy(), out) if x.dtype.kind in "iub" else kernel(x, out)

    rounded.half = kernel  # type: ignore[attr-defined]  # asked first with 16-bit floats
    return rounded


@op(numpy=for_real(np.floor), out=True, inplace=True, samples=UNARY, layout="pointwise")
def floor(xp, x, /):
    """The largest whole number that is not above each element."""
    return x.copy() if x.dtype.kind in "iub" else xp.floor(x)


@op(numpy=for_real(np.ceil), out=True, inplace=True, samples=UNARY, layout="pointwise")
def ceil(xp, x, /):
    """The smallest whole number that is not below each element."""
    return x.copy() if x.dtype.kind in "iub" else xp.ceil(x)


@op(numpy=for_real(np.trunc), out=True, inplace=True, samples=UNARY, layout="pointwise")
def trunc(xp, x, /):
    """Each element without its fraction: rounded towards 0."""
    return x.copy() if x.dtype.kind in "iub" else xp.trunc(x)


@op(
    inplace=True,
    samples=[*UNARY, ((3, 4), {"decimals": 2}), (reals((3,), -900.0, 900.0), {"decimals": -2})],
    layout="pointwise",
)
def round(xp, x, /, *, decimals=0):
    """The nearest number with so many decimals; halves go to the even neighbour."""
    if x.dtype.kind in "iub":
        if decimals:
            raise NotImplementedError(f"round: decimals not implemented for {x.dtype}: {decimals}")
        return x.copy()
    if decimals == 0:
        return xp.rint(x)
    scale = 10.0 ** (decimals if decimals > 0 else -decimals)
    return xp.rint(x * scale) / scale if decimals > 0 else xp.rint(x / scale) * scale


to_whole, times, over = parallel(np.rint), parallel(np.multiply), parallel(np.true_divide)


def fast_round(x: Any, decimals: int) -> Any:
    """The forward of floating-point numbers on all threads."""
    if x.dtype.kind != "f":
        with np.errstate(all="ignore"):
            return round.forward(np, x, decimals=decimals)
    if decimals == 0:
        return to_whole(x)
    scale = 10.0 ** (decimals if decimals > 0 else -decimals)
    if decimals > 0:
        return over(to_whole(times(x, scale)), scale)
    return times(to_whole(over(x, scale)), scale)


def round_of_half(x: Any, decimals: int) -> Any:
    """Of 16 bits; None with decimals."""
    return to_whole_half(x) if decimals == 0 else None


to_whole_half = native.InFloat32(to_whole)
fast_round.half = round_of_half  # type: ignore[attr-defined]
round.numpy = fast_round

trunc.alias("fix")

for row in (floor, ceil, trunc, round):
    row.pullback(x=lambda g: g * 0)


@op(inplace=True, samples=UNARY, layout="pointwise")
def frac(xp, x, /):
    """The fraction of each element: x - trunc(x)."""
    return x - xp.trunc(x)


frac.numpy = for_floats(elementwise("frac"), frac.forward)
frac.pullback(x=lambda g: g)


@op(numpy=parallel(np.floor_divide, "b"), broadcast=True, promote="common", samples=DIVISION)
def floor_divide(xp, x, y, /):
    """Quotient rounded down."""
    return x // y


@op(numpy=parallel(np.remainder, "b"), broadcast=True, promote="common", samples=DIVISION)
def remainder(xp, x, y, /):
    """What is left of x after whole multiples of y; has the sign of y (Python's %)."""
    return x % y


remainder.pullback(
    x=lambda g: g,
    y=lambda ops, g, x, y: -g * ops.floor(x / y),
)


@op(numpy=parallel(np.fmod, "b"), broadcast=True, promote="common", samples=DIVISION, tensors="x")
def fmod(xp, x, y, /):
    """What is left of x after whole multiples of y; has the sign of x (C's fmod)."""
    return xp.fmod(x, y)


fmod.pullback(
    x=lambda g: g,
    y=lambda ops, g, x, y: -g * ops.trunc(x / y),
)


def truncated(xp: Any, x: Any, y: Any) -> Any:
    """Quotient rounded towards 0, exactly for whole numbers too."""
    if x.dtype.kind not in "iu":
        return xp.trunc(x / y)
    if np.size(x) and not np.all(y):
        raise ZeroDivisionError("integer division by zero")
    quotient = x // y
    return quotient + ((quotient < 0) & (quotient * y != x)).astype(quotient.dtype)


quick_truncation = elementwise("trunc_divide")


def fast_truncation(x: Any, y: Any, out: Any = None) -> Any:
    """In one pass of the dtypes that have a loop of their own."""
    dtypes = {v.dtype.char for v in (x, y) if hasattr(v, "dtype")}
    if len(dtypes) == 1 and dtypes <= set("bBhilfd"):
        return quick_truncation(x, y, out)
    with np.errstate(all="ignore"):
        return stored(truncated(np, x, y), out)


@op(
    numpy=fast_truncation,
    broadcast=True,
    promote="common",
    method=False,
    function=False,
    out=True,
    samples=DIVISION,
)
def _trunc_divide(xp, x, y, /):
    """Quotient rounded towards 0: `div(x, y, rounding_mode="trunc")`."""
    return truncated(xp, x, y)


for row in (floor_divide, _trunc_divide):
    row.pullback(x=lambda g: g * 0, y=lambda g: g * 0)
