"""Activation functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from ...autograd import is_grad_enabled
from ...ops.nn.softmax import implicit_dim
from ...tensor import Tensor

if TYPE_CHECKING:
    from . import from_table as ops
    from .from_table import gelu, hardshrink, logsigmoid, prelu, relu_, sigmoid, softplus, tanh
else:
    from ...autograd import table as ops

    sigmoid = ops.sigmoid
    tanh = ops.tanh
    gelu = ops.gelu
    prelu = ops.prelu
    softplus = ops.softplus
    logsigmoid = ops.logsigmoid
    hardshrink = ops.hardshrink
    relu_ = ops.relu_

__all__ = [
    "celu",
    "celu_",
    "elu",
    "elu_",
    "gelu",
    "glu",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "leaky_relu",
    "leaky_relu_",
    "log_softmax",
    "logsigmoid",
    "mish",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rrelu",
    "rrelu_",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
]

Function = Callable[..., Any]


def _apply(function: Function, input: Tensor, inplace: bool, *arguments: Any) -> Tensor:
    """The function's result; `inplace`: written into the input's memory."""
    if not inplace:
        return function(input, *arguments)
    # backward may need the input, which is overwritten
    x = input.clone() if input.requires_grad and is_grad_enabled() else input
    return input.copy_(function(x, *arguments))


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0)."""
    return input.relu_() if inplace else input.relu()


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x * sigmoid(x)."""
    return _apply(ops.silu, input, inplace)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * tanh(softplus(x))."""
    return _apply(ops.mish, input, inplace)


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """x cut off below min_val and above max_val."""
    if min_val > max_val:
        raise ValueError(f"hardtanh: min_val must not exceed max_val: {min_val} > {max_val}")
    return _apply(ops.hardtanh, input, inplace, min_val, max_val)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x, 0), 6)."""
    return hardtanh(input, 0.0, 6.0, inplace)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """relu6(x + 3) / 6."""
    return _apply(ops.hardsigmoid, input, inplace)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * relu6(x + 3) / 6."""
    return _apply(ops.hardswish, input, inplace)


def _apply_slope(
    name: str, function: Function, input: Tensor, slope: float, inplace: bool
) -> Tensor:
    """`_apply` of a function with a slope below 0; a negative slope in place has no backward."""
    if not (inplace and slope < 0 and input.requires_grad and is_grad_enabled()):
        return _apply(function, input, inplace, slope)

    def refuse(gradient: Tensor) -> NoReturn:
        raise RuntimeError(
            f"{name}: no backward in place with a negative slope: {slope}, hint: inplace=False"
        )

    out = function(input.clone(), slope)
    out.register_hook(refuse)
    return input.copy_(out)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where positive, else alpha * (exp(x) - 1).

    Raises: RuntimeError in backward of a negative alpha in place.
    """
    return _apply_slope("elu", ops.elu, input, alpha, inplace)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where positive, else alpha * (exp(x / alpha) - 1).

    Raises: RuntimeError in backward of a negative alpha in place.
    """
    return _apply_slope("celu", ops.celu, input, alpha, inplace)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """ELU with the constants of self-normalising networks (Klambauer et al. 2017)."""
    return _apply(ops.selu, input, inplace)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x where positive, else negative_slope * x.

    Raises: RuntimeError in backward of a negative slope in place.
    """
    return _apply_slope("leaky_relu", ops.leaky_relu, input, negative_slope, inplace)


def rrelu(
    input: Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """x where positive, else x times a slope: random from [lower, upper) in training, else the
    middle (Xu et al. 2015).

    Raises: RuntimeError if lower exceeds upper.
    """
    if lower > upper:
        raise RuntimeError(f"rrelu: lower must not exceed upper: {lower} > {upper}")
    if not training:
        return _apply_slope("rrelu", ops.leaky_relu, input, (lower + upper) / 2, inplace)
    slopes = ops.rand_like(input) * (upper - lower) + lower
    return _apply(lambda x: ops._prelu_kernel(x, slopes), input, inplace)


def rrelu_(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False
) -> Tensor:
    """`rrelu` in place."""
    return rrelu(input, lower, upper, training, True)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x where above the threshold, else value."""
    return _apply(ops.threshold, input, inplace, threshold, value)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`elu` in place."""
    return elu(input, alpha, True)


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`celu` in place."""
    return celu(input, alpha, True)


def selu_(input: Tensor) -> Tensor:
    """`selu` in place."""
    return selu(input, True)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """`hardtanh` in place."""
    return hardtanh(input, min_val, max_val, True)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """`leaky_relu` in place."""
    return leaky_relu(input, negative_slope, True)


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """`threshold` in place."""
    return _apply(ops.threshold, input, True, threshold, value)


def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|)."""
    return input / (input.abs() + 1) if input.dtype.is_complex else ops.softsign(input)


def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x)."""
    return input - input.tanh()


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x moved towards 0 by lambd, and 0 within."""
    if lambd < 0:
        raise RuntimeError(f"softshrink: lambda must not be negative: {lambd}")
    return ops.softshrink(input, lambd)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half along dim times the sigmoid of the second half."""
    return ops.glu(input, dim)


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """exp(x) over its sum along dim."""
    dim = implicit_dim("softmax", input, _stacklevel) if dim is None else dim
    return ops.softmax(input, dim, dtype)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """log(softmax(x)) along dim, without overflow."""
    dim = implicit_dim("log_softmax", input, _stacklevel) if dim is None else dim
    return ops.log_softmax(input, dim, dtype)


def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """softmax(-x) along dim."""
    dim = implicit_dim("softmin", input, _stacklevel) if dim is None else dim
    return softmax(-input, dim, dtype=dtype)


def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """A sample from the Gumbel-softmax distribution (Jang et al. 2016).

    Args:
        hard: one-hot forward, with the gradient of the soft sample.
    """
    noise = -(-(ops.rand_like(logits).clamp(min=1e-20).log())).log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    largest = soft.detach().argmax(dim, keepdim=True)
    one_hot = ops.zeros_like(logits).scatter(dim, largest, 1.0)
    return one_hot - soft.detach() + soft
