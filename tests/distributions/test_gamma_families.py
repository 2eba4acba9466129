"""Gamma, beta and related distributions, counts and angles: SciPy's values, PyTorch's semantics."""

from __future__ import annotations

import math
import types
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import distributions
from shmtensor.autograd import gradcheck
from shmtensor.distributions import (
    Beta,
    Binomial,
    Chi2,
    Dirichlet,
    Exponential,
    FisherSnedecor,
    Gamma,
    InverseGamma,
    NegativeBinomial,
    Poisson,
    StudentT,
    VonMises,
)

from .families import GAMMA_FAMILIES

stats = pytest.importorskip("scipy.stats")
NAN, INF = math.nan, math.inf


def distance(numbers: Any, cdf: Any) -> float:
    """Kolmogorov's and Smirnov's distance times the root of n: above 2.2 once in 10**4 samples."""
    values, counts = np.unique(np.asarray(numbers), return_counts=True)
    shares = np.cumsum(counts) / counts.sum()
    return float(np.abs(shares - cdf(values)).max() * math.sqrt(counts.sum()))


@pytest.mark.parametrize("name", GAMMA_FAMILIES)
def test_samples_have_their_distribution(name: str) -> None:
    st.manual_seed(31)
    family = GAMMA_FAMILIES[name]
    p, drawn = family.ours(7, 3), family.draw(7, 3)
    draw = p.sample((40_000,))
    assert bool(p.support.check(draw).all())
    for i in range(3):
        own = {key: values[i] for key, values in drawn.items()}
        wrong = {k: v if name == "Binomial" and v == 7 else v * 0.85 for k, v in own.items()}
        numbers = draw[:, i].numpy()
        if name == "VonMises":  # SciPy's function is about the mean direction
            numbers = (numbers - own["loc"] + math.pi) % (2 * math.pi) - math.pi
            own["loc"] = wrong["loc"] = 0.0
        assert distance(numbers, family.scipy(**own).cdf) < 2.2
        assert distance(numbers, family.scipy(**wrong).cdf) > 2.2  # a wrong sampler is noticed


def test_numbers_as_parameters_and_the_dtype_of_samples() -> None:
    for name, family in GAMMA_FAMILIES.items():
        p = family.ours(7, 3, "float32")
        assert p.sample((2,)).dtype == st.float32
        assert p.sample((0,)).shape == (0, 3)
        numbers = {key: float(values[0]) for key, values in family.draw(7, 1).items()}
        scalar = getattr(distributions, name)(**numbers)
        assert (scalar.batch_shape, scalar.sample().shape) == ((), ())
        assert scalar.mean.dtype == st.get_default_dtype()


@pytest.mark.parametrize("name", ["Gamma", "Chi2", "InverseGamma"])
def test_gradients_of_samples_are_those_of_quantiles(name: str) -> None:
    st.manual_seed(5)
    family = GAMMA_FAMILIES[name]
    arrays = family.draw(7, 3)
    parameters = {k: st.tensor(v, requires_grad=True) for k, v in arrays.items()}
    draw = getattr(distributions, name)(**parameters).rsample()
    slopes = st.autograd.grad(draw.sum(), list(parameters.values()))
    probability = family.scipy(**arrays).cdf(draw.detach().numpy())
    for (key, array), slope in zip(arrays.items(), slopes, strict=True):
        ends = [
            family.scipy(**arrays | {key: array * t}).ppf(probability) for t in (1 + 1e-5, 1 - 1e-5)
        ]
        np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2e-5 * array), rtol=1e-5)


@pytest.mark.parametrize(
    "name", [n for n in GAMMA_FAMILIES if getattr(distributions, n).has_rsample]
)
def test_gradients_of_samples_are_those_of_the_moments(name: str) -> None:
    """Of the mean and the mean square, to four standard errors of the mean of the gradients."""
    st.manual_seed(6)
    n = 20_000
    parameters = {
        k: st.tensor(v).expand(n, 3).clone().requires_grad_()
        for k, v in GAMMA_FAMILIES[name].draw(7, 3).items()
    }
    p = getattr(distributions, name)(**parameters)
    assert not p.sample().requires_grad
    draw = p.rsample()
    for moment, exact in ((draw, p.mean), (draw.square(), p.variance + p.mean.square())):
        leaves = list(parameters.values())
        ours = st.autograd.grad(moment.sum(), leaves, retain_graph=True)
        wanted = st.autograd.grad(exact.sum(), leaves, retain_graph=True, allow_unused=True)
        for g, w in zip(ours, wanted, strict=True):
            error = 4 * g.std(0) / math.sqrt(n) + 1e-12
            expected = st.zeros(3) if w is None else w[0]
            assert bool(((g.mean(0) - expected).abs() <= error).all()), name


ALPHA = np.array([[0.3, 1.0, 4.0], [2.0, 2.0, 30.0]])


def test_dirichlet() -> None:
    p = Dirichlet(st.tensor(ALPHA))
    assert (p.batch_shape, p.event_shape) == ((2,), (3,))
    assert repr(p) == "Dirichlet(concentration: Size([2, 3]))"
    x = np.array([0.2, 0.1, 0.7])
    for i, alpha in enumerate(ALPHA):
        reference = stats.dirichlet(alpha)
        np.testing.assert_allclose(p.log_prob(st.tensor(x))[i], reference.logpdf(x), rtol=1e-12)
        np.testing.assert_allclose(p.entropy()[i], reference.entropy(), rtol=1e-12)
        np.testing.assert_allclose(p.mean[i], reference.mean(), rtol=1e-12)
        np.testing.assert_allclose(p.variance[i], reference.var(), rtol=1e-12)
    st.manual_seed(9)
    draw = p.sample((40_000,))
    assert draw.shape == (40_000, 2, 3)
    assert bool(p.support.check(draw).all())
    for i, alpha in enumerate(ALPHA):
        for j in range(3):  # each part has a beta distribution
            rest = alpha.sum() - alpha[j]
            assert distance(draw[:, i, j], stats.beta(alpha[j], rest).cdf) < 2.2
            assert distance(draw[:, i, j], stats.beta(1.05 * alpha[j], rest).cdf) > 2.2
        correlation = np.corrcoef(draw[:, i].numpy().T)[0, 1]
        rest = alpha.sum() - alpha
        exact = -math.sqrt(alpha[0] * alpha[1] / (rest[0] * rest[1]))
        assert correlation == pytest.approx(exact, abs=0.02)
    assert p.expand((4, 2)).rsample((5,)).shape == (5, 4, 2, 3)
    c = st.tensor(ALPHA, requires_grad=True)
    assert gradcheck(lambda c: Dirichlet(c).log_prob(st.tensor(x)) + Dirichlet(c).entropy(), (c,))


def test_gradients_of_dirichlet_samples_are_those_of_the_moments() -> None:
    st.manual_seed(10)
    c = st.tensor([0.05, 0.6, 3.0], dtype=st.float64).expand(40_000, 3).clone().requires_grad_()
    p = Dirichlet(c)
    draw = p.rsample()
    for j in range(3):
        for moment, exact in (
            (draw[:, j], p.mean[:, j]),
            (draw[:, j].square(), p.variance[:, j] + p.mean[:, j].square()),
        ):
            (ours,) = st.autograd.grad(moment.sum(), c, retain_graph=True)
            (wanted,) = st.autograd.grad(exact.sum(), c, retain_graph=True)
            error = 4 * ours.std(0) / math.sqrt(len(ours))
            assert bool(((ours.mean(0) - wanted[0]).abs() <= error).all())


@pytest.mark.parametrize("dtype", [st.float32, st.float64])
@pytest.mark.parametrize("size", [1e-30, 1e-6, 1e-2, 1e8])
def test_extreme_concentrations_give_numbers_inside(dtype: st.dtype, size: float) -> None:
    st.manual_seed(1)
    c = st.full((500, 3), size, dtype=dtype, requires_grad=True)
    for p, x in (
        (Dirichlet(c), Dirichlet(c).rsample()),
        (Beta(c, c), Beta(c, c).rsample()),
        (Gamma(c, 2.0), Gamma(c, 2.0).rsample()),
    ):
        assert bool(((x > 0) & x.isfinite()).all())
        assert p.has_rsample
        assert bool(p.log_prob(x.detach()).isfinite().all())
        (g,) = st.autograd.grad(x.sum(), c)
        assert bool(g.isfinite().all())
        if isinstance(p, Dirichlet):
            assert bool((x < 1).all())
            assert float((x.sum(-1) - 1).abs().max()) < 1e-6
    if size < 1:  # one part has nearly all, and each has it equally often
        winners = st.bincount(Dirichlet(c).sample().argmax(-1), minlength=3)
        assert winners.min() > 120


def test_large_concentrations_keep_the_precision_of_float32() -> None:
    st.manual_seed(2)
    c = st.full((20_000,), 1e6)
    z = (Beta(c, c).sample().double() - 0.5) * math.sqrt(8e6)  # of variance 1
    assert distance(z, stats.norm.cdf) < 2.5  # rounding to 2**-24 is 2e-4 of a deviation
    assert float(VonMises(st.tensor(0.0), 1e10).sample((9,)).abs().max()) < 1e-4


EDGES: list[tuple[Any, str, list[float]]] = [
    (lambda: InverseGamma(st.tensor([0.5, 1.0, 2.0]), 1.0), "mean", [INF, INF, 1.0]),
    (lambda: InverseGamma(st.tensor([0.5, 1.0, 2.0]), 1.0), "variance", [INF] * 3),
    (lambda: Gamma(st.tensor([0.5, 1.0, 3.0]), 2.0), "mode", [0.0, 0.0, 1.0]),
    (
        lambda: Beta(st.tensor([0.5, 0.5, 2.0, 1.0, 1.0]), st.tensor([0.5, 2.0, 0.5, 1.0, 3.0])),
        "mode",
        [1.0, 0.0, 1.0, NAN, 0.0],
    ),
    (lambda: Dirichlet(st.tensor([0.2, 0.5, 0.6])), "mode", [1.0, 0.0, 0.0]),
    (lambda: Dirichlet(st.tensor([2.0, 3.0, 5.0])), "mode", [1 / 7, 2 / 7, 4 / 7]),
    (lambda: Dirichlet(st.ones(2)), "mode", [NAN, NAN]),
    (lambda: StudentT(st.tensor([0.5, 1.0, 1.5, 3.0]), 4.0), "mean", [NAN, NAN, 4.0, 4.0]),
    (lambda: StudentT(st.tensor([1.0, 1.5, 2.0, 3.0])), "variance", [NAN, INF, INF, 3.0]),
    (lambda: FisherSnedecor(3.0, st.tensor([1.0, 2.0, 4.0])), "mean", [NAN, NAN, 2.0]),
    (lambda: FisherSnedecor(2.0, st.tensor([4.0, 6.0])), "variance", [NAN, 6.75]),
    (lambda: FisherSnedecor(st.tensor([2.0, 4.0]), 2.0), "mode", [NAN, 0.25]),
    (lambda: Poisson(st.tensor([0.0, 0.5, 2.5])), "mode", [0.0, 0.0, 2.0]),
    (
        lambda: Binomial(st.tensor([0.0, 5.0, 5.0, 5.0]), st.tensor([0.5, 0.0, 1.0, 0.35])),
        "mode",
        [0.0, 0.0, 5.0, 2.0],
    ),
    (lambda: NegativeBinomial(st.tensor([0.5, 3.0]), 0.75), "mode", [0.0, 6.0]),
]


@pytest.mark.parametrize(("make", "name", "wanted"), EDGES)
def test_edges_of_moments(make: Any, name: str, wanted: list[float]) -> None:
    np.testing.assert_allclose(getattr(make(), name), wanted, rtol=1e-5)


def test_densities_at_the_ends_of_the_support() -> None:
    ends = st.tensor([0.0, 1.0])
    np.testing.assert_array_equal(Beta(1.0, 1.0).log_prob(ends), [0.0, 0.0])
    np.testing.assert_array_equal(Beta(2.0, 1.0).log_prob(ends)[0], -INF)
    np.testing.assert_array_equal(Gamma(1.0, 1.0).log_prob(st.tensor(0.0)), 0.0)
    np.testing.assert_array_equal(Poisson(0.0).log_prob(st.tensor([0.0, 1.0])), [0.0, -INF])
    np.testing.assert_array_equal(
        NegativeBinomial(0.0, 0.5).log_prob(st.tensor([0.0, 1.0])), [0.0, -INF]
    )
    n = st.tensor([0.0, 3.0], requires_grad=True)
    NegativeBinomial(n, 0.5).log_prob(st.tensor(0.0)).sum().backward()
    assert bool(n.grad.isfinite().all())


def test_probabilities_and_log_odds_are_one_parameter() -> None:
    for cls in (Binomial, NegativeBinomial):
        by_probs = cls(4, st.tensor([0.2, 0.6], dtype=st.float64))
        assert "logits" not in vars(by_probs)
        by_logits = cls(4, logits=by_probs.logits)
        np.testing.assert_allclose(by_logits.probs, [0.2, 0.6], rtol=1e-12)
        x = st.tensor([0.0, 3.0], dtype=st.float64)
        np.testing.assert_allclose(by_logits.log_prob(x), by_probs.log_prob(x), rtol=1e-12)
        assert by_logits.param_shape == (2,)
        assert "probs" not in repr(cls(4, logits=st.zeros(2)))
        assert cls(4, logits=st.zeros(2)).expand((3, 2)).sample().shape == (3, 2)


def test_support_of_binomials() -> None:
    p = Binomial(2, st.tensor([0.5, 0.1]))
    assert p.enumerate_support().tolist() == [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]
    assert p.enumerate_support(expand=False).tolist() == [[0.0], [1.0], [2.0]]
    np.testing.assert_allclose(p.log_prob(p.enumerate_support()).exp().sum(0), 1.0, rtol=1e-6)
    mixed = Binomial(st.tensor([2.0, 3.0]), 0.5)
    for name in ("entropy", "enumerate_support"):
        with pytest.raises(NotImplementedError, match=f"Inhomogeneous total count .*`{name}`"):
            getattr(mixed, name)()
    assert mixed.support.check(st.tensor([3.0, 3.0])).tolist() == [False, True]


def test_chi2_is_a_gamma_distribution() -> None:
    p = Chi2(st.tensor([3.0, 4.0]))
    assert isinstance(p, Gamma)
    assert p.df.tolist() == [3.0, 4.0]
    assert p.rate.tolist() == [0.5, 0.5]
    assert p.expand((2, 2)).df.tolist() == [[3.0, 4.0]] * 2


WRONG: list[tuple[Any, str]] = [
    (lambda: Gamma(st.tensor([1.0, 0.0]), 1.0), r"parameter concentration .* distribution Gamma"),
    (lambda: Gamma(1.0, -1.0), "parameter rate .*\n.*-1"),
    (lambda: Exponential(-2.0), "parameter rate"),
    (lambda: Chi2(-2.0), "parameter df"),
    (lambda: Beta(-2.0, 1.0), r"parameter concentration1 .* Beta\(concentration1: -2.0"),
    (lambda: Beta(2.0, 0.0), "parameter concentration0"),
    (lambda: Dirichlet(st.tensor([2.0, -1.0])), "parameter concentration"),
    (lambda: Dirichlet(st.tensor(2.0)), "must be at least one-dimensional"),
    (lambda: StudentT(0.0), "parameter df"),
    (lambda: StudentT(1.0, NAN), "parameter loc"),
    (lambda: StudentT(1.0, 0.0, 0.0), "parameter scale"),
    (lambda: FisherSnedecor(0.0, 1.0), "parameter df1"),
    (lambda: Poisson(-1.0), "parameter rate"),
    (lambda: Binomial(2), "Either `probs` or `logits` must be specified"),
    (lambda: Binomial(2, 0.5, 0.0), "Either `probs` or `logits` must be specified"),
    (lambda: Binomial(2.5, 0.5), "parameter total_count .* IntegerGreaterThan"),
    (lambda: Binomial(2, 1.5), "parameter probs"),
    (lambda: NegativeBinomial(2), "Either `probs` or `logits` must be specified"),
    (lambda: NegativeBinomial(-2, 0.5), "parameter total_count"),
    (lambda: NegativeBinomial(2, 1.0), r"HalfOpenInterval\(lower_bound=0.0, upper_bound=1.0\)"),
    (lambda: VonMises(0.0, 0.0), "parameter concentration"),
    (lambda: Gamma(1.0, 1.0).log_prob(st.tensor(-1.0)), r"support \(GreaterThanEq"),
    (lambda: Gamma(1.0, 1.0).cdf(st.tensor(-1.0)), r"support \(GreaterThanEq"),
    (lambda: Exponential(1.0).cdf(st.tensor(-1.0)), r"support \(GreaterThanEq"),
    (lambda: Beta(1.0, 1.0).log_prob(st.tensor(2.0)), "support"),
    (lambda: Dirichlet(st.ones(2)).log_prob(st.tensor([0.5, 0.6])), r"support \(Simplex"),
    (lambda: FisherSnedecor(1.0, 1.0).log_prob(st.tensor(0.0)), r"support \(GreaterThan\("),
    (lambda: Poisson(1.0).log_prob(st.tensor(0.5)), "support"),
    (lambda: Binomial(2, 0.5).log_prob(st.tensor(3.0)), "support"),
    (lambda: NegativeBinomial(2, 0.5).log_prob(st.tensor(0.5)), "support"),
    (lambda: VonMises(0.0, 1.0).log_prob(st.tensor(NAN)), r"support \(Real\(\)\)"),
]


@pytest.mark.parametrize(("call", "message"), WRONG)
def test_wrong_arguments(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_what_is_not_validated_ends() -> None:
    p = VonMises(st.tensor([0.0, 0.0]), st.tensor([NAN, 1.0]), validate_args=False)
    assert p.sample().isnan().tolist() == [True, False]
    assert bool(Gamma(-1.0, 1.0, validate_args=False).sample().isnan())


# ---- PyTorch


@pytest.mark.torch
@pytest.mark.parametrize(("call", "message"), WRONG)
def test_errors_are_pytorchs(call: Any, message: str) -> None:
    """Of the same class. PyTorch takes no numbers for the parameters of some."""
    torch = pytest.importorskip("torch")
    names = {
        n: getattr(torch.distributions, n) for n in (*GAMMA_FAMILIES, "Dirichlet", "Exponential")
    }
    theirs = types.FunctionType(call.__code__, {**call.__globals__, **names, "st": torch})
    with pytest.raises((ValueError, AttributeError)):
        theirs()


def test_gamma_takes_a_number() -> None:
    p = distributions.Gamma(2.0, 3.0)
    assert p.log_prob(0.5).item() == p.log_prob(st.tensor(0.5)).item()
    with pytest.raises(ValueError, match="within the support"):
        distributions.Chi2(2.0).log_prob(-1)
