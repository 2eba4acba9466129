"""Activation functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from ...autograd import is_grad_enabled
from ...ops.nn.softmax import implicit_dim
from ...tensor import Tensor
from . import from_table as ops
from .from_table import gelu, hardshrink, logsigmoid, prelu, relu_, sigmoid, softplus, tanh
from .from_table import relu as table_relu

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
    """Rectified linear unit: max(x, 0).

    Parameters
    ----------
    input : Tensor
        Of any shape, floating-point or whole numbers.
    inplace : bool, optional
        Write the result into the input's memory and return the input.

    Returns
    -------
    Tensor
        Of the input's shape and dtype; the input itself if `inplace`.

    Raises
    ------
    RuntimeError
        The input is of bool or complex numbers.

    See Also
    --------
    leaky_relu, gelu, nn.ReLU

    Notes
    -----
    A NaN stays a NaN; the gradient at 0 is 0. Copies: one (the result), none with `inplace`.

    Examples
    --------
    >>> F.relu(st.tensor([-1., 0., 2.]))
    tensor([0., 0., 2.])
    >>> x = st.tensor([-1., 2.])
    >>> F.relu(x, inplace=True) is x, x
    (True, tensor([0., 2.]))
    """
    return relu_(input) if inplace else table_relu(input)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x * sigmoid(x), also called swish.

    Parameters
    ----------
    input : Tensor
        Of any shape, with a floating-point dtype.
    inplace : bool, optional
        Write the result into the input's memory and return the input.

    Returns
    -------
    Tensor
        Of the input's shape and dtype; the input itself if `inplace`.

    Examples
    --------
    >>> F.silu(st.tensor([-1., 0., 1.]))
    tensor([-0.2689,  0.0000,  0.7311])
    """
    return _apply(ops.silu, input, inplace)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * tanh(softplus(x)) (Misra 2019).

    Parameters
    ----------
    input : Tensor
        Of any shape, with a floating-point dtype.
    inplace : bool, optional
        Write the result into the input's memory and return the input.

    Returns
    -------
    Tensor
        Of the input's shape and dtype; the input itself if `inplace`.

    Examples
    --------
    >>> F.mish(st.tensor([-1., 0., 1.]))
    tensor([-0.3034,  0.0000,  0.8651])
    """
    return _apply(ops.mish, input, inplace)


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """x cut off below min_val and above max_val.

    Parameters
    ----------
    input : Tensor
        Of any shape, with a floating-point dtype.
    min_val, max_val : float, optional
        The limits.
    inplace : bool, optional
        Write the result into the input's memory and return the input.

    Returns
    -------
    Tensor
        Of the input's shape and dtype; the input itself if `inplace`.

    Raises
    ------
    ValueError
        min_val exceeds max_val.

    See Also
    --------
    clamp

    Examples
    --------
    >>> F.hardtanh(st.tensor([-3., 0.5, 3.]))
    tensor([-1.0000,  0.5000,  1.0000])
    >>> F.hardtanh(st.tensor([-3., 0.5, 3.]), 0.0, 2.0)
    tensor([0.0000, 0.5000, 2.0000])
    """
    if min_val > max_val:
        raise ValueError(f"hardtanh: min_val must not exceed max_val: {min_val} > {max_val}")
    return _apply(ops.hardtanh, input, inplace, min_val, max_val)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x, 0), 6).

    Parameters
    ----------
    input : Tensor
        Of any shape, with a floating-point dtype.
    inplace : bool, optional
        Write the result into the input's memory and return the input.

    Returns
    -------
    Tensor
        Of the input's shape and dtype; the input itself if `inplace`.

    Examples
    --------
    >>> F.relu6(st.tensor([-1., 3., 8.]))
    tensor([0., 3., 6.])
    """
    return hardtanh(input, 0.0, 6.0, inplace)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """A sigmoid of three straight lines: relu6(x + 3) / 6.

    Parameters
    ----------
    input : Tensor
        Of any shape, with a floating-point dtype.
    inplace : bool, optional
        Write the result into the input's memory and return the input.

    Returns
    -------
    Tensor
        Of the input's shape and dtype; the input itself if `inplace`.

    Examples
    --------
    >>> F.hardsigmoid(st.tensor([-4., 0., 1.5]))
    tensor([0.0000, 0.5000, 0.7500])
    """
    return _apply(ops.hardsigmoid, input, inplace)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * relu6(x + 3) / 6, a cheaper `silu`.

    Parameters
    ----------
    input : Tensor
        Of any shape, with a floating-point dtype.
    inplace : bool, optional
        Write the result into the input's memory and return the input.

    Returns
    -------
    Tensor
        Of the input's shape and dtype; the input itself if `inplace`.

    Examples
    --------
    >>> F.hardswish(st.tensor([-1., 1., 5.]))
    tensor([-0.3333,  0.6667,  5.0000])
    """
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

    Parameters
    ----------
    input : Tensor
        Of any shape, with a floating-point dtype.
    alpha : float, optional
        The limit on the negative side, with its sign changed.
    inplace : bool, optional
        Write the result into the input's memory and return the input.

    Returns
    -------
    Tensor
        Of the input's shape and dtype; the input itself if `inplace`.

    Raises
    ------
    RuntimeError
        In backward of a negative alpha in place.

    Examples
    --------
    >>> F.elu(st.tensor([-1., 0., 2.]))
    tensor([-0.6321,  0.0000,  2.0000])
    """
    return _apply_slope("elu", ops.elu, input, alpha, inplace)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where positive, else alpha * (exp(x / alpha) - 1), whose slope is continuous for every
    alpha.

    Parameters
    ----------
    input : Tensor
        Of any shape, with a floating-point dtype.
    alpha : float, optional
        The limit on the negative side, with its sign changed.
    inplace : bool, optional
        Write the result into the input's memory and return the input.

    Returns
    -------
    Tensor
        Of the input's shape and dtype; the input itself if `inplace`.

    Raises
    ------
    RuntimeError
        In backward of a negative alpha in place.

    Examples
    --------
    >>> F.celu(st.tensor([-2., 0., 2.]), alpha=2.0)
    tensor([-1.2642,  0.0000,  2.0000])
    """
    return _apply_slope("celu", ops.celu, input, alpha, inplace)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """ELU with the constants of self-normalising networks (Klambauer et al. 2017).

    Parameters
    ----------
    input : Tensor
        Of any shape, with a floating-point dtype.
    inplace : bool, optional
        Write the result into the input's memory and return the input.

    Returns
    -------
    Tensor
        Of the input's shape and dtype; the input itself if `inplace`.

    Notes
    -----
    scale * x where x is positive, else scale * alpha * (exp(x) - 1), with scale = 1.0507 and alpha
    = 1.6733.

    Examples
    --------
    >>> F.selu(st.tensor([-1., 0., 1.]))
    tensor([-1.1113,  0.0000,  1.0507])
    """
    return _apply(ops.selu, input, inplace)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x where positive, else negative_slope * x.

    Parameters
    ----------
    input : Tensor
        Of any shape, with a floating-point dtype.
    negative_slope : float, optional
        The slope for negative numbers.
    inplace : bool, optional
        Write the result into the input's memory and return the input.

    Returns
    -------
    Tensor
        Of the input's shape and dtype; the input itself if `inplace`.

    Raises
    ------
    RuntimeError
        In backward of a negative slope in place.

    Examples
    --------
    >>> F.leaky_relu(st.tensor([-2., 0., 2.]), 0.5)
    tensor([-1.,  0.,  2.])
    """
    return _apply_slope("leaky_relu", ops.leaky_relu, input, negative_slope, inplace)


def rrelu(
    input: Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """x where positive, else x times a slope that is random in training (Xu et al. 2015).

    Parameters
    ----------
    input : Tensor
        Of any shape, with a floating-point dtype.
    lower, upper : float, optional
        In training each negative element has a slope from [lower, upper), else the middle of both.
    training : bool, optional
        Whether slopes are random.
    inplace : bool, optional
        Write the result into the input's memory and return the input.

    Returns
    -------
    Tensor
        Of the input's shape and dtype; the input itself if `inplace`.

    Raises
    ------
    RuntimeError
        lower exceeds upper.

    Examples
    --------
    >>> F.rrelu(st.tensor([-2., 2.]), 0.25, 0.75)
    tensor([-1.,  2.])
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
    """`rrelu` in place.

    Parameters
    ----------
    input : Tensor
        Of any shape, with a floating-point dtype.
    lower, upper : float, optional
        The slopes' range.
    training : bool, optional
        Whether slopes are random.

    Returns
    -------
    Tensor
        The input, overwritten.

    Examples
    --------
    >>> F.rrelu_(st.tensor([-2., 2.]), 0.25, 0.75)
    tensor([-1.,  2.])
    """
    return rrelu(input, lower, upper, training, True)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x where it is above a threshold, else a fixed value.

    Parameters
    ----------
    input : Tensor
        Of any shape, with a floating-point dtype.
    threshold : float
        What an element must exceed to stay.
    value : float
        What replaces the others.
    inplace : bool, optional
        Write the result into the input's memory and return the input.

    Returns
    -------
    Tensor
        Of the input's shape and dtype; the input itself if `inplace`.

    Examples
    --------
    >>> F.threshold(st.tensor([0., 1., 2.]), 1.0, -5.0)
    tensor([-5., -5.,  2.])
    """
    return _apply(ops.threshold, input, inplace, threshold, value)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`elu` in place.

    Parameters
    ----------
    input : Tensor
        Of any shape, with a floating-point dtype.
    alpha : float, optional
        The limit on the negative side, with its sign changed.

    Returns
    -------
    Tensor
        The input, overwritten.

    Examples
    --------
    >>> F.elu_(st.tensor([-1., 2.]))
    tensor([-0.6321,  2.0000])
    """
    return elu(input, alpha, True)


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`celu` in place.

    Parameters
    ----------
    input : Tensor
        Of any shape, with a floating-point dtype.
    alpha : float, optional
        The limit on the negative side, with its sign changed.

    Returns
    -------
    Tensor
        The input, overwritten.

    Examples
    --------
    >>> F.celu_(st.tensor([-1., 2.]))
    tensor([-0.6321,  2.0000])
    """
    return celu(input, alpha, True)


def selu_(input: Tensor) -> Tensor:
    """`selu` in place.

    Parameters
    ----------
    input : Tensor
        Of any shape, with a floating-point dtype.

    Returns
    -------
    Tensor
        The input, overwritten.

    Examples
    --------
    >>> F.selu_(st.tensor([-1., 2.]))
    tensor([-1.1113,  2.1014])
    """
    return selu(input, True)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """`hardtanh` in place.

    Parameters
    ----------
    input : Tensor
        Of any shape, with a floating-point dtype.
    min_val, max_val : float, optional
        The limits.

    Returns
    -------
    Tensor
        The input, overwritten.

    Examples
    --------
    >>> F.hardtanh_(st.tensor([-3., 0.5, 3.]))
    tensor([-1.0000,  0.5000,  1.0000])
    """
    return hardtanh(input, min_val, max_val, True)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """`leaky_relu` in place.

    Parameters
    ----------
    input : Tensor
        Of any shape, with a floating-point dtype.
    negative_slope : float, optional
        The slope for negative numbers.

    Returns
    -------
    Tensor
        The input, overwritten.

    Examples
    --------
    >>> F.leaky_relu_(st.tensor([-2., 2.]), 0.5)
    tensor([-1.,  2.])
    """
    return leaky_relu(input, negative_slope, True)


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """`threshold` in place.

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
        The input, overwritten.

    Examples
    --------
    >>> F.threshold_(st.tensor([0., 1., 2.]), 1.0, -5.0)
    tensor([-5., -5.,  2.])
    """
    return _apply(ops.threshold, input, True, threshold, value)


def softsign(input: Tensor) -> Tensor:
    """x / (1 + abs(x)).

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
    >>> F.softsign(st.tensor([-1., 0., 3.]))
    tensor([-0.5000,  0.0000,  0.7500])
    """
    return input / (input.abs() + 1) if input.dtype.is_complex else ops.softsign(input)


def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x).

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
    >>> F.tanhshrink(st.tensor([-1., 0., 1.]))
    tensor([-0.2384,  0.0000,  0.2384])
    """
    return input - input.tanh()


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x moved towards 0 by lambd, and 0 for numbers within.

    Parameters
    ----------
    input : Tensor
        Of any shape, with a floating-point dtype.
    lambd : float, optional
        How far.

    Returns
    -------
    Tensor
        Of the input's shape and dtype.

    Raises
    ------
    RuntimeError
        lambd is negative.

    Examples
    --------
    >>> F.softshrink(st.tensor([-3., 0.5, 2.]), 1.0)
    tensor([-2.,  0.,  1.])
    """
    if lambd < 0:
        raise RuntimeError(f"softshrink: lambda must not be negative: {lambd}")
    return ops.softshrink(input, lambd)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half along a dimension times the sigmoid of the second half (Dauphin et al. 2016).

    Parameters
    ----------
    input : Tensor
        `(..., 2 n, ...)`, with a floating-point dtype.
    dim : int, optional
        The dimension that is halved.

    Returns
    -------
    Tensor
        `(..., n, ...)`.

    Examples
    --------
    >>> F.glu(st.tensor([[2., 4., 0., 0.]]))
    tensor([[1., 2.]])
    """
    return ops.glu(input, dim)


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """exp(x) over its sum along a dimension: positive numbers that sum to 1.

    Parameters
    ----------
    input : Tensor
        Of any shape, with a floating-point dtype.
    dim : int, optional
        The dimension of the sum. None chooses one by the number of dimensions, with a warning.
    dtype : dtype, optional
        What the input is converted to before.

    Returns
    -------
    Tensor
        Of the input's shape.

    See Also
    --------
    log_softmax, cross_entropy

    Notes
    -----
    The largest element is subtracted before, so that nothing overflows. Copies: one (the result).

    Examples
    --------
    >>> F.softmax(st.tensor([[0., 0.], [1000., 1000.]]), dim=1)
    tensor([[0.5000, 0.5000],
            [0.5000, 0.5000]])
    >>> F.softmax(st.tensor([1, 1]), dim=0, dtype=st.float32)
    tensor([0.5000, 0.5000])
    """
    dim = implicit_dim("softmax", input, _stacklevel) if dim is None else dim
    return ops.softmax(input, dim, dtype)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """log(softmax(x)) along a dimension, without overflow.

    Parameters
    ----------
    input : Tensor
        Of any shape, with a floating-point dtype.
    dim : int, optional
        The dimension of the sum. None chooses one by the number of dimensions, with a warning.
    dtype : dtype, optional
        What the input is converted to before.

    Returns
    -------
    Tensor
        Of the input's shape.

    See Also
    --------
    softmax, nll_loss, logsumexp

    Examples
    --------
    >>> F.log_softmax(st.tensor([[0., 0.], [1000., 1000.]]), dim=1)
    tensor([[-0.6931, -0.6931],
            [-0.6931, -0.6931]])
    """
    dim = implicit_dim("log_softmax", input, _stacklevel) if dim is None else dim
    return ops.log_softmax(input, dim, dtype)


def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """softmax(-x) along a dimension: the smallest element has the largest share.

    Parameters
    ----------
    input : Tensor
        Of any shape, with a floating-point dtype.
    dim : int, optional
        The dimension of the sum. None chooses one by the number of dimensions, with a warning.
    dtype : dtype, optional
        What the input is converted to before.

    Returns
    -------
    Tensor
        Of the input's shape.

    Examples
    --------
    >>> F.softmin(st.tensor([0., 0., 1000.]), dim=0)
    tensor([0.5000, 0.5000, 0.0000])
    """
    dim = implicit_dim("softmin", input, _stacklevel) if dim is None else dim
    return softmax(-input, dim, dtype=dtype)


def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """A sample from the Gumbel-softmax distribution: a choice with a gradient (Jang et al. 2016).

    Parameters
    ----------
    logits : Tensor
        `(..., C, ...)`, unnormalised log-probabilities.
    tau : float, optional
        Temperature: the smaller, the nearer the sample is to one-hot.
    hard : bool, optional
        Whether the result is one-hot; its gradient is that of the soft sample.
    eps : float, optional
        Accepted; has no effect.
    dim : int, optional
        The dimension of the classes.

    Returns
    -------
    Tensor
        Of the shape of `logits`; sums to 1 along `dim`.

    Examples
    --------
    >>> sample = F.gumbel_softmax(st.zeros(4, 3), hard=True)
    >>> sample.round().sum(1)
    tensor([1., 1., 1., 1.])
    """
    noise = -(-(ops.rand_like(logits).clamp(min=1e-20).log())).log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    largest = soft.detach().argmax(dim, keepdim=True)
    one_hot = ops.zeros_like(logits).scatter(dim, largest, 1.0)
    return one_hot - soft.detach() + soft
