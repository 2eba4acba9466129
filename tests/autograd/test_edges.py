"""The graph for users: nodes, edges, hooks on several tensors."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import shmtensor as st
from shmtensor import autograd
from shmtensor.autograd import graph


def leaf(*values: float) -> st.Tensor:
    return st.tensor(values, requires_grad=True)


def test_nodes_are_nodes() -> None:
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    assert isinstance(y.grad_fn, graph.Node)
    assert y.grad_fn.name() == "SumBackward0"
    ((mul, number),) = y.grad_fn.next_functions
    assert (mul.name(), number) == ("MulBackward0", 0)
    accumulate = mul.next_functions[0][0]
    assert isinstance(accumulate, graph.Node)
    assert accumulate.name() == "AccumulateGrad"
    assert accumulate.variable is x
    mul.metadata["note"] = accumulate.metadata["note"] = 1
    assert mul.metadata == accumulate.metadata == {"note": 1}


def test_hooks_of_an_accumulating_node() -> None:
    x = leaf(1.0)
    y = x * 3
    accumulate = y.grad_fn.next_functions[0][0]
    calls: list[Any] = []
    before = accumulate.register_prehook(lambda gs: (gs[0] * 2,))
    after = accumulate.register_hook(lambda inputs, outputs: calls.append((inputs, outputs)))
    y.backward()
    assert x.grad.tolist() == [6]
    assert len(calls) == 1
    assert calls[0][0] == ()
    assert calls[0][1][0].tolist() == [6]
    before.remove()
    after.remove()
    (x * 3).backward()
    assert x.grad.tolist() == [9]
    assert len(calls) == 1


def test_a_gradient_edge_replaces_a_tensor() -> None:
    x = leaf(1.0, 2.0)
    middle = x * 3
    edge = graph.get_gradient_edge(middle)
    assert edge == graph.GradientEdge(middle.grad_fn, 0, edge.edge)
    out = (middle * middle).sum()
    del middle
    (g,) = autograd.grad(out, edge, retain_graph=True)
    assert g.tolist() == [6, 12]
    (g,) = autograd.grad(edge, x, grad_outputs=st.ones(2), retain_graph=True)
    assert g.tolist() == [3, 3]
    autograd.backward(out, inputs=[graph.get_gradient_edge(x)])
    assert x.grad.tolist() == [18, 36]
    values, _ = x.max(0)
    assert graph.get_gradient_edge(values).node is values.grad_fn
    with pytest.raises(RuntimeError, match="does not require gradients"):
        graph.get_gradient_edge(st.ones(1))


def test_increment_version() -> None:
    x = leaf(1.0, 2.0)
    y = x.exp()
    graph.increment_version([y])
    assert y._version == 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_multi_grad_hook_waits_for_all() -> None:
    a, b, c = leaf(1.0), leaf(2.0), leaf(3.0)
    calls: list[Any] = []
    handle = graph.register_multi_grad_hook((a, b, c), calls.append)
    (a * b).backward()
    assert len(calls) == 1
    assert [None if g is None else g.tolist() for g in calls[0]] == [[2], [1], None]
    (a * b * c).backward()
    assert len(calls) == 2
    assert [g.tolist() for g in calls[1]] == [[6], [3], [2]]
    handle.remove()
    (a * b).backward()
    assert len(calls) == 2


def test_multi_grad_hook_of_any() -> None:
    a, b = leaf(1.0), leaf(2.0)
    calls: list[Any] = []
    graph.register_multi_grad_hook((a, b), calls.append, mode="any")
    (a * b).backward()
    (a * b).backward()
    assert len(calls) == 2
    with pytest.raises(ValueError, match="Expects mode"):
        graph.register_multi_grad_hook((a,), calls.append, mode="some")


def test_batched_gradients_are_those_of_a_loop() -> None:
    x = leaf(1.0, 2.0, 3.0)
    y = x**2
    directions = st.eye(3)
    (j,) = autograd.grad(y, x, directions, is_grads_batched=True, retain_graph=True)
    assert j.tolist() == [[2, 0, 0], [0, 4, 0], [0, 0, 6]]
    (j,) = autograd.grad(y, x, st.zeros(0, 3), is_grads_batched=True, retain_graph=True)
    assert j.shape == (0, 3)
    with pytest.raises(RuntimeError, match="leading size"):
        autograd.grad((y, y), x, (st.eye(3), st.zeros(2, 3)), is_grads_batched=True)


def test_backward_of_separate_graphs_in_several_threads() -> None:
    shared = st.ones(50, dtype=st.float64, requires_grad=True)
    errors: list[BaseException] = []
    start = threading.Barrier(6)

    def work(k: int) -> None:
        try:
            start.wait(60)
            for _ in range(20):
                y = shared
                for _ in range(5):
                    y = y * 1.0
                (y.sum() * k).backward()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors
    assert shared.grad.tolist() == [20.0 * sum(range(6))] * 50


def test_each_thread_begins_with_grad_mode_on() -> None:
    modes: list[bool] = []
    with st.no_grad():
        thread = threading.Thread(target=lambda: modes.append(autograd.is_grad_enabled()))
        thread.start()
        thread.join()
    assert modes == [True]


def test_backward_to_the_edge_of_a_non_leaf() -> None:
    x = leaf(1.0)
    y = x * 2
    gradients: list[float] = []
    y.register_hook(lambda g: gradients.append(g.item()))
    z = y * 3
    z.backward(inputs=(graph.get_gradient_edge(y),), retain_graph=True)
    assert (gradients, x.grad) == ([3], None)
    z.backward(inputs=graph.get_gradient_edge(x))
    assert x.grad.tolist() == [6]


def test_batched_gradients_free_the_graph() -> None:
    x = st.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * x
    autograd.grad(y, x, st.eye(3), is_grads_batched=True, retain_graph=True)
    autograd.grad(y, x, st.eye(3), is_grads_batched=True)
    with pytest.raises(RuntimeError, match="a second time"):
        autograd.grad(y, x, st.eye(3), is_grads_batched=True)
    with pytest.raises(RuntimeError, match="element 1 of tensors does not require grad"):
        autograd.backward([x.sum(), st.ones(())])
    with pytest.raises(RuntimeError, match="element 1 of tensors does not require grad"):
        autograd.grad((x * x, st.ones(3)), x, (st.eye(3),) * 2, is_grads_batched=True)
