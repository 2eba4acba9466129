"""The continuous Bernoulli distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..autograd import table as ops
from ..tensor import Tensor
from . import constraints
from .exp_family import ExponentialFamily
from .success_probability import SuccessProbability
from .utils import broadcast_all, clamp_probs, lazy_property, logits_to_probs

__all__ = ["ContinuousBernoulli"]


class ContinuousBernoulli(SuccessProbability, ExponentialFamily):
    """Numbers x from 0 to 1 with density proportional to `probs ** x * (1 - probs) ** (1 - x)`.

    Parameters
    ----------
    probs : Tensor or float, optional
        Between 0 and 1; it is not the mean.
    logits : Tensor or float, optional
        Its log odds; one of both is given.
    lims : tuple of float, optional
        Between these the formulas, which divide 0 by 0 for `probs` of 0.5, are replaced by their
        Taylor series.
    validate_args : bool, optional
        Whether parameters and values are checked; None: as `set_default_validate_args` says.

    Raises
    ------
    ValueError
        None or both are given, or a parameter is out of its range.

    Notes
    -----
    Loaiza-Ganem and Cunningham, 2019, "The continuous Bernoulli: fixing a pervasive error in
    variational autoencoders".

    Examples
    --------
    >>> p = st.distributions.ContinuousBernoulli(0.25)
    >>> p.mean, p.cdf(st.tensor(0.5))
    (tensor(0.4102), tensor(0.6340))
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}  # noqa: RUF012
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        self._set_probability(probs, logits)
        self._lims = lims
        super().__init__(self._param.shape, validate_args=validate_args)
        if probs is not None:
            self.probs = clamp_probs(self.probs)

    @lazy_property
    def probs(self) -> Tensor:
        """The parameter between 0 and 1."""
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _split(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Where the Taylor series counts; `probs`, and its log odds, with others there; its
        distance from 0.5.
        """
        low, high = self._lims
        p = self.probs
        is_middle = (p > low) & (p < high)
        far = ops.where(is_middle, low, p)
        return is_middle, far, far.log() - (-far).log1p(), p - 0.5

    def _log_constant(self) -> Tensor:
        """The logarithm of what makes the density's integral 1: log odds / (2 probs - 1)."""
        is_middle, far, log_odds, d = self._split()
        square = d.square()
        series = math.log(2) + (4 / 3 + 104 / 45 * square) * square
        return ops.where(is_middle, series, (log_odds / (2 * far - 1)).log())

    @property
    def mean(self) -> Tensor:
        is_middle, far, log_odds, d = self._split()
        series = 0.5 + (1 / 3 + 16 / 45 * d.square()) * d
        return ops.where(is_middle, series, far / (2 * far - 1) - 1 / log_odds)

    @property
    def variance(self) -> Tensor:
        is_middle, far, log_odds, d = self._split()
        square = d.square()
        series = 1 / 12 - (1 / 15 - 128 / 945 * square) * square
        variance = 1 / log_odds.square() - far * (1 - far) / (2 * far - 1).square()
        return ops.where(is_middle, series, variance)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._expand(ContinuousBernoulli, batch_shape, ("probs", "logits"), _instance)
        new._lims = self._lims
        return new

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.icdf(ops.rand(shape, dtype=self.probs.dtype, device=self.probs.device))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        of_bernoulli = -ops.binary_cross_entropy_with_logits(logits, value, reduction="none")
        return of_bernoulli + self._log_constant()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        is_middle, far, log_odds, _ = self._split()
        probability = (1 - far) * (value * log_odds).expm1() / (2 * far - 1)
        return ops.where(is_middle, value, probability).clamp(0, 1)

    def icdf(self, value: Tensor) -> Tensor:
        is_middle, far, log_odds, _ = self._split()
        quantile = (value * (2 * far - 1) / (1 - far)).log1p() / log_odds
        return ops.where(is_middle, value, quantile)

    def entropy(self) -> Tensor:
        # The mean of x, times log odds, is what x adds to the logarithm of the density.
        p = self.probs
        return self.mean * ((-p).log1p() - p.log()) - self._log_constant() - (-p).log1p()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        """log((exp(x) - 1) / x), of x near 0 its Taylor series."""
        low, high = self._lims
        is_middle = (x > math.log(low / (1 - low))) & (x < math.log(high / (1 - high)))
        far = ops.where(is_middle, 1.0, x)
        series = x / 2 + x.square() / 24 - x.pow(4) / 2880
        # expm1(x) = exp(x / 2) * 2 sinh(x / 2), and x >= 0 or not, the quotient is positive.
        log_sinh = far.abs() / 2 + (-(-far.abs()).expm1()).log()
        return ops.where(is_middle, series, far / 2 + log_sinh - far.abs().log())
