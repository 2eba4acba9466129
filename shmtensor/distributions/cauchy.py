"""The Cauchy distribution."""

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

__all__ = ["Cauchy"]


class Cauchy(Distribution):
    """The Cauchy (Lorentz) distribution, which has no mean: the ratio of two normal numbers.

    Parameters
    ----------
    loc : Tensor or float
        The median, and mode.
    scale : Tensor or float
        Half the distance of the quartiles, positive.
    validate_args : bool, optional
        Whether parameters and values are checked; None: as `set_default_validate_args` says.

    Raises
    ------
    ValueError
        `scale` is not positive, or a parameter is NaN.

    Examples
    --------
    >>> p = st.distributions.Cauchy(0.0, 1.0)
    >>> p.cdf(st.tensor(1.0)), p.mean
    (tensor(0.7500), tensor(nan))
    """

    loc: Tensor
    scale: Tensor
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # noqa: RUF012
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        is_scalar = isinstance(loc, Number) and isinstance(scale, Number)
        super().__init__(() if is_scalar else self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """NaN: there is none."""
        return ops.full_like(self.loc, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return ops.full_like(self.loc, math.inf)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expand(Cauchy, batch_shape, ("loc", "scale"), _instance)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.loc + self.loc.new_empty(shape).cauchy_() * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        return -math.log(math.pi) - self.scale.log() - z.square().log1p()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        # atan(z) / pi + 1 / 2, but a small probability is not rounded to 0.
        z = (value - self.loc) / self.scale
        return ops.atan2(ops.ones_like(z), -z) / math.pi

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * (math.pi * (value - 0.5)).tan()

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()
