"""Hooks around forward and backward."""

from __future__ import annotations

import pytest

import shmtensor as st
from shmtensor import nn
from shmtensor.nn.modules import module_hooks as hooks


def test_forward_hooks_see_and_replace() -> None:
    m = nn.Identity()
    m.register_forward_pre_hook(lambda module, args: args[0] + 1)
    with m.register_forward_hook(lambda module, args, out: out * args[0]):
        assert m(st.ones(1)).item() == 4
    assert m(st.ones(1)).item() == 2


def test_prepend_and_order() -> None:
    m, seen = nn.Identity(), []
    m.register_forward_hook(lambda *_: seen.append(1))
    m.register_forward_hook(lambda *_: seen.append(2))
    m.register_forward_hook(lambda *_: seen.append(0), prepend=True)
    m(st.ones(1))
    assert seen == [0, 1, 2]


def test_keyword_arguments_reach_hooks_that_ask() -> None:
    class Scale(nn.Module):
        def forward(self, x, by=1):
            return x * by

    m, seen = Scale(), []

    def before(module, args, kwargs):
        return args, {"by": kwargs["by"] + 1}

    m.register_forward_pre_hook(before, with_kwargs=True)
    m.register_forward_hook(lambda module, args, kwargs, out: seen.append(kwargs), with_kwargs=True)
    assert m(st.ones(1), by=2).item() == 3
    assert seen == [{"by": 3}]
    m.register_forward_pre_hook(lambda module, args, kwargs: 5, with_kwargs=True)
    with pytest.raises(RuntimeError, match=r"\(args, kwargs\): got 5"):
        m(st.ones(1), by=2)


def test_always_call_runs_after_an_error() -> None:
    class Failing(nn.Module):
        def forward(self, x):
            raise ValueError("no")

    m, seen = Failing(), []
    m.register_forward_hook(lambda module, args, out: seen.append(out), always_call=True)
    m.register_forward_hook(lambda module, args, out: seen.append("never"))
    with pytest.raises(ValueError, match="no"):
        m(st.ones(1))
    assert seen == [None]


def test_backward_hooks_see_the_modules_own_gradients() -> None:
    m = nn.Linear(2, 1, bias=False)
    with st.no_grad():
        m.weight.copy_(st.tensor([[2.0, 3.0]]))
    seen = []

    def after(module, grad_input, grad_output):
        seen.append((grad_input[0].tolist(), grad_output[0].tolist()))

    m.register_full_backward_hook(after)
    m.register_full_backward_pre_hook(lambda module, grad_output: (grad_output[0] * 10,))
    x = st.ones(1, 2, requires_grad=True)
    (m(x) + x.sum()).sum().backward()
    assert seen == [([[20.0, 30.0]], [[10.0]])]
    assert x.grad.tolist() == [[21.0, 31.0]]


def test_backward_hook_replaces_grad_input() -> None:
    m = nn.Identity()
    m.register_full_backward_hook(lambda module, grad_input, grad_output: (grad_input[0] * 5,))
    x = st.ones(1, requires_grad=True)
    m(x).sum().backward()
    assert x.grad.item() == 5
    m.register_full_backward_hook(lambda module, grad_input, grad_output: (None, None))
    with pytest.raises(RuntimeError, match="another number of gradients: 2, expected 1"):
        m(x).sum().backward()


def test_backward_hook_fires_without_input_gradient() -> None:
    m, seen = nn.Linear(2, 1), []
    m.register_full_backward_hook(lambda module, gi, go: seen.append((gi, go[0].tolist())))
    m(st.ones(1, 2)).sum().backward()
    assert seen == [((None,), [[1.0]])]


def test_hooks_of_all_modules() -> None:
    seen = []
    handles = [
        hooks.register_module_forward_pre_hook(lambda module, args: seen.append("pre")),
        hooks.register_module_forward_hook(lambda module, args, out: seen.append("post")),
        hooks.register_module_full_backward_hook(lambda module, gi, go: seen.append("back")),
    ]
    x = st.ones(1, requires_grad=True)
    nn.Identity()(x).sum().backward()
    for handle in handles:
        handle.remove()
        handle.remove()
    assert seen == ["pre", "post", "back"]
    assert not hooks.everywhere
    nn.Identity()(x)
    assert len(seen) == 3


def test_hooks_of_what_modules_register_replace_it() -> None:
    from shmtensor.nn.modules.module import (
        register_module_buffer_registration_hook,
        register_module_module_registration_hook,
        register_module_parameter_registration_hook,
    )

    seen = []

    def hook(module, name, value):
        seen.append(name)
        return nn.Parameter(st.zeros(3)) if name == "weight" else None

    with (
        register_module_parameter_registration_hook(hook),
        register_module_buffer_registration_hook(hook),
        register_module_module_registration_hook(hook),
    ):
        model = nn.Sequential(nn.BatchNorm1d(2, bias=False))
    names = ["weight", "bias", "running_mean", "running_var", "num_batches_tracked", "0"]
    assert seen == names
    assert model[0].weight.shape == (3,)
    nn.Linear(1, 1)
    assert seen == names


def test_handles_know_their_tables() -> None:
    module = nn.Identity()
    handle = module.register_forward_hook(lambda *_: None, with_kwargs=True)
    assert handle.hooks_dict_ref() is module._forward_hooks
    assert [table() for table in handle.extra_dict_ref] == [module._forward_hooks_with_kwargs]
    with hooks.register_module_backward_hook(lambda *_: None) as everywhere:
        assert everywhere.id in hooks.everywhere


def test_a_hook_that_fails_after_an_error_does_not_hide_it() -> None:
    def failing(module, args, out):
        raise KeyError("hook")

    m, seen = nn.Linear(2, 2), []
    m.register_forward_hook(failing, always_call=True)
    m.register_forward_hook(lambda *_: seen.append(1), always_call=True)
    with (
        pytest.warns(UserWarning, match="KeyError"),
        pytest.raises(RuntimeError, match="sizes differ"),
    ):
        m(st.ones(1, 3))
    assert seen == [1]
