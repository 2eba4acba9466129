"""`Variable`, the engine's callbacks, and other old names of autograd."""

from __future__ import annotations

from typing import Any

import pytest

import shmtensor as st
from shmtensor import autograd
from shmtensor.autograd import Variable
from shmtensor.autograd.function import InplaceFunction


def test_a_variable_is_a_tensor_over_the_same_memory() -> None:
    x = st.ones(2, requires_grad=True) * 2
    v = Variable(x)
    assert type(v) is st.Tensor
    assert not v.requires_grad
    assert v.data_ptr() == x.data_ptr()
    assert Variable(x.detach(), requires_grad=True).requires_grad
    assert Variable(x, True).is_leaf
    assert Variable().shape == (0,)
    assert autograd.variable.Variable is Variable
    assert "Variable" in dir(autograd)


def test_every_tensor_is_an_instance() -> None:
    assert isinstance(st.ones(2), Variable)
    assert isinstance(st.nn.Parameter(st.ones(2)), Variable)
    assert not isinstance([1.0], Variable)
    with pytest.raises(TypeError, match="Variable data has to be a tensor, but got list"):
        Variable([1.0])
    with pytest.warns(UserWarning, match="volatile was removed"):
        Variable(st.ones(1), volatile=True)


def test_callbacks_run_after_backward() -> None:
    engine = Variable._execution_engine
    x = st.ones(2, requires_grad=True)
    events: list[Any] = []

    def hook(g: st.Tensor) -> None:
        engine.queue_callback(lambda: events.append(("callback", x.grad is not None)))
        events.append("hook")

    x.register_hook(hook)
    (x * 3).sum().backward()
    assert events == ["hook", ("callback", True)]
    with pytest.raises(RuntimeError, match="only be installed during backward"):
        engine.queue_callback(lambda: None)


def test_old_names_of_functions() -> None:
    class Twice(InplaceFunction):
        @staticmethod
        def forward(ctx: Any, x: st.Tensor) -> st.Tensor:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: st.Tensor) -> st.Tensor:
            with pytest.warns(DeprecationWarning, match="use 'saved_tensors'"):
                (x,) = ctx.saved_variables
            return 2 * x * g

    x = st.tensor([3.0], requires_grad=True)
    Twice.apply(x).backward()
    assert x.grad.tolist() == [6.0]
    assert Twice(inplace=True).inplace
    assert issubclass(Twice, autograd.Function)


def test_the_switch_of_threads_is_remembered() -> None:
    assert autograd.is_multithreading_enabled()
    with autograd.set_multithreading_enabled(False):
        assert not autograd.is_multithreading_enabled()
    assert autograd.is_multithreading_enabled()


def test_handles_of_tensor_hooks_know_their_hooks() -> None:
    x = st.ones(2, requires_grad=True)
    handle = x.register_hook(lambda g: None)
    assert handle.id in handle.hooks_dict_ref()
    handle.remove()
    assert handle.hooks_dict_ref() is None
