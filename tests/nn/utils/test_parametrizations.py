"""Orthogonal, weight-normalised and spectrally normalised weights, in both forms."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn
from shmtensor.nn.utils import (
    parametrizations,
    remove_spectral_norm,
    remove_weight_norm,
    spectral_norm,
    weight_norm,
)
from shmtensor.nn.utils.spectral_norm import (
    SpectralNorm,
    SpectralNormLoadStateDictPreHook,
    SpectralNormStateDictHook,
)
from shmtensor.nn.utils.weight_norm import WeightNorm


@pytest.fixture(autouse=True)
def _seed() -> None:
    st.manual_seed(0)


def weight_of(layer: Any) -> Any:
    return layer.weight.detach().numpy()


@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (5, 3)])
@pytest.mark.parametrize("orthogonal_map", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("trivial", [True, False])
def test_orthogonal_stays_so(shape: tuple[int, int], orthogonal_map: str, trivial: bool) -> None:
    layer: Any = parametrizations.orthogonal(
        nn.Linear(*shape), orthogonal_map=orthogonal_map, use_trivialization=trivial
    )
    optimizer = st.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        layer(st.ones(2, shape[0])).square().sum().backward()
        optimizer.step()
        w = weight_of(layer)
        product = w @ w.T if len(w) <= len(w.T) else w.T @ w
        np.testing.assert_allclose(product, np.eye(len(product)), atol=1e-5)


def test_orthogonal_matrices_can_be_assigned() -> None:
    q = np.linalg.qr(np.random.default_rng(0).standard_normal((5, 3)))[0].astype(np.float32)
    for trivial in (True, False):
        layer: Any = parametrizations.orthogonal(
            nn.Linear(3, 5), orthogonal_map="householder", use_trivialization=trivial
        )
        layer.weight = st.tensor(q)
        np.testing.assert_allclose(weight_of(layer), q, atol=1e-6)
    with pytest.raises(NotImplementedError, match="use_trivialization"):
        parametrizations.orthogonal(nn.Linear(3, 3), use_trivialization=False).weight = st.ones(
            3, 3
        )


def test_orthogonal_refuses_tensors_without_a_matrix() -> None:
    with pytest.raises(ValueError, match="'foo'"):
        parametrizations.orthogonal(nn.Linear(2, 2), "foo")
    with pytest.raises(ValueError, match="1 dimensions"):
        parametrizations.orthogonal(nn.Linear(2, 2), "bias")
    with pytest.raises(ValueError, match="Got: sine"):
        parametrizations.orthogonal(nn.Linear(2, 2), orthogonal_map="sine")


@pytest.mark.parametrize(("dim", "axes"), [(0, (1, 2, 3)), (1, (0, 2, 3)), (None, None)])
def test_weight_norm_keeps_the_weight(dim: int | None, axes: Any) -> None:
    layer: Any = nn.Conv2d(2, 3, 2)
    w = weight_of(layer).copy()
    norms = np.sqrt((w**2).sum(axes, keepdims=axes is not None))
    parametrized: Any = parametrizations.weight_norm(copy.deepcopy(layer), dim=dim)
    with pytest.warns(FutureWarning, match="deprecated"):
        hooked: Any = weight_norm(layer, dim=dim)
    for module, g in [(parametrized, "parametrizations.weight.original0"), (hooked, "weight_g")]:
        np.testing.assert_allclose(weight_of(module), w, rtol=1e-6)
        np.testing.assert_allclose(module.state_dict()[g].numpy(), norms, rtol=1e-6)
    with st.no_grad():
        hooked.weight_g.mul_(2)
    hooked(st.ones(1, 2, 3, 3))
    np.testing.assert_allclose(weight_of(hooked), 2 * w, rtol=1e-6)
    parametrized.load_state_dict(hooked.state_dict())  # the names of the older form
    np.testing.assert_allclose(weight_of(parametrized), 2 * w, rtol=1e-6)
    assert isinstance(next(iter(hooked._forward_pre_hooks.values())), WeightNorm)
    with pytest.warns(FutureWarning), pytest.raises(RuntimeError, match="two weight_norm"):
        weight_norm(hooked)
    assert isinstance(remove_weight_norm(hooked).weight, nn.Parameter)
    with pytest.raises(ValueError, match="not found"):
        remove_weight_norm(hooked)


@pytest.mark.parametrize("make", [parametrizations.spectral_norm, spectral_norm])
def test_spectral_norm_is_one(make: Callable[..., Any]) -> None:
    for layer, x in [
        (nn.Linear(4, 3), st.ones(1, 4)),
        (nn.ConvTranspose1d(4, 3, 2), st.ones(1, 4, 2)),
    ]:
        w = weight_of(layer).copy()
        if w.ndim > 2:  # a transposed convolution counts its outputs in dimension 1
            w = np.moveaxis(w, 1, 0).reshape(3, -1)
        normed = make(layer, n_power_iterations=100)
        normed(x)
        computed = weight_of(normed.eval())
        if computed.ndim > 2:
            computed = np.moveaxis(computed, 1, 0).reshape(3, -1)
        np.testing.assert_allclose(computed, w / np.linalg.norm(w, 2), rtol=1e-3, atol=1e-6)
    with pytest.raises(ValueError, match="n_power_iterations=0"):
        make(nn.Linear(2, 2), n_power_iterations=0)


def test_old_state_of_spectral_norm_is_converted() -> None:
    layer: Any = spectral_norm(nn.Linear(3, 2))
    layer(st.ones(1, 3))
    layer.eval()
    expected = weight_of(layer).copy()
    state = layer.state_dict()
    assert state._metadata[""]["spectral_norm"] == {"weight.version": SpectralNorm._version}
    del state["weight_v"], state._metadata
    state["weight"] = st.tensor(expected)
    other: Any = spectral_norm(nn.Linear(3, 2)).eval()
    other.load_state_dict(state)
    other(st.ones(1, 3))
    np.testing.assert_allclose(weight_of(other), expected, rtol=1e-4)
    with pytest.raises(RuntimeError, match='"weight", "weight_v"'):
        other.load_state_dict({k: v for k, v in state.items() if k != "weight"})


def test_spectral_norm_is_removed_with_its_hooks() -> None:
    layer: Any = spectral_norm(nn.Linear(3, 2))
    kinds = [SpectralNorm, SpectralNormStateDictHook, SpectralNormLoadStateDictPreHook]
    tables = [layer._forward_pre_hooks, layer._state_dict_hooks, layer._load_state_dict_pre_hooks]
    for kind, table in zip(kinds, tables, strict=True):
        assert [type(hook) for hook in table.values()] == [kind]
    with pytest.raises(RuntimeError, match="two spectral_norm"):
        spectral_norm(layer)
    remove_spectral_norm(layer)
    assert not any(tables)
    assert list(layer.state_dict()) == ["bias", "weight"]
    with pytest.raises(ValueError, match="not found"):
        remove_spectral_norm(layer)
