"""`kl_divergence`, by pairs of classes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..autograd import table as ops
from ..tensor import Tensor
from .bernoulli import Bernoulli
from .categorical import Categorical
from .distribution import Distribution
from .normal import Normal

__all__ = ["kl_divergence", "register_kl"]

Divergence = Callable[[Any, Any], Tensor]
registered: dict[tuple[type, type], Divergence] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Divergence], Divergence]:
    """A decorator: the function computes `kl_divergence` of two classes and their subclasses.

    Parameters
    ----------
    type_p, type_q : type
        Subclasses of Distribution.

    Returns
    -------
    callable
        A decorator that returns its function.

    Raises
    ------
    TypeError
        They are no distributions.

    Examples
    --------
    >>> from shmtensor.distributions import Normal, kl_divergence, register_kl
    >>> class Unit(Normal):
    ...     def __init__(self, loc):
    ...         super().__init__(loc, 1.0)
    >>> @register_kl(Unit, Unit)
    ... def of_units(p, q):
    ...     return (p.loc - q.loc) ** 2 / 2
    >>> kl_divergence(Unit(0.0), Unit(2.0))
    tensor(2.)
    """
    for cls in (type_p, type_q):
        if not (isinstance(cls, type) and issubclass(cls, Distribution)):
            raise TypeError(f"register_kl: Expected a Distribution subclass: {cls!r}")

    def register(function: Divergence) -> Divergence:
        registered[type_p, type_q] = function
        return function

    return register


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The Kullback-Leibler divergence of p from q, in nats.

    Parameters
    ----------
    p, q : Distribution
        Of classes that have one; the nearest pair of base classes counts.

    Returns
    -------
    Tensor
        `(*batch_shape)`.

    Raises
    ------
    NotImplementedError
        There is none for these classes, hint: `register_kl`.

    Notes
    -----
    The expectation of log p(x) - log q(x) where x is distributed as p.

    Examples
    --------
    >>> from shmtensor.distributions import Normal, kl_divergence
    >>> kl_divergence(Normal(0.0, 1.0), Normal(1.0, 1.0))
    tensor(0.5000)
    """
    for cls_p in type(p).__mro__:
        for cls_q in type(q).__mro__:
            if (function := registered.get((cls_p, cls_q))) is not None:
                return function(p, q)
    raise NotImplementedError(
        f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
    )


@register_kl(Normal, Normal)
def kl_normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).square()
    shift = ((p.loc - q.loc) / q.scale).square()
    return 0.5 * (ratio + shift - 1 - ratio.log())


def weighted(weight: Tensor, difference: Tensor, q_weight: Tensor) -> Tensor:
    """weight * difference of logarithms, where 0 * anything is 0, and q's weight of 0 is infinite
    otherwise; with finite gradients.
    """
    weight, difference, q_weight = ops.broadcast_tensors(weight, difference, q_weight)
    difference = ops.where(weight == 0, 0.0, difference)
    return ops.where((q_weight == 0) & (weight != 0), math.inf, weight * difference)


@register_kl(Bernoulli, Bernoulli)
def kl_bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    ones = ops.softplus(-q.logits) - ops.softplus(-p.logits)
    zeros = ops.softplus(q.logits) - ops.softplus(p.logits)
    return weighted(p.probs, ones, q.probs) + weighted(1 - p.probs, zeros, 1 - q.probs)


@register_kl(Categorical, Categorical)
def kl_categorical(p: Categorical, q: Categorical) -> Tensor:
    return weighted(p.probs, p.logits - q.logits, q.probs).sum(-1)


# What pairs of several files share. A divergence is minus the entropy of p minus the expectation of
# log q(x), where x is distributed as p.


def register_all(function: Divergence, *pairs: tuple[type, type]) -> None:
    """Registers one function for several pairs of classes."""
    for p, q in pairs:
        register_kl(p, q)(function)


def kl_to_normal(p: Any, q: Normal) -> Tensor:
    """That of a distribution with mean, variance and entropy from a normal one."""
    mean_square = (p.variance + (p.mean - q.loc).square()) / q.scale.square()
    return -p.entropy() + q.scale.log() + 0.5 * math.log(2 * math.pi) + 0.5 * mean_square


def kl_infinite(p: Any, q: Any) -> Tensor:
    """Infinite: some values of p are none of q."""
    mean = p.mean
    shape = ops.broadcast_shapes(p.batch_shape, q.batch_shape)
    return ops.full(shape, math.inf, dtype=mean.dtype, device=mean.device)
