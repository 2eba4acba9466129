"""The exponential distribution."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Number
from typing import Any

from ..autograd import table as ops
from ..tensor import Tensor
from . import constraints
from .exp_family import ExponentialFamily
from .utils import broadcast_all

__all__ = ["Exponential"]


class Exponential(ExponentialFamily):
    """The exponential distribution.

    Parameters
    ----------
    rate : Tensor or float
        The rate, which is 1 over the mean, positive.
    validate_args : bool, optional
        Whether parameters and values are checked; None: as `set_default_validate_args` says.

    Raises
    ------
    ValueError
        `rate` is not positive.

    Notes
    -----
    `rsample` passes gradients to the rate.

    Examples
    --------
    >>> p = st.distributions.Exponential(2.0)
    >>> p.mean, p.entropy()
    (tensor(0.5000), tensor(0.3069))
    >>> p.icdf(p.cdf(st.tensor(1.5)))
    tensor(1.5000)
    """

    rate: Tensor
    arg_constraints = {"rate": constraints.positive}  # noqa: RUF012
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        shape = () if isinstance(rate, Number) else self.rate.shape
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        return ops.zeros_like(self.rate)

    @property
    def stddev(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self.rate.square().reciprocal()

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expand(Exponential, batch_shape, ("rate",), _instance)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        numbers = ops.empty(shape, dtype=self.rate.dtype, device=self.rate.device).exponential_()
        return numbers / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -(-self.rate * value).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        return -(-value).log1p() / self.rate

    def entropy(self) -> Tensor:
        return 1 - self.rate.log()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (-self.rate,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return -(-x).log()
