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
    m, calls = nn.Identity(), []
    m.register_forward_hook(lambda *_: calls.append(1))
    m.register_forward_hook(lambda *_: calls.append(2))
    m.register_forward_hook(lambda *_: calls.append(0), prepend=True)
    m(st.ones(1))
    assert calls == [0, 1, 2]


def test_keyword_arguments_reach_hooks_that_ask() -> None:
    class Scale(nn.Module):
        def forward(self, x, by=1):
            return x * by

    m, calls = Scale(), []

    def before(module, args, kwargs):
        return args, {"by": kwargs["by"] + 1}

    m.register_forward_pre_hook(before, with_kwargs=True)
    m.register_forward_hook(
        lambda module, args, kwargs, out: calls.append(kwargs), with_kwargs=True
    )
    assert m(st.ones(1), by=2).item() == 3
    assert calls == [{"by": 3}]
    m.register_forward_pre_hook(lambda module, args, kwargs: 5, with_kwargs=True)
    with pytest.raises(RuntimeError, match=r"\(args, kwargs\): got 5"):
        m(st.ones(1), by=2)


def test_always_call_runs_after_an_error() -> None:
    class Failing(nn.Module):
        def forward(self, x):
            raise ValueError("no")

    m, calls = Failing(), []
    m.register_forward_hook(lambda module, args, out: calls.append(out), always_call=True)
    m.register_forward_hook(lambda module, args, out: calls.append("never"))
    with pytest.raises(ValueError, match="no"):
        m(st.ones(1))
    assert calls == [None]


def test_hooks_of_all_modules_may_be_called_always() -> None:
    class Failing(nn.Module):
        def forward(self, x, by=1):
            raise ValueError("no")

    calls = []
    with hooks.register_module_forward_hook(
        lambda module, args, kwargs, out: calls.append((kwargs, out)),
        with_kwargs=True,
        always_call=True,
    ):
        with pytest.raises(ValueError, match="no"):
            Failing()(st.ones(1), by=2)
        nn.Identity()(st.ones(1))
    assert calls[0] == ({"by": 2}, None)
    assert calls[1][0] == {}


def test_backward_hooks_see_the_modules_own_gradients() -> None:
    m = nn.Linear(2, 1, bias=False)
    with st.no_grad():
        m.weight.copy_(st.tensor([[2.0, 3.0]]))
    calls = []

    def after(module, grad_input, grad_output):
        calls.append((grad_input[0].tolist(), grad_output[0].tolist()))

    m.register_full_backward_hook(after)
    m.register_full_backward_pre_hook(lambda module, grad_output: (grad_output[0] * 10,))
    x = st.ones(1, 2, requires_grad=True)
    (m(x) + x.sum()).sum().backward()
    assert calls == [([[20.0, 30.0]], [[10.0]])]
    assert x.grad.tolist() == [[21.0, 31.0]]


def test_backward_hook_replaces_grad_input() -> None:
    m = nn.Identity()
    m.register_full_backward_hook(lambda module, grad_input, grad_output: (grad_input[0] * 5,))
    x = st.ones(1, requires_grad=True)
    m(x).sum().backward()
    assert x.grad.item() == 5
    m.register_full_backward_hook(lambda module, grad_input, grad_output: (None, None))
    with pytest.raises(RuntimeError, match="invalid number of gradients: 2, expected 1"):
        m(x).sum().backward()


def test_backward_hook_fires_without_input_gradient() -> None:
    m, calls = nn.Linear(2, 1), []
    m.register_full_backward_hook(lambda module, gi, go: calls.append((gi, go[0].tolist())))
    with pytest.warns(UserWarning, match="no inputs of Linear require gradients"):
        m(st.ones(1, 2)).sum().backward()
    assert calls == [((None,), [[1.0]])]


def test_backward_hook_without_input_gradient_gives_none() -> None:
    m = nn.Linear(2, 1)
    handle = m.register_full_backward_hook(lambda module, gi, go: (st.ones(1, 2),))
    y = m(st.ones(1, 2)).sum()
    with (
        pytest.warns(UserWarning, match="no inputs of Linear"),
        pytest.raises(RuntimeError, match="should always return None"),
    ):
        y.backward()
    handle.remove()
    m.register_full_backward_hook(lambda module, gi, go: (None,))
    with pytest.warns(UserWarning, match="no inputs of Linear"):
        m(st.ones(1, 2)).sum().backward()


def test_backward_pre_hook_returns_as_many_as_it_got() -> None:
    m = nn.Linear(1, 1)
    m.register_full_backward_pre_hook(lambda module, go: (go[0], go[0]))
    y = m(st.ones(1, 1, requires_grad=True)).sum()
    with pytest.raises(RuntimeError, match=r"pre_hook: .* gradients: 2, expected 1"):
        y.backward()


def test_backward_hook_sees_zeros_for_a_tensor_without_gradient() -> None:
    class Product(nn.Module):
        def forward(self, x, y, n):
            return x * y * n, y

    m, calls = Product(), []
    m.register_full_backward_hook(lambda module, gi, go: calls.append((gi, go)))
    m(st.ones(1, requires_grad=True), st.ones(1), 3)[0].sum().backward()
    ((grad_input, grad_output),) = calls
    assert [g if g is None else g.tolist() for g in grad_input] == [[3], [0], None]
    assert grad_output[0].tolist() == [1]
    assert grad_output[1] is None


def test_backward_hook_fires_once_in_double_backward() -> None:
    m, calls = nn.MSELoss(), []
    m.register_full_backward_hook(lambda module, gi, go: calls.append(1))
    x = st.rand(1, requires_grad=True)
    (g,) = st.autograd.grad(m(x, st.rand(1)), x, create_graph=True)
    assert calls == [1]
    (h,) = st.autograd.grad(g, x)
    assert calls == [1]
    assert h.tolist() == [2]


@pytest.mark.parametrize("wrap", [lambda x: {"a": x}, lambda x: [x], lambda x: 3])
def test_backward_hook_warns_of_outputs_that_it_does_not_see(wrap) -> None:
    class Wrapped(nn.Module):
        def forward(self, x):
            return wrap(x * 2)

    m, calls = Wrapped(), []
    m.register_full_backward_hook(lambda *_: calls.append(1))
    x = st.ones(1, requires_grad=True)
    with pytest.warns(UserWarning, match="should be a Tensor or a tuple of Tensors"):
        y = m(x)
    if not isinstance(y, int):
        y[0 if isinstance(y, list) else "a"].sum().backward()
        assert x.grad.tolist() == [2]
    assert calls == []


def test_outputs_of_backward_hooks_cannot_be_written_in_place() -> None:
    class Writing(nn.Module):
        def forward(self, x):
            return x.mul_(2)

    x = st.ones(1, 1, requires_grad=True)
    inside, outside = Writing(), nn.Linear(1, 1)
    for m in (inside, outside):
        m.register_full_backward_hook(lambda *_: None)
    with pytest.raises(RuntimeError, match="custom Function"):
        inside(x.clone())
    with pytest.raises(RuntimeError, match="custom Function"):
        outside(x).mul_(2)


def test_hooks_of_all_modules() -> None:
    calls = []
    handles = [
        hooks.register_module_forward_pre_hook(lambda module, args: calls.append("pre")),
        hooks.register_module_forward_hook(lambda module, args, out: calls.append("post")),
        hooks.register_module_full_backward_hook(lambda module, gi, go: calls.append("back")),
    ]
    x = st.ones(1, requires_grad=True)
    nn.Identity()(x).sum().backward()
    for handle in handles:
        handle.remove()
        handle.remove()
    assert calls == ["pre", "post", "back"]
    assert not hooks.global_hook_ids
    nn.Identity()(x)
    assert len(calls) == 3


def test_registration_hooks_replace_objects() -> None:
    from shmtensor.nn.modules.module import (
        register_module_buffer_registration_hook,
        register_module_module_registration_hook,
        register_module_parameter_registration_hook,
    )

    calls = []

    def hook(module, name, value):
        calls.append(name)
        return nn.Parameter(st.zeros(3)) if name == "weight" else None

    with (
        register_module_parameter_registration_hook(hook),
        register_module_buffer_registration_hook(hook),
        register_module_module_registration_hook(hook),
    ):
        model = nn.Sequential(nn.BatchNorm1d(2, bias=False))
    names = ["weight", "bias", "running_mean", "running_var", "num_batches_tracked", "0"]
    assert calls == names
    assert model[0].weight.shape == (3,)
    nn.Linear(1, 1)
    assert calls == names


def test_handles_know_their_tables() -> None:
    module = nn.Identity()
    handle = module.register_forward_hook(lambda *_: None, with_kwargs=True)
    assert handle.hooks_dict_ref() is module._forward_hooks
    assert [table() for table in handle.extra_dict_ref] == [module._forward_hooks_with_kwargs]
    with hooks.register_module_backward_hook(lambda *_: None) as everywhere:
        assert everywhere.id in hooks.global_hook_ids


def test_a_hook_that_fails_after_an_error_does_not_hide_it() -> None:
    def failing(module, args, out):
        raise KeyError("hook")

    m, calls = nn.Linear(2, 2), []
    m.register_forward_hook(failing, always_call=True)
    m.register_forward_hook(lambda *_: calls.append(1), always_call=True)
    with (
        pytest.warns(UserWarning, match="KeyError"),
        pytest.raises(RuntimeError, match="sizes differ"),
    ):
        m(st.ones(1, 3))
    assert calls == [1]
