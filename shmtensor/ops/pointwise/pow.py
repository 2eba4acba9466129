"""Powers of floating-point numbers and of integers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import native
from ...native import parallel
from ..table.op_table import composite, op
from ..table.samples import reals
from .arithmetic import parallel_multiply, parallel_sqrt, parallel_square, rsqrt

POSITIVE = [(reals((3, 4), 0.3, 2.0), (3, 4)), (reals((2, 1), 0.3, 2.0), (3,))]


def pow_backward_base(ops: Any, g: Any, x: Any, y: Any) -> Any:
    """Gradient of x ** y by x; 0 where y is 0, even at x = 0, where x ** (y - 1) is infinite."""
    if isinstance(y, (int, float, complex)):
        if y == 0:
            return ops.zeros_like(g)
        return g * (2 * x if y == 2 else y * ops.pow(x, y - 1)).conjugate()
    return ops._where_other(
        y == 0, g * (y * x ** ops._where_other(y == 0, y - 1, 1.0)).conjugate(), 0.0
    )


def pow_backward_exponent(ops: Any, g: Any, x: Any, y: Any, out: Any) -> Any:
    """Gradient of x ** y by y; 0 where x is 0 and y is not negative, as in PyTorch."""
    if isinstance(x, (int, float)):
        log = ops.log(x * ops.ones_like(y)) if x else -math.inf
        gradient = g * (out * log).conjugate()
        return gradient if x else ops._where_other(is_nonnegative(y), gradient, 0.0)
    is_constant = (x == 0) & is_nonnegative(y)
    return ops._where_other(
        is_constant, g * (out * ops.log(ops._where_other(is_constant, x, 1.0))).conjugate(), 0.0
    )


def is_nonnegative(y: Any) -> Any:
    """Where the numbers are real and not below 0."""
    return (y.imag == 0) & (y.real >= 0) if y.dtype.kind == "c" else y >= 0


def integer_pow(xp: Any, x: Any, y: Any) -> Any:
    """Powers of integers; for a negative exponent y the quotient 1 / x ** -y, truncated."""
    if xp is np and (not y.size or y.min() >= 0):  # a device would have to be waited for
        return x**y
    odd = (y & 1) * 2 - 1  # the sign of a power of -1
    of_unit = xp.where(x == 1, 1, xp.where(x == -1, -odd, 0)).astype(x.dtype)
    return xp.where(y < 0, of_unit, x ** xp.maximum(y, 0))


def pow_on_cuda(xp: Any, x: Any, exponent: Any) -> Any:
    """The forward, and the checks of `pow_kernel`."""
    exponent = check_integer_exponent(x, exponent)
    operands = [v for v in (x, exponent) if hasattr(v, "dtype")]
    if exponent.__class__ is bool or any(v.dtype.kind == "b" for v in operands):
        return bool_pow(x, exponent, xp)
    if exponent.__class__ is float and abs(exponent) == 0.5 and x.dtype.kind == "f":
        return xp.sqrt(x) if exponent > 0 else 1 / xp.sqrt(x)
    return pow.forward(xp, x, exponent)


def bool_pow(x: Any, exponent: Any, xp: Any = np) -> Any:
    """Powers of a bool tensor by a number, or of a tensor by True or False."""
    y = exponent if hasattr(exponent, "dtype") else np.asarray(exponent)
    if y.dtype.kind == "b":
        if y.ndim or not hasattr(x, "dtype"):
            raise NotImplementedError(
                f"pow: not implemented for bool: exponents of shape {y.shape}"
            )
        return x.copy() if y else xp.ones_like(x)
    with np.errstate(all="ignore"):
        return pow.forward(xp, x, exponent)


parallel_power, parallel_reciprocal = parallel(np.power), parallel(np.reciprocal)


def check_integer_exponent(x: Any, exponent: Any) -> Any:
    """The exponent of a power of integers; a number is reduced to their dtype."""
    if exponent.__class__ is not int or not hasattr(x, "dtype") or x.dtype.kind not in "iub":
        return exponent
    if exponent < 0:
        raise RuntimeError(
            f"pow: Integers to negative integer powers are not allowed: {x.dtype.name} to the "
            "power of "
            f"{exponent}, hint: x.float()"
        )
    return exponent if x.dtype.kind == "b" else exponent % (1 << 8 * x.dtype.itemsize)


def pow_kernel(x: Any, exponent: Any) -> Any:
    """Parallel kernels for floating-point tensors, special ones for squares, cubes and roots."""
    if x.__class__ is not np.ndarray or x.dtype.kind not in "fi":
        exponent = check_integer_exponent(x, exponent)
        if "b" in (np.asarray(x).dtype.kind, np.asarray(exponent).dtype.kind):
            return bool_pow(x, exponent)
        with np.errstate(all="ignore"):
            return pow.forward(np, x, exponent)
    if exponent.__class__ is int or (exponent.__class__ is float and x.dtype.kind == "f"):
        if exponent == 2:
            return parallel_square(x)
        if exponent == 3 and x.dtype.char in "bhilfd":
            result = native.cube(x)
            if result is None:
                result = parallel_square(x)
                parallel_multiply(result, x, result)
            return result
    if x.dtype.kind == "i":
        exponent = check_integer_exponent(x, exponent)
        with np.errstate(all="ignore"):
            return pow.forward(np, x, exponent)
    if exponent.__class__ is float and exponent == 0.5:
        return parallel_sqrt(x)
    if exponent.__class__ is float and exponent == -0.5:
        return rsqrt.numpy(x)
    if exponent.__class__ in (int, float) and exponent == -1:
        return parallel_reciprocal(x)
    return parallel_power(x, exponent)


def half_pow_kernel(x: Any, exponent: Any) -> Any:
    """The kernel of a 16-bit power if there is a special one; else None."""
    kernel = HALF_KERNELS.get(exponent) if is_number(exponent) else None
    return kernel and kernel(x)


def is_number(x: Any) -> bool:
    return x.__class__ in (int, float)


HALF_KERNELS = {
    exponent: native.InFloat32(kernel)
    for exponent, kernel in (
        (2, parallel_square),
        (0.5, parallel_sqrt),
        (-0.5, rsqrt.numpy),
        (-1, parallel_reciprocal),
    )
}


@op(
    complex_gradients=True,
    operator="pow",
    autocast_cuda="full",
    numpy=pow_kernel,
    half=half_pow_kernel,
    cuda_fallback=pow_on_cuda,
    broadcast=True,
    promote="common",
    samples=POSITIVE,
    wraps=False,
)
def pow(xp, x, exponent, /):
    """Each element to a power.

    Parameters
    ----------
    input : Tensor or number
        The base.
    exponent : Tensor or number
        Broadcast against the base, and converted to the common dtype.
    out : Tensor, optional
        Where the result is written.

    Returns
    -------
    Tensor
        Of the broadcast shape; integers stay integers and wrap around. NaN for a negative base with
        a fraction as its exponent.

    Raises
    ------
    RuntimeError
        An integer tensor to a negative integer number.

    See Also
    --------
    float_power, square, sqrt, exp

    Notes
    -----
    The gradient of the exponent is 0 where the base is 0 and the exponent is not negative.

    Examples
    --------
    >>> st.pow(st.tensor([1, 2, 3]), 2)
    tensor([1, 4, 9])
    >>> st.pow(2., st.tensor([3., -1.]))
    tensor([8.0000, 0.5000])
    """
    if hasattr(exponent, "dtype") and exponent.dtype.kind == "i":
        return integer_pow(xp, xp.asarray(x, exponent.dtype), exponent)
    return x**exponent


pow.pullback(
    x=lambda ops, g, x, exponent: pow_backward_base(ops, g, x, exponent),
    exponent=lambda ops, g, x, exponent, out: pow_backward_exponent(ops, g, x, exponent, out),
)


def double_dtype_of(*values):
    """complex128 if one of the numbers or tensors is complex, else float64."""
    kinds = [v.dtype.kind if hasattr(v, "dtype") else np.min_scalar_type(v).kind for v in values]
    return np.dtype(np.complex128 if "c" in kinds else np.float64)


def check_double(ops, input, exponent):
    """Checks that float_power's result has the base's dtype and can be written there."""
    dtype = double_dtype_of(input, exponent)
    if input.dtype != dtype:
        raise RuntimeError(
            f"float_power_: the base has dtype {input.dtype.name}, the result requires {dtype}: "
            "use float_power, or convert the base first"
        )


@composite(inplace=check_double, exact_out=True)
def float_power(ops, input, exponent):
    """Each element to a power, in double precision.

    Parameters
    ----------
    input : Tensor or number
        The base, of any dtype.
    exponent : Tensor or number
        Broadcast against the base.

    Returns
    -------
    Tensor
        float64, or complex128 if one of the two is complex.

    See Also
    --------
    pow

    Examples
    --------
    >>> st.float_power(st.tensor([2, 4]), -1)
    tensor([0.5000, 0.2500], dtype=shmtensor.float64)
    """
    dtype = double_dtype_of(input, exponent)
    a, b = (ops._to_copy(v, dtype) if hasattr(v, "dtype") else v for v in (input, exponent))
    return ops.pow(a, b)
