"""The gamma distribution."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Number
from typing import Any

from ..autograd import table as ops
from ..dtypes import finfo
from ..tensor import Tensor
from ..tensor.from_data import tensor
from . import constraints
from .exp_family import ExponentialFamily
from .utils import broadcast_all

__all__ = ["Gamma"]


def clamp_above_zero(samples: Tensor) -> Tensor:
    """Samples whose zeros have become the smallest normal number."""
    return samples.clamp(min=float(finfo(samples.dtype).tiny))


class Gamma(ExponentialFamily):
    """The gamma distribution.

    Parameters
    ----------
    concentration : Tensor or float
        The shape, positive.
    rate : Tensor or float
        The rate, which is 1 over the scale, positive.
    validate_args : bool, optional
        Whether parameters and values are checked; None: as `set_default_validate_args` says.

    Raises
    ------
    ValueError
        A parameter is not positive.

    Notes
    -----
    Both are broadcast to the shape of the batch. `rsample` passes gradients to them: that to the
    concentration leaves the probability of smaller values unchanged (Figurnov, Mohamed and Mnih
    2018), and has no derivative. Samples are at least the smallest normal number of the dtype.
    `cdf` has no gradient by the concentration.

    Examples
    --------
    >>> p = st.distributions.Gamma(2.0, 4.0)
    >>> p.mean, p.variance
    (tensor(0.5000), tensor(0.1250))
    >>> p.cdf(st.tensor(0.5))
    tensor(0.5940)
    """

    concentration: Tensor
    rate: Tensor
    arg_constraints = {  # noqa: RUF012
        "concentration": constraints.positive,
        "rate": constraints.positive,
    }
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        is_scalar = isinstance(concentration, Number) and isinstance(rate, Number)
        shape = () if is_scalar else self.concentration.shape
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate.square()

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expand(Gamma, batch_shape, ("concentration", "rate"), _instance)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        numbers = ops._standard_gamma(self.concentration.expand(shape))
        return clamp_above_zero(numbers / self.rate)

    def log_prob(self, value: Any) -> Tensor:
        if isinstance(value, Number):  # which PyTorch's Gamma takes, too
            value = tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        if self._validate_args:
            self._validate_sample(value)
        c, rate = self.concentration, self.rate
        return ops.xlogy(c, rate) + ops.xlogy(c - 1, value) - rate * value - c.lgamma()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return ops.special_gammainc(self.concentration, self.rate * value)

    def entropy(self) -> Tensor:
        c = self.concentration
        return c - self.rate.log() + c.lgamma() + (1 - c) * c.digamma()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        return (x + 1).lgamma() - (x + 1) * (-y).log()
