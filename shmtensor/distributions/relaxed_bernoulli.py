"""The relaxed Bernoulli distribution, and that of its log odds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..autograd import table as ops
from ..tensor import Tensor
from . import constraints
from .distribution import Distribution
from .success_probability import SuccessProbability
from .transformed_distribution import TransformedDistribution
from .transforms import SigmoidTransform
from .utils import broadcast_all, clamp_probs, log_of

__all__ = ["LogitRelaxedBernoulli", "RelaxedBernoulli"]


class LogitRelaxedBernoulli(SuccessProbability, Distribution):
    """The log odds of `RelaxedBernoulli`: a logistic distribution.

    Parameters
    ----------
    temperature : Tensor or float
        Positive.
    probs : Tensor or float, optional
        The probability of 1.
    logits : Tensor or float, optional
        Its log odds; one of both is given.
    validate_args : bool, optional
        Whether parameters and values are checked; None: as `set_default_validate_args` says.

    Raises
    ------
    ValueError
        None or both are given, or a parameter is out of its range.

    Notes
    -----
    Maddison, Mnih, Teh, 2016, "The Concrete Distribution".

    Examples
    --------
    >>> from shmtensor.distributions.relaxed_bernoulli import LogitRelaxedBernoulli
    >>> LogitRelaxedBernoulli(1.0, 0.5).log_prob(st.tensor(0.0))
    tensor(-1.3863)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}  # noqa: RUF012
    support = constraints.real
    has_rsample = True

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        self._set_probability(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._expand(LogitRelaxedBernoulli, batch_shape, ("probs", "logits"), _instance)
        new.temperature = self.temperature
        return new

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        u = clamp_probs(ops.rand(shape, dtype=self._param.dtype, device=self._param.device))
        return (self.logits + u.log() - (-u).log1p()) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        z = logits - value * self.temperature
        return log_of(self.temperature) + z - 2 * ops.softplus(z)


class RelaxedBernoulli(TransformedDistribution):
    """Numbers between 0 and 1 that are near 0 or 1 at a low temperature, with gradients.

    Parameters
    ----------
    temperature : Tensor or float
        Positive.
    probs : Tensor or float, optional
        The probability of 1 in the limit of temperature 0.
    logits : Tensor or float, optional
        Its log odds; one of both is given.
    validate_args : bool, optional
        Whether parameters and values are checked; None: as `set_default_validate_args` says.

    Raises
    ------
    ValueError
        None or both are given, or a parameter is out of its range.

    Notes
    -----
    Maddison, Mnih, Teh, 2016, "The Concrete Distribution".

    Examples
    --------
    >>> logits = st.zeros(3, requires_grad=True)
    >>> draw = st.distributions.RelaxedBernoulli(0.5, logits=logits).rsample()
    >>> draw.shape, draw.requires_grad
    (Size([3]), True)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}  # noqa: RUF012
    support = constraints.unit_interval
    has_rsample = True
    base_dist: LogitRelaxedBernoulli

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)

    @property
    def temperature(self) -> Any:
        """The temperature."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """The log odds of the probability of 1."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """The probability of 1."""
        return self.base_dist.probs

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expand_base(RelaxedBernoulli, batch_shape, _instance)
