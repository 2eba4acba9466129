"""Parameters of distributions: broadcasting, probabilities, logits (torch.distributions.utils)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from numbers import Number
from typing import Any

from ..autograd import enable_grad
from ..autograd import table as ops
from ..dtypes import finfo, get_default_dtype
from ..tensor import Tensor
from ..tensor.from_data import tensor

__all__ = ["broadcast_all", "clamp_probs", "lazy_property", "logits_to_probs", "probs_to_logits"]


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Tensors and numbers broadcast to their common shape, as tensors. Copies: none of tensors.

    Raises:
        ValueError: one is neither a tensor nor a number.
    """
    for v in values:
        if not isinstance(v, (Tensor, Number)):
            raise ValueError(
                "broadcast_all: Input arguments must all be instances of Number, Tensor or objects "
                f"implementing __torch_function__: {type(v).__name__}"
            )
    first = next((v for v in values if isinstance(v, Tensor)), None)
    options: dict[str, Any] = {"dtype": get_default_dtype()}
    if first is not None:
        options = {"dtype": first.dtype, "device": first.device}
    tensors = [v if isinstance(v, Tensor) else tensor(v, **options) for v in values]
    return tuple(ops.broadcast_tensors(*tensors))


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities that are at least eps and at most 1 - eps, so that their logits are finite."""
    eps = float(finfo(probs.dtype).eps)
    return probs.clamp(eps, 1 - eps)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """The probabilities of log odds (is_binary), or of unnormalised logarithms along the last
    dimension.
    """
    return ops.sigmoid(logits) if is_binary else ops.softmax(logits, -1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """The log odds of probabilities (is_binary), or their logarithms; finite for 0 and 1, too."""
    p = clamp_probs(probs)
    return p.log() - (-p).log1p() if is_binary else p.log()


class lazy_property:
    """A property that is computed once, with gradients, when it is first read."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        functools.update_wrapper(self, wrapped)  # type: ignore[arg-type]

    def __get__(self, instance: Any, cls: Any = None) -> Any:
        if instance is None:
            return self
        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value
