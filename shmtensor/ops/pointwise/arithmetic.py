"""Arithmetic, element by element: add, sub, mul, div, addcmul, lerp, square, sqrt, abs, sign."""

from __future__ import annotations

import builtins
import functools
from typing import Any

import numpy as np

from ... import native
from ...native import parallel
from ..table.check_dtypes import check_floating, check_scale, same_dtype_check, scaled_operand
from ..table.constants import zero_gradient
from ..table.native_or_numpy import copy_to_out
from ..table.op_table import check_tensors, composite, op
from ..table.samples import PAIR, TRIPLE, UNARY, reals, unary

parallel_add, parallel_subtract, parallel_multiply = (
    parallel(np.add),
    parallel(np.subtract),
    parallel(np.multiply),
)
NONZERO_DIVISORS = [
    (reals((3, 4)), reals((3, 4), 0.5, 2.0)),
    (reals((2, 1)), reals((3,), 0.5, 2.0)),
]


def explain_bool(name: str, instead: str) -> Any:
    """A row's `diagnose`, for an op that raises RuntimeError if all operands are bool."""

    def diagnose(inputs: Any, attributes: Any) -> Any:
        if all(getattr(x, "dtype", None) == np.bool_ for x in inputs):
            return RuntimeError(f"{name}: not implemented for bool, hint: use {instead}")
        return None

    return diagnose


# ---- sum and product


arithmetic = functools.partial(
    op, complex_gradients=True, numbers=True, broadcast=True, promote="common", samples=PAIR
)


@arithmetic(operator="add", numpy=parallel(np.add))
def add(xp, x, y, /):
    """The sum of two tensors, element by element.

    Parameters
    ----------
    input, other : Tensor or number
        Broadcast against each other, and converted to their common dtype.
    alpha : number, optional
        A factor of `other`.
    out : Tensor, optional
        Where the result is written.

    Returns
    -------
    Tensor
        input + alpha * other, of the broadcast shape; `add_` writes into the tensor itself.

    Raises
    ------
    RuntimeError
        The shapes do not fit, or alpha is a fraction for integers.

    See Also
    --------
    sub, addcmul

    Examples
    --------
    >>> st.add(st.tensor([1, 2]), 10)
    tensor([11, 12])
    >>> st.add(st.tensor([[1.], [2.]]), st.tensor([10., 20.]), alpha=2)
    tensor([[21., 41.],
            [22., 42.]])
    """
    return x + y


add.pullback(x=lambda g: g, y=lambda g: g)


def refuse_bool(*operands: Any) -> None:
    """Raises RuntimeError if one of the operands is bool."""
    if any(
        v.dtype.kind == "b" if hasattr(v, "dtype") else v is True or v is False for v in operands
    ):
        dtypes = ", ".join(v.dtype.name if hasattr(v, "dtype") else repr(v) for v in operands)
        raise RuntimeError(
            f"sub: subtraction with bool is not supported: {dtypes}, use `~`, logical_not() or "
            "convert it first"
        )


@arithmetic(
    operator="sub",
    diagnose=explain_bool("sub", "logical_xor()"),
    check_dtypes=refuse_bool,
    numpy=parallel(np.subtract),
)
def sub(xp, x, y, /):
    """The difference of two tensors, element by element.

    Parameters
    ----------
    input, other : Tensor or number
        Broadcast against each other, and converted to their common dtype; not of bool.
    alpha : number, optional
        A factor of `other`.
    out : Tensor, optional
        Where the result is written.

    Returns
    -------
    Tensor
        input - alpha * other, of the broadcast shape; `sub_` writes into the tensor itself.

    Raises
    ------
    RuntimeError
        The shapes do not fit, or an operand is of bool.

    See Also
    --------
    add, rsub

    Notes
    -----
    `subtract` is another name.

    Examples
    --------
    >>> st.sub(st.tensor([5, 7]), st.tensor([1, 2]))
    tensor([4, 5])
    >>> st.sub(st.tensor([5., 7.]), 2, alpha=0.5)
    tensor([4., 6.])
    """
    return x - y


sub.pullback(x=lambda g: g, y=lambda g: -g)
sub.alias("subtract")


@composite(inplace=True)
def rsub(ops, input, other, *, alpha=1):
    """The difference of two tensors in the opposite order, element by element.

    Parameters
    ----------
    input : Tensor
        What is subtracted.
    other : Tensor or number
        From which it is subtracted.
    alpha : number, optional
        A factor of `input`.

    Returns
    -------
    Tensor
        other - alpha * input, of the broadcast shape.

    See Also
    --------
    sub

    Examples
    --------
    >>> st.rsub(st.tensor([1, 2]), 10)
    tensor([9, 8])
    """
    check_tensors("rsub", input)
    if alpha.__class__ is int and alpha == 1:
        return ops.sub(other, input)
    return ops.sub(other, scaled_operand(ops, "rsub", other, input, alpha))


@arithmetic(operator="mul", numpy=parallel(np.multiply))
def mul(xp, x, y, /):
    """The product of two tensors, element by element.

    Parameters
    ----------
    input, other : Tensor or number
        Broadcast against each other, and converted to their common dtype.
    out : Tensor, optional
        Where the result is written.

    Returns
    -------
    Tensor
        input * other, of the broadcast shape; `mul_` writes into the tensor itself.

    Raises
    ------
    RuntimeError
        The shapes do not fit.

    See Also
    --------
    div, matmul

    Notes
    -----
    `multiply` is another name. The product of matrices is `matmul`.

    Examples
    --------
    >>> st.mul(st.tensor([1, 2]), 3)
    tensor([3, 6])
    >>> st.mul(st.tensor([[1.], [2.]]), st.tensor([10., 20.]))
    tensor([[10., 20.],
            [20., 40.]])
    """
    return x * y


mul.pullback(x=lambda g, y: g * y.conjugate(), y=lambda g, x: g * x.conjugate())
mul.alias("multiply")


# Of complex numbers, too; integers give the default dtype.
holomorphic = functools.partial(op, complex_gradients=True, promote="float")


@holomorphic(
    operator="truediv",
    numbers=True,
    autocast_cuda="full reflected",
    numpy=parallel(np.true_divide),
    broadcast=True,
    samples=NONZERO_DIVISORS,
)
def div(xp, x, y, /):
    """The quotient of two tensors, element by element.

    Parameters
    ----------
    input, other : Tensor or number
        Broadcast against each other, and converted to their common dtype; integers are converted to
        the default dtype, unless the quotient is rounded.
    rounding_mode : str, optional
        None does not round; "floor" rounds down; "trunc" rounds towards 0.
    out : Tensor, optional
        Where the result is written.

    Returns
    -------
    Tensor
        input / other, of the broadcast shape; `div_` writes into the tensor itself.

    Raises
    ------
    RuntimeError
        The shapes do not fit, there is no such rounding mode, or integers are divided by 0 with
        one. Without one the quotient is infinite or NaN.

    See Also
    --------
    floor_divide, remainder, fmod

    Notes
    -----
    `divide` and `true_divide` are other names.

    Examples
    --------
    >>> st.div(st.tensor([7, -7]), 2)
    tensor([ 3.5000, -3.5000])
    >>> st.div(st.tensor([7, -7]), 2, rounding_mode="floor")
    tensor([ 3, -4])
    >>> st.div(st.tensor([7, -7]), 2, rounding_mode="trunc")
    tensor([ 3, -3])
    """
    return x / y


div.pullback(x=lambda g, y: g / y.conjugate(), y=lambda g, y, out: -g * (out / y).conjugate())
div.alias("divide", "true_divide")


@div.rare(rounding_mode=None)
def div_with_rounding_mode(ops, x, y, /, *, rounding_mode):
    """The quotient, rounded down ("floor") or towards 0 ("trunc")."""
    if rounding_mode == "floor":
        return ops.floor_divide(x, y)
    if rounding_mode == "trunc":
        return ops._trunc_divide(x, y)
    raise RuntimeError(
        f"div: no such rounding_mode: {rounding_mode!r}, one of None, 'trunc', 'floor' is needed"
    )


@op(
    complex_gradients=True,
    operator="neg",
    diagnose=explain_bool("neg", "logical_not()"),
    numpy=parallel(np.negative),
    inplace=True,
    samples=UNARY,
    exact_out=True,
)
def neg(xp, x, /):
    """Each element with the opposite sign.

    Parameters
    ----------
    input : Tensor
        Of any dtype but bool; unsigned integers wrap around.

    Returns
    -------
    Tensor
        -input.

    Raises
    ------
    RuntimeError
        The tensor is of bool.

    See Also
    --------
    abs, logical_not

    Examples
    --------
    >>> st.neg(st.tensor([1., -2.]))
    tensor([-1.,  2.])
    """
    return -x


neg.pullback(x=lambda g: -g)
neg.alias("negative")


@composite(operator="pos")
def positive(ops, input):
    """The tensor itself, as `+x`.

    Parameters
    ----------
    input : Tensor
        Of any dtype but bool.

    Returns
    -------
    Tensor
        `input`, no copy of it.

    Raises
    ------
    RuntimeError
        The tensor is of bool.

    See Also
    --------
    neg

    Notes
    -----
    Copies: none.

    Examples
    --------
    >>> st.positive(st.tensor([1, -2]))
    tensor([ 1, -2])
    """
    if input.dtype.kind == "b":
        raise RuntimeError(f"positive: not for bool: shape {tuple(input.shape)}, use int() first")
    return input


def is_one(value: Any) -> bool:
    """Whether it is the number 1."""
    return value.__class__ in (int, float) and value == 1


def addcmul_kernel(x: Any, tensor1: Any, tensor2: Any, value: Any, out: Any = None) -> Any:
    """One pass by the native kernel; else parallel ufuncs instead of NumPy's operators."""
    result = native.addcmul(x, tensor1, tensor2, value, out)
    if result is not None:
        return result
    product = parallel_multiply(tensor1, tensor2)
    if value != 1:
        product = parallel_multiply(product, check_factor("addcmul", value, x))
    return copy_to_out(parallel_add(x, product), out)


@op(
    complex_gradients=True,
    autocast_cuda="widest",
    numpy=addcmul_kernel,
    broadcast=True,
    promote="common",
    out=True,
    samples=TRIPLE,
    tensors="x tensor1 tensor2",
)
def addcmul(xp, x, tensor1, tensor2, /, *, value=1):
    """A product of two tensors added to a third, element by element.

    Parameters
    ----------
    input : Tensor
        What the product is added to.
    tensor1, tensor2 : Tensor
        The factors. All three are broadcast against each other.
    value : number, optional
        A factor of the product; for integer tensors it is truncated to an integer.

    Returns
    -------
    Tensor
        input + value * tensor1 * tensor2; `addcmul_` writes into the tensor itself.

    See Also
    --------
    addcdiv, add

    Examples
    --------
    >>> x, y = st.tensor([1., 2.]), st.tensor([3., 4.])
    >>> st.addcmul(st.ones(2), x, y, value=0.5)
    tensor([2.5000, 5.0000])
    """
    if is_one(value):
        return x + tensor1 * tensor2
    return x + check_factor("addcmul", value, x) * tensor1 * tensor2


def check_factor(name: str, value: Any, x: Any) -> Any:
    """A factor as a number of the tensor's category."""
    if x.dtype.kind in "iu" and value.__class__ is float:
        return int(value)
    if x.dtype.kind == "b":
        raise NotImplementedError(f"{name}: not for bool: shape {x.shape}, value={value}")
    check_scale(name, "value", value, x)
    return value


addcmul.pullback(
    x=lambda g: g,
    tensor1=lambda g, tensor2, value: g * (tensor2 * value).conjugate(),
    tensor2=lambda g, tensor1, value: g * (tensor1 * value).conjugate(),
)


def refuse_integer_division(x: Any, tensor1: Any, tensor2: Any) -> None:
    """Raises RuntimeError if both are integer or bool."""
    if all(getattr(t, "dtype", None) is not None and t.dtype.kind in "iub"
           for t in (tensor1, tensor2)):  # fmt: skip
        raise RuntimeError(
            f"addcdiv: Integer division with addcdiv is no longer supported: {tensor1.dtype.name}, "
            f"{tensor2.dtype.name}, hint: tensor1.float()"
        )


@holomorphic(
    autocast_cuda="widest",
    check_dtypes=refuse_integer_division,
    native=native.addcdiv,
    broadcast=True,
    out=True,
    samples=[((3, 4), (3, 4), reals((3, 4), 0.5, 2.0)), ((3, 1), (4,), reals((), 0.5, 2.0))],
    tensors="x tensor1 tensor2",
)
def addcdiv(xp, x, tensor1, tensor2, /, *, value=1):
    """A quotient of two tensors added to a third, element by element.

    Parameters
    ----------
    input : Tensor
        What the quotient is added to.
    tensor1, tensor2 : Tensor
        Dividend and divisor, not both of integers. All three are broadcast against each other.
    value : number, optional
        A factor of the quotient.

    Returns
    -------
    Tensor
        input + value * tensor1 / tensor2; `addcdiv_` writes into the tensor itself.

    Raises
    ------
    RuntimeError
        Both `tensor1` and `tensor2` are of integers or bool.

    See Also
    --------
    addcmul, div

    Examples
    --------
    >>> st.addcdiv(st.ones(2), st.tensor([1., 2.]), st.tensor([4., 4.]), value=2)
    tensor([1.5000, 2.0000])
    """
    return x + (tensor1 / tensor2 if is_one(value) else value * tensor1 / tensor2)


addcdiv.pullback(
    x=lambda g: g,
    tensor1=lambda g, tensor2, value: g * (value / tensor2).conjugate(),
    tensor2=lambda g, tensor1, tensor2, value: (
        -g * (value * tensor1 / (tensor2 * tensor2)).conjugate()
    ),
)


def lerp_kernel(x: Any, end: Any, weight: Any, out: Any = None) -> Any:
    """One pass by the native kernel; three if weight is one number; else eight."""
    result = native.lerp(x, end, weight, out)
    if result is not None:
        return result
    check_floating("lerp", x)
    if x.dtype.kind != "c" and weight.__class__ is builtins.complex:
        raise RuntimeError(f"lerp: a complex weight does not fit: {weight}, {x.dtype.name}")
    if weight.__class__ is not float:
        return copy_to_out(lerp.forward(np, x, end, weight), out)
    difference = parallel_subtract(end, x)
    is_near = builtins.abs(weight) < 0.5
    value = (
        parallel_add(x, parallel_multiply(difference, weight))
        if is_near
        else parallel_subtract(end, parallel_multiply(difference, 1 - weight))
    )
    return copy_to_out(value, out)


def check_same_floating(x: Any, end: Any, weight: Any) -> None:
    """Checks that all have the same floating-point dtype."""
    for number in (x, end, weight):
        if hasattr(number, "array"):
            check_floating("lerp", number)
    same_dtype_check("lerp")(x, end, weight)


@op(
    complex_gradients=True,
    check_dtypes=check_same_floating,
    numpy=lerp_kernel,
    broadcast=True,
    promote="common",
    out=True,
    samples=[*TRIPLE, ((3, 4), (3, 4), reals((3, 4), 0.6, 2.0))],
    tensors="x end",
)
def lerp(xp, x, end, weight, /):
    """The point at a given part of the way from one tensor to another: linear interpolation.

    Parameters
    ----------
    input : Tensor
        The start, of a floating-point dtype.
    end : Tensor
        The end, of the same dtype.
    weight : Tensor or number
        Which part of the way: 0 gives `input`, 1 gives `end`. Numbers outside [0, 1] extrapolate.

    Returns
    -------
    Tensor
        input + weight * (end - input), of the broadcast shape; `lerp_` writes into the tensor
        itself.

    Raises
    ------
    RuntimeError
        The dtypes differ.
    NotImplementedError
        They are not floating point.

    Notes
    -----
    From weight 0.5 on end - (1 - weight) * (end - input) is computed, so that weight 1 gives `end`
    exactly.

    Examples
    --------
    >>> st.lerp(st.tensor([0., 10.]), st.tensor([4., 20.]), 0.25)
    tensor([ 1.0000, 12.5000])
    """
    difference = end - x
    return xp.where(xp.abs(weight) < 0.5, x + weight * difference, end - difference * (1 - weight))


lerp.pullback(
    x=lambda g, weight: g * (1 - weight).conjugate(),
    end=lambda g, weight: g * weight.conjugate(),
    weight=lambda g, x, end: g * (end - x).conjugate(),
)


parallel_square = parallel(np.square)


def square_kernel(x: Any, out: Any = None) -> Any:
    """NumPy's square; of bool an int64."""
    if x.dtype.kind == "b":
        return np.multiply(x, x, out, dtype=None if out is not None else np.int64)
    return parallel_square(x, out) if out is not None else parallel_square(x)


@op(
    complex_gradients=True,
    numpy=square_kernel,
    half=parallel_square,
    out=True,
    inplace=True,
    samples=UNARY,
    layout="pointwise",
)
def square(xp, x, /):
    """Each element times itself.

    Parameters
    ----------
    input : Tensor
        Of any dtype; bool gives int64.

    Returns
    -------
    Tensor
        input ** 2; `square_` writes into the tensor itself.

    See Also
    --------
    sqrt, pow

    Examples
    --------
    >>> st.square(st.tensor([-3, 2]))
    tensor([9, 4])
    """
    return x.astype(xp.int64) if x.dtype == bool else x * x


square.pullback(x=lambda g, x: g * (2 * x).conjugate())


parallel_sqrt = parallel(np.sqrt)


@holomorphic(numpy=parallel_sqrt, samples=unary(0.2, 3.0))
def sqrt(xp, x, /):
    """The square root of each element.

    Parameters
    ----------
    input : Tensor
        Of a real or complex dtype; integers are converted to the default dtype.
    out : Tensor, optional
        Where the result is written.

    Returns
    -------
    Tensor
        NaN for negative real numbers; of complex ones the root whose real part is not negative.

    See Also
    --------
    rsqrt, square, pow

    Notes
    -----
    The gradient is 1 / (2 sqrt(x)), infinite at 0.

    Examples
    --------
    >>> st.sqrt(st.tensor([4., 9., -1.]))
    tensor([2., 3., nan])
    >>> st.sqrt(st.tensor([-1 + 0j]))
    tensor([0.+1.j])
    """
    return xp.sqrt(x)


sqrt.pullback(x=lambda g, out: g / (2 * out).conjugate())


@holomorphic(autocast_cuda="full", native=native.rsqrt, samples=unary(0.2, 3.0), layout="pointwise")
def rsqrt(xp, x, /):
    """One over the square root of each element.

    Parameters
    ----------
    input : Tensor
        Of a real or complex dtype; integers are converted to the default dtype.

    Returns
    -------
    Tensor
        1 / sqrt(input): infinite at 0, NaN for negative real numbers.

    See Also
    --------
    sqrt, reciprocal

    Examples
    --------
    >>> st.rsqrt(st.tensor([4., 0.25]))
    tensor([0.5000, 2.0000])
    """
    return 1 / xp.sqrt(x)


rsqrt.pullback(x=lambda g, out: g * (-0.5 * out * out * out).conjugate())


@holomorphic(
    autocast_cuda="full", numpy=parallel(np.reciprocal), samples=unary(0.3, 2.0), layout="pointwise"
)
def reciprocal(xp, x, /):
    """One over each element.

    Parameters
    ----------
    input : Tensor
        Of a real or complex dtype; integers are converted to the default dtype.

    Returns
    -------
    Tensor
        1 / input: infinite at 0.

    See Also
    --------
    div, rsqrt

    Examples
    --------
    >>> st.reciprocal(st.tensor([2, 4]))
    tensor([0.5000, 0.2500])
    """
    return 1 / x


reciprocal.pullback(x=lambda g, out: -g * (out * out).conjugate())


# ---- size and sign


@op(
    complex_gradients=True,
    operator="abs",
    numpy=parallel(np.absolute),
    inplace=True,
    samples=unary(0.2, 2.0),
    exact_out=True,
)
def abs(xp, x, /):
    """The absolute value of each element; of complex numbers the modulus.

    Parameters
    ----------
    input : Tensor
        Of a real or complex dtype.
    out : Tensor, optional
        Where the result is written.

    Returns
    -------
    Tensor
        Of the same dtype; real for complex numbers.

    See Also
    --------
    sign, angle

    Notes
    -----
    The gradient is the sign, 0 at 0; of complex numbers x / abs(x). The smallest number of a signed
    integer dtype, such as -128 of int8, has no positive counterpart and stays as it is. `absolute`
    is another name.

    Examples
    --------
    >>> st.abs(st.tensor([-1, 2, -3]))
    tensor([1, 2, 3])
    >>> st.abs(st.tensor([3 + 4j]))
    tensor([5.])
    """
    return xp.abs(x)


abs.pullback(x=lambda ops, g, x: g * ops.sgn(x))
abs.alias("absolute")


@op(
    real=native.elementwise("signs"),
    inplace=True,
    samples=unary(0.2, 2.0),
    layout="pointwise",
    exact_out=True,
)
def sign(xp, x, /):
    """The sign of each element: -1, 0 or 1.

    Parameters
    ----------
    input : Tensor
        Of a real dtype.

    Returns
    -------
    Tensor
        Of the same dtype; 0 for NaN.

    Raises
    ------
    NotImplementedError
        The tensor is complex: `sgn` has their sign.

    See Also
    --------
    sgn, signbit, copysign

    Notes
    -----
    The gradient is 0.

    Examples
    --------
    >>> st.sign(st.tensor([-2.5, 0., 7.]))
    tensor([-1.,  0.,  1.])
    """
    if x.dtype.kind == "c":
        raise NotImplementedError(f"sign: not for complex numbers: {x.dtype.name}, use sgn()")
    return signs(xp, x)


def signs(xp: Any, x: Any) -> Any:
    """The signs of real numbers and bools."""
    if x.dtype == bool:
        return x.copy()
    return (x > 0).astype(x.dtype) - (x < 0) if x.dtype.kind == "f" else xp.sign(x)


sign.pullback(x=zero_gradient)


@op(
    complex_gradients=True,
    real=native.elementwise("signs"),
    inplace=True,
    samples=unary(0.2, 2.0),
    layout="pointwise",
    exact_out=True,
)
def sgn(xp, x, /):
    """The sign of real numbers, and of complex ones the number of modulus 1 with the same angle.

    Parameters
    ----------
    input : Tensor
        Of a real or complex dtype.

    Returns
    -------
    Tensor
        x / abs(x), and 0 at 0.

    See Also
    --------
    sign, angle

    Examples
    --------
    >>> st.sgn(st.tensor([3 + 4j, 0j]))
    tensor([0.6000+0.8000j, 0.0000+0.0000j])
    >>> st.sgn(st.tensor([-5., 0., 2.]))
    tensor([-1.,  0.,  1.])
    """
    if x.dtype.kind != "c":
        return signs(xp, x)
    size = xp.abs(x)
    return xp.where(size == 0, 0, x / xp.where(size == 0, 1, size)).astype(x.dtype)


def sgn_backward(ops: Any, g: Any, x: Any, out: Any) -> Any:
    """The part of g orthogonal to x, over abs(x): along x the sign does not change."""
    if x.dtype.kind != "c":
        return zero_gradient(ops, g)
    size = ops.abs(x)
    orthogonal = (g - ops.real(g * out.conjugate()) * out) / ops._where_other(size == 0, size, 1.0)
    return ops._where_other(size == 0, orthogonal, 0.0)


sgn.pullback(x=sgn_backward)


@op(
    numpy=parallel(np.copysign),
    broadcast=True,
    promote="float",
    samples=NONZERO_DIVISORS,
    tensors="x",
)
def copysign(xp, x, y, /):
    """The absolute values of one tensor with the signs of another.

    Parameters
    ----------
    input : Tensor
        Whose absolute values are taken; integers are converted to the default dtype.
    other : Tensor or number
        Whose signs are taken; -0.0 is negative.

    Returns
    -------
    Tensor
        Of the broadcast shape.

    See Also
    --------
    sign, abs

    Examples
    --------
    >>> st.copysign(st.tensor([1., -2., 3.]), -1)
    tensor([-1., -2., -3.])
    """
    return xp.copysign(x, y)


copysign.pullback(
    x=lambda ops, g, x, out: ops._where_other(x == 0, g * ops.sign(x) * ops.sign(out), 0.0),
    y=zero_gradient,
)


@op(
    numpy=parallel(np.hypot, "biu"),
    broadcast=True,
    promote="common",
    samples=NONZERO_DIVISORS,
    tensors="x y",
)
def hypot(xp, x, y, /):
    """The length of the hypotenuse of a right triangle with two given legs, element by element.

    Parameters
    ----------
    input, other : Tensor
        The legs, of a floating-point dtype, broadcast against each other.

    Returns
    -------
    Tensor
        sqrt(input ** 2 + other ** 2), without overflow of the squares.

    See Also
    --------
    atan2

    Examples
    --------
    >>> st.hypot(st.tensor([3., 5.]), st.tensor([4., 12.]))
    tensor([ 5., 13.])
    """
    return xp.hypot(x, y)


hypot.pullback(x=lambda g, x, out: g * x / out, y=lambda g, y, out: g * y / out)


@composite(inplace=True)
def ldexp(ops, input, other):
    """Each element times a power of two.

    Parameters
    ----------
    input : Tensor
        The factor.
    other : Tensor
        The exponent of two.

    Returns
    -------
    Tensor
        input * 2 ** other; integers give the default dtype.

    See Also
    --------
    frexp

    Examples
    --------
    >>> st.ldexp(st.tensor([1., 3.]), st.tensor([4, -1]))
    tensor([16.0000,  1.5000])
    """
    check_tensors("ldexp", input, other)
    power = ops.pow(2.0, other)
    if input.dtype.kind == "f" and power.dtype.kind == "f" and other.dtype.kind != "f":
        power = ops._to_copy(power, input.dtype)  # a power of two: exact
    return ops.mul(input, power)
