"""Functions that are methods, too, and other small functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import autograd, func, linalg
from shmtensor.nn import functional as F

X = np.random.default_rng(5).normal(size=(3, 4))
V = np.array([1.0, -2.0, 0.5])

# in-place functions, and NumPy's equivalents
IN_PLACE: dict[str, tuple[tuple[Any, ...], Any]] = {
    "addmv_": ((st.tensor(X), st.ones(4, dtype=st.float64)), V + X.sum(1)),
    "as_strided_": (((2,), (2,)), V[::2]),
    "clamp_": ((-1.0, 0.75), V.clip(-1, 0.75)),
    "clip_": ((-1.0, 0.75), V.clip(-1, 0.75)),
    "clamp_max_": ((0.75,), V.clip(max=0.75)),
    "clamp_min_": ((-1.0,), V.clip(-1)),
    "fill_": ((3.0,), np.full(3, 3.0)),
    "index_put_": (((st.tensor([0, 2]),), st.tensor([7.0, 8.0]).double()), [7, -2, 8]),
    "ldexp_": ((st.tensor(2),), V * 4),
    "celu_": ((1.0,), np.where(V > 0, V, np.expm1(V))),
    "selu_": ((), 1.0507009873554805 * np.where(V > 0, V, 1.6732632423543772 * np.expm1(V))),
    "rrelu_": ((0.25, 0.25), np.where(V > 0, V, V / 4)),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place(name: str) -> None:
    arguments, expected = IN_PLACE[name]
    x = st.tensor(V)
    assert getattr(st, name)(x, *arguments) is x
    np.testing.assert_allclose(x.numpy(), expected)


def test_questions() -> None:
    x = st.tensor(X)
    z = st.tensor([1 + 2j])
    assert not st.is_conj(z)
    assert not st.is_neg(x)
    assert st.is_signed(x)
    assert not st.is_signed(st.tensor([1], dtype=st.uint8))
    assert st.is_same_size(x, st.zeros(3, 4))
    assert not st.is_same_size(x, st.zeros(4, 3))
    assert not st.is_distributed(x)
    assert st.get_device(x) == -1
    assert not st.is_inference(x)
    with st.inference_mode():
        assert st.is_inference(x + 1)


def test_detach() -> None:
    x = st.tensor(X, requires_grad=True)
    detached = st.detach(x)
    assert not detached.requires_grad
    assert np.shares_memory(detached.numpy(), st.detach(x).numpy())
    copied = st.detach_copy(x)
    assert not copied.requires_grad
    assert not np.shares_memory(copied.numpy(), detached.numpy())
    y = x * 2
    assert st.detach_(y) is y
    assert not y.requires_grad
    assert st.detach is st.Tensor.detach


@pytest.mark.parametrize("n", [None, 0, 1, 2, 5])
@pytest.mark.parametrize("increasing", [False, True])
def test_vander(n: int | None, increasing: bool) -> None:
    for v in (V, np.array([3, 1, 2])):
        result = st.vander(st.tensor(v), n, increasing)
        expected = np.vander(v, n, increasing)
        np.testing.assert_allclose(result.numpy(), expected)
        assert result.dtype is (st.float64 if v is V else st.int64)
    x = st.tensor(V, requires_grad=True)
    if n == 5:
        assert autograd.gradcheck(lambda t: st.vander(t, n, increasing), x)


def test_vander_refuses() -> None:
    with pytest.raises(RuntimeError, match="must be a vector"):
        st.vander(st.ones(2, 2))
    with pytest.raises(RuntimeError, match="must not be negative"):
        st.vander(st.ones(2), -1)


def test_copies_of_views() -> None:
    x = st.tensor(X, requires_grad=True)
    z = st.tensor(X[:, :2] + 1j)
    pairs = [
        (st.slice_copy(x, 1, 1, 4, 2), X[:, 1:4:2]),
        (st.slice_copy(x, -2, None, 2), X[:2]),
        (st.split_copy(x, 3, 1)[1], X[:, 3:]),
        (st.view_as_real_copy(z)[..., 0], X[:, :2]),
        (st.view_as_complex_copy(st.tensor(X).reshape(3, 2, 2)), X[:, ::2] + 1j * X[:, 1::2]),
    ]
    for actual, expected in pairs:
        np.testing.assert_array_equal(actual.detach().numpy(), expected)
    assert not np.shares_memory(pairs[0][0].detach().numpy(), x.detach().numpy())
    assert autograd.gradcheck(lambda t: st.slice_copy(t, 1, 0, 3, 2), x)
    assert autograd.gradcheck(lambda t: st.split_copy(t, [1, 3], 1), x)
    with pytest.raises(RuntimeError, match="step must be positive: 0"):
        st.slice_copy(x, step=0)
    with pytest.raises(IndexError, match="no such dimension: 2"):
        st.slice_copy(x, 2)


def test_norm_except_dim() -> None:
    x = st.tensor(X, requires_grad=True)
    np.testing.assert_allclose(
        st.norm_except_dim(x, 2, 1).tolist(), np.linalg.norm(X, axis=0, keepdims=True)
    )
    np.testing.assert_allclose(st.norm_except_dim(x, 1, -1).item(), np.abs(X).sum())
    np.testing.assert_allclose(st.norm_except_dim(x[0]).tolist(), np.abs(X[0]))
    wide = st.norm_except_dim(x.reshape(3, 2, 2), 1, 1)
    np.testing.assert_allclose(wide.tolist(), np.abs(X).reshape(3, 2, 2).sum((0, 2), keepdims=True))
    assert autograd.gradcheck(lambda t: st.norm_except_dim(t, 2, 0), x)


def test_functions_of_nn() -> None:
    for name in ("adaptive_max_pool1d", "bilinear", "cosine_similarity", "pdist", "rms_norm"):
        assert getattr(st, name) is getattr(F, name)
    x, y = st.tensor(X), st.tensor(X[::-1].copy())
    np.testing.assert_allclose(
        st.pairwise_distance(x, y).numpy(), np.linalg.norm(X - X[::-1] + 1e-6, axis=1)
    )
    assert st.alpha_dropout(x, 0.5, False) is x
    np.testing.assert_allclose(st.rrelu(x, 0.5, 0.5).numpy(), np.where(X > 0, X, X / 2))


def test_transforms() -> None:
    x = st.tensor(X)
    assert st.vmap is func.vmap
    out, push = func.linearize(lambda a, b: a * b, x, x)
    np.testing.assert_allclose(out.numpy(), X * X)
    np.testing.assert_allclose(push(st.ones_like(x), 2 * st.ones_like(x)).numpy(), 3 * X)
    with pytest.raises(RuntimeError, match="same shapes"):
        push(st.ones(2), st.ones(2))


def test_matmul_of_linalg() -> None:
    assert linalg.matmul is st.matmul
    assert "matmul" in dir(linalg)


def test_switches() -> None:
    assert not st.is_anomaly_enabled()
    st.set_anomaly_enabled(True, check_nan=False)
    assert st.is_anomaly_enabled()
    assert not st.is_anomaly_check_nan_enabled()
    st.set_anomaly_enabled(False)
    assert not st.is_anomaly_enabled()
    assert st.is_anomaly_check_nan_enabled()
    for mode, number in (("warn", 1), ("error", 2), (1, 1), ("default", 0)):
        st.set_deterministic_debug_mode(mode)
        assert st.get_deterministic_debug_mode() == number
        assert st.are_deterministic_algorithms_enabled() == (number > 0)
        assert st.is_deterministic_algorithms_warn_only_enabled() == (number == 1)
    with pytest.raises(RuntimeError, match="set_deterministic_debug_mode"):
        st.set_deterministic_debug_mode("loud")
    with autograd.set_multithreading_enabled(False):
        x = st.ones(2, requires_grad=True)
        x.sum().backward()
    assert x.grad.tolist() == [1, 1]
    assert not x.is_ipu
    assert not x.is_maia


@pytest.mark.torch
def test_as_pytorch_has_it() -> None:
    import torch

    calls = [
        lambda m, x: m.vander(x[0], 3),
        lambda m, x: m.vander(x[0].long(), 1),
        lambda m, x: m.norm_except_dim(x, 2, 1),
        lambda m, x: m.slice_copy(x, 1, -2),
        lambda m, x: m.cosine_similarity(x, x + 1, 0),
        lambda m, x: m.rrelu(x, 0.1, 0.1, False),
        lambda m, x: m.bilinear(x, x, m.ones(2, 4, 4).to(m.float64), None),
        lambda m, x: m.rms_norm(x, (4,)),
        lambda m, x: m.clamp_max_(x * 1, 0.5),
    ]
    for call in calls:
        ours, theirs = call(st, st.tensor(X)), call(torch, torch.tensor(X))
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-12, atol=1e-12)
        assert str(ours.dtype).rpartition(".")[2] == str(theirs.dtype).rpartition(".")[2]


def test_empty_vectors_are_joined_along_any_dimension() -> None:
    leaf = st.empty(0, requires_grad=True)
    for dim in (0, 1, -2):
        out = st.cat([leaf, st.empty(0, dtype=st.float64)], dim=dim)
        assert (out.shape, out.dtype) == ((0,), st.float64)
        out.sum().backward()
        assert leaf.grad is not None
        assert leaf.grad.shape == (0,)
        assert st.cat([st.empty(0, device="meta")] * 2, dim=dim).shape == (0,)
    assert st.cat([leaf.detach(), st.ones(2, 1)], dim=1).tolist() == [[1], [1]]
    with pytest.raises(IndexError, match="dim is out of range"):
        st.cat([st.empty(0), st.ones(2, 1)], dim=2)


def test_ravel_is_contiguous() -> None:
    x = st.arange(6.0, requires_grad=True)
    for flat in (x[::2].ravel(), st.ravel(x[::2])):
        assert flat.is_contiguous()
        assert flat.tolist() == [0, 2, 4]
    (x[::2].ravel() * st.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1, 0, 2, 0, 3, 0]
    rows = st.ones(2, 3)
    assert rows.ravel().data_ptr() == rows.data_ptr()


# Functions whose `out=` must have the result's dtype.
EXACT_OUT: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(["neg", "floor", "ceil", "trunc", "round", "frac", "sign", "sgn", "abs"], ()),
    **dict.fromkeys(["nonzero", "msort", "argmax", "argmin", "amax", "amin"], ()),
    **dict.fromkeys(["tril", "triu", "diag"], ()),
    "take": (st.tensor([0]),),
    "index_select": (0, st.tensor([0])),
    "masked_select": (st.ones(2, 2, dtype=st.bool),),
    "searchsorted": (st.ones(2, 1),),
}


@pytest.mark.parametrize("name", EXACT_OUT)
def test_out_of_another_dtype_is_refused(name: str) -> None:
    x, function = st.tensor([[1.0, -2.5], [0.5, 4.0]]), getattr(st, name)
    expected = function(x, *EXACT_OUT[name])
    out = st.empty(0, dtype=expected.dtype)
    function(x, *EXACT_OUT[name], out=out)
    assert out.tolist() == expected.tolist()
    for dtype in {st.float64, st.float32, st.int64} - {expected.dtype}:
        out = st.full(expected.shape, 7, dtype=dtype)
        with pytest.raises(RuntimeError, match=f"{name}: .*dtype"):
            function(x, *EXACT_OUT[name], out=out)
        assert (out == 7).all()


def test_activations_have_an_out_argument() -> None:
    for name in ("logsigmoid", "softplus"):
        x, out = st.tensor([-1.0, 0.0, 3.0]), st.empty(0)
        function: Any = getattr(F, name)
        assert function(x, out=out) is out
        assert out.tolist() == function(x).tolist()


def test_arithmetic_of_numbers_alone_gives_tensors() -> None:
    cases: list[tuple[Any, Any, Any]] = [
        (st.add(True, True), True, st.bool),
        (st.add(1, 2.5), 3.5, st.float32),
        (st.sub(1, 2), -1, st.int64),
        (st.mul(1j, 2), 2j, st.complex64),
        (st.div(1, 2), 0.5, st.float32),
        (st.floor_divide(5, 2), 2, st.int64),
    ]
    for out, value, dtype in cases:
        assert (out.item(), out.dtype, out.shape) == (value, dtype, ())
    with pytest.raises(TypeError, match="must be tensors"):
        st.maximum(1, 2)  # type: ignore[arg-type]
