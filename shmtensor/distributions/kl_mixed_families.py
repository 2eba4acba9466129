"""`kl_divergence` of a distribution of `kl_location_families` and one of the gamma families."""

from __future__ import annotations

import math
from typing import Any

from ..autograd import table as ops
from ..tensor import Tensor
from .beta import Beta
from .continuous_bernoulli import ContinuousBernoulli
from .exponential import Exponential
from .gamma import Gamma
from .gumbel import Gumbel
from .kl import kl_infinite, register_all, register_kl
from .kl_gamma_families import kl_to_exponential, kl_to_gamma
from .kl_location_families import mean_log_continuous_bernoulli, mean_log_uniform
from .laplace import Laplace
from .pareto import Pareto
from .uniform import Uniform

register_all(kl_to_exponential, (ContinuousBernoulli, Exponential), (Pareto, Exponential))


@register_kl(Uniform, Exponential)
def kl_uniform_exponential(p: Uniform, q: Exponential) -> Tensor:
    return ops.where(p.low < 0, math.inf, kl_to_exponential(p, q))


@register_kl(Pareto, Gamma)
def kl_pareto_gamma(p: Pareto, q: Gamma) -> Tensor:
    return kl_to_gamma(p, p.scale.log() + p.alpha.reciprocal(), q)


@register_kl(Uniform, Gamma)
def kl_uniform_gamma(p: Uniform, q: Gamma) -> Tensor:
    is_outside = p.low < 0
    low, high = (ops.where(is_outside, x, end) for x, end in ((1.0, p.low), (2.0, p.high)))
    return ops.where(is_outside, math.inf, kl_to_gamma(p, mean_log_uniform(low, high), q))


@register_kl(Uniform, Beta)
def kl_uniform_beta(p: Uniform, q: Beta) -> Tensor:
    is_outside = (p.low < 0) | (p.high > 1)
    low, high = (ops.where(is_outside, x, end) for x, end in ((0.25, p.low), (0.75, p.high)))
    a, b = q.concentration1, q.concentration0
    log_beta = a.lgamma() + b.lgamma() - (a + b).lgamma()
    of_x = (a - 1) * mean_log_uniform(low, high)
    of_rest = (b - 1) * mean_log_uniform(1 - high, 1 - low)
    return ops.where(is_outside, math.inf, -p.entropy() + log_beta - of_x - of_rest)


@register_kl(Beta, ContinuousBernoulli)
def kl_beta_continuous_bernoulli(p: Beta, q: ContinuousBernoulli) -> Tensor:
    return -p.entropy() - mean_log_continuous_bernoulli(p.mean, q)


@register_kl(Beta, Uniform)
def kl_beta_uniform(p: Beta, q: Uniform) -> Tensor:
    is_outside = (q.low > 0) | (q.high < 1)
    return ops.where(is_outside, math.inf, q.entropy() - p.entropy())


def _to_gumbel(p: Any, mean_exp: Tensor, q: Gumbel) -> Tensor:
    """The divergence by the expectation of exp(-x / q.scale)."""
    mean_z = (q.loc - p.mean) / q.scale
    return -p.entropy() + q.scale.log() - mean_z + (q.loc / q.scale).exp() * mean_exp


@register_kl(Exponential, Gumbel)
def kl_exponential_gumbel(p: Exponential, q: Gumbel) -> Tensor:
    return _to_gumbel(p, p.rate / (p.rate + q.scale.reciprocal()), q)


@register_kl(Gamma, Gumbel)
def kl_gamma_gumbel(p: Gamma, q: Gumbel) -> Tensor:
    ratio = (p.rate * q.scale).reciprocal()
    return _to_gumbel(p, (-p.concentration * ratio.log1p()).exp(), q)


# What q excludes.
register_all(
    kl_infinite,
    (Beta, Pareto),
    (Exponential, ContinuousBernoulli),
    (Exponential, Pareto),
    (Exponential, Uniform),
    (Gamma, ContinuousBernoulli),
    (Gamma, Pareto),
    (Gamma, Uniform),
    (Gumbel, Beta),
    (Gumbel, Exponential),
    (Gumbel, Gamma),
    (Laplace, Beta),
    (Laplace, Exponential),
    (Laplace, Gamma),
    (Pareto, Beta),
)
