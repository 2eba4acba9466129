"""PyTorch's private names of tensors, layers and optimizers: they work as there, or raise."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest

import shmtensor as st
from shmtensor import nn, optim


def test_private_grad_is_another_name_of_grad() -> None:
    p = nn.Parameter(st.ones(2))
    gradient = st.tensor([1.0, 2.0])
    p._grad = gradient
    assert p.grad is gradient
    assert p._grad is gradient
    optim.SGD([p], 0.5).step()
    assert p.tolist() == [0.5, 0.0]
    p._grad = None
    assert p.grad is None
    p.grad = gradient
    assert p._grad is gradient


@pytest.mark.parametrize("value", [3, st.ones(3), st.ones(2, dtype=st.float64)])
def test_private_grad_has_grads_checks(value: Any) -> None:
    p = nn.Parameter(st.ones(2))
    with pytest.raises((TypeError, RuntimeError), match="assigned grad"):
        p._grad = value
    assert p.grad is None


def test_gradients_are_handed_to_a_shared_model() -> None:
    shared, local = nn.Linear(2, 1), nn.Linear(2, 1)
    local.load_state_dict(shared.state_dict())
    local(st.ones(3, 2)).sum().backward()
    before = shared.weight.detach().clone()
    for own, theirs in zip(shared.parameters(), local.parameters()):
        own._grad = theirs.grad
    optim.SGD(shared.parameters(), 1.0).step()
    assert shared.weight.tolist() == (before - 3).tolist()


NAMES = [
    "_is_param",
    "_is_buffer",
    "_cdata",
    "_python_dispatch",
    "_has_symbolic_sizes_strides",
    "_version",
    "_base",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_without_effect_raises_when_it_is_assigned(name: str) -> None:
    for x in (st.ones(2), nn.Parameter(st.ones(2))):
        with pytest.raises(AttributeError, match=name):
            setattr(x, name, True)
        assert name not in vars(x)
    assert not hasattr(st.ones(2), "_is_param")


@pytest.mark.parametrize("name", ["_call_impl", "_slow_forward", "_compiled_call_impl"])
def test_a_modules_name_without_effect_raises_when_it_is_assigned(name: str) -> None:
    layer = nn.Linear(1, 1)
    with pytest.raises(AttributeError, match=name):
        setattr(layer, name, lambda x: x)
    setattr(layer, name, None)  # asks for nothing
    assert not hasattr(layer, name)


def test_users_own_attributes_are_stored() -> None:
    x, p = st.ones(2), nn.Parameter(st.ones(2))
    x.my_tag = 1
    p._is_sharded = True
    p._no_weight_decay = True
    assert vars(x) == {"my_tag": 1}
    assert vars(p) == {"_is_sharded": True, "_no_weight_decay": True}


def test_private_grad_fn_is_only_set_to_none() -> None:
    x = nn.Parameter(st.ones(2))
    y = x * 2
    assert y._grad_fn is not None
    with pytest.raises(RuntimeError, match="_grad_fn can be only set to None"):
        y._grad_fn = y.grad_fn
    y._grad_fn = None
    assert not y.requires_grad


def test_hooks_are_read_and_replaced() -> None:
    x = nn.Parameter(st.ones(2))
    assert x._backward_hooks is None
    x.register_hook(lambda g: g * 2)
    hooks = x._backward_hooks
    assert len(hooks) == 1
    x._backward_hooks = OrderedDict()
    x.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    x._backward_hooks = hooks
    x.grad = None
    x.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    with pytest.raises(TypeError, match="_backward_hooks"):
        x._backward_hooks = 3
    st.ones(2)._backward_hooks = None
    with pytest.raises(RuntimeError, match="doesn't require gradient"):
        st.ones(2)._backward_hooks = hooks


def test_hooks_of_a_computed_tensor_are_read_and_replaced() -> None:
    x = nn.Parameter(st.ones(2))
    y = x * 1
    y.register_hook(lambda g: g * 5)
    hooks = y._backward_hooks
    y._backward_hooks = None
    y.sum().backward(retain_graph=True)
    assert x.grad.tolist() == [1.0, 1.0]
    y._backward_hooks = hooks
    y.sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]


def test_post_accumulate_hooks_are_read_and_removed() -> None:
    x = nn.Parameter(st.ones(2))
    calls: list[Any] = []
    x.register_post_accumulate_grad_hook(calls.append)
    assert len(x._post_accumulate_grad_hooks) == 1
    x._post_accumulate_grad_hooks = None
    x.sum().backward()
    assert calls == []
    with pytest.raises(RuntimeError, match="non-leaf"):
        (x * 1)._post_accumulate_grad_hooks = {0: calls.append}


def test_is_view() -> None:
    x = st.ones(2, 3, requires_grad=True)
    with st.no_grad():
        unrecorded = x.view(-1)
    views = [x.view(-1), x[0], x.t(), x.expand(4, 2, 3), x.detach()[0], unrecorded, x.chunk(2)[1]]
    assert all(v._is_view() for v in views)
    assert views[0]._base is x
    others = [x, x.detach(), x.data, x + 1, x.contiguous(), nn.Parameter(x), x[x > 0]]
    assert not any(v._is_view() for v in others)


def test_optimizers_hooks_have_pytorchs_names() -> None:
    optimizer = optim.SGD([nn.Parameter(st.ones(1))], 1.0)
    calls: list[str] = []
    optimizer._optimizer_step_pre_hooks = OrderedDict({0: lambda *_: calls.append("pre")})
    optimizer.register_step_post_hook(lambda *_: calls.append("post"))
    assert len(optimizer._optimizer_step_post_hooks) == 1
    optimizer.step()
    assert calls == ["pre", "post"]


def test_a_scalers_private_numbers_are_read_and_set() -> None:
    scaler = st.amp.GradScaler("cpu", init_scale=8.0)
    assert scaler._scale is None
    assert scaler._growth_tracker is None
    scaler._scale = st.tensor(4.0)
    x = st.ones(1)
    assert scaler.scale(x).item() == 4
    assert scaler._scale.item() == 4
    scaler._scale = st.tensor(2.0)
    scaler._growth_tracker = st.tensor(7)
    assert scaler.scale(x).item() == 2
    assert scaler.state_dict()["_growth_tracker"] == scaler._growth_tracker.item() == 7
    with pytest.raises(RuntimeError, match="cannot be written"):
        scaler._scale.fill_(1)
    with pytest.raises(AttributeError, match="_per_optimizer_states"):
        scaler._per_optimizer_states = {}
