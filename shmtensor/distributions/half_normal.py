"""The half-normal distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..autograd import table as ops
from ..tensor import Tensor
from . import constraints
from .normal import Normal
from .transformed_distribution import TransformedDistribution
from .transforms import AbsTransform

__all__ = ["HalfNormal"]


class HalfNormal(TransformedDistribution):
    """The absolute value of a normal number of mean 0.

    Parameters
    ----------
    scale : Tensor or float
        The standard deviation of the normal number, positive.
    validate_args : bool, optional
        Whether parameters and values are checked; None: as `set_default_validate_args` says.

    Raises
    ------
    ValueError
        `scale` is not positive.

    Examples
    --------
    >>> p = st.distributions.HalfNormal(1.0)
    >>> p.mean, p.cdf(st.tensor(1.0))
    (tensor(0.7979), tensor(0.6827))
    """

    arg_constraints = {"scale": constraints.positive}  # noqa: RUF012
    support = constraints.nonnegative
    has_rsample = True
    base_dist: Normal

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(0, scale, validate_args=False)
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    @property
    def scale(self) -> Tensor:
        """The standard deviation of the normal number."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def mode(self) -> Tensor:
        return ops.zeros_like(self.scale)

    @property
    def variance(self) -> Tensor:
        return self.scale.square() * (1 - 2 / math.pi)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expand_base(HalfNormal, batch_shape, _instance)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return ops.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return (value / (self.scale * math.sqrt(2))).erf()

    def icdf(self, prob: Tensor) -> Tensor:
        return self.scale * math.sqrt(2) * prob.erfinv()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)
