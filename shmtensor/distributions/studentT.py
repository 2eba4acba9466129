"""Student's t-distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Number
from typing import Any

from ..autograd import table as ops
from ..tensor import Tensor
from . import constraints
from .chi2 import Chi2
from .distribution import Distribution
from .utils import broadcast_all

__all__ = ["StudentT"]


class StudentT(Distribution):
    """Student's t-distribution, with a location and a scale.

    Parameters
    ----------
    df : Tensor or float
        The degrees of freedom, positive.
    loc : Tensor or float, optional
        The median and mode.
    scale : Tensor or float, optional
        The scale, positive.
    validate_args : bool, optional
        Whether parameters and values are checked; None: as `set_default_validate_args` says.

    Raises
    ------
    ValueError
        `df` or `scale` is not positive, or a parameter is NaN.

    Notes
    -----
    All are broadcast to the shape of the batch. `mean` is NaN up to one degree of freedom;
    `variance` is NaN up to one, and infinite up to two. `rsample` passes gradients to all of them.

    Examples
    --------
    >>> p = st.distributions.StudentT(3.0)
    >>> p.variance, p.log_prob(st.tensor(1.0))
    (tensor(3.), tensor(-1.5763))
    """

    df: Tensor
    loc: Tensor
    scale: Tensor
    arg_constraints = {  # noqa: RUF012
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real
    has_rsample = True

    def __init__(
        self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        is_scalar = all(isinstance(v, Number) for v in (df, loc, scale))
        super().__init__(() if is_scalar else self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return ops.where(self.df > 1, self.loc, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        is_finite = self.df > 2
        df = ops.where(is_finite, self.df, 3.0)
        variance = ops.where(is_finite, self.scale.square() * df / (df - 2), math.inf)
        return ops.where(self.df > 1, variance, math.nan)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expand(StudentT, batch_shape, ("df", "loc", "scale"), _instance)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        normal = ops.randn(shape, dtype=self.df.dtype, device=self.df.device)
        chi2 = Chi2(self.df, validate_args=False).rsample(sample_shape)
        return self.loc + self.scale * normal * (chi2 / self.df).rsqrt()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        fall = 0.5 * (self.df + 1) * (z.square() / self.df).log1p()
        return -fall - self._log_beta() - 0.5 * self.df.log() - self.scale.log()

    def entropy(self) -> Tensor:
        half = 0.5 * self.df
        fall = (half + 0.5) * ((half + 0.5).digamma() - half.digamma())
        return fall + self._log_beta() + 0.5 * self.df.log() + self.scale.log()

    def _log_beta(self) -> Tensor:
        """The logarithm of the beta function of df / 2 and 1 / 2."""
        half = 0.5 * self.df
        return half.lgamma() - (half + 0.5).lgamma() + 0.5 * math.log(math.pi)
