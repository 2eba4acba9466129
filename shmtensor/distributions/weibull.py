"""The Weibull distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..autograd import table as ops
from ..tensor import Tensor
from . import constraints
from .exponential import Exponential
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, PowerTransform
from .utils import EULER, broadcast_all

__all__ = ["Weibull"]


class Weibull(TransformedDistribution):
    """The time until a failure, whose rate changes as a power of the time.

    Parameters
    ----------
    scale : Tensor or float
        The time before which all but 1 / e fail, positive.
    concentration : Tensor or float
        The exponent, positive: P(X > x) is `exp(-(x / scale) ** concentration)`.
    validate_args : bool, optional
        Whether parameters and values are checked; None: as `set_default_validate_args` says.

    Raises
    ------
    ValueError
        A parameter is not positive.

    Examples
    --------
    >>> p = st.distributions.Weibull(1.0, 2.0)
    >>> p.mean, p.cdf(st.tensor(1.0))
    (tensor(0.8862), tensor(0.6321))
    """

    scale: Tensor
    concentration: Tensor
    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}  # noqa: RUF012
    support = constraints.positive

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        base = Exponential(ops.ones_like(self.scale), validate_args=validate_args)
        super().__init__(base, self._from_exponential(), validate_args=validate_args)

    def _from_exponential(self) -> list[Any]:
        power = PowerTransform(self.concentration.reciprocal())
        return [power, AffineTransform(0, self.scale)]

    def _moment(self, n: int) -> Tensor:
        """The mean of (x / scale) ** n."""
        return (1 + n / self.concentration).lgamma().exp()

    @property
    def mean(self) -> Tensor:
        return self.scale * self._moment(1)

    @property
    def mode(self) -> Tensor:
        base = (1 - self.concentration.reciprocal()).clamp(min=0)  # 0 up to an exponent of 1
        return self.scale * base.pow(self.concentration.reciprocal())

    @property
    def variance(self) -> Tensor:
        return self.scale.square() * (self._moment(2) - self._moment(1).square())

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._new(Weibull, _instance)
        new.scale = self.scale.expand(batch_shape)
        new.concentration = self.concentration.expand(batch_shape)
        new = self._expand_base(Weibull, batch_shape, new)
        new.transforms = new._from_exponential()
        return new

    def entropy(self) -> Tensor:
        c = self.concentration
        return EULER * (1 - c.reciprocal()) + (self.scale / c).log() + 1
