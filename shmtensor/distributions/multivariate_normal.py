"""The normal distribution of vectors with a full covariance matrix."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..autograd import table as ops
from ..tensor import Tensor
from . import constraints
from .distribution import Distribution
from .utils import lazy_property

__all__ = ["MultivariateNormal"]


class MultivariateNormal(Distribution):
    """The normal distribution of vectors with a full covariance matrix.

    Parameters
    ----------
    loc : Tensor
        `(..., n)`, the mean.
    covariance_matrix : Tensor, optional
        `(..., n, n)`, positive definite.
    precision_matrix : Tensor, optional
        `(..., n, n)`, the inverse of the covariance matrix.
    scale_tril : Tensor, optional
        `(..., n, n)`, lower triangular with a positive diagonal: the Cholesky factor of the
        covariance matrix.
    validate_args : bool, optional
        Whether parameters and values are checked; None: as `set_default_validate_args` says.

    Raises
    ------
    ValueError
        Not exactly one of the three matrices is given, the sizes do not fit, or a matrix does not
        satisfy its constraint.

    See Also
    --------
    distributions.LowRankMultivariateNormal

    Notes
    -----
    Samples and densities are computed from `scale_tril`: it is the cheapest form to give. The other
    matrices are computed when they are first read. `rsample` passes gradients to `loc` and to the
    matrix that was given.

    Examples
    --------
    >>> covariance = st.tensor([[2.0, 1.0], [1.0, 2.0]])
    >>> p = st.distributions.MultivariateNormal(st.zeros(2), covariance)
    >>> p.log_prob(st.tensor([1.0, -1.0]))
    tensor(-3.3872)
    >>> p.precision_matrix
    tensor([[ 0.6667, -0.3333],
            [-0.3333,  0.6667]])
    """

    loc: Tensor
    arg_constraints = {  # noqa: RUF012
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.ndim < 1:
            raise ValueError("loc must be at least one-dimensional.")
        name, matrix = matrix_of(covariance_matrix, precision_matrix, scale_tril)
        if matrix.shape[-1] != loc.shape[-1]:
            raise ValueError(
                f"MultivariateNormal: loc and {name} differ in size: {tuple(loc.shape)} and "
                f"{tuple(matrix.shape)}"
            )
        batch_shape = ops.broadcast_shapes(loc.shape[:-1], matrix.shape[:-2])
        self.loc = loc.expand((*batch_shape, -1))
        setattr(self, name, matrix.expand((*batch_shape, -1, -1)))
        super().__init__(batch_shape, loc.shape[-1:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = cholesky_of(name, matrix)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance matrix."""
        shape = (*self._batch_shape, *self._event_shape, *self._event_shape)
        return self._unbroadcasted_scale_tril.expand(shape)

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
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        variance = self._unbroadcasted_scale_tril.square().sum(-1)
        return variance.expand((*self._batch_shape, -1))

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        names = ("loc", "covariance_matrix", "precision_matrix", "scale_tril")
        new = self._expand(MultivariateNormal, batch_shape, names, _instance)
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        return new

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape, factor = self._extended_shape(sample_shape), self._unbroadcasted_scale_tril
        eps = ops.randn(shape, dtype=self.loc.dtype, device=self.loc.device)
        if factor.ndim == 2:
            return self.loc + eps @ factor.mT
        return self.loc + (factor @ eps.unsqueeze(-1)).squeeze(-1)

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
        return mahalanobis(self._unbroadcasted_scale_tril, difference)

    @property
    def _half_log_det(self) -> Tensor:
        """Half the logarithm of the determinant of the covariance matrix."""
        return half_log_det(self._unbroadcasted_scale_tril)


def matrix_of(
    covariance_matrix: Tensor | None, precision_matrix: Tensor | None, scale_tril: Tensor | None
) -> tuple[str, Tensor]:
    """The name and the value of the one matrix that is given.

    Raises:
        ValueError: not exactly one is given, or it is no square matrix.
    """
    matrices = {
        "covariance_matrix": covariance_matrix,
        "precision_matrix": precision_matrix,
        "scale_tril": scale_tril,
    }
    present = [(name, matrix) for name, matrix in matrices.items() if matrix is not None]
    if len(present) != 1:
        raise ValueError(
            "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified: "
            f"{', '.join(name for name, _ in present) or 'none'}"
        )
    name, matrix = present[0]
    if matrix.ndim < 2:
        raise ValueError(
            f"{name} must be at least two-dimensional, with optional leading batch dimensions: "
            f"shape {tuple(matrix.shape)}"
        )
    if matrix.shape[-1] != matrix.shape[-2]:
        raise ValueError(f"{name} must be square: shape {tuple(matrix.shape)}")
    return name, matrix


def cholesky_of(name: str, matrix: Tensor) -> Tensor:
    """The Cholesky factor of a covariance matrix, from the matrix with this name."""
    if name == "scale_tril":
        return matrix
    if name == "covariance_matrix":
        return ops.linalg_cholesky(matrix)
    # With rows and columns in reverse order, the lower factor of the precision matrix is an upper
    # one, U: precision = U @ U.mT. The inverse of U.mT is the lower factor of the covariance.
    upper = ops.linalg_cholesky(matrix.flip((-2, -1))).flip((-2, -1))
    eye = ops.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    return ops.linalg_solve_triangular(upper.mT, eye, upper=False)


def half_log_det(factor: Tensor) -> Tensor:
    """Half the logarithm of the determinant of the matrix with this Cholesky factor."""
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def mahalanobis(factor: Tensor, x: Tensor) -> Tensor:
    """x @ inverse(factor @ factor.mT) @ x of vectors (..., n), whose batch is broadcast with that
    of the factors. All vectors of a factor are solved for at once.
    """
    batch = factor.shape[:-2]
    shape = ops.broadcast_shapes(x.shape[:-1], batch)
    inner = shape[len(shape) - len(batch) :]
    columns = x.expand((*shape, -1)).reshape(-1, *inner, x.shape[-1]).movedim(0, -1)
    solved = ops.linalg_solve_triangular(factor, columns, upper=False)
    return solved.square().sum(-2).movedim(-1, 0).reshape(shape)
