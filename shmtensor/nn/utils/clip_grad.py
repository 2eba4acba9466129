"""Clipping of gradients to a norm or a value, in place."""

from __future__ import annotations

import types
import warnings
from collections.abc import Iterable

import numpy as np

from ... import linalg
from ...autograd import no_grad
from ...functions import stack
from ...tensor import Tensor
from ...tensor.from_data import tensor

__all__ = [
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
]

Tensors = Tensor | Iterable[Tensor]


def _as_list(tensors: Tensors) -> list[Tensor]:
    if isinstance(tensors, Tensor):
        return [tensors]
    if not isinstance(tensors, Iterable):
        raise TypeError(
            f"clip_grad: parameters must be a Tensor or an iterable of Tensors, but got "
            f"{type(tensors).__name__}, hint: model.parameters()"
        )
    return list(tensors)


def _gradients(parameters: Tensors) -> list[Tensor]:
    return [p.grad for p in _as_list(parameters) if p.grad is not None]


def get_total_norm(
    tensors: Tensors,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of all tensors as if they were one vector.

    Parameters
    ----------
    tensors : Tensor or iterable of Tensor
        As a rule the gradients.
    norm_type : float, optional
        The order of the norm.
    error_if_nonfinite : bool, optional
        Whether a norm that is infinite or NaN is an error.
    foreach : bool, optional
        Accepted; has no effect.

    Returns
    -------
    Tensor
        `()`.

    Raises
    ------
    RuntimeError
        The norm is not finite, and `error_if_nonfinite`.

    See Also
    --------
    clip_grads_with_norm_

    Examples
    --------
    >>> nn.utils.get_total_norm([st.tensor([3.]), st.tensor([[4.]])])
    tensor(5.)
    """
    norm_type = float(norm_type)
    values = [t.coalesce().values() if t.is_sparse else t for t in _as_list(tensors)]
    if not values:
        return tensor(0.0)
    with no_grad():
        norms = [linalg.vector_norm(t, norm_type) for t in values]
        if any(norm.array.__class__ is not np.ndarray for norm in norms):
            norms = [norm.to(norms[0].device) for norm in norms]
        total: Tensor = linalg.vector_norm(stack(norms), norm_type)
    if error_if_nonfinite and not bool(total.isfinite()):
        raise RuntimeError(
            f"get_total_norm: the total norm of order {norm_type} is not finite: {total.item()}, "
            "so it cannot be clipped, hint: error_if_nonfinite=False scales by it anyway"
        )
    return total


def clip_grads_with_norm_(
    parameters: Tensors, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scales the gradients by max_norm / total_norm where that is below 1, in place.

    Parameters
    ----------
    parameters : Tensor or iterable of Tensor
        Those without a gradient are passed over.
    max_norm : float
        The limit.
    total_norm : Tensor
        `()`: the norm, as `get_total_norm` computes it.
    foreach : bool, optional
        Accepted; has no effect.

    See Also
    --------
    clip_grad_norm_, get_total_norm

    Examples
    --------
    >>> p = st.zeros(2, requires_grad=True)
    >>> (p * st.tensor([3., 4.])).sum().backward()
    >>> nn.utils.clip_grads_with_norm_([p], 1.0, nn.utils.get_total_norm([p.grad]))
    >>> p.grad.round(decimals=3)
    tensor([0.6000, 0.8000])
    """
    ratio = float(max_norm) / (total_norm + 1e-6)
    if isinstance(ratio, Tensor) and not ratio.is_cpu:  # without waiting for it
        factor = ratio.clamp(max=1.0)
        with no_grad():
            for g in _gradients(parameters):
                g.mul_(factor.to(g.device))
        return
    scale = float(ratio)  # rounded as the norm's dtype does
    if scale < 1.0 or scale != scale:  # nan propagates, as in PyTorch
        with no_grad():
            for g in _gradients(parameters):
                g.mul_(scale)


def clip_grad_norm_(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scales the gradients so that their common norm is at most max_norm, in place.

    Parameters
    ----------
    parameters : Tensor or iterable of Tensor
        Those without a gradient are passed over.
    max_norm : float
        The limit.
    norm_type : float, optional
        The order of the norm.
    error_if_nonfinite : bool, optional
        Whether a norm that is infinite or NaN is an error.
    foreach : bool, optional
        Accepted; has no effect.

    Returns
    -------
    Tensor
        `()`: the norm before.

    Raises
    ------
    RuntimeError
        The norm is not finite, and `error_if_nonfinite`.

    See Also
    --------
    clip_grad_value_, get_total_norm

    Notes
    -----
    Called between `backward` and the optimizer's step.

    Examples
    --------
    >>> p = st.zeros(2, requires_grad=True)
    >>> (p * st.tensor([3., 4.])).sum().backward()
    >>> nn.utils.clip_grad_norm_([p], max_norm=1.0)
    tensor(5.)
    >>> p.grad.round(decimals=3)
    tensor([0.6000, 0.8000])
    """
    is_generator = isinstance(parameters, types.GeneratorType)
    parameters = _as_list(parameters)
    if is_generator and not parameters:
        warnings.warn(
            "`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=2
        )
    total = get_total_norm(_gradients(parameters), norm_type, error_if_nonfinite)
    clip_grads_with_norm_(parameters, max_norm, total)
    return total


def clip_grad_norm(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Deprecated: `clip_grad_norm_`, which is the same.

    Parameters
    ----------
    parameters : Tensor or iterable of Tensor
        Those without a gradient are passed over.
    max_norm : float
        The limit.
    norm_type : float, optional
        The order of the norm.
    error_if_nonfinite : bool, optional
        Whether a norm that is infinite or NaN is an error.
    foreach : bool, optional
        Accepted; has no effect.

    Returns
    -------
    Tensor
        `()`: the norm before.

    See Also
    --------
    clip_grad_norm_

    Examples
    --------
    >>> p = st.zeros(2, requires_grad=True)
    >>> (p * st.tensor([3., 4.])).sum().backward()
    >>> nn.utils.clip_grad_norm_([p], max_norm=10.0)
    tensor(5.)
    """
    warnings.warn(
        "`nn.utils.clip_grad_norm` is now deprecated in favor of `nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters: Tensors, clip_value: float, foreach: bool | None = None) -> None:
    """Cuts each element of the gradients off at +-clip_value, in place.

    Parameters
    ----------
    parameters : Tensor or iterable of Tensor
        Those without a gradient are passed over.
    clip_value : float
        The limit.
    foreach : bool, optional
        Accepted; has no effect.

    See Also
    --------
    clip_grad_norm_

    Examples
    --------
    >>> p = st.zeros(2, requires_grad=True)
    >>> (p * st.tensor([3., -0.5])).sum().backward()
    >>> nn.utils.clip_grad_value_([p], 1.0)
    >>> p.grad
    tensor([ 1.0000, -0.5000])
    """
    bound = float(clip_value)
    with no_grad():
        for g in _gradients(parameters):
            g.clamp_(-bound, bound)
