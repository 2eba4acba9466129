"""The half-Cauchy distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..autograd import table as ops
from ..tensor import Tensor
from . import constraints
from .cauchy import Cauchy
from .transformed_distribution import TransformedDistribution
from .transforms import AbsTransform

__all__ = ["HalfCauchy"]


class HalfCauchy(TransformedDistribution):
    """The absolute value of a Cauchy number of median 0.

    Parameters
    ----------
    scale : Tensor or float
        The median, positive.
    validate_args : bool, optional
        Whether parameters and values are checked; None: as `set_default_validate_args` says.

    Raises
    ------
    ValueError
        `scale` is not positive.

    Examples
    --------
    >>> p = st.distributions.HalfCauchy(2.0)
    >>> p.cdf(st.tensor(2.0)), p.mean
    (tensor(0.5000), tensor(inf))
    """

    arg_constraints = {"scale": constraints.positive}  # noqa: RUF012
    support = constraints.nonnegative
    has_rsample = True
    base_dist: Cauchy

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        base = Cauchy(0, scale, validate_args=False)
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    @property
    def scale(self) -> Tensor:
        """The median."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        return ops.full_like(self.scale, math.inf)

    @property
    def mode(self) -> Tensor:
        return ops.zeros_like(self.scale)

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expand_base(HalfCauchy, batch_shape, _instance)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return ops.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return (value / self.scale).atan() * (2 / math.pi)

    def icdf(self, prob: Tensor) -> Tensor:
        return self.scale * (prob * (math.pi / 2)).tan()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)
