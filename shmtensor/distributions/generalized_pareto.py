"""The generalized Pareto distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Number
from typing import Any

from ..autograd import table as ops
from ..tensor import Tensor
from . import constraints
from .distribution import Distribution
from .utils import broadcast_all

__all__ = ["GeneralizedPareto"]


class GeneralizedPareto(Distribution):
    """By how much numbers exceed a high threshold.

    Parameters
    ----------
    loc : Tensor or float
        The threshold.
    scale : Tensor or float
        Positive.
    concentration : Tensor or float
        Of 0, the distribution is exponential; above, it has a heavy tail; below, the numbers end at
        `loc - scale / concentration`.
    validate_args : bool, optional
        Whether parameters and values are checked; None: as `set_default_validate_args` says.

    Raises
    ------
    ValueError
        `scale` is not positive, or a parameter is NaN.

    Notes
    -----
    P(X > x) is `(1 + concentration * (x - loc) / scale) ** (-1 / concentration)`. The mean is NaN
    from a concentration of 1 on, the variance from 0.5 on.

    Examples
    --------
    >>> p = st.distributions.GeneralizedPareto(0.0, 1.0, 0.5)
    >>> p.mean, p.cdf(st.tensor(2.0))
    (tensor(2.), tensor(0.7500))
    """

    loc: Tensor
    scale: Tensor
    concentration: Tensor
    arg_constraints = {  # noqa: RUF012
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True

    def __init__(
        self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None
    ) -> None:
        given = (loc, scale, concentration)
        self.loc, self.scale, self.concentration = broadcast_all(*given)
        is_scalar = all(isinstance(p, Number) for p in given)
        super().__init__(() if is_scalar else self.loc.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """The numbers from `loc` to the end, which is infinite unless the concentration is < 0."""
        end = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, ops.where(self.concentration < 0, end, math.inf))

    def _split(self) -> tuple[Tensor, Tensor]:
        """Where the concentration is so small that the distribution is exponential, and the
        concentration without zeros.
        """
        c = self.concentration
        is_exponential = ops.isclose(c, ops.zeros_like(c))
        return is_exponential, ops.where(is_exponential, 1.0, c)

    @property
    def mean(self) -> Tensor:
        c = self.concentration
        return ops.where(c < 1, self.loc + self.scale / (1 - c), math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        c = self.concentration
        variance = self.scale.square() / ((1 - c).square() * (1 - 2 * c))
        return ops.where(c < 0.5, variance, math.nan)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        names = ("loc", "scale", "concentration")
        return self._expand(GeneralizedPareto, batch_shape, names, _instance)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.icdf(ops.rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    def log_survival_function(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of larger values, log P(X > value)."""
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        is_exponential, c = self._split()
        return ops.where(is_exponential, -z, -(c * z).log1p() / c)

    def log_prob(self, value: Tensor) -> Tensor:
        # The density is the survival to the power of 1 + concentration, divided by the scale.
        return (1 + self.concentration) * self.log_survival_function(value) - self.scale.log()

    def log_cdf(self, value: Tensor) -> Tensor:
        """The logarithm of `cdf`."""
        log_survival = self.log_survival_function(value)
        # Of survivals near 1 and near 0 each form is exact where the other is not.
        is_small = log_survival > -math.log(2)
        of_small = (-ops.where(is_small, log_survival, -1.0).expm1()).log()
        of_large = (-ops.where(is_small, -1.0, log_survival).exp()).log1p()
        return ops.where(is_small, of_small, of_large)

    def cdf(self, value: Tensor) -> Tensor:
        return -self.log_survival_function(value).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        log_survival = (-value).log1p()
        is_exponential, c = self._split()
        z = ops.where(is_exponential, -log_survival, (-c * log_survival).expm1() / c)
        return self.loc + self.scale * z

    def entropy(self) -> Tensor:
        return self.scale.log() + self.concentration + 1
