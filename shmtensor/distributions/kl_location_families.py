"""`kl_divergence` of distributions made of others, and of Cauchy, Gumbel, Laplace, Pareto, uniform
and continuous Bernoulli distributions: of each from itself, from a normal one and from each other.
"""

from __future__ import annotations

import math

from ..autograd import table as ops
from ..tensor import Tensor
from .cauchy import Cauchy
from .continuous_bernoulli import ContinuousBernoulli
from .exp_family import ExponentialFamily
from .geometric import Geometric
from .gumbel import Gumbel
from .half_normal import HalfNormal
from .independent import Independent
from .kl import kl_divergence, kl_infinite, kl_to_normal, register_all, register_kl
from .laplace import Laplace
from .normal import Normal
from .one_hot_categorical import OneHotCategorical
from .pareto import Pareto
from .transformed_distribution import TransformedDistribution
from .uniform import Uniform
from .utils import EULER, sum_rightmost

# Distributions made of others.


@register_kl(Independent, Independent)
def kl_independent(p: Independent, q: Independent) -> Tensor:
    n = p.reinterpreted_batch_ndims
    if n != q.reinterpreted_batch_ndims:
        raise NotImplementedError(
            "kl_divergence: Independent distributions with different reinterpreted_batch_ndims: "
            f"{n} and {q.reinterpreted_batch_ndims}"
        )
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), n)


@register_kl(TransformedDistribution, TransformedDistribution)
def kl_transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    """That of the base distributions: an injective function changes nothing."""
    if p.transforms != q.transforms:
        raise NotImplementedError(
            "kl_divergence: the distributions have different transforms: "
            f"{p.transforms} and {q.transforms}"
        )
    if p.event_shape != q.event_shape:
        raise NotImplementedError(
            f"kl_divergence: the distributions have different event_shapes: {p.event_shape} and "
            f"{q.event_shape}"
        )
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(ExponentialFamily, ExponentialFamily)
def kl_exponential_family(p: ExponentialFamily, q: ExponentialFamily) -> Tensor:
    """The Bregman divergence of the log normalizer, of two of one class."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "No KL(p || q) is implemented for exponential families of different classes: p type "
            f"{type(p).__name__} and q type {type(q).__name__}"
        )
    p_parameters, p_normalizer, means = p._mean_statistics()
    q_parameters = q._natural_params
    result = q._log_normalizer(*q_parameters) - p_normalizer
    n_batch = max(len(p.batch_shape), len(q.batch_shape))
    for of_p, of_q, mean in zip(p_parameters, q_parameters, means):
        product = (of_q - of_p) * mean
        result = result - sum_rightmost(product, product.ndim - n_batch)
    return result


@register_kl(HalfNormal, HalfNormal)
def kl_half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(OneHotCategorical, OneHotCategorical)
def kl_one_hot_categorical(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return kl_divergence(p._categorical, q._categorical)


# Two of one class.


@register_kl(Cauchy, Cauchy)
def kl_cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    """Chyzak and Nielsen, 2019, "A closed-form formula for the Kullback-Leibler divergence between
    Cauchy distributions".
    """
    squares = (p.scale + q.scale).square() + (p.loc - q.loc).square()
    return squares.log() - (4 * p.scale * q.scale).log()


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def kl_continuous_bernoulli(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Tensor:
    return -p.entropy() - mean_log_continuous_bernoulli(p.mean, q)


def mean_log_continuous_bernoulli(mean: Tensor, q: ContinuousBernoulli) -> Tensor:
    """The expectation of log q(x) by the mean of x."""
    return mean * q.logits + (-q.probs).log1p() + q._log_constant()


@register_kl(Geometric, Geometric)
def kl_geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - p.mean * (-q.probs).log1p() - q.probs.log()


@register_kl(Gumbel, Gumbel)
def kl_gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    ratio, shift = p.scale / q.scale, (p.loc - q.loc) / q.scale
    # z = (q.loc - x) / q.scale has this mean, its exponential this one.
    mean_z = -shift - EULER * ratio
    mean_exp = ((1 + ratio).lgamma() - shift).exp()
    return -p.entropy() + q.scale.log() - mean_z + mean_exp


@register_kl(Laplace, Laplace)
def kl_laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return distance / q.scale + ratio * (-distance / p.scale).exp() - 1 - ratio.log()


@register_kl(Pareto, Pareto)
def kl_pareto(p: Pareto, q: Pareto) -> Tensor:
    ratio = q.alpha / p.alpha
    result = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return ops.where(p.scale < q.scale, math.inf, result)


@register_kl(Uniform, Uniform)
def kl_uniform(p: Uniform, q: Uniform) -> Tensor:
    is_outside = (p.low < q.low) | (p.high > q.high)
    return ops.where(is_outside, math.inf, q.entropy() - p.entropy())


# To a normal distribution, of anything with mean and variance.


register_all(
    kl_to_normal,
    (ContinuousBernoulli, Normal),
    (Gumbel, Normal),
    (Laplace, Normal),
    (Pareto, Normal),
    (Uniform, Normal),
)


# Two of other classes.


@register_kl(Normal, Gumbel)
def kl_normal_gumbel(p: Normal, q: Gumbel) -> Tensor:
    mean_z = (q.loc - p.loc) / q.scale
    mean_exp = (mean_z + 0.5 * (p.scale / q.scale).square()).exp()
    return -p.entropy() + q.scale.log() - mean_z + mean_exp


@register_kl(Normal, Laplace)
def kl_normal_laplace(p: Normal, q: Laplace) -> Tensor:
    shift = p.loc - q.loc
    z = shift / p.scale
    bell = p.scale * math.sqrt(2 / math.pi) * (-0.5 * z.square()).exp()
    mean_distance = bell + shift * (z * math.sqrt(0.5)).erf()
    return -p.entropy() + q.entropy() - 1 + mean_distance / q.scale


@register_kl(ContinuousBernoulli, Uniform)
def kl_continuous_bernoulli_uniform(p: ContinuousBernoulli, q: Uniform) -> Tensor:
    is_outside = (q.low > 0) | (q.high < 1)
    return ops.where(is_outside, math.inf, q.entropy() - p.entropy())


@register_kl(Uniform, ContinuousBernoulli)
def kl_uniform_continuous_bernoulli(p: Uniform, q: ContinuousBernoulli) -> Tensor:
    result = -p.entropy() - mean_log_continuous_bernoulli(p.mean, q)
    return ops.where((p.low < 0) | (p.high > 1), math.inf, result)


@register_kl(Uniform, Gumbel)
def kl_uniform_gumbel(p: Uniform, q: Gumbel) -> Tensor:
    of_low, of_high = (((q.loc - end) / q.scale).exp() for end in (p.low, p.high))
    mean_exp = (of_low - of_high) * q.scale / (p.high - p.low)
    return -p.entropy() + q.scale.log() + (p.mean - q.loc) / q.scale + mean_exp


def mean_log_uniform(low: Tensor, high: Tensor) -> Tensor:
    """The expectation of log x of a uniform distribution of numbers from 0 on."""
    return (ops.xlogy(high, high) - ops.xlogy(low, low)) / (high - low) - 1


@register_kl(Uniform, Pareto)
def kl_uniform_pareto(p: Uniform, q: Pareto) -> Tensor:
    is_outside = p.low < q.scale
    low, high = (ops.where(is_outside, x, end) for x, end in ((1.0, p.low), (2.0, p.high)))
    mean_log = mean_log_uniform(low, high)
    result = -p.entropy() - q.alpha.log() - q.alpha * q.scale.log() + (q.alpha + 1) * mean_log
    return ops.where(is_outside, math.inf, result)


# What q excludes.


register_all(
    kl_infinite,
    (ContinuousBernoulli, Pareto),
    (Gumbel, ContinuousBernoulli),
    (Gumbel, Pareto),
    (Gumbel, Uniform),
    (Laplace, ContinuousBernoulli),
    (Laplace, Pareto),
    (Laplace, Uniform),
    (Normal, ContinuousBernoulli),
    (Normal, Pareto),
    (Normal, Uniform),
    (Pareto, ContinuousBernoulli),
    (Pareto, Uniform),
)
