"""A probability of success that is given as itself or as log odds."""

from __future__ import annotations

from typing import Any

from ..native import Size
from ..tensor import Tensor
from .utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits

__all__ = ["SuccessProbability"]


class SuccessProbability:
    """What the distributions with such a parameter have in common."""

    def _set_probability(self, probs: Any, logits: Any, *others: Any) -> list[Tensor]:
        """Sets `probs` or `logits`, the one that is given, broadcast together with other
        parameters, which are returned.
        """
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        if probs is not None:
            *rest, self.probs = broadcast_all(*others, probs)
        else:
            *rest, self.logits = broadcast_all(*others, logits)
        return rest

    @property
    def _param(self) -> Tensor:
        """The parameter that was given."""
        return self.probs if "probs" in vars(self) else self.logits

    @lazy_property
    def logits(self) -> Tensor:
        """The log odds."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Tensor:
        """The probability of 1, or that a trial succeeds."""
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter."""
        return self._param.shape
