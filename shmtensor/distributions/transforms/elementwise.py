"""Transforms of each element by itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...autograd import table as ops
from ...dtypes import finfo
from ...native import Size
from ...tensor import Tensor
from .. import constraints
from ..distribution import Distribution
from ..utils import broadcast_all
from .transform import Transform

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "PowerTransform",
    "SigmoidTransform",
    "SoftplusTransform",
    "TanhTransform",
]


class ExpTransform(Transform):
    """y = exp(x).

    Parameters
    ----------
    cache_size : int, optional
        As of `Transform`.

    Examples
    --------
    >>> st.distributions.ExpTransform()(st.tensor([0.0, 1.0]))
    tensor([1.0000, 2.7183])
    """

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = 1
    _equal_by = ()

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class PowerTransform(Transform):
    """y = x ** exponent, of positive numbers.

    Parameters
    ----------
    exponent : Tensor or float
        Not 0.
    cache_size : int, optional
        As of `Transform`.

    Examples
    --------
    >>> square = st.distributions.PowerTransform(2.0)
    >>> square(st.tensor(3.0)), square.inv(st.tensor(9.0))
    (tensor(9.), tensor(3.))
    """

    domain = codomain = constraints.positive
    bijective = True
    _equal_by = ("exponent",)

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        (self.exponent,) = broadcast_all(exponent)

    @property
    def sign(self) -> Any:
        return self.exponent.sign()

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Sequence[int]) -> Size:
        return Size(ops.broadcast_shapes(shape, self.exponent.shape))

    inverse_shape = forward_shape


class SigmoidTransform(Transform):
    """y = 1 / (1 + exp(-x)), without 0 and 1.

    Parameters
    ----------
    cache_size : int, optional
        As of `Transform`.

    Examples
    --------
    >>> sigmoid = st.distributions.SigmoidTransform()
    >>> sigmoid(st.tensor(0.0)), sigmoid.inv(st.tensor(0.75))
    (tensor(0.5000), tensor(1.0986))
    """

    domain = constraints.real
    codomain = constraints.unit_interval
    bijective = True
    sign = 1
    _equal_by = ()

    def _call(self, x: Tensor) -> Tensor:
        return _within_0_and_1(ops.sigmoid(x))

    def _inverse(self, y: Tensor) -> Tensor:
        y = _within_0_and_1(y)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -ops.softplus(-x) - ops.softplus(x)


def _within_0_and_1(y: Tensor) -> Tensor:
    """The numbers, but the smallest positive one for 0, and the largest below 1 for 1."""
    info = finfo(y.dtype)
    return y.clamp(float(info.tiny), 1 - float(info.eps))


class SoftplusTransform(Transform):
    """y = log(1 + exp(x)).

    Parameters
    ----------
    cache_size : int, optional
        As of `Transform`.

    Examples
    --------
    >>> softplus = st.distributions.SoftplusTransform()
    >>> softplus(st.tensor(0.0)), softplus.inv(st.tensor(1.0))
    (tensor(0.6931), tensor(0.5413))
    """

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = 1
    _equal_by = ()

    def _call(self, x: Tensor) -> Tensor:
        return ops.softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-(-y).expm1()).log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -ops.softplus(-x)


class TanhTransform(Transform):
    """y = tanh(x).

    Parameters
    ----------
    cache_size : int, optional
        As of `Transform`. 1 is recommended: the inverse of a y near 1 or -1 is inaccurate.

    Examples
    --------
    >>> tanh = st.distributions.TanhTransform()
    >>> tanh(st.tensor(1.0)), tanh.inv(st.tensor(0.5))
    (tensor(0.7616), tensor(0.5493))
    """

    domain = constraints.real
    codomain = constraints.interval(-1.0, 1.0)
    bijective = True
    sign = 1
    _equal_by = ()

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        # 1 - tanh(x)^2 = 4 / (exp(x) + exp(-x))^2, which does not cancel.
        return 2 * (math.log(2) - x - ops.softplus(-2 * x))


class AbsTransform(Transform):
    """y = abs(x); the inverse of y is y.

    Parameters
    ----------
    cache_size : int, optional
        As of `Transform`.

    Examples
    --------
    >>> st.distributions.AbsTransform()(st.tensor([-1.0, 2.0]))
    tensor([1., 2.])
    """

    domain = constraints.real
    codomain = constraints.positive
    _equal_by = ()

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class AffineTransform(Transform):
    """y = loc + scale * x.

    Parameters
    ----------
    loc, scale : Tensor or float
        The summand, and the factor, which is not 0.
    event_dim : int, optional
        How many of the last dimensions are one value.
    cache_size : int, optional
        As of `Transform`.

    Examples
    --------
    >>> line = st.distributions.AffineTransform(1.0, -2.0)
    >>> line(st.tensor(3.0)), line.inv(st.tensor(3.0)), line.sign
    (tensor(-5.), tensor(-1.), -1)
    """

    bijective = True
    _equal_by = ("loc", "scale", "event_dim")

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def event_dim(self) -> int:
        """How many of the last dimensions are one value."""
        return self._event_dim

    @property
    def domain(self) -> Any:
        n = self._event_dim
        return constraints.independent(constraints.real, n) if n else constraints.real

    codomain = domain

    @property
    def sign(self) -> Any:
        if isinstance(self.scale, Tensor):
            return self.scale.sign()
        return (self.scale > 0) - (self.scale < 0)

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        scale = self.scale
        if isinstance(scale, Tensor):
            log_abs = scale.abs().log().expand(ops.broadcast_shapes(scale.shape, x.shape))
        else:
            log_abs = ops.full_like(x, math.log(abs(scale)))
        return log_abs.flatten(-self._event_dim).sum(-1) if self._event_dim else log_abs

    def forward_shape(self, shape: Sequence[int]) -> Size:
        shapes = (getattr(p, "shape", ()) for p in (self.loc, self.scale))
        return Size(ops.broadcast_shapes(shape, *shapes))

    inverse_shape = forward_shape


class CumulativeDistributionTransform(Transform):
    """y is the probability of values up to x by a distribution.

    Parameters
    ----------
    distribution : Distribution
        Continuous, with `cdf`, `icdf` and `log_prob`.
    cache_size : int, optional
        As of `Transform`.

    Examples
    --------
    >>> to_probability = st.distributions.CumulativeDistributionTransform(
    ...     st.distributions.Normal(0.0, 1.0))
    >>> to_probability(st.tensor(0.0)), to_probability.inv(st.tensor(0.5))
    (tensor(0.5000), tensor(0.))
    """

    codomain = constraints.unit_interval
    bijective = True
    sign = 1
    _equal_by = ("distribution",)

    def __init__(self, distribution: Distribution, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:
        return self.distribution.support

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)
