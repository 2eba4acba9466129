"""`kl_divergence` of the normal distributions of vectors: with full and with low-rank matrices."""

from __future__ import annotations

from ..autograd import table as ops
from ..tensor import Tensor
from .kl import register_kl
from .lowrank_multivariate_normal import LowRankMultivariateNormal
from .multivariate_normal import MultivariateNormal

__all__: list[str] = []

Normals = MultivariateNormal | LowRankMultivariateNormal


@register_kl(MultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def kl_normals(p: Normals, q: Normals) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between normal distributions with different event shapes cannot be "
            f"computed: {tuple(p.event_shape)} and {tuple(q.event_shape)}"
        )
    log_ratio = q._half_log_det - p._half_log_det
    squares = trace_of_ratio(p, q) + q._mahalanobis(q.loc - p.loc)
    return log_ratio + 0.5 * (squares - p.event_shape[0])


def trace_of_ratio(p: Normals, q: Normals) -> Tensor:
    """The trace of q.precision_matrix @ p.covariance_matrix, which is F @ F.mT of a factor F."""
    if isinstance(q, MultivariateNormal):
        solved = ops.linalg_solve_triangular(q._unbroadcasted_scale_tril, factor_of(p), upper=False)
        return sum_of_squares(solved)
    a = q._whitened_factor  # q's precision matrix is diag(1 / cov_diag) - a.mT @ a
    of_diag = (p.variance / q._unbroadcasted_cov_diag).sum(-1)
    if isinstance(p, MultivariateNormal):
        return of_diag - sum_of_squares(a @ p._unbroadcasted_scale_tril)
    low_rank = sum_of_squares(a @ p._unbroadcasted_cov_factor)
    root = p._unbroadcasted_cov_diag.sqrt().unsqueeze(-2)
    return of_diag - low_rank - sum_of_squares(a * root)


def factor_of(p: Normals) -> Tensor:
    """F, for which F @ F.mT is the covariance matrix: (..., n, n), or (..., n, m + n)."""
    if isinstance(p, MultivariateNormal):
        return p._unbroadcasted_scale_tril
    return ops.cat([p.cov_factor, p.cov_diag.sqrt().diag_embed()], -1)


def sum_of_squares(matrices: Tensor) -> Tensor:
    return matrices.square().sum((-2, -1))
