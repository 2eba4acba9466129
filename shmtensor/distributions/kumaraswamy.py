"""The Kumaraswamy distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..autograd import table as ops
from ..tensor import Tensor
from . import constraints
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, PowerTransform
from .uniform import Uniform
from .utils import EULER, broadcast_all

__all__ = ["Kumaraswamy"]


class Kumaraswamy(TransformedDistribution):
    """Numbers from 0 to 1, similar to the beta distribution, with a simple `cdf`.

    Parameters
    ----------
    concentration1, concentration0 : Tensor or float
        The exponents a and b, positive: P(X > x) is `(1 - x ** a) ** b`.
    validate_args : bool, optional
        Whether parameters and values are checked; None: as `set_default_validate_args` says.

    Raises
    ------
    ValueError
        A parameter is not positive.

    Examples
    --------
    >>> p = st.distributions.Kumaraswamy(2.0, 2.0)
    >>> p.mean, p.cdf(st.tensor(0.5))
    (tensor(0.5333), tensor(0.4375))
    """

    concentration1: Tensor
    concentration0: Tensor
    arg_constraints = {  # noqa: RUF012
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self, concentration1: Any, concentration0: Any, validate_args: bool | None = None
    ) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        zeros = ops.zeros_like(self.concentration0)
        base = Uniform(zeros, zeros + 1, validate_args=validate_args)
        super().__init__(base, self._from_uniform(), validate_args=validate_args)

    def _from_uniform(self) -> list[Any]:
        return [
            PowerTransform(self.concentration0.reciprocal()),
            AffineTransform(1.0, -1.0),
            PowerTransform(self.concentration1.reciprocal()),
        ]

    def _moment(self, n: int) -> Tensor:
        """The mean of x ** n: b * Beta(1 + n / a, b)."""
        a, b = 1 + n / self.concentration1, self.concentration0
        return b * (a.lgamma() + b.lgamma() - (a + b).lgamma()).exp()

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        """NaN where the density has no maximum inside, or is constant."""
        a, b = self.concentration1, self.concentration0
        mode = ((a - 1) / (a * b - 1)).pow(a.reciprocal())
        return ops.where((a >= 1) & (b >= 1) & (a * b > 1), mode, math.nan)

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self._moment(1).square()

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._new(Kumaraswamy, _instance)
        new.concentration1 = self.concentration1.expand(batch_shape)
        new.concentration0 = self.concentration0.expand(batch_shape)
        new = self._expand_base(Kumaraswamy, batch_shape, new)
        new.transforms = new._from_uniform()
        return new

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        a, b = self.concentration1, self.concentration0
        log_rest = ops.special_xlog1py(b - 1, -value.pow(a))
        return a.log() + b.log() + ops.xlogy(a - 1, value) + log_rest

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -(self.concentration0 * (-value.pow(self.concentration1)).log1p()).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        rest = (-value).log1p() / self.concentration0
        return (-rest.expm1()).pow(self.concentration1.reciprocal())

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = (b + 1).digamma() + EULER
        return 1 - b.reciprocal() + (1 - a.reciprocal()) * harmonic - a.log() - b.log()
