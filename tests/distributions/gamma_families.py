"""The distributions that tests/distributions/test_gamma_families.py and test_kl_gamma_families.py
compare with SciPy's: parameters of a batch of three, and SciPy's function of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import shmtensor as st
from shmtensor import distributions

stats = pytest.importorskip("scipy.stats")


class Case(NamedTuple):
    """Parameters by name, and SciPy's distribution of them."""

    parameters: dict[str, list[float]]
    scipy: Callable[..., Any]
    is_discrete: bool = False

    def arrays(self) -> dict[str, np.ndarray]:
        return {name: np.array(values) for name, values in self.parameters.items()}

    def reference(self) -> Any:
        return self.scipy(*self.arrays().values())


CASES = {
    "Gamma": Case(
        {"concentration": [0.3, 1.0, 40.0], "rate": [2.0, 0.5, 3.0]},
        lambda a, b: stats.gamma(a, scale=1 / b),
    ),
    "Exponential": Case({"rate": [0.3, 1.0, 20.0]}, lambda rate: stats.expon(scale=1 / rate)),
    "Chi2": Case({"df": [0.7, 2.0, 30.0]}, lambda df: stats.chi2(df)),
    "Beta": Case(
        {"concentration1": [0.4, 1.0, 20.0], "concentration0": [0.7, 3.0, 5.0]},
        lambda a, b: stats.beta(a, b),
    ),
    "StudentT": Case(
        {"df": [12.0, 15.0, 30.0], "loc": [0.0, -3.0, 1.0], "scale": [1.0, 0.2, 5.0]},
        lambda df, loc, scale: stats.t(df, loc, scale),
    ),
    "FisherSnedecor": Case(
        {"df1": [0.8, 4.0, 30.0], "df2": [20.0, 30.0, 25.0]}, lambda a, b: stats.f(a, b)
    ),
    "Poisson": Case({"rate": [0.3, 4.0, 70.0]}, lambda rate: stats.poisson(rate), True),
    "Binomial": Case(
        {"total_count": [9.0, 9.0, 9.0], "probs": [0.1, 0.5, 0.8]},
        lambda n, p: stats.binom(n, p),
        True,
    ),
    "NegativeBinomial": Case(
        {"total_count": [0.5, 3.0, 20.0], "probs": [0.6, 0.2, 0.7]},
        lambda n, p: stats.nbinom(n, 1 - p),
        True,
    ),
    "VonMises": Case(
        {"loc": [0.0, 2.0, -1.0], "concentration": [0.2, 3.0, 150.0]},
        lambda loc, k: stats.vonmises(k, loc),
    ),
}


def build(name: str, requires_grad: bool = False) -> Any:
    """The distribution of a case, in float64."""
    parameters = {
        k: st.tensor(v, dtype=st.float64, requires_grad=requires_grad)
        for k, v in CASES[name].parameters.items()
    }
    return getattr(distributions, name)(**parameters)
