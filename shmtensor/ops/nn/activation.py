"""Activation functions, each with its derivatives below it; glu has a file of its own.

The kernels in C++ have one row for all gradients, `_activation_backward`, by the derivatives that
are declared here. The file is long because a formula and its derivatives are read together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ... import native
from ..pointwise.exp_log_erf import error_function
from ..table.check_dtypes import (
    any_floating_check,
    check_floating,
    check_same_dtype,
    unsupported_dtype,
)
from ..table.op_table import IN_NAMESPACE, Row, composite, op, parameters_of
from ..table.samples import reals

ROOT_HALF = math.sqrt(0.5)
ROOT_2_PI = math.sqrt(2 / math.pi)
BOTH_SIDES = [(reals((3, 4), -3.0, 3.0),), (reals(()),), ((0, 3),)]
WIDE = reals((3, 4), -5.0, 5.0)

Function = Callable[..., Any]


# ---- the derivatives of those with a kernel


class ActivationDerivatives(NamedTuple):
    """The derivatives of an activation, as `declare_derivatives` takes them."""

    first: Function
    second: Function | None
    excludes: bool


class NumPyFunctions:
    """The functions `f` on NumPy's arrays."""

    exp, tanh, where = np.exp, np.tanh, np.where

    @staticmethod
    def softplus(x: Any) -> Any:
        return np.logaddexp(x, 0)

    @staticmethod
    def sigmoid(x: Any) -> Any:
        e = np.exp(-np.abs(x))
        return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


DERIVATIVES: dict[str, ActivationDerivatives] = {}  # by the names of the activations
ARGUMENT_COUNTS: dict[str, int] = {}  # how many numbers the derivatives take
SAMPLES: list[tuple[Any, ...]] = []


def declare_derivatives(
    row: Row,
    first: Function,
    second: Function | None = None,
    sample: tuple[float, ...] = (),
    excludes: bool = False,
) -> None:
    """Declares the derivatives of an activation, for its pullback by `_activation_backward`.

    Args:
        first: `first(f, x, numbers...)`; f has the functions `exp`, `tanh`, `softplus`, `sigmoid`
            and `where`.
        second: `second(ops, x, numbers...)`; None: it is 0 almost everywhere.
        sample: numbers for the generated test; as many as the derivatives take.
        excludes: the gradient is 0 where the derivative is, even for an infinite incoming
            gradient. Without a second derivative it is so in any case.
    """
    DERIVATIVES[row.name] = ActivationDerivatives(first, second, excludes or second is None)
    ARGUMENT_COUNTS[row.name] = len(parameters_of(first)) - 2
    if len(sample) != ARGUMENT_COUNTS[row.name]:
        raise TypeError(f"declare_derivatives: {row.name}: a sample has {len(sample)} numbers")
    SAMPLES.append(((3, 4), WIDE, row.name, *sample))


@op(native=native.activation_backward, samples=SAMPLES, layout="pointwise")
def _activation_backward(xp, x, y, /, name, a=0.0, b=0.0, c=0.0):
    """x times the derivative of the named activation at y; 0 where the derivative is 0."""
    numbers = (a, b, c)[: ARGUMENT_COUNTS.get(name, 0)]
    derivative = DERIVATIVES[name].first(NumPyFunctions, y, *numbers)
    out = x * derivative
    excludes = DERIVATIVES[name].excludes
    return (xp.where(derivative == 0, 0.0, out) if excludes else out).astype(x.dtype)


def activation_double_backward(
    ops: Any, g: Any, x: Any, y: Any, name: str, numbers: tuple[float, ...]
) -> Any:
    """The gradient of `_activation_backward` by y; None if the second derivative is 0."""
    second_derivative = DERIVATIVES[name].second
    return (
        None
        if second_derivative is None
        else g * x * second_derivative(ops, y, *numbers[: ARGUMENT_COUNTS.get(name, 0)])
    )


_activation_backward.pullback(
    x=lambda ops, g, y, name, a, b, c: ops._activation_backward(g, y, name, a, b, c),
    y=lambda ops, g, x, y, name, a, b, c: activation_double_backward(ops, g, x, y, name, (a, b, c)),
)


# ---- the activations


def relu_array(xp: Any, x: Any) -> Any:
    """max(x, 0)."""
    return xp.maximum(x, 0)


native_relu = native.elementwise("relu")
relu_in_float32 = native.InFloat32(native_relu)


def relu_kernel(x: Any, out: Any = None) -> Any:
    """The native kernel for floating-point numbers, also into `out`."""
    if x.dtype.kind == "f":
        return native_relu(x, out) if x.dtype.itemsize > 2 else relu_in_float32(x, out)
    if x.dtype.kind in "cb":
        raise unsupported_dtype("relu", x)
    result = relu_array(np, x)
    if out is None:
        return result
    out[...] = result
    return out


@op(
    numpy=relu_kernel,
    inplace=True,
    out=True,
    samples=BOTH_SIDES,
    layout="pointwise",
    halves="dispatches",
)
def relu(xp, x, /):
    """Rectified linear unit: max(x, 0).

    Parameters
    ----------
    input : Tensor
        Of any shape, floating-point or whole numbers.

    Returns
    -------
    Tensor
        Of the input's shape and dtype.

    Raises
    ------
    RuntimeError
        The input is of bool or complex numbers.

    See Also
    --------
    nn.functional.relu, clamp

    Notes
    -----
    A NaN stays a NaN; the gradient at 0 is 0. Copies: one (the result); `relu_` works in place.

    Examples
    --------
    >>> st.relu(st.tensor([-1., 0., 2.]))
    tensor([0., 0., 2.])
    """
    return relu_array(xp, x)


relu.pullback(x=lambda ops, g, out: ops._relu_backward(g, out))


@op(numpy=native.relu_backward, samples=[((3, 4), (3, 4))], layout="pointwise")
def _relu_backward(xp, x, y, /):
    """x where y is positive or NaN, else 0."""
    return xp.where(y <= 0, xp.zeros((), x.dtype), x)


_relu_backward.pullback(x=lambda ops, g, y: ops._relu_backward(g, y))


def logistic(xp: Any, x: Any) -> Any:
    """1 / (1 + exp(-x)), without overflow."""
    if x.dtype.kind == "c":
        return 1 / (1 + xp.exp(-x))
    e = xp.exp(-xp.abs(x))
    return xp.where(x >= 0, 1 / (1 + e), e / (1 + e))


@op(
    complex_gradients=True,
    real=native.sigmoid,
    promote="float",
    samples=BOTH_SIDES,
    layout="pointwise",
)
def sigmoid(xp, x, /):
    """The logistic function: 1 / (1 + exp(-x)).

    Parameters
    ----------
    input : Tensor
        Of any shape and dtype; whole numbers are converted to the default dtype.

    Returns
    -------
    Tensor
        Of the input's shape, from 0 to 1.

    See Also
    --------
    logit, logsigmoid, binary_cross_entropy_with_logits

    Notes
    -----
    Neither large nor small numbers overflow. Copies: one (the result).

    Examples
    --------
    >>> st.sigmoid(st.tensor([-1., 0., 1.]))
    tensor([0.2689, 0.5000, 0.7311])
    """
    return logistic(xp, x)


sigmoid.pullback(
    x=lambda ops, g, out: (
        ops._sigmoid_backward(g, out)
        if out.dtype.kind == "f"
        else g * (out * (1 - out)).conjugate()
    )
)


@op(numpy=native.sigmoid_backward, samples=[((3, 4), (3, 4))], layout="pointwise")
def _sigmoid_backward(xp, x, y, /):
    """x * y * (1 - y)."""
    return x * (y * (1 - y))


_sigmoid_backward.pullback(
    x=lambda ops, g, y: ops._sigmoid_backward(g, y), y=lambda g, x, y: g * x * (1 - 2 * y)
)


@op(numpy=native.tanh_backward, samples=[((3, 4), (3, 4))], layout="pointwise")
def _tanh_backward(xp, x, y, /):
    """x * (1 - y * y)."""
    return x * (1 - y * y)


_tanh_backward.pullback(
    x=lambda ops, g, y: ops._tanh_backward(g, y), y=lambda g, x, y: g * x * (-2 * y)
)


def silu_derivative(f: Any, x: Any) -> Any:
    """s (1 + x (1 - s))."""
    s = f.sigmoid(x)
    return s * (1 + x * (1 - s))


def silu_second_derivative(ops: Any, x: Any) -> Any:
    """s (1 - s) (2 + x (1 - 2 s))."""
    s = ops.sigmoid(x)
    return s * (1 - s) * (2 + x * (1 - 2 * s))


@op(
    complex_gradients=True,
    check_dtypes=any_floating_check("silu"),
    native=native.activation("silu"),
    promote="float",
    inplace=False,
    **IN_NAMESPACE,
    samples=BOTH_SIDES,
    layout="pointwise",
)
def silu(xp, x, /):
    """x * sigmoid(x)."""
    return x * sigmoid.forward(xp, x)


silu.pullback(
    x=lambda ops, g, x: (
        ops._activation_backward(g, x, "silu")
        if x.dtype.kind == "f"
        else g * silu_derivative(ops, x).conjugate()
    )
)
declare_derivatives(silu, silu_derivative, silu_second_derivative)


GELUS = [(reals((3, 4), -3.0, 3.0), False), (reals((3, 4), -3.0, 3.0), True), ((), False)]


@op(numpy=native.gelu, samples=[*BOTH_SIDES, *GELUS], layout="pointwise")
def _gelu(xp, x, /, tanh=False):
    """x times the normal distribution's P(X <= x), exactly or by tanh."""
    if tanh:
        return 0.5 * x * (1 + xp.tanh(ROOT_2_PI * (x + 0.044715 * x * x * x)))
    return 0.5 * x * (1 + error_function(xp, x * ROOT_HALF, False))


_gelu.pullback(x=lambda ops, g, x, tanh: ops._gelu_backward(g, x, tanh))


def gelu_derivative(f: Any, erf: Any, y: Any, tanh: bool) -> Any:
    """P(X <= y) + y times the density; f has the functions exp and tanh."""
    if tanh:
        t = f.tanh(ROOT_2_PI * (y + 0.044715 * y * y * y))
        inner = ROOT_2_PI * (1 + 3 * 0.044715 * y * y)
        return 0.5 * (1 + t) + 0.5 * y * (1 - t * t) * inner
    density = f.exp(-0.5 * y * y) * (1 / math.sqrt(2 * math.pi))
    return 0.5 * (1 + erf(y * ROOT_HALF)) + y * density


def gelu_second_derivative(ops: Any, y: Any, tanh: bool) -> Any:
    """The second derivative."""
    if not tanh:
        return ops.exp(-0.5 * y * y) * (2 - y * y) * (1 / math.sqrt(2 * math.pi))
    t = ops.tanh(ROOT_2_PI * (y + 0.044715 * y * y * y))
    first = ROOT_2_PI * (1 + 3 * 0.044715 * y * y)
    second = ROOT_2_PI * 6 * 0.044715 * y
    tanh_derivative = 1 - t * t
    return tanh_derivative * first + 0.5 * y * tanh_derivative * (second - 2 * t * first * first)


@op(
    numpy=native.gelu_backward,
    samples=[((3, 4), reals((3, 4), -3.0, 3.0), tanh) for tanh in (False, True)],
    layout="pointwise",
)
def _gelu_backward(xp, x, y, /, tanh):
    """x times the derivative of gelu at y."""
    return x * gelu_derivative(xp, lambda z: error_function(xp, z, False), y, tanh)


_gelu_backward.pullback(
    x=lambda ops, g, y, tanh: ops._gelu_backward(g, y, tanh),
    y=lambda ops, g, x, y, tanh: g * x * gelu_second_derivative(ops, y, tanh),
)


@composite(**IN_NAMESPACE)
def gelu(ops, input, approximate="none"):
    """x times the normal distribution function of x (Hendrycks and Gimpel 2016).

    Parameters
    ----------
    input : Tensor
        Of any shape, with a floating-point dtype.
    approximate : str, optional
        "none", or "tanh" for the approximation by tanh, which is a little faster.

    Returns
    -------
    Tensor
        Of the input's shape and dtype.

    Raises
    ------
    RuntimeError
        There is no such approximation.

    See Also
    --------
    nn.GELU

    Examples
    --------
    >>> F.gelu(st.tensor([-1., 0., 1.]))
    tensor([-0.1587,  0.0000,  0.8413])
    >>> F.gelu(st.tensor([-1., 0., 1.]), approximate="tanh")
    tensor([-0.1588,  0.0000,  0.8412])
    """
    if approximate not in ("none", "tanh"):
        raise RuntimeError(
            f"gelu: no such approximation: {approximate!r}, 'none' or 'tanh' is needed"
        )
    check_floating("gelu", input)
    return ops._gelu(input, approximate == "tanh")


def softplus_second_derivative(ops: Any, x: Any, beta: float, threshold: float) -> Any:
    """beta s (1 - s), and 0 beyond the threshold."""
    s = ops.sigmoid(x * beta)
    return ops._where_other(x * beta > threshold, beta * s * (1 - s), 0.0)


@op(
    out_argument=True,
    autocast_cuda="full",
    native=native.activation("softplus"),
    **IN_NAMESPACE,
    samples=[*BOTH_SIDES, (reals((3, 4), -3.0, 3.0), 2.0, 1.0)],
    layout="pointwise",
)
def softplus(xp, x, /, beta=1.0, threshold=20.0):
    """log(1 + exp(beta * x)) / beta, a smooth `relu`.

    Parameters
    ----------
    input : Tensor
        Of any shape, with a floating-point dtype.
    beta : float, optional
        How sharp the bend is.
    threshold : float, optional
        Where beta * x exceeds it, the result is x itself.

    Returns
    -------
    Tensor
        Of the input's shape and dtype.

    Examples
    --------
    >>> F.softplus(st.tensor([-1., 0., 30.]))
    tensor([ 0.3133,  0.6931, 30.0000])
    """
    check_floating("softplus", x)
    z = x * beta
    return xp.where(z > threshold, x, xp.logaddexp(z, 0) / beta).astype(x.dtype)


softplus.pullback(
    x=lambda ops, g, x, beta, threshold: ops._activation_backward(g, x, "softplus", beta, threshold)
)
declare_derivatives(
    softplus,
    lambda f, x, beta, threshold: f.where(x * beta > threshold, 1.0, f.sigmoid(x * beta)),
    softplus_second_derivative,
    sample=(2.0, 4.0),
)


def logsigmoid_second_derivative(ops: Any, x: Any) -> Any:
    """-s (1 - s)."""
    s = ops.sigmoid(x)
    return -s * (1 - s)


@op(
    out_argument=True,
    native=native.activation("logsigmoid"),
    **IN_NAMESPACE,
    samples=BOTH_SIDES,
    layout="contiguous",
    vmap="alone",
)
def logsigmoid(xp, x, /):
    """log(sigmoid(x)), without overflow.

    Parameters
    ----------
    input : Tensor
        Of any shape, with a floating-point dtype.

    Returns
    -------
    Tensor
        Of the input's shape and dtype.

    Examples
    --------
    >>> F.logsigmoid(st.tensor([-100., 0.]))
    tensor([-100.0000,   -0.6931])
    """
    check_floating("logsigmoid", x)
    return -xp.logaddexp(-x, 0)


logsigmoid.pullback(x=lambda ops, g, x: ops._activation_backward(g, x, "logsigmoid"))
declare_derivatives(logsigmoid, lambda f, x: f.sigmoid(-x), logsigmoid_second_derivative)


native_leaky_relu = native.activation("leaky_relu")


@op(
    native=native_leaky_relu,
    **IN_NAMESPACE,
    samples=[*BOTH_SIDES, (reals((3, 4), -3.0, 3.0), 0.2)],
    layout="pointwise",
)
def leaky_relu(xp, x, /, negative_slope=0.01):
    """x where it is positive, negative_slope * x elsewhere."""
    check_floating("leaky_relu", x)
    return xp.where(x > 0, x, x * negative_slope)


leaky_relu.pullback(
    x=lambda ops, g, x, negative_slope: ops._activation_backward(g, x, "leaky_relu", negative_slope)
)
declare_derivatives(
    leaky_relu, lambda f, x, negative_slope: f.where(x > 0, 1.0, negative_slope), sample=(0.3,)
)


def elu_derivative(f: Any, x: Any, alpha: float, scale: float, input_scale: float) -> Any:
    """scale, and scale alpha input_scale exp(input_scale x) on the negative side."""
    low = f.exp(f.where(x > 0, 0.0, x) * input_scale) * (alpha * scale * input_scale)
    return f.where(x > 0, scale, low)


def elu_second_derivative(ops: Any, x: Any, alpha: float, scale: float, input_scale: float) -> Any:
    """scale alpha input_scale^2 exp(input_scale x) on the negative side."""
    low = ops._where_other(x > 0, x, 0.0)
    value = ops.exp(low * input_scale) * (alpha * scale * input_scale * input_scale)
    return ops._where_other(x > 0, value, 0.0)


@op(
    native=native.activation("elu"),
    **IN_NAMESPACE,
    samples=[*BOTH_SIDES, (reals((3, 4), -3.0, 3.0), 0.7, 1.5, 2.0)],
    layout="pointwise",
)
def elu(xp, x, /, alpha=1.0, scale=1.0, input_scale=1.0):
    """scale * x where it is positive, scale * alpha * (exp(input_scale * x) - 1) elsewhere."""
    check_floating("elu", x)
    return xp.where(x > 0, x * scale, xp.expm1(xp.minimum(x, 0) * input_scale) * (alpha * scale))


elu.pullback(
    x=lambda ops, g, x, alpha, scale, input_scale: ops._activation_backward(
        g, x, "elu", alpha, scale, input_scale
    )
)
declare_derivatives(elu, elu_derivative, elu_second_derivative, sample=(0.7, 1.5, 0.5))


@composite(function=True, method=False)
def selu(ops, input):
    """`elu` with the scale and alpha that keep mean 0 and variance 1 (Klambauer et al. 2017).

    Parameters
    ----------
    input : Tensor
        Of any shape, with a floating-point dtype.

    Returns
    -------
    Tensor
        Of the input's shape and dtype.

    See Also
    --------
    nn.functional.selu

    Examples
    --------
    >>> st.selu(st.tensor([-1., 0., 1.]))
    tensor([-1.1113,  0.0000,  1.0507])
    """
    return ops.elu(input, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946)


@composite(method=False)
def celu(ops, input, alpha=1.0):
    """x where positive, else alpha * (exp(x / alpha) - 1).

    Parameters
    ----------
    input : Tensor
        Of any shape, with a floating-point dtype.
    alpha : float, optional
        The limit on the negative side, with its sign changed.

    Returns
    -------
    Tensor
        Of the input's shape and dtype.

    See Also
    --------
    nn.functional.celu

    Examples
    --------
    >>> st.celu(st.tensor([-2., 0., 2.]), alpha=2.0)
    tensor([-1.2642,  0.0000,  2.0000])
    """
    if alpha == 0:
        raise RuntimeError("celu: alpha cannot be 0: 0")
    return ops.elu(input, alpha, 1.0, 1.0 / alpha)


def softsign_derivative(f: Any, x: Any) -> Any:
    """1 / (1 + |x|)^2."""
    d = f.where(x > 0, x, -x) + 1
    return 1 / (d * d)


def softsign_second_derivative(ops: Any, x: Any) -> Any:
    """-2 sign(x) / (1 + |x|)^3."""
    d = ops.abs(x) + 1
    return ops.sign(x) * -2 / (d * d * d)


@op(
    native=native.activation("softsign"),
    method=False,
    function=False,
    promote="float",
    inplace=False,
    samples=BOTH_SIDES,
    layout="pointwise",
)
def softsign(xp, x, /):
    """x / (1 + |x|)."""
    return x / (xp.abs(x) + 1)


softsign.pullback(x=lambda ops, g, x: ops._activation_backward(g, x, "softsign"))
declare_derivatives(softsign, softsign_derivative, softsign_second_derivative)


@op(
    native=native.activation("hardtanh"),
    **IN_NAMESPACE,
    samples=[(reals((3, 4), -3.0, 3.0),), ((3, 4), -0.5, 0.6)],
    layout="pointwise",
)
def hardtanh(xp, x, /, min_val=-1.0, max_val=1.0):
    """x, but at least min_val and at most max_val; no gradient at the bounds. The function of
    `nn.functional` checks them: a forward that reads no value is one kernel on CUDA.
    """
    dtype = x.dtype
    if dtype.kind in "iu":  # the maximum of integers and floats is float64
        min_val, max_val = dtype.type(min_val), dtype.type(max_val)
    return xp.minimum(xp.maximum(x, min_val), max_val).astype(dtype, copy=False)


hardtanh.pullback(
    x=lambda ops, g, x, min_val, max_val: ops._activation_backward(
        g, x, "hardtanh", min_val, max_val
    )
)
declare_derivatives(
    hardtanh,
    lambda f, x, min_val, max_val: f.where((x > min_val) & (x < max_val), 1.0, 0.0),
    sample=(-1.0, 2.0),
)


@op(
    native=native.activation("hardsigmoid"),
    method=False,
    function=False,
    samples=[(reals((3, 4), -5.0, 5.0),)],
    layout="pointwise",
)
def hardsigmoid(xp, x, /):
    """x / 6 + 1 / 2, but at least 0 and at most 1."""
    check_floating("hardsigmoid", x)
    return xp.minimum(xp.maximum(x + 3, 0), 6) / 6


hardsigmoid.pullback(x=lambda ops, g, x: ops._activation_backward(g, x, "hardsigmoid"))
declare_derivatives(hardsigmoid, lambda f, x: f.where((x > -3) & (x < 3), 1 / 6, 0.0))


@op(
    native=native.activation("hardswish"),
    method=False,
    function=False,
    samples=[(reals((3, 4), -5.0, 5.0),)],
    layout="pointwise",
)
def hardswish(xp, x, /):
    """x * hardsigmoid(x)."""
    check_floating("hardswish", x)
    return x * xp.minimum(xp.maximum(x + 3, 0), 6) / 6


hardswish.pullback(x=lambda ops, g, x: ops._activation_backward(g, x, "hardswish"))
declare_derivatives(
    hardswish,
    lambda f, x: f.where(x <= -3, 0.0, f.where(x >= 3, 1.0, x / 3 + 0.5)),
    lambda ops, x: ops._to_copy((x > -3) & (x < 3), x.dtype) / 3,
    excludes=True,
)


def shrink_derivative(f: Any, x: Any, lambd: float) -> Any:
    """0 from -lambd to lambd, else 1."""
    return f.where((x >= -lambd) & (x <= lambd), 0.0, 1.0)


@op(
    native=native.activation("hardshrink"),
    samples=[(reals((3, 4), -3.0, 3.0),), ((3, 4), 0.3)],
    layout="pointwise",
)
def hardshrink(xp, x, /, lambd=0.5):
    """x, but 0 from -lambd to lambd.

    Parameters
    ----------
    input : Tensor
        Of any shape, with a floating-point dtype.
    lambd : float, optional
        The largest absolute value that becomes 0.

    Returns
    -------
    Tensor
        Of the input's shape and dtype.

    Examples
    --------
    >>> F.hardshrink(st.tensor([-3., 0.5, 2.]), 1.0)
    tensor([-3.,  0.,  2.])
    """
    check_floating("hardshrink", x)
    return xp.where((x < -lambd) | (x > lambd) | (x != x), x, xp.zeros((), x.dtype))


hardshrink.pullback(x=lambda ops, g, x, lambd: ops._activation_backward(g, x, "hardshrink", lambd))
declare_derivatives(hardshrink, shrink_derivative, sample=(0.5,))


@op(
    native=native.activation("softshrink"),
    **IN_NAMESPACE,
    samples=[(reals((3, 4), -3.0, 3.0),), ((3, 4), 0.3)],
    layout="pointwise",
)
def softshrink(xp, x, /, lambd=0.5):
    """x moved by lambd towards 0; 0 where |x| is at most lambd. The function of `nn.functional`
    checks lambd, as of hardtanh.
    """
    check_floating("softshrink", x)
    zeros = xp.zeros((), x.dtype) * x
    out = xp.where(x > lambd, x - lambd, xp.where(x < -lambd, x + lambd, zeros))
    return out.astype(x.dtype, copy=False)  # a number of NumPy may be wider


softshrink.pullback(x=lambda ops, g, x, lambd: ops._activation_backward(g, x, "softshrink", lambd))
declare_derivatives(softshrink, shrink_derivative, sample=(0.5,))


@op(
    native=native.activation("threshold"),
    selects=True,
    inplace=True,
    method=False,
    samples=[((3, 4), 0.1, 20.0)],
    layout="pointwise",
)
def threshold(xp, x, /, threshold, value):
    """x where it is above a threshold, else a fixed value.

    Parameters
    ----------
    input : Tensor
        Of any shape, with a floating-point dtype.
    threshold : float
        What an element must exceed to stay.
    value : float
        What replaces the others.

    Returns
    -------
    Tensor
        Of the input's shape and dtype.

    See Also
    --------
    nn.functional.threshold

    Examples
    --------
    >>> st.threshold(st.tensor([0., 1., 2.]), 1.0, -5.0)
    tensor([-5., -5.,  2.])
    """
    return xp.where(x <= threshold, value, x)


threshold.pullback(
    x=lambda ops, g, x, threshold: ops._activation_backward(g, x, "threshold", threshold)
)
declare_derivatives(
    threshold, lambda f, x, threshold: f.where(x <= threshold, 0.0, 1.0), sample=(0.5,)
)


def mish_derivative(f: Any, x: Any) -> Any:
    """t + x s (1 - t t), where t is tanh(softplus(x))."""
    t, s = f.tanh(f.softplus(x)), f.sigmoid(x)
    return t + x * s * (1 - t * t)


def mish_second_derivative(ops: Any, x: Any) -> Any:
    """(1 - t t) s (2 + x (1 - s - 2 t s))."""
    t, s = ops.tanh(ops.softplus(x)), ops.sigmoid(x)
    return (1 - t * t) * s * (2 + x * (1 - s - 2 * t * s))


@op(native=native.activation("mish"), **IN_NAMESPACE, samples=BOTH_SIDES, layout="pointwise")
def mish(xp, x, /):
    """x * tanh(softplus(x)) (Misra 2019)."""
    check_floating("mish", x)
    return x * xp.tanh(xp.logaddexp(x, 0))


mish.pullback(x=lambda ops, g, x: ops._activation_backward(g, x, "mish"))
declare_derivatives(mish, mish_derivative, mish_second_derivative)


native_prelu = native.elementwise("prelu")


def prelu_kernel(x: Any, weight: Any) -> Any:
    """The native kernel for float32 and float64."""
    if x.dtype == weight.dtype and x.dtype.char in "fd":
        if weight.size == 1 and weight.ndim <= x.ndim:
            return native_leaky_relu(x, weight.item())
        return native_prelu(x, weight)
    return None


@op(
    native=prelu_kernel,
    broadcast=True,
    promote="common",
    inplace=False,
    samples=[((3, 4), (3, 1)), ((3, 4), ())],
)
def _prelu_kernel(xp, x, weight, /):
    """x where it is positive, weight * x elsewhere."""
    return xp.where(x > 0, x, weight * x)


def prelu_gradient(ops: Any, g: Any, x: Any, weight: Any) -> Any:
    """The gradient by x: in one pass for one weight, if it is not differentiated again."""
    if isinstance(g, np.ndarray) and weight.size == 1 and g.shape == x.shape:
        return ops._activation_backward(g, x, "leaky_relu", weight.item())
    return ops._where(x > 0, g, weight * g)


_prelu_kernel.pullback(
    x=prelu_gradient, weight=lambda ops, g, x: ops._where_other(x > 0, g * x, 0.0)
)


@composite(autocast_cuda="lower", autocast="lower")
def prelu(ops, input, weight):
    """x where positive, else weight * x (He et al. 2015).

    Parameters
    ----------
    input : Tensor
        `(N, C, ...)`, or any shape with one weight.
    weight : Tensor
        `()`, `(1,)`, or `(C,)`: one for each channel (dimension 1).

    Returns
    -------
    Tensor
        Of the input's shape and dtype.

    Raises
    ------
    RuntimeError
        `weight` has more dimensions or another size.

    Examples
    --------
    >>> F.prelu(st.tensor([-2., 2.]), st.tensor(0.25))
    tensor([-0.5000,  2.0000])
    """
    check_same_dtype("prelu", input, weight)
    check_floating("prelu", input)
    if weight.ndim > 1:
        raise RuntimeError(f"prelu: weight must be 0-d or 1-d: {tuple(weight.shape)}")
    if math.prod(weight.shape) not in (1, input.shape[1] if input.ndim > 1 else 1):
        raise RuntimeError(
            f"prelu: one weight for each channel is needed: {tuple(input.shape)}, "
            f"{tuple(weight.shape)}"
        )
    if weight.ndim and input.ndim > 1:
        weight = ops.reshape(weight, (1, -1, *(1,) * (input.ndim - 2)))
    elif weight.ndim:
        weight = ops.reshape(weight, ())
    return ops._prelu_kernel(input, weight)
