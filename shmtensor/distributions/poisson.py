"""The Poisson distribution."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Number
from typing import Any

from ..autograd import no_grad
from ..autograd import table as ops
from ..tensor import Tensor
from . import constraints
from .exp_family import ExponentialFamily
from .utils import broadcast_all

__all__ = ["Poisson"]


class Poisson(ExponentialFamily):
    """The Poisson distribution, of the number of independent events.

    Parameters
    ----------
    rate : Tensor or float
        The mean, not negative.
    validate_args : bool, optional
        Whether parameters and values are checked; None: as `set_default_validate_args` says.

    Raises
    ------
    ValueError
        `rate` is negative.

    Notes
    -----
    Samples have the dtype of the rate, and no gradients.

    Examples
    --------
    >>> p = st.distributions.Poisson(2.5)
    >>> p.mean, p.mode
    (tensor(2.5000), tensor(2.))
    >>> p.log_prob(st.tensor([0.0, 3.0]))
    tensor([-2.5000, -1.5429])
    """

    rate: Tensor
    arg_constraints = {"rate": constraints.nonnegative}  # noqa: RUF012
    support = constraints.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        shape = () if isinstance(rate, Number) else self.rate.shape
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        return self.rate

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expand(Poisson, batch_shape, ("rate",), _instance)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return ops.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        rate, value = broadcast_all(self.rate, value)
        return ops.xlogy(value, rate) - rate - (value + 1).lgamma()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.rate.log(),)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return x.exp()
