"""Every distribution: values, samples and gradients, by the table of `families`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import distributions
from shmtensor.autograd import gradcheck, gradgradcheck
from shmtensor.distributions.relaxed_bernoulli import LogitRelaxedBernoulli
from shmtensor.distributions.relaxed_categorical import ExpRelaxedCategorical

from .families import ALL, FAMILIES, GAMMA_FAMILIES

scipy_stats = pytest.importorskip("scipy.stats")

N = 20
OF_SCIPY = [name for name, family in ALL.items() if family.scipy is not None]
DISCRETE = {
    name for name in ALL if getattr(getattr(distributions, name).support, "is_discrete", False)
} | {"Binomial", "Categorical"}
# What PyTorch's have not, either.
ABSENT = {
    "Beta": {"cdf", "icdf"},
    "Chi2": {"icdf"},
    "FisherSnedecor": {"cdf", "icdf", "entropy"},
    "Gamma": {"icdf"},
    "InverseGamma": {"icdf"},
    "NegativeBinomial": {"entropy"},
    "Poisson": {"entropy"},
    "StudentT": {"cdf", "icdf"},
    "VonMises": {"cdf", "icdf", "entropy"},
}
LEVELS = np.array([[1e-9], [1e-4], [0.05], [0.4], [0.5], [0.8], [0.999]])


def has(p: Any, method: str) -> bool:
    """Whether a distribution defines a method of one number."""
    try:
        getattr(p, method)(p.sample() if method != "icdf" else st.full(p.batch_shape, 0.5))
    except NotImplementedError:
        return False
    return True


def continuous_with(method: str) -> list[str]:
    return [n for n in FAMILIES if n not in DISCRETE and has(FAMILIES[n].ours(1, 2), method)]


@pytest.mark.parametrize("name", OF_SCIPY)
def test_values_are_scipys(name: str) -> None:
    p, reference = ALL[name].ours(7, N), ALL[name].of_scipy(7, N)
    x = reference.ppf(LEVELS)
    log_density = getattr(reference, "logpmf" if name in DISCRETE else "logpdf")
    np.testing.assert_allclose(p.log_prob(st.tensor(x)), log_density(x), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(p.mean, reference.mean(), rtol=1e-9)
    # Cauchy: PyTorch has infinity, SciPy NaN; von Mises: the variance of a direction.
    if name not in ("Cauchy", "VonMises"):
        np.testing.assert_allclose(p.variance, reference.var(), rtol=1e-8)
        np.testing.assert_allclose(p.stddev, reference.std(), rtol=1e-8)
    levels = st.tensor(np.broadcast_to(LEVELS, x.shape).copy())
    for method, arguments, expected in (
        ("entropy", (), reference.entropy()),
        ("cdf", (st.tensor(x),), reference.cdf(x)),
        ("icdf", (levels,), x),
    ):
        if method != "entropy" and name in DISCRETE:
            continue
        if method in ABSENT.get(name, ()):
            with pytest.raises(NotImplementedError, match=rf"\.{method}"):
                getattr(p, method)(*arguments)
        else:
            value = getattr(p, method)(*arguments)
            np.testing.assert_allclose(value, expected, rtol=1e-6, atol=1e-15)


@pytest.mark.parametrize("name", continuous_with("cdf"))
def test_the_density_is_the_derivative_of_the_cdf_and_icdf_its_inverse(name: str) -> None:
    st.manual_seed(2)
    p = FAMILIES[name].ours(7, N)
    x = p.sample((50,)).requires_grad_()
    p.cdf(x).sum().backward()
    np.testing.assert_allclose(x.grad, p.log_prob(x).exp().detach(), rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(p.icdf(p.cdf(x)).detach(), x.detach(), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", ["ContinuousBernoulli", "Kumaraswamy", "RelaxedBernoulli"])
def test_moments_and_entropy_are_those_of_quadrature(name: str) -> None:
    p = FAMILIES[name].ours(7, N)
    # Points that lie close at both ends, where densities may be infinite.
    t = np.linspace(-34, 34, 3401)[:, None]
    x = 1 / (1 + np.exp(-t))
    weight = x / (1 + np.exp(t)) * (t[1] - t[0])
    log_density = p.log_prob(st.tensor(x)).numpy()
    density = np.exp(log_density) * weight

    def mean_of(values: Any) -> Any:
        return (density * values).sum(0)

    np.testing.assert_allclose(mean_of(1), 1, rtol=1e-3)
    if name != "RelaxedBernoulli":
        np.testing.assert_allclose(p.mean, mean_of(x), rtol=1e-3)
        np.testing.assert_allclose(p.variance, mean_of((x - p.mean.numpy()) ** 2), rtol=1e-3)
        np.testing.assert_allclose(p.entropy(), -mean_of(log_density), rtol=5e-3, atol=1e-4)


def test_continuous_bernoulli_near_a_half() -> None:
    """The Taylor series, and the formulas beside it, agree with the density's moments."""
    probs = st.tensor([0.4985, 0.4995, 0.5, 0.5005, 0.502], dtype=st.float64)
    p = distributions.ContinuousBernoulli(probs)
    x = np.linspace(0, 1, 20001)[:, None]
    density = p.log_prob(st.tensor(x)).exp().numpy()
    for power in (0, 1):
        expected = np.ones(5) if power == 0 else p.mean
        np.testing.assert_allclose(np.trapezoid(density * x**power, x, axis=0), expected, rtol=1e-8)
    square = np.trapezoid(density * (x - p.mean.numpy()) ** 2, x, axis=0)
    np.testing.assert_allclose(p.variance, square, rtol=1e-6)
    by_family = distributions.ExponentialFamily.entropy(p)
    np.testing.assert_allclose(p.entropy(), by_family, atol=1e-8)


@pytest.mark.parametrize(
    "p",
    [
        distributions.RelaxedOneHotCategorical(st.tensor(0.8), st.tensor([0.2, 0.3, 0.5])),
        distributions.LogisticNormal(st.tensor([0.3, -0.5]), st.tensor([1.0, 0.7])),
    ],
)
def test_densities_of_the_simplex_have_the_integral_1(p: Any) -> None:
    # Two numbers from 0 to 1: a part of 1, and a part of what is left.
    t = np.linspace(-14, 14, 401)
    part, step = 1 / (1 + np.exp(-t)), t[1] - t[0]
    first, second = part[:, None], (1 - part[:, None]) * part[None]
    value = np.stack(np.broadcast_arrays(first, second, 1 - first - second), -1)
    weight = (part * (1 - part))[:, None] * (1 - part[:, None]) * (part * (1 - part))[None]
    density = p.log_prob(st.tensor(value.clip(1e-12))).exp().numpy()
    np.testing.assert_allclose((density * weight).sum() * step**2, 1, rtol=2e-3)


def probabilities_of_samples(name: str, factor: float) -> np.ndarray:
    """Numbers that have a uniform distribution, if samples have theirs. Before, the samples'
    distance from their medians is multiplied by a number, up to the largest and smallest sample.
    """
    st.manual_seed(11)
    p = FAMILIES[name].ours(7, 2)
    x = p.sample((10000,))
    if name == "RelaxedBernoulli":  # a logistic number, divided by the temperature
        x = x.log() - (-x).log1p()
    elif name == "RelaxedOneHotCategorical":  # as is the difference of two logarithms
        x = (x[..., 0] / x[..., 1]).log()
    elif name == "LogisticNormal":
        x = distributions.StickBreakingTransform().inv(x)
    median = x.median(0)[0]
    x = (median + (x - median) * factor).clamp(x.amin(0), x.amax(0))
    if name == "RelaxedBernoulli":
        x = st.sigmoid(x * p.temperature - p.logits)
    elif name == "RelaxedOneHotCategorical":
        x = st.sigmoid(x * p.temperature - (p.logits[..., 0] - p.logits[..., 1]))
    else:
        x = (p.base_dist.base_dist if name == "LogisticNormal" else p).cdf(x)
    return np.asarray(x).ravel()


@pytest.mark.parametrize("name", [n for n in FAMILIES if n not in DISCRETE])
def test_samples_have_the_distribution(name: str) -> None:
    assert scipy_stats.kstest(probabilities_of_samples(name, 1.0), "uniform").pvalue > 1e-3
    # The same threshold finds samples that are too far from the middle by a tenth.
    assert scipy_stats.kstest(probabilities_of_samples(name, 1.1), "uniform").pvalue < 1e-3


def counts(name: str) -> tuple[np.ndarray, np.ndarray]:
    """How often the values of a discrete distribution come, and their probabilities."""
    st.manual_seed(11)
    p = FAMILIES[name].ours(7, 1)
    x = p.sample((10000,))[:, 0]
    values = p.enumerate_support()[:, 0] if p.has_enumerate_support else st.arange(4.0)
    probability = p.log_prob(values[:, None].double()).exp()[:, 0].numpy()
    found = (x[:, None] == values[None]).reshape(10000, len(values), -1).all(-1).sum(0).numpy()
    if not p.has_enumerate_support:  # the rest
        found = np.append(found, 10000 - found.sum())
        probability = np.append(probability, 1 - probability.sum())
    return found, probability


@pytest.mark.parametrize("name", sorted(DISCRETE & set(FAMILIES)))
def test_samples_have_the_probabilities(name: str) -> None:
    found, probability = counts(name)
    assert scipy_stats.chisquare(found, 10000 * probability).pvalue > 1e-3
    wrong = 0.9 * probability + 0.1 * np.roll(probability, 1)
    assert scipy_stats.chisquare(found, 10000 * wrong).pvalue < 1e-3


def of_parameters(name: str, method: str, *arguments: Any, **options: Any) -> Any:
    """A method of a distribution as a function of the parameters, and the parameters."""
    drawn = ALL[name].draw(7, 2)
    parameters = [
        st.tensor(p, requires_grad=name != "Binomial" or key == "probs") for key, p in drawn.items()
    ]

    def function(*values: st.Tensor) -> Any:
        given = dict(zip(drawn, values[: len(drawn)]))
        p = getattr(distributions, name)(**given, validate_args=False)
        result = getattr(p, method)
        if not callable(result):
            return result
        st.manual_seed(1)
        return result(*values[len(drawn) :], *arguments, **options)

    return function, parameters


@pytest.mark.parametrize("name", [*FAMILIES, *GAMMA_FAMILIES, "Dirichlet"])
def test_gradients(name: str) -> None:
    st.manual_seed(1)
    p = ALL[name].ours(7, 2)
    x = p.sample()
    value = () if name in DISCRETE else (x.clone().requires_grad_(),)
    function, parameters = of_parameters(name, "log_prob", *(() if value else (x,)))
    if name not in (
        "Dirichlet",
        "LogisticNormal",
        "RelaxedOneHotCategorical",
    ):  # values of the simplex
        parameters = [*parameters, *value]
    else:
        function, parameters = of_parameters(name, "log_prob", x)
    assert gradcheck(function, parameters)
    assert gradgradcheck(function, parameters)
    # Samples of gamma distributions are no smooth function for one seed: test_gamma_families.
    if p.has_rsample and name in FAMILIES and name != "OneHotCategoricalStraightThrough":
        function, parameters = of_parameters(name, "rsample", (3,))
        assert gradcheck(function, parameters)
        assert gradgradcheck(function, parameters)
    level = st.tensor([0.3, 0.8], dtype=st.float64)
    for method in ("entropy", "cdf", "icdf", "mean", "variance"):
        if method == "cdf" and name in GAMMA_FAMILIES:
            continue  # of an incomplete gamma function, without a gradient by the first argument
        arguments = {"cdf": (x,), "icdf": (level,)}.get(method, ())
        function, parameters = of_parameters(name, method, *arguments)
        try:
            result = function(*parameters)
        except NotImplementedError:
            continue
        if result.requires_grad:
            assert gradcheck(function, parameters)


def test_the_straight_through_gradient_is_that_of_the_probabilities() -> None:
    logits = st.tensor([0.5, -1.0, 0.0], dtype=st.float64, requires_grad=True)
    p = distributions.OneHotCategoricalStraightThrough(logits=logits)
    weight = st.tensor([1.0, 2.0, 3.0], dtype=st.float64)
    draw = p.rsample()
    assert sorted(draw.tolist()) == [0, 0, 1]
    (ours,) = st.autograd.grad((draw * weight).sum(), logits, retain_graph=True)
    (theirs,) = st.autograd.grad((p.probs * weight).sum(), logits)
    np.testing.assert_allclose(ours, theirs)


def test_relaxed_distributions_before_their_transforms() -> None:
    z = st.tensor([0.3, -1.0], dtype=st.float64)
    for temperature in (0.7, st.tensor(0.7, dtype=st.float64)):
        base = LogitRelaxedBernoulli(temperature, logits=st.tensor([1.0, 0.0], dtype=st.float64))
        assert base.param_shape == (2,)
        expected = scipy_stats.logistic([1 / 0.7, 0], 1 / 0.7).logpdf(z)
        np.testing.assert_allclose(base.log_prob(z), expected, rtol=1e-6)
        assert base.expand((3, 2)).rsample().shape == (3, 2)
        vector = ExpRelaxedCategorical(temperature, logits=st.zeros(3, dtype=st.float64))
        p = distributions.RelaxedOneHotCategorical(temperature, logits=vector.logits)
        x = vector.rsample((4,))
        np.testing.assert_allclose(x.logsumexp(-1), np.zeros(4), atol=1e-12)
        np.testing.assert_allclose(p.log_prob(x.exp()), vector.log_prob(x) - x.sum(-1), rtol=1e-6)
        assert (p.temperature, p.probs.tolist()) == (temperature, vector.probs.tolist())
        assert vector.param_shape == (3,)
    for make in (LogitRelaxedBernoulli, ExpRelaxedCategorical):
        with pytest.raises(ValueError, match="Either `probs` or `logits`"):
            make(1.0)
    for name in ("Geometric", "ContinuousBernoulli", "OneHotCategorical"):
        with pytest.raises(ValueError, match="Either `probs` or `logits`"):
            getattr(distributions, name)()
    with pytest.raises(ValueError, match=r"of distribution Geometric\(.*to be positive but found"):
        distributions.Geometric(0.0)


def test_log_odds_instead_of_probabilities() -> None:
    probs = st.tensor([0.2, 0.7], dtype=st.float64)
    logits = (probs / (1 - probs)).log()
    for name in ("Bernoulli", "Geometric", "ContinuousBernoulli"):
        make = getattr(distributions, name)
        p, q = make(probs=probs), make(logits=logits)
        x = p.sample((3,))
        np.testing.assert_allclose(p.log_prob(x), q.log_prob(x), rtol=1e-9)
        np.testing.assert_allclose(p.entropy(), q.entropy(), rtol=1e-9)
        assert q.sample().shape == q.expand((3, 2)).sample().shape[1:] == (2,)
    one, other = (
        distributions.RelaxedBernoulli(0.5, **{n: v})
        for n, v in (("probs", probs), ("logits", logits))
    )
    np.testing.assert_allclose(one.log_prob(probs), other.log_prob(probs), rtol=1e-9)
    p = distributions.OneHotCategorical(logits=logits)
    assert p.param_shape == (2,)
    np.testing.assert_allclose(p.probs, st.softmax(logits, -1), rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "arguments", "mode"),
    [
        ("Gamma", (3.0, 0.5), 4.0),
        ("InverseGamma", (3.0, 0.5), 0.125),
        ("FisherSnedecor", (4.0, 6.0), 0.375),
        ("NegativeBinomial", (3.0, 0.75), 6.0),
        ("Beta", (3.0, 2.0), 2 / 3),
        ("LogNormal", (1.0, 0.5), np.exp(0.75)),
        ("Kumaraswamy", (2.0, 3.0), 0.2**0.5),
    ],
)
def test_the_mode_is_the_most_probable_value(
    name: str, arguments: tuple[float, float], mode: float
) -> None:
    p = getattr(distributions, name)(*arguments)
    np.testing.assert_allclose(p.mode, mode, rtol=1e-5)
    at_mode = p.log_prob(p.mode).item()
    for near in (0.9, 1.1) if name not in DISCRETE else (1 / 2, 2):
        assert p.log_prob(p.mode * near).item() < at_mode


def test_modes_at_the_ends() -> None:
    shape = st.tensor([0.5, 1.0, 2.0])
    weibull = distributions.Weibull(1.0, shape)
    np.testing.assert_allclose(weibull.mode, [0, 0, 0.5**0.5], rtol=1e-6)
    kumaraswamy = distributions.Kumaraswamy(shape, st.tensor([2.0, 1.0, 3.0]))
    np.testing.assert_allclose(kumaraswamy.mode, [np.nan, np.nan, 0.2**0.5], rtol=1e-6)
    pareto = distributions.Pareto(1.0, st.tensor([0.5, 1.0, 1.5, 2.0]))
    assert pareto.mean.tolist() == [np.inf, np.inf, 3, 2]
    assert pareto.variance.tolist() == [np.inf] * 4


def test_logarithms_of_probabilities_of_the_generalized_pareto_distribution() -> None:
    family = FAMILIES["GeneralizedPareto"]
    p, reference = family.ours(7, N), family.of_scipy(7, N)
    x = reference.ppf(np.array([[1e-12], [0.3], [0.6], [1 - 1e-7]]))
    p, x = p.expand(x.shape), st.tensor(x)
    np.testing.assert_allclose(p.log_survival_function(x), reference.logsf(x), rtol=1e-6)
    expected = np.log1p(-reference.sf(x))
    expected[0] = np.log(reference.cdf(x)[0])
    np.testing.assert_allclose(p.log_cdf(x), expected, rtol=1e-5)
    far = distributions.GeneralizedPareto(0.0, 1.0, 0.0)
    np.testing.assert_allclose(far.log_cdf(st.tensor(50.0)), -np.exp(-50), rtol=1e-5)
    for method in (far.log_cdf, far.log_survival_function):
        with pytest.raises(ValueError, match="within the support"):
            method(st.tensor(-1.0))


def test_names_of_arguments_are_pytorchs() -> None:
    for p in (distributions.HalfNormal(1.0), distributions.HalfCauchy(1.0)):
        assert p.icdf(prob=st.tensor(0.0)).item() == 0
    weights = distributions.Categorical(st.tensor([1.0, 3.0]))
    mixture = distributions.MixtureSameFamily(weights, distributions.Normal(st.zeros(2), 1.0))
    assert mixture.cdf(x=st.tensor(0.0)).item() == 0.5
    assert mixture.log_prob(x=st.tensor(0.0)).item() == pytest.approx(-0.9189385)


@pytest.mark.parametrize("name", ALL)
def test_shapes(name: str) -> None:
    p = ALL[name].ours(7, 2)
    assert p.batch_shape == (2,)
    q = p.expand((3, 2))
    assert type(q) is type(p)
    assert (q.batch_shape, q.event_shape) == ((3, 2), p.event_shape)
    draw = q.sample((5,))
    assert draw.shape == (5, 3, 2, *p.event_shape)
    assert not draw.requires_grad
    assert q.log_prob(draw).shape == (5, 3, 2)
    np.testing.assert_allclose(q.log_prob(draw), p.log_prob(draw))
    assert bool(p.support.check(draw).all())
    if p.has_rsample:
        assert q.rsample((5,)).shape == draw.shape
    else:
        with pytest.raises(NotImplementedError, match=name):
            p.rsample()
    for what in ("mean", "mode", "variance", "stddev"):
        try:
            values = getattr(q, what), getattr(p, what)
        except NotImplementedError:
            continue
        assert values[0].shape == (3, 2, *p.event_shape)
        np.testing.assert_array_equal(values[0][1], values[1])
    own = type("Own", (type(p),), {"__init__": lambda self: None})
    with pytest.raises(NotImplementedError, match="Own has a constructor of its own"):
        own().expand((2,))


@pytest.mark.parametrize("name", ALL)
def test_wrong_arguments(name: str) -> None:
    family = ALL[name]
    make, drawn = getattr(distributions, name), family.draw(7, 2)
    p = family.ours(7, 2)
    for parameter in p.arg_constraints:
        if parameter in drawn:
            wrong = {n: st.tensor(v) for n, v in drawn.items()}
            wrong[parameter] = wrong[parameter] * float("nan")
            with pytest.raises(ValueError, match=r"(?s)Expected parameter .* constraint .*nan"):
                make(**wrong)
            make(**wrong, validate_args=False)
    nothing = p.sample() * float("nan")
    with pytest.raises(ValueError, match=r"within the support .*invalid values:\n.*nan"):
        p.log_prob(nothing)
    if name not in ("Gamma", "Chi2"):  # these take numbers, as PyTorch's
        with pytest.raises(ValueError, match="must be a Tensor"):
            p.log_prob(0.5)
    with pytest.raises(ValueError, match=r"not broadcastable|must match event_shape"):
        p.log_prob(st.zeros(5, 7))
