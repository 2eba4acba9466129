"""Probability distributions, `torch.distributions` by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..absent_names import missing as _missing
from . import constraints as constraints
from . import kl as kl
from . import kl_gamma_families as _kl_gamma_families  # noqa: F401  # registers
from . import utils as utils
from .bernoulli import Bernoulli as Bernoulli
from .beta import Beta as Beta
from .binomial import Binomial as Binomial
from .categorical import Categorical as Categorical
from .chi2 import Chi2 as Chi2
from .dirichlet import Dirichlet as Dirichlet
from .distribution import Distribution as Distribution
from .exponential import Exponential as Exponential
from .fishersnedecor import FisherSnedecor as FisherSnedecor
from .gamma import Gamma as Gamma
from .kl import kl_divergence as kl_divergence
from .kl import register_kl as register_kl
from .negative_binomial import NegativeBinomial as NegativeBinomial
from .normal import Normal as Normal
from .poisson import Poisson as Poisson
from .studentT import StudentT as StudentT
from .von_mises import VonMises as VonMises

__all__ = [
    "Bernoulli",
    "Beta",
    "Binomial",
    "Categorical",
    "Chi2",
    "Dirichlet",
    "Distribution",
    "Exponential",
    "FisherSnedecor",
    "Gamma",
    "NegativeBinomial",
    "Normal",
    "Poisson",
    "StudentT",
    "VonMises",
    "kl_divergence",
    "register_kl",
]


if not TYPE_CHECKING:  # with it a checker would take any name for one of the module's

    def __getattr__(name: str) -> Any:
        raise _missing(__name__, name)
