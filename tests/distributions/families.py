"""A row per distribution: its parameters at random, and the same distribution of SciPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import shmtensor as st
from shmtensor import distributions

Draw = Callable[[np.random.Generator, int], np.ndarray]


def real(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.normal(0, 2, n)


def positive(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.uniform(0.3, 4, n)


def unit(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.uniform(0.05, 0.95, n)


def simplex(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.dirichlet(np.ones(4), n)


def counts(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.integers(2, 9, n).astype(float)


def positive_matrices(rng: np.random.Generator, n: int) -> np.ndarray:
    x = rng.normal(0, 1, (n, 3, 3))
    return x @ x.transpose(0, 2, 1) + np.eye(3)


def between(low: float, high: float) -> Draw:
    return lambda rng, n: rng.uniform(low, high, n)


def vectors(of: Draw) -> Draw:
    return lambda rng, n: of(rng, n * 3).reshape(n, 3)


@dataclass
class Family:
    """A distribution, the draws of its parameters, and SciPy's distribution of the parameters."""

    name: str
    parameters: dict[str, Draw]
    scipy: Callable[..., Any] | None = None
    # PyTorch's GeneralizedPareto takes no other dtype.
    torch_dtype: str = "float64"

    def draw(self, seed: int, n: int, dtype: str = "float64") -> dict[str, np.ndarray]:
        rng = np.random.default_rng(seed)
        return {name: draw(rng, n).astype(dtype) for name, draw in self.parameters.items()}

    def ours(self, seed: int, n: int, dtype: str = "float64", **options: Any) -> Any:
        parameters = {name: st.tensor(p) for name, p in self.draw(seed, n, dtype).items()}
        return getattr(distributions, self.name)(**parameters, **options)

    def of_scipy(self, seed: int, n: int) -> Any:
        assert self.scipy is not None
        return self.scipy(**self.draw(seed, n))


def stats(name: str, *arguments: Callable[..., Any]) -> Callable[..., Any]:
    """SciPy's distribution, each argument of which is a function of our parameters."""

    def make(**parameters: np.ndarray) -> Any:
        import scipy.stats

        return getattr(scipy.stats, name)(*(a(**parameters) for a in arguments))

    return make


def _loc(loc: Any, **_: Any) -> Any:
    return loc


def _scale(scale: Any, **_: Any) -> Any:
    return scale


def _zero(**_: Any) -> Any:
    return 0


LOC_SCALE = {"loc": real, "scale": positive}
FAMILIES = {
    family.name: family
    for family in (
        Family("Bernoulli", {"probs": unit}, stats("bernoulli", lambda probs: probs)),
        Family("Categorical", {"probs": simplex}),
        Family("Cauchy", LOC_SCALE, stats("cauchy", _loc, _scale)),
        Family("ContinuousBernoulli", {"probs": unit}),
        Family("Exponential", {"rate": positive}, stats("expon", _zero, lambda rate: 1 / rate)),
        Family(
            "GeneralizedPareto",
            {**LOC_SCALE, "concentration": between(-0.6, 0.4)},
            stats("genpareto", lambda concentration, **_: concentration, _loc, _scale),
            torch_dtype="float32",
        ),
        Family("Geometric", {"probs": unit}, stats("geom", lambda probs: probs, lambda probs: -1)),
        Family("Gumbel", LOC_SCALE, stats("gumbel_r", _loc, _scale)),
        Family("HalfCauchy", {"scale": positive}, stats("halfcauchy", _zero, _scale)),
        Family("HalfNormal", {"scale": positive}, stats("halfnorm", _zero, _scale)),
        Family("Kumaraswamy", {"concentration1": positive, "concentration0": positive}),
        Family("Laplace", LOC_SCALE, stats("laplace", _loc, _scale)),
        Family(
            "LogNormal",
            {"loc": real, "scale": between(0.3, 1.5)},
            stats("lognorm", _scale, _zero, lambda loc, **_: np.exp(loc)),
        ),
        Family("LogisticNormal", {"loc": vectors(real), "scale": vectors(positive)}),
        Family("Normal", LOC_SCALE, stats("norm", _loc, _scale)),
        Family("OneHotCategorical", {"probs": simplex}),
        Family("OneHotCategoricalStraightThrough", {"probs": simplex}),
        Family(
            "Pareto",
            {"scale": positive, "alpha": between(2.5, 6)},
            stats("pareto", lambda alpha, **_: alpha, _zero, _scale),
        ),
        Family("RelaxedBernoulli", {"temperature": positive, "probs": unit}),
        Family(
            "RelaxedOneHotCategorical",
            {"temperature": lambda rng, n: positive(rng, 1), "probs": simplex},
        ),
        Family(
            "Uniform",
            {"low": between(-4, 0), "high": between(0.5, 4)},
            stats("uniform", lambda low, high: low, lambda low, high: high - low),
        ),
        Family(
            "Weibull",
            {"scale": positive, "concentration": positive},
            stats("weibull_min", lambda scale, concentration: concentration, _zero, _scale),
        ),
    )
}
# Gamma, beta and related distributions, counts and angles.
GAMMA_FAMILIES = {
    family.name: family
    for family in (
        Family(
            "Beta",
            {"concentration1": positive, "concentration0": positive},
            stats(
                "beta",
                lambda concentration1, **_: concentration1,
                lambda concentration0, **_: concentration0,
            ),
        ),
        Family(
            "Binomial",
            {"total_count": lambda rng, n: np.full(n, 7.0), "probs": unit},
            stats("binom", lambda total_count, probs: total_count, lambda probs, **_: probs),
        ),
        Family("Chi2", {"df": positive}, stats("chi2", lambda df: df)),
        Family(
            "FisherSnedecor",
            {"df1": positive, "df2": between(4.5, 9)},
            stats("f", lambda df1, df2: df1, lambda df1, df2: df2),
        ),
        Family(
            "Gamma",
            {"concentration": positive, "rate": positive},
            stats(
                "gamma", lambda concentration, **_: concentration, _zero, lambda rate, **_: 1 / rate
            ),
        ),
        Family(
            "InverseGamma",
            {"concentration": between(2.5, 6), "rate": positive},
            stats(
                "invgamma", lambda concentration, **_: concentration, _zero, lambda rate, **_: rate
            ),
        ),
        Family(
            "NegativeBinomial",
            {"total_count": counts, "probs": unit},
            stats("nbinom", lambda total_count, **_: total_count, lambda probs, **_: 1 - probs),
        ),
        Family("Poisson", {"rate": positive}, stats("poisson", lambda rate: rate)),
        Family(
            "StudentT",
            {"df": between(2.5, 9), **LOC_SCALE},
            stats("t", lambda df, **_: df, _loc, _scale),
        ),
        Family(
            "VonMises",
            {"loc": real, "concentration": positive},
            stats("vonmises", lambda concentration, **_: concentration, _loc),
        ),
    )
}
# Values are vectors or matrices.
VECTOR_FAMILIES = {
    family.name: family
    for family in (
        Family("Dirichlet", {"concentration": vectors(positive)}),
        Family(
            "MultivariateNormal", {"loc": vectors(real), "covariance_matrix": positive_matrices}
        ),
        Family("Wishart", {"df": between(4, 9), "covariance_matrix": positive_matrices}),
    )
}
ALL = {**FAMILIES, **GAMMA_FAMILIES, **VECTOR_FAMILIES}
