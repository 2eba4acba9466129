"""Forward mode: tangents, against the Jacobian."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import shmtensor as st
from shmtensor import autograd
from shmtensor.autograd import forward_ad as fwd

RNG = np.random.default_rng(5)


def pair(*shape: int) -> tuple[st.Tensor, st.Tensor]:
    return st.from_numpy(RNG.standard_normal(shape)), st.from_numpy(RNG.standard_normal(shape))


def test_a_tangent_is_pushed_through() -> None:
    x, v = pair(2, 3)
    y, w = pair(3)
    with fwd.dual_level():
        result = fwd.make_dual(x, v).sin() @ fwd.make_dual(y, w)
        value, tangent = fwd.unpack_dual(result)
    expected = (np.cos(x.numpy()) * v.numpy()) @ y.numpy() + np.sin(x.numpy()) @ w.numpy()
    assert np.allclose(tangent.numpy(), expected)
    assert np.allclose(value.numpy(), np.sin(x.numpy()) @ y.numpy())
    assert not value.requires_grad


def test_a_plain_tensor_has_no_tangent() -> None:
    x, v = pair(3)
    with fwd.dual_level():
        assert fwd.unpack_dual(x) == fwd.UnpackedDualTensor(x, None)
        dual = fwd.make_dual(x, v)
        assert fwd.unpack_dual(dual).tangent is v
        other = st.ones(3, dtype=st.float64, requires_grad=True) * 2
        assert fwd.unpack_dual(other).tangent is None
        assert np.shares_memory(dual.detach().numpy(), x.numpy())


def test_complex_tangents() -> None:
    x = st.tensor([1 + 2j, 3 - 1j], dtype=st.complex128)
    v = st.tensor([1j, 2.0 + 0j], dtype=st.complex128)
    with fwd.dual_level():
        result = fwd.unpack_dual(fwd.make_dual(x, v).exp()).tangent
        size = fwd.unpack_dual(fwd.make_dual(x, v).abs()).tangent
    assert np.allclose(result.numpy(), np.exp(x.numpy()) * v.numpy())
    z, dz = x.numpy(), v.numpy()
    assert np.allclose(size.numpy(), np.real(np.conj(z) * dz) / np.abs(z))


def test_forward_over_reverse_is_the_hessian_product() -> None:
    x, v = pair(3)
    with fwd.dual_level():
        dual = fwd.make_dual(x, v)
        (g,) = autograd.grad((dual**3).sum(), dual, create_graph=True)
        result = fwd.unpack_dual(g).tangent
    assert np.allclose(result.numpy(), 6 * x.numpy() * v.numpy())


def test_a_tangent_can_be_differentiated() -> None:
    x, v = pair(3)
    x.requires_grad_()
    with fwd.dual_level():
        tangent = fwd.unpack_dual(fwd.make_dual(x, v) ** 2).tangent
        (g,) = autograd.grad(tangent.sum(), x)
    assert np.allclose(g.numpy(), 2 * v.numpy())


def test_a_function_of_one_s_own_has_a_forward_mode() -> None:
    class Cube(autograd.Function):
        @staticmethod
        def forward(ctx: object, x: st.Tensor) -> st.Tensor:
            ctx.save_for_backward(x)  # type: ignore[attr-defined]
            return x * x * x

        @staticmethod
        def backward(ctx: object, g: st.Tensor) -> st.Tensor:
            (x,) = ctx.saved_tensors  # type: ignore[attr-defined]
            return 3 * g * x * x

    x, v = pair(3)
    with fwd.dual_level():
        tangent = fwd.unpack_dual(Cube.apply(fwd.make_dual(x, v))).tangent
    assert np.allclose(tangent.numpy(), 3 * x.numpy() ** 2 * v.numpy())


def test_levels() -> None:
    x, v = pair(3)
    with pytest.raises(RuntimeError, match="outside of a dual_level"):
        fwd.make_dual(x, v)
    with fwd.dual_level():
        with pytest.raises(RuntimeError, match="Nested forward mode"):
            fwd.enter_dual_level()
        errors: list[Exception] = []

        def elsewhere() -> None:
            try:
                fwd.unpack_dual(x)
            except RuntimeError as error:
                errors.append(error)

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        assert len(errors) == 1
    with pytest.raises(RuntimeError, match="no such level"):
        fwd.exit_dual_level()


def test_wrong_tangents_are_refused() -> None:
    x, v = pair(3)
    with fwd.dual_level():
        with pytest.raises(RuntimeError, match="same shape"):
            fwd.make_dual(x, v[:2])
        with pytest.raises(ValueError, match="floating point"):
            fwd.make_dual(st.ones(3, dtype=st.int64), v)


def test_tangents_need_no_grad_mode() -> None:
    x, v = pair(3)
    with st.no_grad(), fwd.dual_level():
        dual = fwd.make_dual(x, v)
        value, tangent = fwd.unpack_dual(dual * dual)
        assert not value.requires_grad
        assert np.allclose(tangent.numpy(), 2 * x.numpy() * v.numpy())
    with st.no_grad():
        with fwd.dual_level():
            pass
        assert not autograd.is_grad_enabled()
    assert autograd.is_grad_enabled()
