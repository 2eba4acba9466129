"""The Gumbel distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..autograd import table as ops
from ..dtypes import finfo
from ..tensor import Tensor
from . import constraints
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, ExpTransform
from .uniform import Uniform
from .utils import EULER, broadcast_all

__all__ = ["Gumbel"]


class Gumbel(TransformedDistribution):
    """The distribution of the largest of many numbers.

    Parameters
    ----------
    loc : Tensor or float
        The mode.
    scale : Tensor or float
        Positive; the standard deviation is `pi / sqrt(6)` times as large.
    validate_args : bool, optional
        Whether parameters and values are checked; None: as `set_default_validate_args` says.

    Raises
    ------
    ValueError
        `scale` is not positive, or a parameter is NaN.

    Examples
    --------
    >>> p = st.distributions.Gumbel(0.0, 1.0)
    >>> p.mean, p.log_prob(st.tensor(0.0))
    (tensor(0.5772), tensor(-1.))
    """

    loc: Tensor
    scale: Tensor
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # noqa: RUF012
    support = constraints.real

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        info = finfo(self.loc.dtype)
        low, high = float(info.tiny), 1 - float(info.eps)
        ends = ops.full_like(self.loc, low), ops.full_like(self.loc, high)
        base = Uniform(*ends, validate_args=validate_args)
        super().__init__(base, self._from_uniform(), validate_args=validate_args)

    def _from_uniform(self) -> list[Any]:
        """loc - scale * log(-log u)."""
        log, negative = ExpTransform().inv, AffineTransform(0, -1)
        return [log, negative, log, AffineTransform(self.loc, -self.scale)]

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * EULER

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev.square()

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._new(Gumbel, _instance)
        new.loc, new.scale = self.loc.expand(batch_shape), self.scale.expand(batch_shape)
        new = self._expand_base(Gumbel, batch_shape, new)
        new.transforms = new._from_uniform()
        return new

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        z = (self.loc - value) / self.scale
        return z - z.exp() - self.scale.log()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return (-((self.loc - value) / self.scale).exp()).exp()

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc - self.scale * (-value.log()).log()

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + EULER)
