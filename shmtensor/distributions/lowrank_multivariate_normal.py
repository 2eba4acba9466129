"""The normal distribution of vectors whose covariance matrix is diagonal plus one of low rank."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..autograd import table as ops
from ..tensor import Tensor
from . import constraints
from .distribution import Distribution
from .multivariate_normal import half_log_det, mahalanobis
from .utils import lazy_property

__all__ = ["LowRankMultivariateNormal"]


class LowRankMultivariateNormal(Distribution):
    """The normal distribution of vectors whose covariance matrix is diagonal plus one of low rank.

    Parameters
    ----------
    loc : Tensor
        `(..., n)`, the mean.
    cov_factor : Tensor
        `(..., n, m)`, the factor of the part of rank m.
    cov_diag : Tensor
        `(..., n)`, the diagonal part, positive.
    validate_args : bool, optional
        Whether parameters and values are checked; None: as `set_default_validate_args` says.

    Raises
    ------
    ValueError
        The sizes do not fit, or `cov_diag` is not positive.

    See Also
    --------
    distributions.MultivariateNormal

    Notes
    -----
    The covariance matrix is cov_factor @ cov_factor.mT + diag(cov_diag). Samples, densities and
    entropies need only an (m, m) matrix, `I + cov_factor.mT @ diag(1 / cov_diag) @ cov_factor`
    (Woodbury's formula). `rsample` passes gradients to all parameters.

    Examples
    --------
    >>> factor = st.tensor([[1.0], [0.0]])
    >>> p = st.distributions.LowRankMultivariateNormal(st.zeros(2), factor, st.ones(2))
    >>> p.covariance_matrix
    tensor([[2., 0.],
            [0., 1.]])
    >>> p.log_prob(st.tensor([1.0, -1.0]))
    tensor(-2.9345)
    """

    loc: Tensor
    cov_factor: Tensor
    cov_diag: Tensor
    arg_constraints = {  # noqa: RUF012
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None
    ) -> None:
        if loc.ndim < 1:
            raise ValueError("loc must be at least one-dimensional.")
        n = loc.shape[-1]
        if cov_factor.ndim < 2:
            raise ValueError(
                "cov_factor must be at least two-dimensional, with optional leading batch "
                f"dimensions: shape {tuple(cov_factor.shape)}"
            )
        if cov_factor.shape[-2] != n:
            raise ValueError(
                f"cov_factor must be a batch of matrices with shape {n} x m: shape "
                f"{tuple(cov_factor.shape)}"
            )
        if tuple(cov_diag.shape[-1:]) != (n,):
            raise ValueError(
                f"cov_diag must be a batch of vectors with shape ({n},): shape "
                f"{tuple(cov_diag.shape)}"
            )
        shapes = (loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        try:
            batch_shape = ops.broadcast_shapes(*shapes)
        except RuntimeError:
            raise ValueError(
                f"Incompatible batch shapes: loc {tuple(loc.shape)}, cov_factor "
                f"{tuple(cov_factor.shape)}, cov_diag {tuple(cov_diag.shape)}"
            ) from None
        self.loc = loc.expand((*batch_shape, -1))
        self.cov_factor = cov_factor.expand((*batch_shape, -1, -1))
        self.cov_diag = cov_diag.expand((*batch_shape, -1))
        super().__init__(batch_shape, (n,), validate_args=validate_args)
        self._unbroadcasted_cov_factor = cov_factor
        self._unbroadcasted_cov_diag = cov_diag
        # inverse(capacitance) @ W.mT @ D^-1 is what the part of rank m takes from a vector.
        weighted = self._weighted_factor
        eye = ops.eye(cov_factor.shape[-1], dtype=loc.dtype, device=loc.device)
        self._capacitance_tril = ops.linalg_cholesky(eye + weighted @ cov_factor)

    @property
    def _weighted_factor(self) -> Tensor:
        """cov_factor.mT @ diag(1 / cov_diag): (..., m, n)."""
        return self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)

    @property
    def _whitened_factor(self) -> Tensor:
        """A, for which precision_matrix is diag(1 / cov_diag) - A.mT @ A: (..., m, n)."""
        return ops.linalg_solve_triangular(
            self._capacitance_tril, self._weighted_factor, upper=False
        )

    def _matrices(self, matrix: Tensor) -> Tensor:
        """A matrix expanded to the batch."""
        return matrix.expand((*self._batch_shape, *self._event_shape, *self._event_shape))

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance matrix."""
        # Of D^-1/2 @ covariance @ D^-1/2 = I + V @ V.mT, whose condition is better.
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        v = self._unbroadcasted_cov_factor / root
        eye = ops.eye(self._event_shape[0], dtype=self.loc.dtype, device=self.loc.device)
        return self._matrices(root * ops.linalg_cholesky(eye + v @ v.mT))

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance matrix."""
        factor = self._unbroadcasted_cov_factor
        return self._matrices(factor @ factor.mT + self._unbroadcasted_cov_diag.diag_embed())

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance matrix."""
        a = self._whitened_factor
        return self._matrices(self._unbroadcasted_cov_diag.reciprocal().diag_embed() - a.mT @ a)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:
        """The variance."""
        low_rank = self._unbroadcasted_cov_factor.square().sum(-1)
        return (low_rank + self._unbroadcasted_cov_diag).expand((*self._batch_shape, -1))

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        names = ("loc", "cov_factor", "cov_diag", "variance")
        matrices = ("covariance_matrix", "scale_tril", "precision_matrix")
        cls = LowRankMultivariateNormal
        new = self._expand(cls, batch_shape, (*names, *matrices), _instance)
        for name in ("_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril"):
            setattr(new, name, getattr(self, name))
        return new

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape, factor = self._extended_shape(sample_shape), self._unbroadcasted_cov_factor
        options: Any = {"dtype": self.loc.dtype, "device": self.loc.device}
        of_factor = ops.randn((*shape[:-1], factor.shape[-1], 1), **options)
        of_diag = ops.randn(shape, **options)
        low_rank = (factor @ of_factor).squeeze(-1)
        return self.loc + low_rank + self._unbroadcasted_cov_diag.sqrt() * of_diag

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        constant = 0.5 * math.log(2 * math.pi) * self._event_shape[0]
        return -0.5 * self._mahalanobis(value - self.loc) - self._half_log_det - constant

    def entropy(self) -> Tensor:
        constant = 0.5 * (1 + math.log(2 * math.pi)) * self._event_shape[0]
        return (self._half_log_det + constant).expand(self._batch_shape)

    def _mahalanobis(self, difference: Tensor) -> Tensor:
        """x @ precision_matrix @ x of vectors (..., n)."""
        of_diag = (difference.square() / self._unbroadcasted_cov_diag).sum(-1)
        projected = (self._weighted_factor @ difference.unsqueeze(-1)).squeeze(-1)
        return of_diag - mahalanobis(self._capacitance_tril, projected)

    @property
    def _half_log_det(self) -> Tensor:
        """Half the logarithm of the determinant of the covariance matrix."""
        of_diag = 0.5 * self._unbroadcasted_cov_diag.log().sum(-1)
        return of_diag + half_log_det(self._capacitance_tril)
