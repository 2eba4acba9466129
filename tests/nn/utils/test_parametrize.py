"""Tensors computed by parametrizations: registering, assigning, caching, removing."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn
from shmtensor.nn.utils import parametrize


class Symmetric(nn.Module):
    def forward(self, x: st.Tensor) -> st.Tensor:
        return x.triu() + x.triu(1).mT

    def right_inverse(self, a: st.Tensor) -> st.Tensor:
        return a.triu()


class Product(nn.Module):
    def forward(self, a: st.Tensor, b: st.Tensor) -> st.Tensor:
        return a * b

    def right_inverse(self, w: st.Tensor) -> tuple[st.Tensor, st.Tensor]:
        return w.abs(), w.sign()


class Double(nn.Module):
    def forward(self, x: st.Tensor) -> st.Tensor:
        return 2 * x


class FirstRow(nn.Module):
    def forward(self, x: st.Tensor) -> st.Tensor:
        return x[:1]


def parametrized(*parametrizations: nn.Module, **kwargs: Any) -> Any:
    layer: Any = nn.Linear(3, 3)
    for p in parametrizations:
        assert parametrize.register_parametrization(layer, "weight", p, **kwargs) is layer
    return layer


def test_weight_is_computed_and_gradients_reach_the_original() -> None:
    layer = parametrized(Symmetric(), Double())
    assert type(layer).__name__ == "ParametrizedLinear"
    assert parametrize.type_before_parametrizations(layer) is nn.Linear
    assert list(layer.state_dict()) == ["bias", "parametrizations.weight.original"]
    assert isinstance(layer.parametrizations.weight, parametrize.ParametrizationList)
    a = np.triu(layer.parametrizations.weight.original.detach().numpy())
    w = 2 * (a + np.triu(a, 1).T)
    np.testing.assert_allclose(layer.weight.detach().numpy(), w, rtol=1e-6)
    layer(st.ones(1, 3)).sum().backward()
    expected = np.triu(4 - 2 * np.eye(3))
    np.testing.assert_allclose(layer.parametrizations.weight.original.grad.numpy(), expected)


def test_assigning_uses_right_inverse() -> None:
    layer = parametrized(Product())
    assert list(layer.state_dict())[1:] == [f"parametrizations.weight.original{i}" for i in "01"]
    value = np.arange(9, dtype=np.float32).reshape(3, 3) - 4
    layer.weight = st.tensor(value)
    np.testing.assert_array_equal(layer.weight.detach().numpy(), value)
    np.testing.assert_array_equal(
        layer.parametrizations.weight.original0.detach().numpy(), abs(value)
    )
    with pytest.raises(ValueError, match=r"Tensor 0 .* float64"):
        layer.weight = st.ones(3, 3, dtype=st.float64)
    with pytest.raises(RuntimeError, match="Double does not implement right_inverse"):
        parametrized(Double()).weight = st.ones(3, 3)


def test_mismatched_tensors_are_refused_and_change_nothing() -> None:
    layer = nn.Linear(3, 3)
    before = layer.weight.detach().clone()
    with pytest.raises(ValueError, match=r"change the shape(.|\n)*1, 3"):
        parametrize.register_parametrization(layer, "weight", FirstRow())
    with pytest.raises(ValueError, match="with name 'foo'"):
        parametrize.register_parametrization(layer, "foo", Double())
    with pytest.raises(ValueError, match="on weight"):
        parametrize.remove_parametrizations(layer, "weight")
    with pytest.raises(ValueError, match="one or more"):
        parametrize.ParametrizationList([], st.ones(1))
    assert type(layer) is nn.Linear
    np.testing.assert_array_equal(layer.weight.detach().numpy(), before.numpy())
    layer = parametrized(Double())
    with pytest.raises(ValueError, match="may not change the shape"):
        parametrize.register_parametrization(layer, "weight", FirstRow())
    assert parametrized(FirstRow(), unsafe=True).weight.shape == (1, 3)


@pytest.mark.parametrize("leave", [True, False])
def test_removing_leaves_the_value_or_the_original(leave: bool) -> None:
    layer = nn.Linear(3, 3)
    weight, before = layer.weight, layer.weight.detach().clone().numpy()
    parametrize.register_parametrization(layer, "weight", Double())
    parametrize.register_parametrization(layer, "bias", Double())
    assert parametrize.is_parametrized(layer)
    parametrize.remove_parametrizations(layer, "weight", leave)
    assert not parametrize.is_parametrized(layer, "weight")
    assert parametrize.is_parametrized(layer, "bias")
    assert layer.weight is weight
    np.testing.assert_array_equal(weight.detach().numpy(), before * (2 if leave else 1))
    parametrize.remove_parametrizations(layer, "bias")
    assert type(layer) is nn.Linear
    assert "parametrizations" not in layer._modules
    two = parametrized(Product())
    with pytest.raises(ValueError, match="sequence of tensors"):
        parametrize.remove_parametrizations(two, "weight", leave_parametrized=False)
    assert isinstance(parametrize.remove_parametrizations(two, "weight").weight, nn.Parameter)


def test_cached_computes_once() -> None:
    layer = parametrized(Double())
    with parametrize.cached():
        first = layer.weight
        with parametrize.cached():
            assert layer.weight is first
        assert layer.weight is first
    assert layer.weight is not first
    assert not parametrize._cache


def test_copies_are_independent_and_pickling_is_refused() -> None:
    layer = parametrized(Double())
    replica = copy.deepcopy(layer)
    parametrize.remove_parametrizations(replica, "weight")
    assert type(replica) is nn.Linear
    assert parametrize.is_parametrized(layer)
    np.testing.assert_array_equal(layer.weight.detach().numpy(), replica.weight.detach().numpy())
    with pytest.raises(RuntimeError, match="only supported through state_dict"):
        pickle.dumps(layer)


def test_buffers_and_transfer() -> None:
    module: Any = nn.Module()
    module.register_buffer("scale", st.ones(2))
    parametrize.register_parametrization(module, "scale", Double())
    assert module.scale.tolist() == [2, 2]
    assert list(module.state_dict()) == ["parametrizations.scale.original"]
    layer, other = parametrized(Double()), nn.Linear(3, 3)
    parametrize.transfer_parametrizations_and_params(layer, other)
    assert other.parametrizations.weight.original is layer.parametrizations.weight.original
    plain = nn.Linear(3, 3)
    assert parametrize.transfer_parametrizations_and_params(nn.Linear(3, 3), plain) is plain
    assert not parametrize.is_parametrized(plain)
