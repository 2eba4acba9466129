"""The public side of a node: class, saved values, calls."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

import shmtensor as st
from shmtensor import autograd, native
from shmtensor.autograd import Function, graph


def leaf(*values: float) -> Any:
    return st.tensor(list(values), dtype=st.float64, requires_grad=True)


class Scaled(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, factor: float) -> Any:
        ctx.factor = factor
        ctx.save_for_backward(x)
        return x * factor

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        assert isinstance(ctx, Scaled._backward_cls)
        return g * ctx.factor, None


def test_a_node_is_of_a_class_named_after_its_op() -> None:
    x = leaf(1, 2)
    y = x.sin()
    z = (x * y).sum()
    assert type(z.grad_fn).__name__ == "SumBackward0"
    ((product, _),) = z.grad_fn.next_functions
    assert [type(n).__name__ for n, _ in product.next_functions] == [
        "AccumulateGrad",
        "SinBackward0",
    ]
    assert type(y.grad_fn) is type(leaf(1).sin().grad_fn)
    assert isinstance(y.grad_fn, graph.Node)
    assert isinstance(y.grad_fn, native.Node)
    assert repr(y.grad_fn).startswith("<SinBackward0 object at 0x")
    assert repr(product.next_functions[0][0]).startswith("<AccumulateGrad object at 0x")
    z.backward()  # nodes that a user has accessed still run
    assert x.grad is not None


def test_a_node_with_a_user_class_is_freed_with_its_graph() -> None:
    x = leaf(1)
    y = x
    refs = []
    for _ in range(3000):  # and without recursion
        y = y * 2
        refs.append(weakref.ref(y.grad_fn))
    gc.disable()
    try:
        del y
        assert all(w() is None for w in refs)
    finally:
        gc.enable()


def test_saved_values_have_names() -> None:
    x, w = leaf(1, 2), leaf(3, 4)
    out = (x * w).exp()
    product = out.grad_fn.next_functions[0][0]
    assert product._saved_self is x
    assert product._saved_other is w
    assert out.grad_fn._saved_result.tolist() == out.tolist()
    assert out.grad_fn._saved_result.grad_fn is out.grad_fn
    assert (x * 2).sum(0, keepdim=True).grad_fn._saved_keepdim is True
    assert x.sum().grad_fn._saved_self_sym_sizes == (2,)
    assert {n for n in dir(product) if "saved_" in n} == {
        "_saved_self", "_saved_other", "_raw_saved_self", "_raw_saved_other",
    }  # fmt: skip
    assert not hasattr(product, "_saved_result")
    out.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        _ = product._saved_self


def test_saved_values_of_several_outputs_and_of_lists() -> None:
    x = leaf(3, 1, 2)
    values, indices = x.sort()
    assert values.grad_fn._saved_indices.tolist() == indices.tolist()
    pieces = st.cat([x, x * 2]).grad_fn
    assert [n.name() for n, _ in pieces.next_functions] == ["AccumulateGrad", "MulBackward0"]
    product = st.einsum("i,i->i", x, x * 2)
    assert product.requires_grad
    stale = x * 2
    power = stale**2
    stale.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        _ = power.grad_fn._saved_self


def test_a_saved_tensor_has_its_own_hooks() -> None:
    x, calls = leaf(1, 2), []
    y = x.sin()
    raw = y.grad_fn._raw_saved_self
    raw.register_hooks(lambda t: calls.append("pack") or t.numpy(force=True), st.from_numpy)
    with pytest.raises(RuntimeError, match="already been set"):
        raw.register_hooks(lambda t: t, lambda t: t)
    assert y.grad_fn._saved_self.tolist() == [1, 2]
    y.sum().backward()
    assert calls == ["pack"]
    assert x.grad.tolist() == x.detach().cos().tolist()
    w = leaf(1, 1) * 1
    product = (x * w).sum()
    product.grad_fn.next_functions[0][0]._raw_saved_self.register_hooks(lambda t: t, lambda t: t)
    w.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()  # nodes without a hook are still checked
    z = Scaled.apply(x, 2.0)
    z.grad_fn._raw_saved_tensors[0].register_hooks(lambda t: 5, lambda five: st.ones(1))
    assert z.grad_fn.saved_tensors[0].tolist() == [1]


def test_a_node_can_be_called() -> None:
    x, w = leaf(1, 2), leaf(3, 4)
    y = x.sin()
    assert y.grad_fn(st.ones(2, dtype=st.float64)).tolist() == x.cos().tolist()
    product = x * w
    gx, gw = product.grad_fn(st.ones(2, dtype=st.float64))
    assert gx.tolist() == [3, 4]
    assert gw.grad_fn is not None  # it depends on x
    with st.no_grad():
        gx, gw = product.grad_fn(st.ones(2, dtype=st.float64))
    assert not gw.requires_grad
    assert product.grad_fn(None) == (None, None)
    accumulate = y.grad_fn.next_functions[0][0]
    assert accumulate(leaf(5, 5).detach()) == ()
    assert x.grad.tolist() == [5, 5]
    first, _ = x.sort()
    assert first.grad_fn(st.ones(2, dtype=st.float64)).tolist() == [1, 1]


def test_a_node_has_input_metadata() -> None:
    x = st.ones(2, 3, requires_grad=True)
    (kind,) = (x * 2).grad_fn._input_metadata
    assert (kind.shape, kind.dtype, str(kind.device)) == ((2, 3), st.float32, "cpu")
    assert not kind.is_nested_tensor
    first, second = x.split(1)[0].grad_fn._input_metadata
    assert first.shape == second.shape == (1, 3)
    ((accumulate, _),) = x.sum().grad_fn.next_functions
    assert accumulate._input_metadata[0].shape == (2, 3)


def test_the_node_of_a_function_has_its_contexts_attributes() -> None:
    x = leaf(1, 2)
    y = Scaled.apply(x, 3.0)
    node = y.grad_fn
    assert type(node) is Scaled._backward_cls
    assert type(node).__name__ == "ScaledBackward"
    assert Scaled._backward_cls._forward_cls is Scaled
    assert not isinstance(x.sin().grad_fn, Scaled._backward_cls)
    assert node.factor == 3
    assert node.saved_tensors[0] is x
    assert node.needs_input_grad == (True, False)
    node.factor = 4.0  # the context's
    node.register_hook(lambda grads, _: (grads[0] + 1,))
    (g,) = autograd.grad(y.sum(), x)
    assert g.tolist() == [5, 5]
    with pytest.raises(AttributeError, match="nope"):
        _ = node.nope


def test_a_context_has_its_nodes_attributes() -> None:
    names = []

    class Seen(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            names.extend([ctx.name(), ctx.next_functions[0][0].name()])
            ctx.metadata["a"] = 1
            return g

    y = Seen.apply(leaf(1))
    y.sum().backward()
    assert names == ["SeenBackward", "AccumulateGrad"]
    assert y.grad_fn.metadata == {"a": 1}
