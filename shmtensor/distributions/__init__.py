"""Probability distributions, `torch.distributions` by name: Bernoulli, Categorical, Normal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..absent_names import missing as _missing
from . import constraints as constraints
from . import kl as kl
from . import kl_normal_families as kl_normal_families
from . import utils as utils
from .bernoulli import Bernoulli as Bernoulli
from .categorical import Categorical as Categorical
from .distribution import Distribution as Distribution
from .kl import kl_divergence as kl_divergence
from .kl import register_kl as register_kl
from .lkj_cholesky import LKJCholesky as LKJCholesky
from .lowrank_multivariate_normal import LowRankMultivariateNormal as LowRankMultivariateNormal
from .multinomial import Multinomial as Multinomial
from .multivariate_normal import MultivariateNormal as MultivariateNormal
from .normal import Normal as Normal
from .wishart import Wishart as Wishart

__all__ = [
    "Bernoulli",
    "Categorical",
    "Distribution",
    "LKJCholesky",
    "LowRankMultivariateNormal",
    "Multinomial",
    "MultivariateNormal",
    "Normal",
    "Wishart",
    "kl_divergence",
    "register_kl",
]


if not TYPE_CHECKING:  # with it a checker would take any name for one of the module's

    def __getattr__(name: str) -> Any:
        raise _missing(__name__, name)
