"""The Laplace distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Number
from typing import Any

from ..autograd import table as ops
from ..dtypes import finfo
from ..tensor import Tensor
from . import constraints
from .distribution import Distribution
from .utils import broadcast_all

__all__ = ["Laplace"]


class Laplace(Distribution):
    """The Laplace distribution: exponential on both sides of its mean.

    Parameters
    ----------
    loc : Tensor or float
        The mean.
    scale : Tensor or float
        The mean distance from it, positive.
    validate_args : bool, optional
        Whether parameters and values are checked; None: as `set_default_validate_args` says.

    Raises
    ------
    ValueError
        `scale` is not positive, or a parameter is NaN.

    Examples
    --------
    >>> p = st.distributions.Laplace(0.0, 2.0)
    >>> p.variance, p.log_prob(st.tensor(2.0))
    (tensor(8.), tensor(-2.3863))
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
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale.square()

    @property
    def stddev(self) -> Tensor:
        return math.sqrt(2) * self.scale

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expand(Laplace, batch_shape, ("loc", "scale"), _instance)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        u = ops.rand(shape, dtype=self.loc.dtype, device=self.loc.device)
        # From 0 to 1, without 0, whose logarithm is infinite.
        return self.icdf(u.clamp(min=float(finfo(u.dtype).tiny)))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        tail = 0.5 * (-z.abs()).exp()
        return ops.where(z < 0, tail, 1 - tail)

    def icdf(self, value: Tensor) -> Tensor:
        below = (2 * ops.minimum(value, 1 - value)).log()  # minus the distance from loc
        return self.loc + self.scale * ops.where(value < 0.5, below, -below)

    def entropy(self) -> Tensor:
        return 1 + (2 * self.scale).log()
