"""The inverse gamma distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..autograd import table as ops
from ..tensor import Tensor
from . import constraints
from .gamma import Gamma
from .transformed_distribution import TransformedDistribution
from .transforms import PowerTransform

__all__ = ["InverseGamma"]


class InverseGamma(TransformedDistribution):
    """The reciprocal of a gamma number.

    Parameters
    ----------
    concentration : Tensor or float
        The shape, positive.
    rate : Tensor or float
        The rate of the gamma number, which is the scale of its reciprocal, positive.
    validate_args : bool, optional
        Whether parameters and values are checked; None: as `set_default_validate_args` says.

    Raises
    ------
    ValueError
        A parameter is not positive.

    Examples
    --------
    >>> p = st.distributions.InverseGamma(3.0, 4.0)
    >>> p.mean, p.mode
    (tensor(2.), tensor(1.))
    """

    arg_constraints = {  # noqa: RUF012
        "concentration": constraints.positive,
        "rate": constraints.positive,
    }
    support = constraints.positive
    has_rsample = True
    base_dist: Gamma

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        power = PowerTransform(-ops.ones_like(base.rate))
        super().__init__(base, power, validate_args=validate_args)

    @property
    def concentration(self) -> Tensor:
        """The shape."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        """The rate of the gamma number."""
        return self.base_dist.rate

    @property
    def mean(self) -> Tensor:
        c = self.concentration
        return ops.where(c > 1, self.rate / (c - 1), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        c = self.concentration
        variance = self.rate.square() / ((c - 1).square() * (c - 2))
        return ops.where(c > 2, variance, math.inf)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._expand_base(InverseGamma, batch_shape, _instance)
        new.transforms = [PowerTransform(-ops.ones_like(new.base_dist.rate))]
        return new

    def entropy(self) -> Tensor:
        c = self.concentration
        return c + self.rate.log() + c.lgamma() - (1 + c) * c.digamma()
