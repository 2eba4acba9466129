"""The binomial distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..autograd import no_grad
from ..autograd import table as ops
from ..tensor import Tensor
from . import constraints
from .distribution import Distribution
from .success_probability import SuccessProbability

__all__ = ["Binomial"]


class Binomial(SuccessProbability, Distribution):
    """The number of successes in independent trials with one probability.

    Parameters
    ----------
    total_count : Tensor or int, optional
        The number of trials, not negative; by default 1.
    probs : Tensor or float, optional
        The probability of success.
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
    The parameters are broadcast to the shape of the batch. `entropy` and `enumerate_support` need
    one number of trials for the whole batch.

    Examples
    --------
    >>> p = st.distributions.Binomial(4, 0.5)
    >>> p.mean, p.variance
    (tensor(2.), tensor(1.))
    >>> p.log_prob(p.enumerate_support()).exp()
    tensor([0.0625, 0.2500, 0.3750, 0.2500, 0.0625])
    """

    total_count: Tensor
    arg_constraints = {  # noqa: RUF012
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True

    def __init__(
        self,
        total_count: Any = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        (self.total_count,) = self._set_probability(probs, logits, total_count)
        self.total_count = self.total_count.to(self._param.dtype)
        super().__init__(self._param.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """The integers from 0 to the number of trials."""
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        names = ("total_count", "probs", "logits")
        return self._expand(Binomial, batch_shape, names, _instance)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return ops.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n, logits = self.total_count, self.logits
        powers = value * ops.logsigmoid(logits) + (n - value) * ops.logsigmoid(-logits)
        return powers + (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()

    def entropy(self) -> Tensor:
        logs = self.log_prob(self._values("entropy", False))
        return -(logs.exp() * logs).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._values("enumerate_support", expand)

    def _values(self, name: str, expand: bool) -> Tensor:
        """The values, for a method that needs one number of trials."""
        n = int(self.total_count.max())
        if int(self.total_count.min()) != n:
            raise NotImplementedError(
                f"Inhomogeneous total count not supported by `{name}`: {self.total_count}"
            )
        param = self._param
        return self._support_of(ops.arange(n + 1, dtype=param.dtype, device=param.device), expand)
