"""LazyModuleMixin and LazyLinear: parameters whose shapes the first input decides."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import pytest

import shmtensor as st
from shmtensor import nn
from shmtensor.nn.modules.lazy import LazyModuleMixin
from shmtensor.nn.parameter import is_lazy


def test_first_call_makes_it_a_linear() -> None:
    layer = nn.LazyLinear(3, dtype=st.float64)
    assert repr(layer) == "LazyLinear(in_features=0, out_features=3, bias=True)"
    assert layer.has_uninitialized_params()
    weight = layer.weight
    out = layer(st.ones(5, 2, dtype=st.float64))
    assert out.shape == (5, 3)
    assert type(layer) is nn.Linear
    assert layer.weight is weight  # an optimizer may hold it already
    assert type(weight) is nn.Parameter
    assert repr(layer) == "Linear(in_features=2, out_features=3, bias=True)"
    assert not layer._forward_pre_hooks
    assert not layer._load_state_dict_pre_hooks
    assert float(layer.weight.abs().max()) <= 2**-0.5
    assert nn.LazyLinear(3, bias=False)(st.ones(2)).shape == (3,)


def test_dtype_and_device_can_change_before() -> None:
    layer = nn.Sequential(nn.LazyLinear(3)).double()
    assert is_lazy(layer[0].weight)
    assert layer(st.ones(1, 2, dtype=st.float64)).dtype is st.float64
    assert layer[0].weight.requires_grad


@pytest.mark.parametrize("assign", [False, True])
def test_state_passes_between_lazy_and_known(assign: bool) -> None:
    initialized = nn.Linear(2, 3)
    layer = nn.LazyLinear(3)
    layer.load_state_dict(initialized.state_dict(), assign=assign)
    assert type(layer) is nn.LazyLinear
    assert st.equal(layer.weight, initialized.weight)
    with pytest.raises(AssertionError, match="in_features 4 of the input, 2 of the weight"):
        layer(st.ones(1, 4))
    assert st.equal(layer(st.ones(1, 2)), initialized(st.ones(1, 2)))
    assert type(layer) is nn.Linear
    assert layer.in_features == 2


def test_state_of_a_lazy_module_stays_lazy() -> None:
    state = nn.LazyLinear(3).state_dict()
    assert all(is_lazy(value) for value in state.values())
    other = nn.LazyLinear(3)
    other.load_state_dict(state)
    assert is_lazy(other.weight)
    file = io.BytesIO()
    st.save(state, file)
    file.seek(0)
    assert is_lazy(st.load(file, weights_only=False)["weight"])
    with pytest.raises(RuntimeError, match="can be loaded only"):
        nn.Linear(2, 3).load_state_dict(state)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copy_is_lazy_by_itself(copied: Any) -> None:
    layer = nn.LazyLinear(3)
    other = copied(layer)
    assert other(st.ones(1, 2)).shape == (1, 3)
    assert type(other) is nn.Linear
    assert not other._forward_pre_hooks
    assert type(layer) is nn.LazyLinear
    assert is_lazy(layer.weight)
    assert layer(st.ones(1, 5)).shape == (1, 3)


def test_optimizer_may_be_made_before_the_first_input() -> None:
    layer = nn.LazyLinear(3)
    optimizer = st.optim.SGD(layer.parameters(), lr=0.5)
    layer(st.ones(1, 2)).sum().backward()
    former = layer.weight.detach().clone()
    optimizer.step()
    assert st.equal(layer.weight, former - 0.5)


def test_users_lazy_module() -> None:
    class Scale(LazyModuleMixin, nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.UninitializedParameter()
            self.register_buffer("seen", nn.UninitializedBuffer(dtype=st.int64))

        def initialize_parameters(self, x: st.Tensor, last: int) -> None:
            self.scale.materialize((last,))
            nn.init.ones_(self.scale)
            if last != 7:
                self.seen.materialize(1)

        def forward(self, x: st.Tensor, last: int) -> st.Tensor:
            return x * self.scale

    layer = Scale()
    assert st.equal(layer(st.ones(2), last=2), st.ones(2))
    assert type(layer) is Scale
    assert layer.seen.dtype is st.int64
    assert isinstance(layer.seen, nn.Buffer)
    with pytest.raises(RuntimeError, match="left uninitialized"):
        Scale()(st.ones(7), last=7)


def test_wrong_use_is_diagnosed() -> None:
    class Empty(LazyModuleMixin, nn.Module):
        pass

    with pytest.raises(NotImplementedError, match="Empty"):
        Empty()()
    layer = nn.LazyLinear(3)
    with pytest.raises(ValueError, match="linear: attempted to use an uninitialized"):
        layer.forward(st.ones(1, 2))
    with pytest.raises(RuntimeError, match="share_memory_"):
        layer.share_memory()
    with pytest.raises(RuntimeError, match="DataParallel"):
        layer._replicate_for_data_parallel()
    assert type(layer) is nn.LazyLinear
