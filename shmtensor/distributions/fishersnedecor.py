"""Fisher's and Snedecor's F-distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Number
from typing import Any

from ..autograd import table as ops
from ..tensor import Tensor
from . import constraints
from .distribution import Distribution
from .gamma import Gamma, clamp_above_zero
from .utils import broadcast_all

__all__ = ["FisherSnedecor"]


class FisherSnedecor(Distribution):
    """The F-distribution: of the ratio of two chi-squared numbers over their degrees of freedom.

    Parameters
    ----------
    df1 : Tensor or float
        The degrees of freedom of the numerator, positive.
    df2 : Tensor or float
        Those of the denominator, positive.
    validate_args : bool, optional
        Whether parameters and values are checked; None: as `set_default_validate_args` says.

    Raises
    ------
    ValueError
        A parameter is not positive.

    Notes
    -----
    Both are broadcast to the shape of the batch. `mean` is NaN up to `df2` of 2, `variance` up to
    4, and `mode` up to `df1` of 2. `rsample` passes gradients to both.

    Examples
    --------
    >>> p = st.distributions.FisherSnedecor(4.0, 10.0)
    >>> p.mean, p.mode
    (tensor(1.2500), tensor(0.4167))
    >>> p.log_prob(st.tensor(1.0))
    tensor(-0.7867)
    """

    df1: Tensor
    df2: Tensor
    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}  # noqa: RUF012
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        is_scalar = isinstance(df1, Number) and isinstance(df2, Number)
        super().__init__(() if is_scalar else self.df1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        df2 = ops.where(self.df2 > 2, self.df2, math.nan)
        return df2 / (df2 - 2)

    @property
    def mode(self) -> Tensor:
        df1 = ops.where(self.df1 > 2, self.df1, math.nan)
        return (df1 - 2) / df1 * self.df2 / (self.df2 + 2)

    @property
    def variance(self) -> Tensor:
        df1, df2 = self.df1, ops.where(self.df2 > 4, self.df2, math.nan)
        return 2 * df2.square() * (df1 + df2 - 2) / (df1 * (df2 - 2).square() * (df2 - 4))

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expand(FisherSnedecor, batch_shape, ("df1", "df2"), _instance)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        above, below = (
            Gamma(0.5 * df, 0.5 * df, validate_args=False).rsample(sample_shape)
            for df in (self.df1, self.df2)
        )
        return clamp_above_zero(above / below)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        a, b, ratio = 0.5 * self.df1, 0.5 * self.df2, self.df1 / self.df2
        log_beta = a.lgamma() + b.lgamma() - (a + b).lgamma()
        rise = a * ratio.log() + (a - 1) * value.log()
        return rise - (a + b) * (ratio * value).log1p() - log_beta
