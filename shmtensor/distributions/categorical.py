"""The categorical distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..autograd import no_grad
from ..autograd import table as ops
from ..dtypes import finfo
from ..native import Size
from ..tensor import Tensor
from . import constraints
from .distribution import Distribution
from .utils import lazy_property, logits_to_probs, probs_to_logits

__all__ = ["Categorical"]

NO_INDEX = -(2**63)  # of `nll_loss`: no value is left out


class Categorical(Distribution):
    """A number from 0 to n - 1, each with a probability of its own.

    Parameters
    ----------
    probs : Tensor, optional
        `(*batch_shape, n)`, not negative; they are divided by their sum.
    logits : Tensor, optional
        Their logarithms, up to a constant; one of both is given.
    validate_args : bool, optional
        Whether parameters and values are checked; None: as `set_default_validate_args` says.

    Raises
    ------
    ValueError
        None or both are given, or a number without dimensions.

    Examples
    --------
    >>> policy = st.distributions.Categorical(logits=st.tensor([0.0, 1.0, 2.0]))
    >>> policy.log_prob(st.tensor(2))
    tensor(-0.4076)
    >>> st.distributions.Categorical(st.tensor([1.0, 3.0])).probs
    tensor([0.2500, 0.7500])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}  # noqa: RUF012
    has_enumerate_support = True

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        name, param = ("logits", logits) if probs is None else ("probs", probs)
        if param.ndim < 1:
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if probs is not None:
            self.probs = probs / probs.sum(-1, keepdim=True)
        else:
            self.logits = logits - logits.logsumexp(dim=-1, keepdim=True)
        self._num_events = int(param.shape[-1])
        super().__init__(param.shape[:-1], validate_args=validate_args)

    @property
    def _param(self) -> Tensor:
        """The parameter that was given."""
        return self.probs if "probs" in vars(self) else self.logits

    @lazy_property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Tensor:
        """The probabilities."""
        return logits_to_probs(self.logits)

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter."""
        return self._param.shape

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """The numbers from 0 to n - 1."""
        return constraints.integer_interval(0, self._num_events - 1)

    def _nan(self) -> Tensor:
        param = self._param
        return ops.full(self._batch_shape, math.nan, dtype=param.dtype, device=param.device)

    @property
    def mean(self) -> Tensor:
        """NaN: the numbers are names."""
        return self._nan()

    @property
    def variance(self) -> Tensor:
        """NaN: the numbers are names."""
        return self._nan()

    @property
    def mode(self) -> Tensor:
        return self._param.argmax(-1)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._expand(Categorical, batch_shape, ("probs", "logits"), _instance)
        new._num_events = self._num_events
        return new

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        if not shape.numel():
            return ops.empty(shape, dtype="int64", device=self._param.device)
        with no_grad():
            rows = self.probs.reshape(-1, self._num_events)
            drawn = ops.multinomial(rows, Size(sample_shape).numel(), True)
            return drawn.t().reshape(shape)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value, logits = value.long(), self.logits
        if value.shape == logits.shape[:-1] and value.numel():
            # Where nothing is broadcast this takes a third of the time of `gather`.
            rows = logits.reshape(-1, self._num_events)
            loss = ops.nll_loss(rows, value.reshape(-1), reduction="none", ignore_index=NO_INDEX)
            return -loss.reshape(value.shape)
        value, logits = ops.broadcast_tensors(value.unsqueeze(-1), logits)
        return logits.gather(-1, value[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        # Of a probability of 0 the logarithm may be -inf: it counts as 0.
        logits = self.logits.clamp(min=float(finfo(self.logits.dtype).min))
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = ops.arange(self._num_events, dtype="int64", device=self._param.device)
        return self._support_of(values, expand)
