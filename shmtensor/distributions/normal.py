"""The normal distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Number
from typing import Any

from ..autograd import no_grad
from ..autograd import table as ops
from ..tensor import Tensor
from . import constraints
from .exp_family import ExponentialFamily
from .utils import broadcast_all

__all__ = ["Normal"]


class Normal(ExponentialFamily):
    """The normal distribution.

    Parameters
    ----------
    loc : Tensor or float
        The mean.
    scale : Tensor or float
        The standard deviation, positive.
    validate_args : bool, optional
        Whether parameters and values are checked; None: as `set_default_validate_args` says.

    Raises
    ------
    ValueError
        `scale` is not positive, or a parameter is NaN.

    Notes
    -----
    Both are broadcast to the shape of the batch. `rsample` passes gradients to them.

    Examples
    --------
    >>> st.distributions.Normal(0.0, 2.0).log_prob(st.tensor(1.0))
    tensor(-1.7371)
    >>> st.distributions.Normal(st.zeros(3), 1.0).sample((2,)).shape
    Size([2, 3])
    """

    loc: Tensor
    scale: Tensor
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # noqa: RUF012
    support = constraints.real
    has_rsample = True
    _mean_carrier_measure = 0

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
    def stddev(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev.square()

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expand(Normal, batch_shape, ("loc", "scale"), _instance)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return self._standard(sample_shape).mul_(self.scale).add_(self.loc)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.loc + self._standard(sample_shape) * self.scale

    def _standard(self, sample_shape: Sequence[int]) -> Tensor:
        """Numbers of mean 0 and standard deviation 1."""
        shape = self._extended_shape(sample_shape)
        return ops.randn(shape, dtype=self.loc.dtype, device=self.loc.device)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        return -0.5 * z.square() - self.scale.log() - 0.5 * math.log(2 * math.pi)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return ops.special_ndtr((value - self.loc) / self.scale)

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * ops.special_ndtri(value)

    def entropy(self) -> Tensor:
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        square = self.scale.square()
        return self.loc / square, -0.5 / square

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        return -0.25 * x.square() / y + 0.5 * (-math.pi / y).log()
