"""Fuses a batch normalisation in evaluation mode into the weights of the layer before it.

With `scale = bn_w / sqrt(bn_rv + bn_eps)`: weight * scale, (bias - bn_rm) * scale + bn_b.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, TypeVar

from ...functions import ones_like, zeros_like
from ...tensor import Tensor
from ..parameter import Parameter

if TYPE_CHECKING:
    from ..modules.linear import Linear
    from ..modules.module import Module

__all__ = [
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
]

ConvT = TypeVar("ConvT", bound="Module")
LinearT = TypeVar("LinearT", bound="Linear")


def fuse_conv_bn_eval(conv: ConvT, bn: Any, transpose: bool = False) -> ConvT:
    """A copy of a convolution that includes the batch normalisation after it.

    Parameters
    ----------
    conv : Module
        A convolution in evaluation mode.
    bn : Module
        A batch normalisation in evaluation mode, with running statistics.
    transpose : bool, optional
        Whether conv is a transposed convolution.

    Returns
    -------
    Module
        Of the class of conv.

    Raises
    ------
    AssertionError
        Training mode, or no running statistics.

    See Also
    --------
    fuse_linear_bn_eval

    Examples
    --------
    >>> conv, bn = nn.Conv2d(3, 4, 2).eval(), nn.BatchNorm2d(4).eval()
    >>> x = st.ones(1, 3, 5, 5)
    >>> st.allclose(nn.utils.fuse_conv_bn_eval(conv, bn)(x), bn(conv(x)), atol=1e-5)
    True
    """
    _check_eval(conv, bn)
    fused = copy.deepcopy(conv)
    weights = fuse_conv_bn_weights(
        conv.weight, conv.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias,
        transpose,
    )  # fmt: skip
    fused.weight, fused.bias = weights
    return fused


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of a convolution with the batch normalisation after it.

    Parameters
    ----------
    conv_w : Tensor
        `(out, in / groups, *kernel)`, or `(in, out / groups, *kernel)` if transpose.
    conv_b : Tensor or None
        `(out,)`; None is zeros.
    bn_rm, bn_rv : Tensor
        Running mean and variance, `(out,)`.
    bn_eps : float
        Added to the variance.
    bn_w, bn_b : Tensor or None
        Weight and bias, `(out,)`; None is ones and zeros.
    transpose : bool, optional
        Whether the convolution is a transposed one.

    Returns
    -------
    (weight, bias) : Parameter, Parameter
        In the dtypes of conv_w and conv_b.

    See Also
    --------
    fuse_conv_bn_eval

    Examples
    --------
    >>> weight, bias = nn.utils.fuse_conv_bn_weights(
    ...     st.ones(1, 1, 2), None, st.tensor([3.]), st.tensor([4.]), 0.0, None, None
    ... )
    >>> weight.detach(), bias.detach()
    (tensor([[[0.5000, 0.5000]]]), tensor([-1.5000]))
    """
    shape = [1] * conv_w.ndim
    shape[1 if transpose else 0] = -1
    return _fuse(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, shape)


def fuse_linear_bn_eval(linear: LinearT, bn: Any) -> LinearT:
    """A copy of a Linear that includes the batch normalisation after it.

    Parameters
    ----------
    linear : Linear
        In evaluation mode.
    bn : Module
        A batch normalisation in evaluation mode, of linear.out_features features or of one.

    Returns
    -------
    Linear

    Raises
    ------
    AssertionError
        Training mode, other features, or no running statistics.

    See Also
    --------
    fuse_conv_bn_eval

    Examples
    --------
    >>> linear, bn = nn.Linear(3, 4).eval(), nn.BatchNorm1d(4).eval()
    >>> x = st.ones(2, 3)
    >>> st.allclose(nn.utils.fuse_linear_bn_eval(linear, bn)(x), bn(linear(x)), atol=1e-5)
    True
    """
    _check_eval(linear, bn)
    if bn.num_features not in (linear.out_features, 1):
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got "
            f"linear.out_features={linear.out_features} and bn.num_features={bn.num_features}"
        )
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        linear.weight, linear.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of a Linear with the batch normalisation after it.

    Parameters
    ----------
    linear_w : Tensor
        `(out, in)`.
    linear_b : Tensor or None
        `(out,)`; None is zeros.
    bn_rm, bn_rv : Tensor
        Running mean and variance, `(out,)` or `(1,)`.
    bn_eps : float
        Added to the variance.
    bn_w, bn_b : Tensor or None
        Weight and bias, `(out,)` or `(1,)`; None is ones and zeros.

    Returns
    -------
    (weight, bias) : Parameter, Parameter
        In the dtypes of linear_w and linear_b.

    See Also
    --------
    fuse_linear_bn_eval

    Examples
    --------
    >>> weight, bias = nn.utils.fuse_linear_bn_weights(
    ...     st.ones(1, 2), None, st.tensor([3.]), st.tensor([4.]), 0.0, None, None
    ... )
    >>> weight.detach(), bias.detach()
    (tensor([[0.5000, 0.5000]]), tensor([-1.5000]))
    """
    return _fuse(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, [-1, 1])


def _fuse(
    weight: Tensor,
    bias: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    shape: list[int],
) -> tuple[Parameter, Parameter]:
    """The fused weight, in which the scale has `shape`, and the fused bias."""
    old_bias = zeros_like(bn_rm) if bias is None else bias
    bn_w = ones_like(bn_rm) if bn_w is None else bn_w
    bn_b = zeros_like(bn_rm) if bn_b is None else bn_b
    scale = bn_w * (bn_rv + bn_eps).rsqrt()
    new_weight = (weight * scale.reshape(*shape)).to(weight.dtype)
    new_bias = ((old_bias - bn_rm) * scale + bn_b).to(weight.dtype if bias is None else bias.dtype)
    return (
        Parameter(new_weight.detach(), weight.requires_grad),
        Parameter(new_bias.detach(), old_bias.requires_grad),
    )


def _check_eval(layer: Any, bn: Any) -> None:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")
