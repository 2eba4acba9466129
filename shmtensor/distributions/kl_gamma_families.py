"""`kl_divergence` of gamma, beta and related distributions, and of counts.

Where p and q are of two families, it is minus the entropy of p minus the mean of log q(x).
"""

from __future__ import annotations

import math
from typing import Any

from ..autograd import table as ops
from ..tensor import Tensor
from .bernoulli import Bernoulli
from .beta import Beta
from .binomial import Binomial
from .dirichlet import Dirichlet
from .exponential import Exponential
from .gamma import Gamma
from .kl import kl_bernoulli, kl_infinite, kl_to_normal, register_all, register_kl
from .normal import Normal
from .poisson import Poisson
from .utils import EULER

__all__: list[str] = []


@register_kl(Gamma, Gamma)
def kl_gamma(p: Gamma, q: Gamma) -> Tensor:
    of_rates = q.concentration * (p.rate / q.rate).log() + (q.rate / p.rate - 1) * p.concentration
    of_norms = q.concentration.lgamma() - p.concentration.lgamma()
    return of_rates + of_norms + (p.concentration - q.concentration) * p.concentration.digamma()


@register_kl(Exponential, Exponential)
def kl_exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - 1 - ratio.log()


@register_kl(Beta, Beta)
def kl_beta(p: Beta, q: Beta) -> Tensor:
    a, b = p.concentration1, p.concentration0
    one, zero = a - q.concentration1, b - q.concentration0
    norms = q._log_normalizer(*q._natural_params) - p._log_normalizer(a, b)
    return norms + one * a.digamma() + zero * b.digamma() - (one + zero) * (a + b).digamma()


@register_kl(Dirichlet, Dirichlet)
def kl_dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    c = p.concentration
    norms = q._log_normalizer(q.concentration) - p._log_normalizer(c)
    logs = c.digamma() - c.sum(-1, keepdim=True).digamma()
    return norms + ((c - q.concentration) * logs).sum(-1)


@register_kl(Poisson, Poisson)
def kl_poisson(p: Poisson, q: Poisson) -> Tensor:
    return ops.xlogy(p.rate, p.rate) - ops.xlogy(p.rate, q.rate) - p.rate + q.rate


@register_kl(Binomial, Binomial)
def kl_binomial(p: Binomial, q: Binomial) -> Tensor:
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented: "
            f"{q.total_count}, {p.total_count}"
        )
    one: Any = (Bernoulli(logits=v.logits, validate_args=False) for v in (p, q))
    return ops.where(p.total_count > q.total_count, math.inf, p.total_count * kl_bernoulli(*one))


@register_kl(Bernoulli, Poisson)
def kl_bernoulli_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return -p.entropy() - (ops.xlogy(p.probs, q.rate) - q.rate)


register_all(kl_to_normal, (Beta, Normal), (Exponential, Normal), (Gamma, Normal))


def mean_log(p: Any) -> Tensor:
    """The mean of log x."""
    if isinstance(p, Beta):
        return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    return (p.concentration.digamma() if isinstance(p, Gamma) else -EULER) - p.rate.log()


def kl_to_gamma(p: Any, mean_log: Tensor, q: Gamma) -> Tensor:
    """The divergence from a gamma distribution, by the mean of log x."""
    c = q.concentration
    norm = c.lgamma() - ops.xlogy(c, q.rate)
    return norm - (c - 1) * mean_log + q.rate * p.mean - p.entropy()


@register_kl(Beta, Gamma)
@register_kl(Exponential, Gamma)
def kl_of_gamma_families(p: Any, q: Gamma) -> Tensor:
    return kl_to_gamma(p, mean_log(p), q)


@register_kl(Beta, Exponential)
@register_kl(Gamma, Exponential)
def kl_to_exponential(p: Any, q: Exponential) -> Tensor:
    return q.rate * p.mean - q.rate.log() - p.entropy()


register_all(
    kl_infinite,
    (Exponential, Beta),
    (Gamma, Beta),
    (Normal, Beta),
    (Normal, Exponential),
    (Normal, Gamma),
    (Poisson, Bernoulli),
    (Poisson, Binomial),
)
