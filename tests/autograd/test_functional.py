"""Jacobians, Hessians and their products, against finite differences and closed forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import autograd
from shmtensor.autograd import functional as F

RNG = np.random.default_rng(3)


def point(*shape: int) -> st.Tensor:
    return st.from_numpy(RNG.standard_normal(shape))


def two(x: st.Tensor, y: st.Tensor) -> tuple[st.Tensor, st.Tensor]:
    return x.exp() @ y, (x * x).sum(0)


def differences(f: Callable[..., Any], xs: list[st.Tensor], k: int, eps: float = 1e-6) -> Any:
    x = xs[k]
    columns = []
    for i in range(x.numel()):
        step = np.zeros(x.numel())
        step[i] = eps
        move = st.from_numpy(step.reshape(x.shape))
        high = f(*[v + move if j == k else v for j, v in enumerate(xs)]).numpy()
        low = f(*[v - move if j == k else v for j, v in enumerate(xs)]).numpy()
        columns.append((high - low) / (2 * eps))
    return np.stack(columns, -1).reshape(*columns[0].shape, *x.shape)


@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
def test_jacobian_of_several(strategy: str) -> None:
    xs = [point(2, 3), point(3)]
    jacobian = F.jacobian(two, tuple(xs), strategy=strategy)
    for i in range(2):
        for k in range(2):
            expected = differences(lambda *a, i=i: two(*a)[i], xs, k)
            assert jacobian[i][k].shape == expected.shape
            assert np.allclose(jacobian[i][k].numpy(), expected, atol=1e-6)
            assert not jacobian[i][k].requires_grad


def test_jacobian_of_one_is_a_tensor() -> None:
    x = point(3)
    assert np.allclose(F.jacobian(lambda x: x * x, x).numpy(), np.diag(2 * x.numpy()))
    assert F.jacobian(lambda x: x.sum(), x).shape == (3,)
    assert F.jacobian(lambda x: x * 2, st.zeros(0)).shape == (0, 0)


def test_jacobian_can_be_differentiated() -> None:
    x = point(3).requires_grad_()
    j = F.jacobian(lambda x: x**3, x, create_graph=True)
    (g,) = autograd.grad(j.sum(), x)
    assert np.allclose(g.numpy(), 6 * x.detach().numpy())


def test_hessian() -> None:
    a = RNG.standard_normal((3, 3))
    m = st.from_numpy(a)
    x = point(3)
    hessian = F.hessian(lambda x: x @ m @ x, x)
    assert np.allclose(hessian.numpy(), a + a.T)
    forward = F.hessian(lambda x: x @ m @ x, x, outer_jacobian_strategy="forward-mode")
    assert np.allclose(forward.numpy(), a + a.T)
    blocks = F.hessian(lambda x, y: (x * y * y).sum(), (x, point(3)))
    assert np.allclose(blocks[0][0].numpy(), 0)
    assert blocks[1][0].shape == (3, 3)
    with pytest.raises(RuntimeError, match="single element"):
        F.hessian(lambda x: x * 2, x)


def test_products_are_the_jacobian_s() -> None:
    xs = (point(2, 3), point(3))
    v = (point(2, 3), point(3))
    u = (point(2), point(3))
    j = F.jacobian(two, xs)
    value, product = F.jvp(two, xs, v)
    for i in range(2):
        expected = sum(np.tensordot(j[i][k].numpy(), v[k].numpy(), v[k].ndim) for k in range(2))
        assert np.allclose(product[i].numpy(), expected)
        assert np.allclose(value[i].numpy(), two(*xs)[i].numpy())
    _, product = F.vjp(two, xs, u)
    for k in range(2):
        expected = sum(np.tensordot(u[i].numpy(), j[i][k].numpy(), u[i].ndim) for i in range(2))
        assert np.allclose(product[k].numpy(), expected)


def test_products_with_the_hessian() -> None:
    a = RNG.standard_normal((3, 3))
    m = st.from_numpy(a)
    x, v = point(3), point(3)
    for product in (F.hvp, F.vhp):
        value, hvp = product(lambda x: x @ m @ x, x, v)
        assert value.shape == ()
        assert np.allclose(hvp.numpy(), (a + a.T) @ v.numpy())


def test_strict_refuses_independent_outputs() -> None:
    x = point(3)
    assert F.vjp(lambda x: st.ones(3, dtype=st.float64), x, point(3))[1].tolist() == [0, 0, 0]
    with pytest.raises(RuntimeError, match="strict"):
        F.jacobian(lambda x: st.ones(3), x, strict=True)
    with pytest.raises(RuntimeError, match="independent of input 1"):
        F.vjp(lambda x, y: x.sum(), (x, point(2)), strict=True)


def test_wrong_use_is_an_error() -> None:
    x = point(3)
    with pytest.raises(RuntimeError, match="v can only be None"):
        F.vjp(lambda x: x * 2, x)
    with pytest.raises(RuntimeError, match="v has invalid size"):
        F.jvp(lambda x: x * 2, x, point(2))
    with pytest.raises(RuntimeError, match="invalid length"):
        F.jvp(lambda x: x * 2, x, (x, x))
    with pytest.raises(TypeError, match="element 0 is a float"):
        F.vjp(lambda x: x * 2, 1.0)
    with pytest.raises(ValueError, match="strategy"):
        F.jacobian(lambda x: x * 2, x, strategy="sideways")
