"""The Dirichlet distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..autograd import table as ops
from ..dtypes import finfo
from ..tensor import Tensor
from . import constraints
from .exp_family import ExponentialFamily

__all__ = ["Dirichlet", "sample_simplex"]


def sample_simplex(concentration: Tensor) -> Tensor:
    """Samples of Dirichlet distributions, (..., n) like their concentrations, with gradients.

    Gamma numbers are divided by their sum as logarithms and in float64, since small concentrations
    have numbers that are smaller than any float. Parts that would be rounded to 0 or 1 are moved
    inside, as far as they must.
    """
    logs = ops._standard_gamma(concentration.double(), log=True)
    limits = finfo(concentration.dtype)
    parts = ops.softmax(logs, -1).to(concentration.dtype)
    return parts.clamp(float(limits.tiny), 1 - float(limits.eps) / 2)


class Dirichlet(ExponentialFamily):
    """The Dirichlet distribution, of positive numbers with the sum 1.

    Parameters
    ----------
    concentration : Tensor
        `(*batch_shape, n)`, positive.
    validate_args : bool, optional
        Whether parameters and values are checked; None: as `set_default_validate_args` says.

    Raises
    ------
    ValueError
        `concentration` has no dimension, or is not positive.

    Notes
    -----
    `rsample` passes gradients to the concentration, through gamma numbers; they have no derivative.
    All of its parts are above 0 and below 1. Where all concentrations are below 1, the density has
    no maximum, and `mode` is the first corner; where all of them are 1, it is NaN.

    Examples
    --------
    >>> p = st.distributions.Dirichlet(st.tensor([1.0, 2.0, 5.0]))
    >>> p.mean
    tensor([0.1250, 0.2500, 0.6250])
    >>> p.mode
    tensor([0.0000, 0.2000, 0.8000])
    >>> p.sample((4,)).shape
    Size([4, 3])
    """

    arg_constraints = {  # noqa: RUF012
        "concentration": constraints.independent(constraints.positive, 1)
    }
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.ndim < 1:
            raise ValueError(
                "`concentration` parameter must be at least one-dimensional: "
                f"{tuple(concentration.shape)}"
            )
        self.concentration = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, keepdim=True)

    @property
    def mode(self) -> Tensor:
        c = self.concentration
        above_one = (c - 1).clamp(min=0)
        mode = above_one / above_one.sum(-1, keepdim=True)
        corner = (ops.arange(c.shape[-1], device=c.device) == 0).to(c.dtype)
        return ops.where((c < 1).all(-1, keepdim=True), corner, mode)

    @property
    def variance(self) -> Tensor:
        total, mean = self.concentration.sum(-1, keepdim=True), self.mean
        return mean * (1 - mean) / (total + 1)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expand(Dirichlet, batch_shape, ("concentration",), _instance)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return sample_simplex(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        c = self.concentration
        return ops.xlogy(c - 1, value).sum(-1) - self._log_normalizer(c)

    def entropy(self) -> Tensor:
        c = self.concentration
        total = c.sum(-1)
        of_total = (total - c.shape[-1]) * total.digamma()
        return self._log_normalizer(c) + of_total - ((c - 1) * c.digamma()).sum(-1)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.concentration,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return x.lgamma().sum(-1) - x.sum(-1).lgamma()
