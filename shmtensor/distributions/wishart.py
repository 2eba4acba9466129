"""The Wishart distribution of positive definite matrices."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from numbers import Number
from typing import Any

from ..autograd import table as ops
from ..tensor import Tensor
from ..tensor.from_data import tensor
from . import constraints
from .exp_family import ExponentialFamily
from .multivariate_normal import cholesky_of, half_log_det, matrix_of
from .utils import lazy_property

__all__ = ["Wishart"]


class Wishart(ExponentialFamily):
    """The distribution of the sum of x[:, None] * x over `df` normal vectors x with mean 0.

    Parameters
    ----------
    df : Tensor or float
        `(...)`, the degrees of freedom: more than n - 1, not necessarily an integer.
    covariance_matrix : Tensor, optional
        `(..., n, n)`, positive definite: the covariance matrix of the vectors.
    precision_matrix : Tensor, optional
        `(..., n, n)`, its inverse.
    scale_tril : Tensor, optional
        `(..., n, n)`, lower triangular with a positive diagonal: its Cholesky factor.
    validate_args : bool, optional
        Whether parameters and values are checked; None: as `set_default_validate_args` says.

    Raises
    ------
    ValueError
        Not exactly one of the three matrices is given, a matrix does not satisfy its constraint, or
        `df` is n - 1 or less.

    Warns
    -----
    UserWarning
        `df` is less than n, where most samples are nearly singular.

    See Also
    --------
    distributions.MultivariateNormal

    Notes
    -----
    Samples are drawn by Bartlett's decomposition. `rsample` passes gradients to `df` and to the
    matrix that was given.

    Examples
    --------
    >>> p = st.distributions.Wishart(st.tensor(3.0), st.eye(2))
    >>> p.mean
    tensor([[3., 0.],
            [0., 3.]])
    >>> p.log_prob(st.eye(2))
    tensor(-3.5310)
    """

    arg_constraints = {  # noqa: RUF012
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
        "df": constraints.greater_than(0),
    }
    support = constraints.positive_definite
    has_rsample = True

    def __init__(
        self,
        df: Any,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        name, matrix = matrix_of(covariance_matrix, precision_matrix, scale_tril)
        if isinstance(df, Number):
            df = tensor(df, dtype=matrix.dtype, device=matrix.device)
        df = df.to(matrix.dtype)
        batch_shape, n = ops.broadcast_shapes(df.shape, matrix.shape[:-2]), matrix.shape[-1]
        self.df = df.expand(batch_shape)
        setattr(self, name, matrix.expand((*batch_shape, -1, -1)))
        if bool((df <= n - 1).any()):
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {n - 1}.")
        super().__init__(batch_shape, matrix.shape[-2:], validate_args=validate_args)
        if bool((df < n).any()):
            warnings.warn(
                "Low df values detected. Singular samples are highly likely to occur for "
                f"ndim - 1 < df < ndim: df={df}, ndim={n}",
                stacklevel=2,
            )
        self._unbroadcasted_scale_tril = cholesky_of(name, matrix)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance matrix."""
        return self._unbroadcasted_scale_tril.expand((*self._batch_shape, -1, -1))

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance matrix."""
        factor = self._unbroadcasted_scale_tril
        return (factor @ factor.mT).expand((*self._batch_shape, -1, -1))

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance matrix."""
        inverse = ops.cholesky_inverse(self._unbroadcasted_scale_tril)
        return inverse.expand((*self._batch_shape, -1, -1))

    @property
    def mean(self) -> Tensor:
        return self.df[..., None, None] * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        """The most probable matrix; NaN if `df` is at most n + 1: then there is none."""
        factor = self.df - self._event_shape[0] - 1
        factor = ops.where(factor > 0, factor, math.nan)
        return factor[..., None, None] * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        v = self.covariance_matrix
        diagonal = v.diagonal(dim1=-2, dim2=-1)
        products = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self.df[..., None, None] * (v.square() + products)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        names = ("df", "covariance_matrix", "precision_matrix", "scale_tril")
        new = self._expand(Wishart, batch_shape, names, _instance)
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        return new

    def rsample(
        self, sample_shape: Sequence[int] = (), max_try_correction: int | None = None
    ) -> Tensor:
        """Random matrices through which gradients flow to the parameters.

        Args:
            sample_shape: Comes first in their shape.
            max_try_correction: How often matrices that rounding made singular are drawn again;
                None: 3.
        """
        sample = self._bartlett(sample_shape)
        for _ in range(3 if max_try_correction is None else max_try_correction):
            is_singular = ~self.support.check(sample.detach())
            if not bool(is_singular.any()):
                break
            sample = ops.where(is_singular[..., None, None], self._bartlett(sample_shape), sample)
        return sample

    def _bartlett(self, sample_shape: Sequence[int]) -> Tensor:
        """L @ A @ A.mT @ L.mT, where the elements of A below the diagonal are normal, and the
        squares of those on it have chi-squared distributions of df, df - 1, ... degrees (Bartlett
        1933).
        """
        shape, n = self._extended_shape(sample_shape), self._event_shape[0]
        options: Any = {"dtype": self.df.dtype, "device": self.df.device}
        degrees = self.df.unsqueeze(-1) - ops.arange(n, **options)
        chi2 = 2 * ops._standard_gamma((degrees / 2).expand(shape[:-1]))
        below = ops.randn(shape, **options).tril(-1)
        factor = self._unbroadcasted_scale_tril @ (below + chi2.sqrt().diag_embed())
        return factor @ factor.mT

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n, df = self._event_shape[0], self.df
        root = ops.linalg_cholesky(value)
        solved = ops.linalg_solve_triangular(self._unbroadcasted_scale_tril, root, upper=False)
        return (
            (df - n - 1) * half_log_det(root)
            - 0.5 * solved.square().sum((-2, -1))
            - self._log_constant
        )

    @property
    def _log_constant(self) -> Tensor:
        """The logarithm of the integral of what `log_prob` has beside it."""
        n, df = self._event_shape[0], self.df
        log_det = half_log_det(self._unbroadcasted_scale_tril)
        return df * (log_det + 0.5 * n * math.log(2)) + ops.special_multigammaln(df / 2, n)

    def entropy(self) -> Tensor:
        n, df = self._event_shape[0], self.df
        degrees = ops.arange(n, dtype=df.dtype, device=df.device)
        digammas = ((df.unsqueeze(-1) - degrees) / 2).digamma().sum(-1)
        log_det = half_log_det(self._unbroadcasted_scale_tril)
        mean_log_det = digammas + n * math.log(2) + 2 * log_det  # of the random matrix
        entropy = self._log_constant - 0.5 * (df - n - 1) * mean_log_det + 0.5 * n * df
        return entropy.expand(self._batch_shape)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return 0.5 * self.df, -0.5 * self.precision_matrix

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        return ops.special_multigammaln(x, self._event_shape[0]) - x * (-y).logdet()
