"""Gamma numbers of rate 1 and their derivative by the shape."""

from __future__ import annotations

import numpy as np
import pytest

import shmtensor as st
from shmtensor import native
from shmtensor.autograd import table as ops

stats = pytest.importorskip("scipy.stats")
special = pytest.importorskip("scipy.special")

N = 100_000


def p_value(numbers: np.ndarray, shape: float) -> float:
    return float(stats.kstest(numbers, stats.gamma(shape).cdf).pvalue)


@pytest.mark.parametrize("shape", [0.05, 0.3, 0.99, 1.0, 2.5, 40.0, 1e4])
def test_numbers_have_their_distribution(shape: float) -> None:
    numbers = native.standard_gamma(np.full(N, shape), 7, 11, False)
    assert p_value(numbers, shape) > 1e-3
    if 0.1 < shape < 100:  # smaller ones of 0.05 are below any float32
        single = native.standard_gamma(np.full(N, shape, "f"), 8, 11, False)
        assert single.dtype == np.float32
        assert p_value(single, shape) > 1e-3
    logs = native.standard_gamma(np.full(N, shape), 7, 11, True)
    np.testing.assert_allclose(np.exp(logs), numbers, rtol=1e-12, atol=1e-300)
    assert p_value(numbers, 1.03 * shape) < 1e-6  # a wrong one would have been found


def test_logarithms_of_numbers_that_underflow_have_their_distribution() -> None:
    shape = 1e-4
    logs = native.standard_gamma(np.full(N, shape), 3, 0, True)
    assert logs.min() < -10_000
    probabilities = np.exp(np.minimum(shape * logs - special.gammaln(shape + 1), 0.0))
    below = probabilities[logs < -40]  # where P(a, x) is x^a / gamma(a + 1) to rounding
    assert below.size > 0.99 * N
    bound = np.exp(-40 * shape - special.gammaln(shape + 1))
    assert stats.kstest(below / bound, "uniform").pvalue > 1e-3
    assert native.standard_gamma(np.full(9, shape), 3, 0, False).min() == np.finfo("d").tiny
    assert native.standard_gamma(np.full(9, shape, "f"), 3, 0, False).min() == np.finfo("f").tiny


def test_a_number_depends_on_its_position_alone() -> None:
    shapes = np.resize([3.0, 0.2, 40.0, 0.9], 1000)
    whole = native.standard_gamma(shapes, 7, 100, False)
    np.testing.assert_array_equal(whole[300:], native.standard_gamma(shapes[300:], 7, 400, False))
    shapes[5] = 77.0
    changed = native.standard_gamma(shapes, 7, 100, False) != whole
    assert np.flatnonzero(changed).tolist() == [5]


def slope_of_quantile(shape: float, p: float) -> tuple[float, float]:
    """A quantile and its derivative by the shape: SciPy's, by differences of the fourth order."""

    def quantile(a: float) -> float:
        x = special.gammaincinv(a, p) if p < 0.6 else special.gammainccinv(a, 1 - p)
        return float(x)

    h = 3e-3 * shape / (1 + np.sqrt(shape) / 30)
    near = quantile(shape + h) - quantile(shape - h)
    far = quantile(shape + 2 * h) - quantile(shape - 2 * h)
    return quantile(shape), (8 * near - far) / (12 * h)


@pytest.mark.parametrize("shape", [0.05, 0.3, 0.99, 1.0, 2.5, 9.0, 40.0, 101.0, 1e3, 1e4])
def test_derivative_is_that_of_the_quantile(shape: float) -> None:
    for p in (0.02, 0.3, 0.5, 0.8, 0.99):
        x, slope = slope_of_quantile(shape, p)
        if x < 1e-20:
            continue
        ours = native.standard_gamma_grad(np.array([shape]), np.array([x]), False)
        np.testing.assert_allclose(ours, slope, rtol=1e-6, err_msg=f"{shape}, {p}")
        ours = native.standard_gamma_grad(np.array([shape]), np.log([x]), True)
        np.testing.assert_allclose(ours, slope / x, rtol=1e-6, err_msg=f"{shape}, {p}")


# Shape, log x, and d(log x) / d(shape) by mpmath with 60 digits, from dP/da and the density.
EXACT = np.array(
    [
        (0.001, -700.0, 699424.4280681896),
        (0.05, -1.5, 29.579542805801236),
        (0.5, 0.75, 1.21258080032156),
        (1.0, 1.0, 0.6846576398963767),
        (2.5, -3.0, 1.6665281478934586),
        (40.0, 3.4, 0.028904461076128155),
        (99.0, 4.8, 0.009116888404931132),
        (150.0, 4.9, 0.00705007611753745),
        (5000.0, 8.5, 0.00020173097008978228),
        (5000.0, 8.53, 0.0001987286768721075),
    ]
)


def test_derivative_has_full_precision() -> None:
    shapes, logs, slopes = EXACT.T
    np.testing.assert_allclose(native.standard_gamma_grad(shapes, logs, True), slopes, rtol=3e-14)
    ours = native.standard_gamma_grad(shapes, np.exp(logs), False)
    np.testing.assert_allclose(ours, np.exp(logs) * slopes, rtol=3e-13)
    single = native.standard_gamma_grad(shapes.astype("f"), logs.astype("f"), True)
    assert single.dtype == np.float32
    rounded = native.standard_gamma_grad(
        shapes.astype("f").astype("d"), logs.astype("f").astype("d"), True
    )
    np.testing.assert_allclose(single, rounded, rtol=1e-7)


def test_derivatives_of_tiny_and_huge_numbers() -> None:
    shapes = np.array([1e-3, 0.5, 1e-8])
    logs = np.array([-5000.0, -800.0, -1e8])
    closed = (special.digamma(shapes + 1) - logs) / shapes  # P(a, x) is x^a / gamma(a + 1)
    np.testing.assert_allclose(native.standard_gamma_grad(shapes, logs, True), closed, rtol=1e-14)
    large = np.array([1e8, 1e15, 1e300])
    np.testing.assert_allclose(native.standard_gamma_grad(large, large, False), 1.0, rtol=1e-7)
    assert native.standard_gamma_grad(np.array([0.5]), np.array([0.0]), False).tolist() == [0.0]


def test_wrong_arguments() -> None:
    wrong = np.array([-1.0, np.nan, np.inf])
    assert np.isnan(native.standard_gamma(wrong, 1, 2, False)).all()
    shapes, samples = (
        np.array([0.0, -1.0, np.nan, 1.0, 1.0]),
        np.array([1.0, 1.0, 1.0, -1.0, np.inf]),
    )
    assert np.isnan(native.standard_gamma_grad(shapes, samples, False)).all()
    with pytest.raises(TypeError, match="shapes must be float32 or float64: int64"):
        native.standard_gamma(np.arange(3), 1, 2, False)
    with pytest.raises(TypeError, match="differ in dtype: float64, float32"):
        native.standard_gamma_grad(np.ones(3), np.ones(3, "f"), False)
    with pytest.raises(RuntimeError, match="shapes differ"):
        native.standard_gamma_grad(np.ones(3), np.ones(2), False)


@pytest.mark.parametrize("dtype", [st.float16, st.bfloat16])
def test_numbers_of_16_bits(dtype: st.dtype) -> None:
    st.manual_seed(3)
    shapes = st.full((5,), 4.0, dtype=dtype, requires_grad=True)
    x = ops._standard_gamma(shapes)
    assert x.dtype == dtype
    st.manual_seed(3)
    wide = ops._standard_gamma(st.full((5,), 4.0)).to(dtype)
    assert wide.tolist() == x.tolist()
    (g,) = st.autograd.grad(x.float().sum(), shapes)
    assert g.dtype == dtype
    slopes = native.standard_gamma_grad(np.full(5, 4.0), x.detach().double().numpy(), False)
    np.testing.assert_allclose(g.double(), slopes, rtol=1e-2)


@pytest.mark.parametrize("log", [False, True])
def test_gradients_are_the_derivatives_of_the_numbers(log: bool) -> None:
    shapes = st.tensor([[0.2, 1.5], [3.0, 200.0]], dtype=st.float64, requires_grad=True)
    x = ops._standard_gamma(shapes.t(), log)  # not contiguous
    weights = st.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=st.float64)
    (g,) = st.autograd.grad((x * weights).sum(), shapes, create_graph=True)
    slopes = native.standard_gamma_grad(shapes.detach().t().numpy(), x.detach().numpy(), log)
    np.testing.assert_allclose(g.detach(), (slopes * weights.numpy()).T, rtol=1e-14)
    with pytest.raises(NotImplementedError, match=r"_standard_gamma_grad: the derivative is not"):
        g.sum().backward()


def test_the_mean_of_gradients_is_the_gradient_of_the_mean() -> None:
    st.manual_seed(4)
    shapes = st.tensor([0.1, 0.7, 5.0, 300.0], dtype=st.float64, requires_grad=True)
    logs = ops._standard_gamma(shapes.expand(20_000, 4), log=True).mean(0)
    (g,) = st.autograd.grad(logs.sum(), shapes)
    np.testing.assert_allclose(g, special.polygamma(1, shapes.detach().numpy()), rtol=0.05)


@pytest.mark.torch
def test_gradients_are_near_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    shapes = np.geomspace(0.02, 300, 40).repeat(5)
    samples = special.gammaincinv(shapes, np.tile([0.1, 0.3, 0.5, 0.8, 0.99], 40))
    ours = native.standard_gamma_grad(shapes, samples, False)
    theirs = torch._standard_gamma_grad(torch.tensor(shapes), torch.tensor(samples)).numpy()
    np.testing.assert_allclose(ours, theirs, rtol=3e-3, atol=1e-30)
