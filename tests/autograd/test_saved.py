"""Hooks on tensors saved for backward."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import autograd
from shmtensor.autograd import graph


def leaf(*values: float) -> st.Tensor:
    return st.tensor(values, dtype=st.float64, requires_grad=True)


def test_pack_gets_saved_tensors_and_unpack_returns_them() -> None:
    copies: list[Any] = []
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)

    def pack(tensor: st.Tensor) -> int:
        assert not autograd.is_grad_enabled()
        copies.append(tensor.numpy().copy())
        return len(copies) - 1

    with autograd.saved_tensors_hooks(pack, lambda i: st.from_numpy(copies[i])):
        y = (x * w).exp()
    assert len(copies) == 3  # mul keeps x and w, exp its result
    y.sum().backward()
    e = np.exp([3.0, 8.0])
    assert np.allclose(x.grad.numpy(), e * [3, 4])
    assert np.allclose(w.grad.numpy(), e * [1, 2])


def test_backward_uses_the_result_of_unpack() -> None:
    x = leaf(1.0, 2.0)
    with autograd.saved_tensors_hooks(lambda t: t, lambda t: t * 10):
        y = x * x
    y.sum().backward()
    assert x.grad.tolist() == [20, 40]


def test_second_order_goes_through_the_hooks() -> None:
    x = leaf(2.0)
    counts = [0, 0]

    def pack(tensor: st.Tensor) -> st.Tensor:
        counts[0] += 1
        return tensor

    def unpack(tensor: st.Tensor) -> st.Tensor:
        counts[1] += 1
        return tensor

    with autograd.saved_tensors_hooks(pack, unpack):
        y = x**3
        (g,) = autograd.grad(y, x, create_graph=True)
        (h,) = autograd.grad(g, x)
    assert h.tolist() == [12]
    assert counts[0] > 1
    assert counts[1] > 1


def test_a_function_s_saves_go_through_the_hooks() -> None:
    class Square(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return 2 * x * g

    x = leaf(3.0)
    saves: list[Any] = []
    with autograd.saved_tensors_hooks(lambda t: saves.append(t) or t * 2, lambda t: t):
        y = Square.apply(x)
    y.backward()
    assert len(saves) == 1
    assert x.grad.tolist() == [12]


def test_the_innermost_block_counts_and_each_thread_has_its_own() -> None:
    x = leaf(1.0)
    order: list[str] = []

    def record_as(name: str) -> autograd.saved_tensors_hooks:
        return autograd.saved_tensors_hooks(lambda t: order.append(name) or t, lambda t: t)

    with record_as("outer"):
        with record_as("inner"):
            x.exp()
        x.exp()
        thread = threading.Thread(target=lambda: x.exp())
        thread.start()
        thread.join()
    x.exp()
    assert order == ["inner", "outer"]


def test_wrong_hooks_are_refused() -> None:
    x = leaf(1.0, 2.0)
    with (
        autograd.saved_tensors_hooks(lambda t: t.mul_(2), lambda t: t),
        pytest.raises(RuntimeError, match="modifying its input in place"),
    ):
        x.detach().clone().requires_grad_().exp()
    with autograd.saved_tensors_hooks(lambda t: t, lambda t: 1):
        y = x.exp().sum()
    with pytest.raises(TypeError, match="expected to be a Tensor"):
        y.backward()


def test_a_value_that_is_stale_from_birth_is_still_refused() -> None:
    x = leaf(1.0, 2.0)
    with autograd.saved_tensors_hooks(lambda t: t, lambda t: t):
        y = x * 1
        y.mul_(y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_hooks_can_be_disabled() -> None:
    with graph.disable_saved_tensors_hooks("not here"):
        with (
            pytest.raises(RuntimeError, match="not here"),
            autograd.saved_tensors_hooks(lambda t: t, lambda t: t),
        ):
            pass
        x = leaf(1.0)
        with pytest.raises(RuntimeError, match="not here"):
            with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
                x.exp()


def test_save_on_cpu_changes_nothing_on_the_cpu() -> None:
    x = leaf(1.0, 2.0)
    with graph.save_on_cpu(pin_memory=True):
        (x * x).sum().backward()
    assert x.grad.tolist() == [2, 4]


def test_saved_tensors_may_be_written_where_that_is_allowed() -> None:
    with graph.allow_mutation_on_saved_tensors() as copies:
        x = leaf(1.0, 2.0)
        y = x * 1
        z = y.exp() * y
        y.mul_(7)
        z.sum().backward()
        copies.clear()
    e = np.exp([1.0, 2.0])
    assert np.allclose(x.grad.numpy(), e + e * [1, 2])


def test_nothing_is_observed_once_the_blocks_have_ended() -> None:
    x = leaf(1.0)
    saves: list[Any] = []
    with (
        pytest.raises(ZeroDivisionError),
        autograd.saved_tensors_hooks(lambda t: saves.append(t) or t, lambda t: t),
    ):
        raise ZeroDivisionError
    x.exp().backward()
    assert not saves


def test_writes_to_saved_tensors_are_allowed_in_one_block_only() -> None:
    with graph.allow_mutation_on_saved_tensors() as copies:
        with (
            pytest.raises(RuntimeError, match="cannot be nested"),
            graph.allow_mutation_on_saved_tensors(),
        ):
            pass
        x = leaf(1.0)
        y = x.sin().sum()
        other = x.sin().sum()
        copies.clear()
        with pytest.raises(AssertionError, match="backward outside of"):
            other.backward()
        z = x.sin().sum()
        assert len(copies.clones) == 1
        del z
        assert len(copies.clones) == 0  # with their graph
    with pytest.raises(AssertionError, match="backward outside of"):
        y.backward()
    with graph.allow_mutation_on_saved_tensors():
        x.sin().sum().backward()
    assert np.allclose(x.grad.numpy(), np.cos(1.0))


def test_disabled_hooks_do_not_stop_anomaly_mode() -> None:
    x = st.tensor([1.0, 2.0], requires_grad=True)
    with st.autograd.set_detect_anomaly(True), graph.disable_saved_tensors_hooks("not here"):
        (x * x).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]
