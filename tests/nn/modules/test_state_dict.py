"""state_dict and load_state_dict."""

from __future__ import annotations

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn


def model() -> nn.Sequential:
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    module.register_buffer("n", st.zeros(1))
    module.register_buffer("private", st.zeros(1), persistent=False)
    return module


def test_names_and_memory_are_the_parameters() -> None:
    m = model()
    state = m.state_dict()
    assert list(state) == ["n", "0.weight", "0.bias", "2.weight", "2.bias"]
    with st.no_grad():
        m[0].bias.fill_(7)
    assert state["0.bias"][0] == 7
    assert not state["0.bias"].requires_grad
    assert m.state_dict(keep_vars=True)["0.bias"] is m[0].bias
    assert list(m.state_dict(prefix="x."))[1] == "x.0.weight"
    assert state._metadata["0"] == {"version": 1}


def test_round_trip_copies_into_the_same_memory() -> None:
    a, b = model(), model()
    memory = b[0].weight.data_ptr()
    assert str(b.load_state_dict(a.state_dict())) == "<All keys matched successfully>"
    assert b[0].weight.data_ptr() == memory
    np.testing.assert_array_equal(a[2].weight.detach().numpy(), b[2].weight.detach().numpy())


def test_arrays_are_accepted() -> None:
    m = nn.Linear(2, 1)
    m.load_state_dict({"weight": np.ones((1, 2)), "bias": np.zeros(1)})
    assert m(st.ones(1, 2)).item() == 2


def test_all_mismatches_are_named_at_once() -> None:
    m = model()
    state = m.state_dict()
    del state["0.bias"]
    state["1.bias"] = st.ones(1)
    state["2.weight"] = st.ones(5, 5)
    state["2.bias"] = "text"
    with pytest.raises(RuntimeError) as caught:
        m.load_state_dict(state)
    text = str(caught.value)
    assert "loading state_dict for Sequential" in text
    assert 'Missing key(s) in state_dict: "0.bias"' in text
    assert 'Unexpected key(s) in state_dict: "1.bias"' in text
    assert "size mismatch for 2.weight" in text
    assert "(5, 5)" in text
    assert "(2, 4)" in text
    assert '"2.bias": expected a tensor' in text
    with pytest.raises(TypeError, match="dictionary"):
        m.load_state_dict([1])


def test_not_strict_returns_the_names() -> None:
    m = model()
    missing, unexpected = m.load_state_dict({"x": st.ones(1)}, strict=False)
    assert unexpected == ["x"]
    assert missing == ["n", "0.weight", "0.bias", "2.weight", "2.bias"]


def test_assign_makes_the_tensors_the_parameters() -> None:
    m = nn.Linear(2, 2)
    state = {"weight": st.ones(2, 2), "bias": st.zeros(2)}
    m.load_state_dict(state, assign=True)
    assert isinstance(m.weight, nn.Parameter)
    assert m.weight.requires_grad
    assert m.weight.data_ptr() == state["weight"].data_ptr()


def test_extra_state_travels() -> None:
    class Counter(nn.Module):
        def __init__(self, n: int) -> None:
            super().__init__()
            self.n = n

        def get_extra_state(self):
            return {"n": self.n}

        def set_extra_state(self, state):
            self.n = state["n"]

    a, b = nn.Sequential(Counter(3)), nn.Sequential(Counter(0))
    b.load_state_dict(a.state_dict())
    assert b[0].n == 3
    with pytest.raises(RuntimeError, match="_extra_state"):
        b.load_state_dict({})


def test_hooks_see_saving_and_loading() -> None:
    m = nn.Linear(2, 2)
    calls = []
    m.register_state_dict_pre_hook(lambda module, prefix, keep: calls.append(("pre", prefix)))
    handle = m.register_state_dict_post_hook(
        lambda module, state, prefix, metadata: state.__delitem__("bias")
    )
    assert list(m.state_dict()) == ["weight"]
    handle.remove()

    def rename(module, state, prefix, *_):
        state[prefix + "bias"] = state.pop(prefix + "b")

    m.register_load_state_dict_pre_hook(rename)
    m.register_load_state_dict_post_hook(lambda module, keys: calls.append(tuple(keys)))
    m.load_state_dict({"weight": st.ones(2, 2), "b": st.ones(2)})
    assert calls == [("pre", ""), ([], [])]


def test_override_of_the_two_steps_is_used() -> None:
    class Odd(nn.Linear):
        def _save_to_state_dict(self, destination, prefix, keep_vars):
            super()._save_to_state_dict(destination, prefix, keep_vars)
            destination[prefix + "w2"] = destination.pop(prefix + "weight")

        def _load_from_state_dict(self, state_dict, prefix, *args):
            state_dict[prefix + "weight"] = state_dict.pop(prefix + "w2")
            super()._load_from_state_dict(state_dict, prefix, *args)

    a, b = nn.Sequential(Odd(2, 2)), nn.Sequential(Odd(2, 2))
    assert "0.w2" in a.state_dict()
    b.load_state_dict(a.state_dict())
    np.testing.assert_array_equal(a[0].weight.detach().numpy(), b[0].weight.detach().numpy())


def test_post_hooks_must_return_nothing() -> None:
    layer = nn.Linear(1, 1)
    handle = layer.register_state_dict_post_hook(lambda *_: {})
    with pytest.raises(RuntimeError, match="must return None"):
        layer.state_dict()
    handle.remove()
    layer.register_load_state_dict_post_hook(lambda *_: 3)
    with pytest.raises(AssertionError, match="return nothing"):
        layer.load_state_dict(layer.state_dict())


def test_assigned_parameters_keep_the_modules_requires_grad() -> None:
    layer = nn.Linear(1, 1)
    bias = nn.Parameter(st.ones(1), requires_grad=False)
    layer.load_state_dict({"weight": st.ones(1, 1), "bias": bias}, assign=True)
    assert layer.bias is bias
    assert bias.requires_grad
    assert layer.weight.requires_grad
