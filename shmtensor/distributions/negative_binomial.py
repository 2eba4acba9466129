"""The negative binomial distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..autograd import no_grad
from ..autograd import table as ops
from ..tensor import Tensor
from . import constraints
from .distribution import Distribution
from .gamma import Gamma
from .success_probability import SuccessProbability

__all__ = ["NegativeBinomial"]


class NegativeBinomial(SuccessProbability, Distribution):
    """The number of successes in independent trials before a number of failures.

    Parameters
    ----------
    total_count : Tensor or float
        The number of failures that ends the trials, not negative; it may be a fraction.
    probs : Tensor or float, optional
        The probability of success, from 0 to below 1.
    logits : Tensor or float, optional
        Its log odds; one of both is given.
    validate_args : bool, optional
        Whether parameters and values are checked; None: as `set_default_validate_args` says.

    Raises
    ------
    ValueError
        Neither or both of `probs` and `logits` are given, or a parameter is out of its range.

    Notes
    -----
    The parameters are broadcast to the shape of the batch. A sample is a Poisson number with a
    gamma number as its rate.

    Examples
    --------
    >>> p = st.distributions.NegativeBinomial(3, 0.5)
    >>> p.mean, p.variance
    (tensor(3.), tensor(6.))
    >>> p.log_prob(st.tensor([0.0, 2.0])).exp()
    tensor([0.1250, 0.1875])
    """

    total_count: Tensor
    arg_constraints = {  # noqa: RUF012
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(
        self,
        total_count: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        (self.total_count,) = self._set_probability(probs, logits, total_count)
        self.total_count = self.total_count.to(self._param.dtype)
        super().__init__(self._param.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.mean / ops.sigmoid(-self.logits)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        names = ("total_count", "probs", "logits")
        return self._expand(NegativeBinomial, batch_shape, names, _instance)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        rate = Gamma(self.total_count, (-self.logits).exp(), validate_args=False)
        with no_grad():
            return ops.poisson(rate.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n, logits = self.total_count, self.logits
        powers = n * ops.logsigmoid(-logits) + value * ops.logsigmoid(logits)
        # Of no failures and no successes there is one sequence.
        is_empty = n + value == 0
        n = ops.where(is_empty, 1.0, n)
        return powers + (n + value).lgamma() - (value + 1).lgamma() - n.lgamma()
