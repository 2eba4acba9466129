"""Arithmetic, element by element: sums, products, quotients, powers, extremes."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from ... import native
from ...native import parallel
from ..table.check_dtypes import floating, multiple, scale_fits, unmixed
from ..table.native_or_numpy import for_floats, kernel_or_fallback, stored
from ..table.op_definition import composite, insist_on_tensors, op
from ..table.samples import PAIR, TRIPLE, UNARY, reals, unary

plus, minus, times = parallel(np.add), parallel(np.subtract), parallel(np.multiply)
AWAY = [(reals((3, 4)), reals((3, 4), 0.5, 2.0)), (reals((2, 1)), reals((3,), 0.5, 2.0))]


def not_of_bool(name: str, instead: str) -> Any:
    """What is wrong with an op that PyTorch refuses for truth values by a plain RuntimeError."""

    def wrong(inputs: Any, attributes: Any) -> Any:
        if all(getattr(x, "dtype", None) == np.bool_ for x in inputs):
            return RuntimeError(f"{name}: not implemented for bool, hint: use {instead}")
        return None

    return wrong


# ---- sum and product


@op(numpy=parallel(np.add), broadcast=True, promote="common", samples=PAIR)
def add(xp, x, y, /):
    """Sum of two tensors, with broadcasting."""
    return x + y


add.pullback(x=lambda g: g, y=lambda g: g)


@op(numpy=parallel(np.subtract), broadcast=True, promote="common", samples=PAIR)
def sub(xp, x, y, /):
    """Difference of two tensors, with broadcasting."""
    return x - y


sub.pullback(x=lambda g: g, y=lambda g: -g)
sub.alias("subtract")


def no_bools(*operands: Any) -> None:
    """Raises if one of the operands is bool: what the difference means is not plain."""
    if any(
        v.dtype.kind == "b" if hasattr(v, "dtype") else v is True or v is False for v in operands
    ):
        shown = ", ".join(str(v.dtype) if hasattr(v, "dtype") else repr(v) for v in operands)
        raise RuntimeError(
            f"sub: subtraction with bool is not supported: {shown}, use `~`, logical_not() or "
            "convert it first"
        )


sub.unlike = no_bools
sub.wrong = not_of_bool("sub", "logical_xor()")


@composite(inplace=True)
def rsub(ops, input, other, *, alpha=1):
    """other - alpha * input."""
    insist_on_tensors("rsub", input)
    if alpha.__class__ is int and alpha == 1:
        return ops.sub(other, input)
    return ops.sub(other, multiple(ops, "rsub", other, input, alpha))


@op(numpy=parallel(np.multiply), broadcast=True, promote="common", samples=PAIR)
def mul(xp, x, y, /):
    """Product of two tensors, with broadcasting."""
    return x * y


mul.pullback(x=lambda g, y: g * y.conjugate(), y=lambda g, x: g * x.conjugate())
mul.alias("multiply")


@op(numpy=parallel(np.true_divide), broadcast=True, promote="float", samples=AWAY)
def div(xp, x, y, /):
    """Quotient of two tensors, with broadcasting; integers divide to the default dtype."""
    return x / y


div.pullback(
    x=lambda g, y: g / y.conjugate(),
    y=lambda g, y, out: -g * (out / y).conjugate(),
)
div.alias("divide", "true_divide")


@div.rare(rounding_mode=None)
def rounded_div(ops, x, y, /, *, rounding_mode):
    """The quotient, rounded down ("floor") or towards 0 ("trunc")."""
    if rounding_mode == "floor":
        return ops.floor_divide(x, y)
    if rounding_mode == "trunc":
        return ops._trunc_divide(x, y)
    raise RuntimeError(
        f"div: no such rounding_mode: {rounding_mode!r}, one of None, 'trunc', 'floor' is needed"
    )


@op(numpy=parallel(np.negative), inplace=True, samples=UNARY)
def neg(xp, x, /):
    """Each element with the other sign."""
    return -x


neg.pullback(x=lambda g: -g)
neg.alias("negative")
neg.wrong = not_of_bool("neg", "logical_not()")


@composite
def positive(ops, input):
    """The tensor itself, as `+x`; refuses bool."""
    if input.dtype.kind == "b":
        raise RuntimeError(f"positive: not for bool: shape {tuple(input.shape)}, use int() first")
    return input


@op(broadcast=True, promote="common", out=True, samples=TRIPLE, tensors="x tensor1 tensor2")
def addcmul(xp, x, tensor1, tensor2, /, *, value=1):
    """x + value * tensor1 * tensor2; among whole numbers value is one, cut off."""
    if value != 1:
        value = as_factor("addcmul", value, x)
    return x + (tensor1 * tensor2 if value == 1 else value * tensor1 * tensor2)


def fast_addcmul(x: Any, tensor1: Any, tensor2: Any, value: Any, out: Any = None) -> Any:
    """In one pass; else without NumPy's operators, so that large tensors use the threads."""
    done = native.addcmul(x, tensor1, tensor2, value, out)
    if done is not None:
        return done
    product = times(tensor1, tensor2)
    if value != 1:
        product = times(product, as_factor("addcmul", value, x))
    return stored(plus(x, product), out)


def as_factor(name: str, value: Any, x: Any) -> Any:
    """A factor as a number of the tensor's kind."""
    if x.dtype.kind in "iu" and value.__class__ is float:
        return int(value)
    if x.dtype.kind == "b":
        raise NotImplementedError(f"{name}: not for bool: shape {x.shape}, value={value}")
    scale_fits(name, "value", value, x)
    return value


addcmul.numpy = fast_addcmul
addcmul.pullback(
    x=lambda g: g,
    tensor1=lambda g, tensor2, value: g * (tensor2 * value).conjugate(),
    tensor2=lambda g, tensor1, value: g * (tensor1 * value).conjugate(),
)


@op(
    broadcast=True,
    promote="float",
    out=True,
    samples=[((3, 4), (3, 4), reals((3, 4), 0.5, 2.0)), ((3, 1), (4,), reals((), 0.5, 2.0))],
    tensors="x tensor1 tensor2",
)
def addcdiv(xp, x, tensor1, tensor2, /, *, value=1):
    """x + value * tensor1 / tensor2."""
    return x + (tensor1 / tensor2 if value == 1 else value * tensor1 / tensor2)


def plain_addcdiv(xp: Any, x: Any, tensor1: Any, tensor2: Any, value: Any, out: Any = None) -> Any:
    """The forward; `kernel_or_fallback` passes attributes by position."""
    return stored(addcdiv.forward(xp, x, tensor1, tensor2, value=value), out)


def no_whole_quotients(x: Any, tensor1: Any, tensor2: Any) -> None:
    """Nothing, unless both are of whole numbers."""
    if all(getattr(t, "dtype", None) is not None and t.dtype.kind in "iub"
           for t in (tensor1, tensor2)):  # fmt: skip
        raise RuntimeError(
            f"addcdiv: Integer division with addcdiv is no longer supported: {tensor1.dtype}, "
            f"{tensor2.dtype}, hint: tensor1.float()"
        )


addcdiv.numpy = kernel_or_fallback(native.addcdiv, plain_addcdiv)
addcdiv.unlike = no_whole_quotients
addcdiv.pullback(
    x=lambda g: g,
    tensor1=lambda g, tensor2, value: g * (value / tensor2).conjugate(),
    tensor2=lambda g, tensor1, tensor2, value: (
        -g * (value * tensor1 / (tensor2 * tensor2)).conjugate()
    ),
)


@op(
    broadcast=True,
    promote="common",
    out=True,
    samples=[*TRIPLE, ((3, 4), (3, 4), reals((3, 4), 0.6, 2.0))],
    tensors="x end",
)
def lerp(xp, x, end, weight, /):
    """The point at `weight` of the way from one tensor to the other: x + weight * (end - x)."""
    way = end - x
    return xp.where(xp.abs(weight) < 0.5, x + weight * way, end - way * (1 - weight))


def fast_lerp(x: Any, end: Any, weight: Any, out: Any = None) -> Any:
    """In one pass, or with one weight for all in three, instead of eight."""
    done = native.lerp(x, end, weight, out)
    if done is not None:
        return done
    floating("lerp", x)
    if x.dtype.kind != "c" and weight.__class__ is builtins.complex:
        raise RuntimeError(f"lerp: a complex weight does not fit: {weight}, {x.dtype}")
    if weight.__class__ is not float:
        return stored(lerp.forward(np, x, end, weight), out)
    way = minus(end, x)
    near = builtins.abs(weight) < 0.5
    found = plus(x, times(way, weight)) if near else minus(end, times(way, 1 - weight))
    return stored(found, out)


lerp.numpy = fast_lerp


def one_float(x: Any, end: Any, weight: Any) -> None:
    """Nothing, if all are of one dtype, which is of floating-point numbers."""
    for number in (x, end, weight):
        if hasattr(number, "array"):
            floating("lerp", number)
    unmixed("lerp")(x, end, weight)


lerp.unlike = one_float
lerp.pullback(
    x=lambda g, weight: g * (1 - weight).conjugate(),
    end=lambda g, weight: g * weight.conjugate(),
    weight=lambda g, x, end: g * (end - x).conjugate(),
)


fast_square = parallel(np.square)


def squared(x: Any, out: Any = None) -> Any:
    """NumPy's square; of bool an int64."""
    if x.dtype.kind == "b":
        return np.multiply(x, x, out, dtype=None if out is not None else np.int64)
    return fast_square(x, out) if out is not None else fast_square(x)


squared.half = fast_square  # type: ignore[attr-defined]  # asked first with 16-bit floats


@op(numpy=squared, out=True, inplace=True, samples=UNARY, layout="pointwise")
def square(xp, x, /):
    """Each element times itself; of bool an int64."""
    return x.astype(xp.int64) if x.dtype == bool else x * x


square.pullback(x=lambda g, x: g * (2 * x).conjugate())


root = parallel(np.sqrt)


@op(numpy=root, promote="float", samples=unary(0.2, 3.0))
def sqrt(xp, x, /):
    """Square root."""
    return xp.sqrt(x)


sqrt.pullback(x=lambda g, out: g / (2 * out).conjugate())


@op(promote="float", samples=unary(0.2, 3.0), layout="pointwise")
def rsqrt(xp, x, /):
    """One over the square root."""
    return 1 / xp.sqrt(x)


rsqrt.numpy = kernel_or_fallback(native.rsqrt, rsqrt.forward)
rsqrt.pullback(x=lambda g, out: g * (-0.5 * out * out * out).conjugate())


@op(promote="float", samples=unary(0.3, 2.0), layout="pointwise")
def reciprocal(xp, x, /):
    """One over each element."""
    return 1 / x


reciprocal.numpy = parallel(np.reciprocal)
reciprocal.pullback(x=lambda g, out: -g * (out * out).conjugate())


# ---- size and sign


@op(numpy=parallel(np.absolute), inplace=True, samples=unary(0.2, 2.0))
def abs(xp, x, /):
    """Absolute value; of complex numbers the modulus, a real tensor."""
    return xp.abs(x)


abs.pullback(x=lambda ops, g, x: g * ops.sgn(x))
abs.alias("absolute")


@op(inplace=True, samples=unary(0.2, 2.0), layout="pointwise")
def sign(xp, x, /):
    """-1, 0 or 1 by the sign of each element; 0 of NaN, as in PyTorch."""
    if x.dtype.kind == "c":
        raise NotImplementedError(f"sign: not for complex numbers: {x.dtype}, use sgn()")
    return signs(xp, x)


def signs(xp: Any, x: Any) -> Any:
    """The signs of real numbers and bools."""
    if x.dtype == bool:
        return x.copy()
    return (x > 0).astype(x.dtype) - (x < 0) if x.dtype.kind == "f" else xp.sign(x)


sign.numpy = for_floats(native.elementwise("signs"), sign.forward)
sign.pullback(x=lambda g: g * 0)


@op(inplace=True, samples=unary(0.2, 2.0), layout="pointwise")
def sgn(xp, x, /):
    """x / abs(x), and 0 at 0: the sign of real and complex numbers."""
    if x.dtype.kind != "c":
        return signs(xp, x)
    size = xp.abs(x)
    return xp.where(size == 0, 0, x / xp.where(size == 0, 1, size)).astype(x.dtype)


sgn.numpy = for_floats(native.elementwise("signs"), sgn.forward)


def sgn_backward(ops: Any, g: Any, x: Any, out: Any) -> Any:
    """The part of g across x, over abs(x): along x the sign does not change."""
    if x.dtype.kind != "c":
        return g * 0
    size = ops.abs(x)
    across = (g - ops.real(g * out.conjugate()) * out) / ops._where_other(size == 0, size, 1.0)
    return ops._where_other(size == 0, across, 0.0)


sgn.pullback(x=lambda ops, g, x, out: sgn_backward(ops, g, x, out))


@op(numpy=parallel(np.copysign), broadcast=True, promote="float", samples=AWAY, tensors="x")
def copysign(xp, x, y, /):
    """The size of one tensor with the sign of the other."""
    return xp.copysign(x, y)


copysign.pullback(
    x=lambda ops, g, x, out: ops._where_other(x == 0, g * ops.sign(x) * ops.sign(out), 0.0),
    y=lambda g: g * 0,
)


@op(numpy=parallel(np.hypot, "biu"), broadcast=True, promote="common", samples=AWAY, tensors="x y")
def hypot(xp, x, y, /):
    """Length of the hypotenuse: sqrt(x * x + y * y), without overflow."""
    return xp.hypot(x, y)


hypot.pullback(x=lambda g, x, out: g * x / out, y=lambda g, y, out: g * y / out)


@composite(inplace=True)
def ldexp(ops, input, other):
    """input * 2 ** other."""
    insist_on_tensors("ldexp", input, other)
    power = ops.pow(2.0, other)
    if input.dtype.kind == "f" and power.dtype.kind == "f" and other.dtype.kind != "f":
        power = ops._to_copy(power, input.dtype)  # a power of two: exact
    return ops.mul(input, power)
