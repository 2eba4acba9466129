"""The graph: hooks, names, and immediate freeing."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from typing import Any

import pytest

import shmtensor as st
from shmtensor import autograd


def leaf(*values: float) -> Any:
    return st.tensor(list(values), dtype=st.float64, requires_grad=True)


@pytest.fixture
def no_collector() -> Any:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def program(x: Any) -> Any:
    y = x * x + x.exp()
    y.mul_(x)
    v = y[:1]
    v.add_(x[:1])
    return (y.relu() @ y).log_softmax(0).sum() + v.sum()


def test_graphs_are_freed_without_the_collector(no_collector: None) -> None:
    x = leaf(1, 2, 3)
    out = program(x)
    ref = weakref.ref(out.grad_fn)
    out.backward()
    del out
    assert ref() is None
    assert gc.collect() == 0


def test_graphs_that_never_ran_backward_are_freed_too(no_collector: None) -> None:
    out = program(leaf(1, 2, 3))
    ref = weakref.ref(out.grad_fn)
    del out
    assert ref() is None


def test_custom_functions_make_no_cycle(no_collector: None) -> None:
    class Exp(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            out = x.exp()
            ctx.save_for_backward(x, out)
            return out

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.saved_tensors[1]

    out = Exp.apply(leaf(1))
    ref = weakref.ref(out.grad_fn)
    out.sum().backward()
    del out
    assert ref() is None


def test_long_chains_run_backward() -> None:
    x = y = leaf(1)
    for _ in range(10_000):
        y = y + 1
    y.sum().backward()
    assert x.grad.tolist() == [1]


def test_very_long_chains_are_freed() -> None:
    y = leaf(1)
    for _ in range(300_000):
        y = y * 1.0
    del y


def test_hooks_see_and_replace_gradients() -> None:
    x = leaf(1, 2)
    gradients: list[Any] = []
    y = x * 3
    y.register_hook(lambda g: gradients.append(g.tolist()))
    handle = y.register_hook(lambda g: g * 10)
    x.register_hook(lambda g: gradients.append(g.tolist()))
    y.sum().backward()
    assert gradients == [[1, 1], [30, 30]]
    assert x.grad.tolist() == [30, 30]
    handle.remove()
    handle.remove()


def test_a_hook_must_keep_the_shape() -> None:
    x = leaf(1, 2)
    x.register_hook(lambda g: g.sum())
    with pytest.raises(RuntimeError, match=r"changed the size of the gradient: \(\) is not \(2,\)"):
        (x * 1).sum().backward()


def test_post_accumulate_hooks_run_after_grad_is_there() -> None:
    x = leaf(1)
    gradients: list[Any] = []
    x.register_post_accumulate_grad_hook(lambda t: gradients.append(t.grad.tolist()))
    (x * 2 + x).sum().backward()
    assert gradients == [[3]]
    with pytest.raises(RuntimeError, match="non-leaf"):
        (x * 1).register_post_accumulate_grad_hook(print)


def test_node_hooks() -> None:
    x = leaf(1)
    y = x * 2
    gradients: list[Any] = []
    y.grad_fn.register_prehook(lambda gs: (gs[0] * 5,))
    y.grad_fn.register_hook(lambda grads, gs: gradients.append((grads[0].tolist(), gs[0].tolist())))
    y.sum().backward()
    assert gradients == [([10], [5])]
    assert x.grad.tolist() == [10]


def test_reading_the_gradient_of_a_result_warns() -> None:
    x = st.ones(2, requires_grad=True)
    y = x * 2
    assert x.grad is None  # a leaf's: no warning
    with pytest.warns(UserWarning, match=r"not a leaf: shape \(2,\), computed by Mul.*retain_grad"):
        assert y.grad is None
    y.retain_grad()
    assert y.grad is None
    y.sum().backward()
    assert y.grad is not None
    assert y.detach().grad is None


def test_retain_grad() -> None:
    x = leaf(1)
    y = x * 2
    assert not y.retains_grad
    y.retain_grad()
    (y * 3).sum().backward()
    assert y.retains_grad
    assert y.grad.tolist() == [3]


def test_an_exception_in_a_hook_leaves_everything_usable() -> None:
    x = leaf(1)
    y = (x * x).sum()
    handle = x.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        y.backward(retain_graph=True)
    handle.remove()
    assert st.is_grad_enabled()
    y.backward()
    assert x.grad.tolist() == [2]


def test_backward_inside_a_hook() -> None:
    x, z = leaf(1), leaf(5)

    def backward_again(g: Any) -> None:
        assert not st.is_grad_enabled()
        with st.enable_grad():
            (z * z).sum().backward()

    x.register_hook(backward_again)
    (x * 2).sum().backward()
    assert z.grad.tolist() == [10]


def test_several_threads_run_backward_on_one_graph() -> None:
    x = st.ones(1000, dtype=st.float64).requires_grad_()
    y = x
    for _ in range(50):
        y = y * 1.0 + x * 0.0
    out = y.sum()
    failures: list[BaseException] = []

    def run() -> None:
        try:
            for _ in range(5):
                out.backward(retain_graph=True)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert failures == []
    assert x.grad.tolist() == [20] * 1000


def test_a_graph_of_ten_thousand_nodes_is_freed_at_once(no_collector: None) -> None:
    y = leaf(1)
    for _ in range(5_000):
        y = (y * 1.0).sin()
    last = weakref.ref(y.grad_fn)
    y.sum().backward()
    del y
    assert last() is None


def test_backward_makes_as_many_calls_for_each_node() -> None:
    def calls(n: int) -> int:
        x = y = leaf(1)
        for _ in range(n):
            y = y * 1.0
        total, count = y.sum(), 0

        def note(frame: object, event: str, argument: object) -> None:
            nonlocal count
            count += 1

        former = sys.getprofile()
        sys.setprofile(note)
        try:
            total.backward()
        finally:
            sys.setprofile(former)
        assert x.grad.tolist() == [1]
        return count

    calls(100)
    first, second, third = calls(1_000), calls(2_000), calls(3_000)
    assert first > 1_000
    assert third - second == pytest.approx(second - first, rel=0.01)
