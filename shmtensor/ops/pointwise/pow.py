"""Powers, of floating-point and of whole numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import native
from ...native import parallel
from ..table.op_definition import composite, op
from ..table.samples import reals
from .arithmetic import fast_square, root, times

POSITIVE = [(reals((3, 4), 0.3, 2.0), (3, 4)), (reals((2, 1), 0.3, 2.0), (3,))]


def power_backward(ops: Any, g: Any, x: Any, y: Any) -> Any:
    """Gradient of x ** y by x; 0 where y is 0, even at x = 0, where x ** (y - 1) is infinite."""
    if isinstance(y, (int, float, complex)):
        if y == 0:
            return g * 0
        return g * (2 * x if y == 2 else y * x ** (y - 1)).conjugate()
    return ops._where_other(
        y == 0, g * (y * x ** ops._where_other(y == 0, y - 1, 1.0)).conjugate(), 0.0
    )


def exponent_backward(ops: Any, g: Any, x: Any, y: Any, out: Any) -> Any:
    """Gradient of x ** y by y; 0 where x is 0 and y is not negative, as PyTorch has it."""
    if isinstance(x, (int, float)):
        log = ops.log(x * ops.ones_like(y)) if x else -math.inf
        slope = g * (out * log).conjugate()
        return slope if x else ops._where_other(not_negative(y), slope, 0.0)
    flat = (x == 0) & not_negative(y)
    return ops._where_other(
        flat, g * (out * ops.log(ops._where_other(flat, x, 1.0))).conjugate(), 0.0
    )


def not_negative(y: Any) -> Any:
    """Where the numbers are real and not below 0."""
    return (y.imag == 0) & (y.real >= 0) if y.dtype.kind == "c" else y >= 0


@op(broadcast=True, promote="common", samples=POSITIVE, wraps=False)
def pow(xp, x, exponent, /):
    """x to the power of `exponent`, with broadcasting; whole numbers stay whole."""
    if isinstance(exponent, np.ndarray) and exponent.dtype.kind == "i":
        return whole_power(xp, xp.asarray(x, exponent.dtype), exponent)
    return x**exponent


def whole_power(xp: Any, x: Any, y: Any) -> Any:
    """Powers of whole numbers; of negative exponents what the quotient 1 / x ** -y is without its
    fraction.
    """
    if not y.size or y.min() >= 0:
        return x**y
    odd = (y & 1) * 2 - 1  # of -1 the sign
    small = xp.where(x == 1, 1, xp.where(x == -1, -odd, 0)).astype(x.dtype)
    return xp.where(y < 0, small, x ** xp.maximum(y, 0))


def power_of_bool(x: Any, exponent: Any) -> Any:
    """Powers with truth values: of a tensor of them by a number; by True or False they stay what
    they are.

    Raises:
        NotImplementedError: the exponents are a tensor of truth values.
    """
    y = np.asarray(exponent)
    if y.dtype.kind == "b":
        if y.ndim or not isinstance(x, np.ndarray):
            raise NotImplementedError(
                f"pow: not implemented for bool: exponents of shape {y.shape}"
            )
        return x.copy() if y else np.ones_like(x)
    with np.errstate(all="ignore"):
        return pow.forward(np, x, exponent)


power, over_one = parallel(np.power), parallel(np.reciprocal)


def whole_exponent(x: Any, exponent: Any) -> Any:
    """The exponent of a power of whole numbers, in their dtype if it is a number.

    Raises:
        RuntimeError: it is negative: the power would be no whole number.
    """
    if exponent.__class__ is not int or x.__class__ is not np.ndarray or x.dtype.kind not in "iub":
        return exponent
    if exponent < 0:
        raise RuntimeError(
            f"pow: Integers to negative integer powers are not allowed: {x.dtype} to the power of "
            f"{exponent}, hint: x.float()"
        )
    return exponent if x.dtype.kind == "b" else exponent % (1 << 8 * x.dtype.itemsize)


def fast_power(x: Any, exponent: Any) -> Any:
    """Of floating-point tensors on the threads, squares and roots by their own loops."""
    if x.__class__ is not np.ndarray or x.dtype.kind not in "fi":
        exponent = whole_exponent(x, exponent)
        if "b" in (np.asarray(x).dtype.kind, np.asarray(exponent).dtype.kind):
            return power_of_bool(x, exponent)
        with np.errstate(all="ignore"):
            return pow.forward(np, x, exponent)
    if exponent.__class__ is int or (exponent.__class__ is float and x.dtype.kind == "f"):
        if exponent == 2:
            return fast_square(x)
        if exponent == 3 and x.dtype.char in "bhilfd":
            found = native.cube(x)
            if found is None:
                found = fast_square(x)
                times(found, x, found)
            return found
    if x.dtype.kind == "i":
        exponent = whole_exponent(x, exponent)
        with np.errstate(all="ignore"):
            return pow.forward(np, x, exponent)
    if exponent.__class__ is float and exponent == 0.5:
        return root(x)
    if exponent.__class__ in (int, float) and exponent == -1:
        return over_one(x)
    return power(x, exponent)


def power_of_half(x: Any, exponent: Any) -> Any:
    """Of 16 bits what has a loop of its own; None for the rest."""
    kernel = OF_HALF.get(exponent) if is_number(exponent) else None
    return kernel and kernel(x)


def is_number(x: Any) -> bool:
    return x.__class__ in (int, float)


OF_HALF = {
    exponent: native.InFloat32(kernel)
    for exponent, kernel in ((2, fast_square), (0.5, root), (-1, over_one))
}
fast_power.half = power_of_half  # type: ignore[attr-defined]
pow.numpy = fast_power
pow.pullback(
    x=lambda ops, g, x, exponent: power_backward(ops, g, x, exponent),
    exponent=lambda ops, g, x, exponent, out: exponent_backward(ops, g, x, exponent, out),
)


def double_of(*values):
    """complex128 if one of the numbers or tensors is complex, else float64."""
    kinds = [v.dtype.kind if hasattr(v, "dtype") else np.min_scalar_type(v).kind for v in values]
    return np.dtype(np.complex128 if "c" in kinds else np.float64)


def only_double(ops, input, exponent):
    """Nothing, if float_power's result has the base's dtype; else it cannot be written there."""
    kind = double_of(input, exponent)
    if input.dtype != kind:
        raise RuntimeError(
            f"float_power_: the base has dtype {input.dtype}, the result requires {kind}: "
            "use float_power, or convert the base first"
        )


@composite(inplace=only_double, exact_out=True)
def float_power(ops, input, exponent):
    """input ** exponent in float64 (complex128 for complex numbers)."""
    kind = double_of(input, exponent)
    a, b = (ops._to_copy(v, kind) if hasattr(v, "dtype") else v for v in (input, exponent))
    return ops.pow(a, b)
