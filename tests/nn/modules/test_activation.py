"""Activations against their formulas in NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn
from shmtensor.nn import functional as F
from shmtensor.nn.modules import activation

X = np.linspace(-4, 4, 33)
erf = np.vectorize(math.erf)


def modules_of_one_function() -> list[type[nn.Module]]:
    return [c for c in activation._InPlace.__subclasses__() if hasattr(c, "_function")]


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


FORMULAS = [
    (nn.ReLU(), lambda x: np.maximum(x, 0)),
    (nn.ReLU6(), lambda x: np.clip(x, 0, 6)),
    (nn.LeakyReLU(0.2), lambda x: np.where(x > 0, x, 0.2 * x)),
    (nn.ELU(1.5), lambda x: np.where(x > 0, x, 1.5 * np.expm1(x))),
    (nn.CELU(2.0), lambda x: np.maximum(x, 0) + np.minimum(0, 2 * np.expm1(x / 2))),
    (
        nn.SELU(),
        lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
    ),
    (nn.GELU(), lambda x: x * 0.5 * (1 + erf(x / math.sqrt(2)))),
    (
        nn.GELU("tanh"),
        lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    ),
    (nn.Tanh(), np.tanh),
    (nn.Sigmoid(), lambda x: 1 / (1 + np.exp(-x))),
    (nn.LogSigmoid(), lambda x: -np.log1p(np.exp(-x))),
    (nn.Softplus(2.0), lambda x: np.log1p(np.exp(2 * x)) / 2),
    (nn.Softsign(), lambda x: x / (1 + np.abs(x))),
    (nn.Tanhshrink(), lambda x: x - np.tanh(x)),
    (nn.Softshrink(0.5), lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.5, 0)),
    (nn.Hardshrink(0.5), lambda x: np.where(np.abs(x) > 0.5, x, 0)),
    (nn.Hardtanh(-2, 1), lambda x: np.clip(x, -2, 1)),
    (nn.Threshold(0.3, -7.0), lambda x: np.where(x > 0.3, x, -7.0)),
    (nn.Softmax(-1), softmax),
    (nn.LogSoftmax(-1), lambda x: np.log(softmax(x))),
    (nn.Softmin(-1), lambda x: softmax(-x)),
    (nn.PReLU(), lambda x: np.where(x > 0, x, 0.25 * x)),
]


@pytest.mark.parametrize(("module", "formula"), FORMULAS, ids=[repr(m) for m, _ in FORMULAS])
def test_value_is_the_formula(module: nn.Module, formula) -> None:
    out = module(st.tensor(X.astype(np.float32)))
    np.testing.assert_allclose(out.detach().numpy(), formula(X), rtol=1e-4, atol=1e-5)


# Modules of one function without numbers, as Mish. The curves in
# tests/native/kernels/pointwise/test_silu_elu_shrink.py have their values.
OF_ONE_FUNCTION = [c() for c in modules_of_one_function()]


@pytest.mark.parametrize("module", OF_ONE_FUNCTION, ids=repr)
def test_a_module_is_the_function_of_its_name(module: nn.Module) -> None:
    x = st.tensor(X)
    assert module(x).equal(getattr(F, type(module).__name__.lower())(x))


INPLACE = {type(m): m for m, _ in FORMULAS if hasattr(m, "inplace")}
INPLACE |= {type(m): m for m in OF_ONE_FUNCTION}


@pytest.mark.parametrize("module", INPLACE.values(), ids=lambda m: type(m).__name__)
def test_in_place_writes_the_input_and_keeps_the_gradient(module: nn.Module) -> None:
    def run(inplace: bool):
        module.inplace = inplace
        x = st.tensor(X + 0.01, requires_grad=True)
        y = x * 1.0
        out = module(y)
        assert (out.data_ptr() == y.data_ptr()) == inplace
        out.sum().backward()
        return out.detach().numpy(), x.grad.numpy()

    (a, ga), (b, gb) = run(False), run(True)
    np.testing.assert_allclose(a, b)
    np.testing.assert_allclose(ga, gb)


def test_glu_halves_the_dimension() -> None:
    x = st.randn(3, 8)
    a, b = np.split(x.numpy(), 2, 1)
    np.testing.assert_allclose(nn.GLU(1)(x).numpy(), a / (1 + np.exp(-b)), rtol=1e-5, atol=1e-6)
    with pytest.raises(RuntimeError, match="even"):
        F.glu(st.ones(3))


def test_softmax2d_is_over_channels() -> None:
    assert nn.Softmax2d()(st.ones(1, 4, 2, 2))[0, 0, 0, 0].item() == 0.25
    with pytest.raises(ValueError, match="3D or 4D"):
        nn.Softmax2d()(st.ones(2))


def test_gumbel_softmax_hard_is_one_hot_with_a_gradient() -> None:
    st.manual_seed(0)
    x = st.zeros(50, 4, requires_grad=True)
    out = F.gumbel_softmax(x, hard=True)
    np.testing.assert_allclose(out.detach().numpy().sum(1), 1, rtol=1e-6)
    assert set(np.round(out.detach().numpy().ravel(), 5)) == {0.0, 1.0}
    (out[:, 0]).sum().backward()
    assert np.abs(x.grad.numpy()).sum() > 0


def test_wrong_arguments_are_shown() -> None:
    with pytest.raises(AssertionError, match="max_val"):
        nn.Hardtanh(1, 0)
    with pytest.raises(RuntimeError, match="-1"):
        F.softshrink(st.ones(1), -1)
    with pytest.raises(ValueError, match=r"2\.0 > 1\.0"):
        F.hardtanh(st.ones(1), 2.0, 1.0)
    with pytest.raises(ValueError, match=r"2\.0 > 1\.0"):
        F.hardtanh_(st.ones(1), 2.0, 1.0)
    with pytest.raises(RuntimeError, match="lower"):
        F.rrelu(st.ones(1), 0.5, 0.1)
    with pytest.raises(RuntimeError, match="'exact'"):
        F.gelu(st.ones(1), approximate="exact")


def test_rrelu_draws_slopes_in_training_only() -> None:
    m = nn.RReLU(0.2, 0.4)
    out = m(-st.ones(1000)).numpy()
    assert -0.4 <= out.min() < -0.35
    assert -0.25 < out.max() <= -0.2
    np.testing.assert_allclose(m.eval()(-st.ones(2)).numpy(), -0.3, rtol=1e-6)
    assert repr(nn.RReLU(0.2, 0.4, True)) == "RReLU(lower=0.2, upper=0.4, inplace=True)"


@pytest.mark.parametrize("name", ["elu_", "celu_", "leaky_relu_"])
def test_a_negative_slope_in_place_has_no_backward(name: str) -> None:
    out = getattr(F, name)(st.ones(2, requires_grad=True) * 1, -2.0)
    with pytest.raises(RuntimeError, match=r"negative slope: -2.0, hint: inplace=False"):
        out.sum().backward()


@pytest.mark.parametrize("dtype", [st.float16, st.float32])
def test_numbers_of_numpy_keep_the_dtype(dtype: st.dtype) -> None:
    x = st.tensor([-2.0, 0.25, 2.0], dtype=dtype)
    for function in (F.softshrink, F.hardshrink):
        assert function(x, np.float64(0.5)).dtype == dtype
    result = F.hardtanh(x, np.float64(-0.5), np.float64(0.5))
    assert result.dtype == dtype
    assert result.tolist() == [-0.5, 0.25, 0.5]


def test_bounds_of_integers() -> None:
    large = 2**62 + 1  # no number of float64
    assert F.hardtanh(st.tensor([-3, 2, large]), -1, 2**63 - 1).tolist() == [-1, 2, large]
