"""Gradients of convolutions as functions: `torch.nn.grad`, also as `nn.functional.grad`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..autograd import enable_grad, grad, is_grad_enabled
from ..tensor import Tensor
from .functional.conv import conv1d, conv2d, conv3d

__all__ = [
    "conv1d_input",
    "conv1d_weight",
    "conv2d_input",
    "conv2d_weight",
    "conv3d_input",
    "conv3d_weight",
]


def _gradient(
    conv: Callable[..., Any], x: Tensor, weight: Tensor, of_weight: bool, g: Tensor, *options: Any
) -> Tensor:
    """The gradient of a convolution with respect to its input or its weight, which only lends its
    shape. It is recorded if g or the other operand requires grad.
    """
    recorded = is_grad_enabled() and any(t.requires_grad for t in (x, weight, g))
    with enable_grad():
        operand = (weight if of_weight else x).detach().requires_grad_()
        out = conv(*((x, operand) if of_weight else (operand, weight)), None, *options)
        (result,) = grad(out, operand, g, create_graph=recorded)
    return result


def _of_input(conv: Callable[..., Any]) -> Callable[..., Tensor]:
    def gradient(
        input_size: Sequence[int],
        weight: Tensor,
        grad_output: Tensor,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        x = grad_output.new_zeros(tuple(input_size))
        options = stride, padding, dilation, groups
        return _gradient(conv, x, weight, False, grad_output, *options)

    gradient.__name__ = gradient.__qualname__ = f"{conv.__name__}_input"
    n = int(conv.__name__[-2])
    gradient.__doc__ = f"""The gradient of `{conv.__name__}` with respect to its input.

    Parameters
    ----------
    input_size : tuple of int
        The shape of the input.
    weight : Tensor
        The filters.
    grad_output : Tensor
        The gradient of the result.
    stride, padding, dilation, groups : optional
        Those of the convolution.

    Returns
    -------
    Tensor
        Of shape `input_size`.

    Raises
    ------
    RuntimeError
        The shapes do not fit each other.

    Examples
    --------
    >>> from shmtensor.nn import grad
    >>> weight, g = st.ones(1, 1{", 2" * n}), st.ones(1, 1{", 1" * n})
    >>> grad.{conv.__name__}_input((1, 1{", 2" * n}), weight, g).sum()
    tensor({2**n}.)
    """
    return gradient


def _of_weight(conv: Callable[..., Any]) -> Callable[..., Tensor]:
    def gradient(
        input: Tensor,
        weight_size: Sequence[int],
        grad_output: Tensor,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        weight = grad_output.new_zeros(tuple(weight_size))
        options = stride, padding, dilation, groups
        return _gradient(conv, input, weight, True, grad_output, *options)

    gradient.__name__ = gradient.__qualname__ = f"{conv.__name__}_weight"
    n = int(conv.__name__[-2])
    gradient.__doc__ = f"""The gradient of `{conv.__name__}` with respect to its filters.

    Parameters
    ----------
    input : Tensor
        The input of the convolution.
    weight_size : tuple of int
        The shape of the filters.
    grad_output : Tensor
        The gradient of the result.
    stride, padding, dilation, groups : optional
        Those of the convolution.

    Returns
    -------
    Tensor
        Of shape `weight_size`.

    Raises
    ------
    RuntimeError
        The shapes do not fit each other.

    Examples
    --------
    >>> from shmtensor.nn import grad
    >>> x, g = st.ones(1, 1{", 2" * n}), st.ones(1, 1{", 1" * n})
    >>> grad.{conv.__name__}_weight(x, (1, 1{", 2" * n}), g).sum()
    tensor({2**n}.)
    """
    return gradient


conv1d_input, conv1d_weight = _of_input(conv1d), _of_weight(conv1d)
conv2d_input, conv2d_weight = _of_input(conv2d), _of_weight(conv2d)
conv3d_input, conv3d_weight = _of_input(conv3d), _of_weight(conv3d)
