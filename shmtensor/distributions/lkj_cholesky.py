"""The LKJ distribution of correlation matrices, by their Cholesky factors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..autograd import no_grad
from ..autograd import table as ops
from ..dtypes import finfo
from ..tensor import Tensor
from . import constraints
from .distribution import Distribution
from .utils import broadcast_all

__all__ = ["LKJCholesky"]


class LKJCholesky(Distribution):
    """The Cholesky factors of random correlation matrices (Lewandowski, Kurowicka and Joe 2009).

    Parameters
    ----------
    dim : int
        n, the number of rows: at least 2.
    concentration : Tensor or float, optional
        The density of a correlation matrix is proportional to its determinant to the power of
        `concentration` - 1: with 1 all are equally probable, with more those near the identity.
    validate_args : bool, optional
        Whether parameters and values are checked; None: as `set_default_validate_args` says.

    Raises
    ------
    ValueError
        `dim` is less than 2, or `concentration` is not positive.

    Notes
    -----
    Samples are drawn by the onion method. The squared norm of row i below the diagonal has the
    beta distribution of i / 2 and concentration + (n - 1 - i) / 2, so that samples follow
    `log_prob`. PyTorch 2.13 takes i - 1 / 2 for the first number, with which correlations beyond
    the second row are too large.

    Examples
    --------
    >>> p = st.distributions.LKJCholesky(3, 0.5)
    >>> p.log_prob(st.eye(3))
    tensor(-2.5310)
    """

    concentration: Tensor
    arg_constraints = {"concentration": constraints.positive}  # noqa: RUF012
    support = constraints.corr_cholesky

    def __init__(
        self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        if not isinstance(dim, int) or dim < 2:
            raise ValueError(
                f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}."
            )
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        super().__init__(self.concentration.shape, (dim, dim), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._expand(LKJCholesky, batch_shape, ("concentration",), _instance)
        new.dim = self.dim
        return new

    @property
    def _rows(self) -> Tensor:
        """The numbers of the rows below the first."""
        of = self.concentration
        return ops.arange(1, self.dim, dtype=of.dtype, device=of.device)

    @property
    def _beta(self) -> Tensor:
        """The second parameter of the beta distribution of each row below the first."""
        return self.concentration.unsqueeze(-1) + (self.dim - 1 - self._rows) / 2

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            # The ratio of gamma samples has the beta distribution.
            rows = (*shape[:-2], self.dim - 1)
            first = ops._standard_gamma((self._rows / 2).expand(rows))
            second = ops._standard_gamma(self._beta.expand(rows))
            square = first / (first + second)
            options: Any = {"dtype": square.dtype, "device": square.device}
            directions = ops.randn((*rows, self.dim), **options).tril()
            directions = directions / directions.norm(dim=-1, keepdim=True)
            below = ops.zeros(shape, **options)
            below[..., 1:, :] = square.sqrt().unsqueeze(-1) * directions
            rest = 1 - below.square().sum(-1)
            return below + rest.clamp(min=float(finfo(rest.dtype).tiny)).sqrt().diag_embed()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        # Row i below the diagonal is uniform in direction; its density is the diagonal element to
        # the power of 2 * beta - 2, whose integral over the ball in i dimensions is
        # pi^(i / 2) gamma(beta) / gamma(beta + i / 2).
        beta, half = self._beta, self._rows / 2
        log_diagonal = value.diagonal(dim1=-2, dim2=-1)[..., 1:].log()
        integral = half * math.log(math.pi) + beta.lgamma() - (beta + half).lgamma()
        return ((2 * beta - 2) * log_diagonal - integral).sum(-1)
