"""backward and grad: values, errors, and retained graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import autograd, native


def leaf(*values: float) -> Any:
    return st.tensor(list(values), dtype=st.float64, requires_grad=True)


def test_gradients_of_a_shared_input_are_summed() -> None:
    x, y = leaf(1, 2, 3), leaf(4, 5, 6)
    ((x * y + x) * (x * y)).sum().backward()
    assert x.grad.tolist() == [40, 120, 252]
    assert y.grad.tolist() == [9, 44, 117]


def test_a_second_backward_adds_to_grad() -> None:
    x = leaf(1, 2)
    (x * 3).sum().backward()
    (x * 3).sum().backward()
    assert x.grad.tolist() == [6, 6]


def test_gradients_are_summed_back_over_broadcast_dimensions() -> None:
    x, y = st.ones(3, 1).requires_grad_(), st.ones(4).requires_grad_()
    (x * y).sum().backward()
    assert x.grad.shape == (3, 1)
    assert x.grad.tolist() == [[4], [4], [4]]
    assert y.grad.tolist() == [3, 3, 3, 3]


def test_grad_changes_no_dot_grad() -> None:
    x = leaf(2)
    (g,) = autograd.grad((x * x).sum(), x)
    assert g.tolist() == [4]
    assert x.grad is None


def test_grad_by_something_that_is_not_a_leaf() -> None:
    x = leaf(2, 3)
    y = x * x
    (g,) = autograd.grad((y * y).sum(), y)
    assert g.tolist() == [8, 18]


def test_gradients_of_every_order() -> None:
    x = leaf(2)
    y = (x**4).sum()
    for expected in (32, 48, 48, 24):
        (y,) = autograd.grad(y.sum(), x, create_graph=True)
        assert y.tolist() == [expected]


def test_create_graph_of_backward_leaves_a_grad_with_history() -> None:
    x = leaf(3)
    (x * x * x).sum().backward(create_graph=True)
    assert x.grad.grad_fn is not None
    (g,) = autograd.grad(x.grad.sum(), x)
    assert g.tolist() == [18]
    x.grad = None


def test_unused_input() -> None:
    x, z = leaf(1), leaf(1)
    y = (x * 2).sum()
    with pytest.raises(RuntimeError, match="not have been used in the graph: input 1"):
        autograd.grad(y, (x, z), retain_graph=True)
    assert autograd.grad(y, (x, z), allow_unused=True, retain_graph=True)[1] is None
    assert autograd.grad(y, (x, z), materialize_grads=True)[1].tolist() == [0]


def test_only_inputs_is_accepted_and_has_no_effect() -> None:
    x = leaf(1, 2)
    (g,) = autograd.grad((x * x).sum(), x, None, True, True, True)
    assert g.tolist() == [2, 4]
    (g,) = autograd.grad(
        outputs=x * x, inputs=x, grad_outputs=st.ones(2, dtype=st.float64), create_graph=True,
        retain_graph=True, only_inputs=True,
    )  # fmt: skip
    ((g.norm() - 1) ** 2).backward()
    assert x.grad is not None
    with pytest.warns(FutureWarning, match="only_inputs=False has no effect"):
        autograd.grad((x * x).sum(), x, only_inputs=False)


def test_inputs_are_any_iterable() -> None:
    x, y = leaf(1), leaf(2)
    z = x * y
    named = {"x": x, "y": y}
    for inputs in ((v for v in (x, y)), named.values(), [x, y], iter((x, y))):
        gx, gy = autograd.grad(z, inputs, retain_graph=True)
        assert (gx.tolist(), gy.tolist()) == ([2], [1])
    gradients = autograd.grad(z, named, retain_graph=True)
    assert {name: g.tolist() for name, g in gradients.items()} == {"x": [2], "y": [1]}
    ones = st.ones(3, 1, dtype=st.float64)
    gx, gy = autograd.grad(z, iter((x, y)), ones, retain_graph=True, is_grads_batched=True)
    assert (gx.tolist(), gy.tolist()) == ([[2]] * 3, [[1]] * 3)
    outputs = (v for v in (z,))
    (gx,) = autograd.grad(outputs, x, ones, retain_graph=True, is_grads_batched=True)
    assert gx.tolist() == [[2]] * 3
    z.backward(inputs=(v for v in (x,)))
    assert (x.grad.tolist(), y.grad) == ([2], None)
    with pytest.raises(TypeError, match="inputs must be Tensors: str"):
        autograd.grad(z, ["x"])


def test_grad_outputs_weigh_the_results() -> None:
    x = leaf(1, 2)
    a, b = x * 2, x * 3
    (g,) = autograd.grad((a, b), x, (st.tensor([1.0, 10.0], dtype=st.float64), b.detach()))
    assert g.tolist() == [2 + 9, 20 + 18]


def test_backward_of_named_inputs_only() -> None:
    x, y = leaf(1), leaf(2)
    z = x * y
    (z * z).sum().backward(inputs=[x, z])
    assert x.grad.tolist() == [8]
    assert z.grad.tolist() == [4]
    assert y.grad is None


@pytest.mark.parametrize("create_graph", [False, True])
def test_gradients_that_lead_to_no_input_are_not_computed(create_graph: bool) -> None:
    x, weight, bias = leaf(1, 2, 3), leaf(4, 5, 6), leaf(7)
    hidden = x * weight + bias
    loss = (hidden * hidden.detach().requires_grad_()).sum()
    gradients: list[Any] = []
    node = hidden.grad_fn.next_functions[0][0]  # of x * weight
    node.register_hook(lambda inputs, outputs: gradients.append(inputs))
    keywords: dict[str, Any] = {"retain_graph": True, "create_graph": create_graph}
    autograd.grad(loss, x, **keywords)
    loss.backward(inputs=[weight], **keywords)
    autograd.grad(loss, [x, weight], **keywords)
    autograd.grad(loss, bias, **keywords)  # x * weight does not run
    assert [[g is not None for g in gs] for gs in gradients] == [
        [True, False],
        [False, True],
        [True, True],
    ]


def test_inputs_of_a_list_get_their_gradients() -> None:
    parts = [leaf(1, 2), leaf(3), leaf(4, 5)]
    joined = st.cat(parts)
    (g,) = autograd.grad((joined * joined).sum(), parts[1])
    assert g.tolist() == [6]
    assert all(part.grad is None for part in parts)


def test_second_backward_says_what_to_do() -> None:
    x = leaf(1)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [4]
    with pytest.raises(
        RuntimeError, match=r"second time: the saved values of mul are freed.*retain_graph"
    ):
        y.backward()


def test_second_backward_is_allowed_where_nothing_was_saved() -> None:
    x = leaf(1)
    y = (x + 1).sum()
    y.backward()
    y.backward()
    assert x.grad.tolist() == [2]


def test_a_result_of_several_elements_needs_a_gradient() -> None:
    x = leaf(1, 2)
    with pytest.raises(RuntimeError, match=r"only for scalar outputs: shape \(2,\)"):
        (x * 2).backward()
    with pytest.raises(RuntimeError, match=r"Mismatch in shape: the gradient has \(3,\)"):
        (x * 2).backward(st.ones(3))
    (x * 2).backward(st.ones(2))
    assert x.grad.tolist() == [2, 2]


def test_a_result_without_history() -> None:
    with pytest.raises(RuntimeError, match="does not require grad"):
        st.ones(1).backward()


def test_integers_have_no_gradient() -> None:
    with pytest.raises(RuntimeError, match=r"only Tensors of floating point.*int64"):
        st.tensor([1, 2]).requires_grad_()


def test_gradients_take_the_input_s_dtype() -> None:
    x = st.ones(2).requires_grad_()
    y = st.ones(2, dtype=st.float64).requires_grad_()
    (x * y).sum().backward()
    assert x.grad.dtype is st.float32
    assert y.grad.dtype is st.float64


def test_a_real_input_of_a_complex_result_has_a_real_gradient() -> None:
    x = leaf(1, 2)
    z = x * st.tensor([1 + 1j, 2j], dtype=st.complex128)
    (z * z.conj()).real.sum().backward()
    assert x.grad.dtype is st.float64
    assert x.grad.tolist() == [4, 16]


def test_gradients_of_two_leaves_are_never_one_array() -> None:
    x, y = leaf(1), leaf(1)
    (x + y).backward(st.ones(1, dtype=st.float64))
    x.grad.mul_(7)
    assert y.grad.tolist() == [1]


def test_a_gradient_kept_by_a_hook_is_unchanged() -> None:
    x = leaf(1)
    gradients: list[Any] = []
    y = x * 2
    y.register_hook(gradients.append)
    (y + x).backward(st.ones(1, dtype=st.float64))
    x.grad.mul_(100)
    assert gradients[0].tolist() == [1]


class Doubled(autograd.Function):
    """2 x; notes where its gradient is."""

    address = 0

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        gradient = g * 2
        Doubled.address = gradient.data_ptr()
        return gradient


def test_a_fresh_gradient_is_taken_over_without_a_copy() -> None:
    x = leaf(1, 2)
    Doubled.apply(x).sum().backward()
    assert x.grad.tolist() == [2, 2]
    assert x.grad.data_ptr() == Doubled.address


def test_the_gradient_buffer_receives_the_gradient() -> None:
    x = leaf(1, 2)
    flat = np.full(5, 9.0)
    x.accumulate_grad.grad_buffer = native.GradientBuffer(flat[1:3])
    for expected in ([3, 3], [6, 6]):
        (x * 3).sum().backward()
        assert flat[1:3].tolist() == expected
        assert x.accumulate_grad.grad_buffer.owns(x.grad.array)
    x.grad = None
    (x * 3).sum().backward()
    assert flat.tolist() == [9, 3, 3, 9, 9]


def test_gradients_are_in_shared_memory() -> None:
    x = st.ones(3).requires_grad_()
    (x * x).sum().backward()
    assert x.grad.is_shared()


def test_a_read_only_gradient_is_an_error() -> None:
    x = st.ones(3, requires_grad=True)
    fixed = np.ones(3, np.float32)
    fixed.flags.writeable = False
    x.grad = st.from_numpy(fixed)
    with pytest.raises(RuntimeError, match=r"\.grad of a leaf cannot be written: shape \(3,\)"):
        (x * 2).sum().backward()
    x.grad = x.grad.clone()
    (x * 2).sum().backward()
    assert x.grad.tolist() == [3, 3, 3]


def test_an_expanded_gradient_is_an_error() -> None:
    x, one = st.ones(3, requires_grad=True), st.ones(1)
    x.grad = one.expand(3)
    with pytest.raises(RuntimeError, match=r"\.grad of a leaf cannot be written: shape \(3,\)"):
        x.sum().backward()
    assert one.tolist() == [1]


def test_gradients_of_outputs_are_complex_as_they_are() -> None:
    x, z = leaf(1, 2), st.ones(2, dtype=st.complex128, requires_grad=True)
    with pytest.raises(RuntimeError, match="the gradient is complex64, the output is float64"):
        autograd.grad(x.sum(), x, grad_outputs=st.tensor(2 + 3j))
    with pytest.raises(RuntimeError, match="the gradient is float64, the output is complex128"):
        z.sum().backward(st.tensor(2.0, dtype=st.float64))
    (g,) = autograd.grad(x.sum(), x, grad_outputs=st.tensor(2))  # an integer is converted
    assert g.tolist() == [2, 2]


def test_materialized_zeros_are_differentiable() -> None:
    x, unused = leaf(1, 2), leaf(3)
    for create_graph in (False, True):
        _, zeros = autograd.grad(
            (x * x).sum(), (x, unused), create_graph=create_graph, materialize_grads=True
        )
        assert zeros.tolist() == [0]
        assert zeros.requires_grad is create_graph


def test_a_gradient_has_the_layout_of_its_leaf() -> None:
    x = st.ones(2, 3, requires_grad=True)
    y = st.ones(3, 2).t().requires_grad_()
    for create_graph in (False, True):
        x.grad = y.grad = None
        (x * y).sum().backward(create_graph=create_graph)
        assert (x.grad.stride(), y.grad.stride()) == ((3, 1), (1, 2))
        assert x.grad.view(-1).tolist() == [1] * 6
        x.grad = y.grad = None
        (x.t() @ y).sin().sum().backward()
        assert (x.grad.stride(), y.grad.stride()) == ((3, 1), (1, 2))


def test_no_inputs_are_an_error() -> None:
    x = st.ones(2, requires_grad=True)
    for nothing in ([], (), {}, iter(())):
        with pytest.raises(RuntimeError, match=r"`inputs` argument to `grad\(\)` cannot be empty"):
            autograd.grad((x * 2).sum(), nothing)
    with pytest.raises(RuntimeError, match=r"`inputs` argument to `backward\(\)` cannot be empty"):
        (x * 2).sum().backward(inputs=[])
