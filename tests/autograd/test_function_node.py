"""What a call of a Function records in the graph: saved tensors, views, jvp."""

from __future__ import annotations

import gc
import weakref
from typing import Any, NamedTuple

import pytest

import shmtensor as st
from shmtensor import autograd, nn
from shmtensor.autograd import Function
from shmtensor.autograd import forward_ad as fwd


def leaf(*values: float) -> Any:
    return st.tensor(list(values), dtype=st.float64, requires_grad=True)


class Tail(Function):
    """x[1:], a view."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x[1:]

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return st.cat([st.zeros(1, dtype=g.dtype), g])


class Same(Function):
    """Returns its input unchanged."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g


class Square(Function):
    """Its jvp is a hundred times too large, to distinguish it from backward."""

    @staticmethod
    def forward(x: Any) -> Any:
        return x * x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def vjp(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * x * g

    @staticmethod
    def jvp(ctx: Any, t: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 200 * x * t


# ---------------------------------------------------------------- saved tensors


def test_saved_inputs_are_the_same_objects() -> None:
    contexts = []

    class Product(Function):
        @staticmethod
        def forward(ctx: Any, x: Any, w: Any) -> Any:
            out = x * w
            ctx.save_for_backward(x, w, out)
            return out

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            x, w, out = ctx.saved_tensors
            contexts.append((x, w, out))
            return g * w, g * x

    x, w = leaf(1, 2) * 1, nn.Parameter(st.ones(2, dtype=st.float64))
    x.note = "mine"
    y = Product.apply(x, w)
    y.sum().backward()
    (saved,) = contexts
    assert saved[0] is x
    assert saved[0].note == "mine"
    assert saved[1] is w
    assert saved[2] is not y  # that would be a cycle
    assert saved[2].grad_fn is y.grad_fn


def test_a_dead_saved_input_is_recreated() -> None:
    class Marked(st.Tensor):
        pass

    y = Square.apply((leaf(3) * 1).as_subclass(Marked))
    (x,) = y.grad_fn.saved_tensors
    assert type(x) is Marked
    assert x.grad_fn is not None
    assert x.tolist() == [3]


def test_an_input_that_gets_the_output_as_its_history_makes_no_cycle() -> None:
    x = leaf(3) * 1
    y = Square.apply(x)
    ref = weakref.ref(y.grad_fn)
    gc.disable()
    try:
        x.add_(y)
        del x, y
        assert ref() is None
    finally:
        gc.enable()


def test_only_tensors_are_saved() -> None:
    class Number(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x, None, 3)
            return x * 1

    with pytest.raises(TypeError, match="argument 2 is of type int: 3"):
        Number.apply(leaf(1))


def test_attributes_of_the_context_have_any_name() -> None:
    names = [
        "edges", "outputs", "arrays", "tensors", "node", "places", "name", "row", "saved",
        "function", "forget", "dirty", "tensor", "saved_tensor", "kept",
    ]  # fmt: skip

    class Named(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            for i, name in enumerate(names):
                setattr(ctx, name, i)
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            assert [getattr(ctx, name) for name in names] == list(range(len(names)))
            return g * 2

    x = leaf(1)
    Named.apply(x).backward()
    assert x.grad.tolist() == [2]


# ---------------------------------------------------------------- arguments and outputs


def test_outputs_other_than_tensors_have_no_gradient() -> None:
    gradients: list[Any] = []

    class Mixed(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2, 3, x > 0, "a", None

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            gradients.extend(grads)
            return grads[0] * 2

    x = leaf(1, 2)
    y, *outputs = Mixed.apply(x)
    assert [outputs[0], *outputs[2:]] == [3, "a", None]
    y.sum().backward()
    assert gradients[0].tolist() == [1, 1]
    assert gradients[2].tolist() == [0, 0]
    assert [gradients[1], *gradients[3:]] == [None] * 3


def test_defaults_of_forward_are_inputs_of_setup_context() -> None:
    class Times(Function):
        @staticmethod
        def forward(x: Any, factor: float = 3) -> Any:
            return x * factor

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            _, ctx.factor = inputs

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            assert ctx.needs_input_grad == (True, False)
            return g * ctx.factor, None

    for y, expected in ((Times.apply(x := leaf(1)), 3), (Times.apply(x, factor=4), 4)):
        (g,) = autograd.grad(y, x)
        assert g.tolist() == [expected]


def test_an_input_that_is_returned_keeps_its_class() -> None:
    class Marked(st.Tensor):
        pass

    x = st.ones(2).as_subclass(Marked)
    for argument in (x, st.ones(2).as_subclass(Marked).requires_grad_()):
        result = Same.apply(argument)
        assert type(result) is Marked
        assert result is not argument
    p = nn.Parameter(st.ones(2))
    assert type(Same.apply(p)) is st.Tensor


# ---------------------------------------------------------------- views


@pytest.mark.parametrize("function", [Tail, Same])
def test_a_view_that_a_function_returned_is_not_written(function: type[Function]) -> None:
    base = leaf(1, 2) * 1
    view = function.apply(base)
    assert view._base is base
    with pytest.raises(RuntimeError, match=r"custom Function.*write to a clone"):
        view.mul_(5)
    view.clone().mul_(5)
    base.mul_(2)
    with pytest.raises(RuntimeError, match=r"custom Function.*its base was modified"):
        view.sum()


def test_a_view_without_gradient_is_written() -> None:
    base = st.ones(2)
    Tail.apply(base).mul_(5)
    assert base.tolist() == [1, 5]


def test_only_a_function_of_one_output_may_write_a_view() -> None:
    class Double(Function):
        @staticmethod
        def forward(ctx: Any, x: Any, several: bool) -> Any:
            ctx.mark_dirty(x.mul_(2))
            return (x, x * 2) if several else x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2, None

    x = leaf(1, 2)
    base = x * 1
    Double.apply(base[1:], False)
    base.sum().backward()
    assert x.grad.tolist() == [1, 2]
    with pytest.raises(RuntimeError, match="cannot return more than one Tensor: 2 outputs"):
        Double.apply((x * 1)[1:], True)


# ---------------------------------------------------------------- jvp


def test_forward_mode_runs_jvp() -> None:
    x, t = st.tensor([3.0]), st.tensor([1.0])
    assert st.func.jvp(Square.apply, (x,), (t,))[1].tolist() == [600]
    with fwd.dual_level():
        dual = fwd.make_dual(x, t)
        assert fwd.unpack_dual(Square.apply(dual)).tangent.tolist() == [600]
        # through ops before and after it: d/dx (5 x)^2 + x^2
        result = Square.apply(dual * 5) + dual * dual
        assert fwd.unpack_dual(result).tangent.tolist() == [200 * 15 * 5 + 6]
    assert autograd.functional.jvp(lambda x: Square.apply(x).sin(), x, t)[1].item() == (
        pytest.approx(600 * st.cos(x * x).item())
    )
    y = st.tensor([3.0], requires_grad=True)
    Square.apply(y).backward()  # `vjp` is another name of backward
    assert y.grad.tolist() == [6]


def test_a_tangent_is_differentiable() -> None:
    def slope(x: Any) -> Any:
        return st.func.jvp(Square.apply, (x,), (st.ones(()),))[1]

    assert st.func.grad(slope)(st.tensor(3.0)).item() == 200


def test_jvp_gets_zeros_for_tensors_without_tangent() -> None:
    calls: list[Any] = []

    class Product(Function):
        @staticmethod
        def forward(ctx: Any, x: Any, n: int, y: Any) -> Any:
            ctx.save_for_forward(x, y)
            return x * y * n, x + y

        @staticmethod
        def jvp(ctx: Any, t: Any, n: Any, u: Any) -> Any:
            calls.append((n, u.tolist()))
            _, y = ctx.saved_tensors
            return t * y * 3, t

    x, y = st.tensor([2.0]), st.tensor([5.0])
    _, (first, second) = st.func.jvp(lambda x: Product.apply(x, 3, y), (x,), (st.ones(1),))
    assert first.tolist() == [15]
    assert second.tolist() == [1]
    assert calls == [(None, [0])] * 2
    with pytest.raises(NotImplementedError, match="either the backward or vjp method"):
        Product.apply(x.requires_grad_(), 3, y)[0].backward()


def test_wrong_use_of_jvp_and_vjp_is_an_error() -> None:
    class Twice(Square):
        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g

        @staticmethod
        def jvp(ctx: Any, t: Any) -> Any:
            return t, t

    with pytest.raises(RuntimeError, match="Implementing both 'backward' and 'vjp'"):
        Twice.apply(leaf(1)).backward()
    with pytest.raises(RuntimeError, match="expected 1 but got 2"):
        st.func.jvp(Twice.apply, (st.ones(1),), (st.ones(1),))


# ---------------------------------------------------------------- inputs that are returned


def test_a_returned_input_without_gradient_is_detached() -> None:
    class Pass(Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            ctx.mark_non_differentiable(y)
            return x * 2, y

        @staticmethod
        def backward(ctx: Any, g: Any, h: Any) -> Any:
            assert h.tolist() == [0]
            return g * 2, None

    x, y = leaf(1), leaf(5)
    result, same = Pass.apply(x, y)
    assert not same.requires_grad
    assert same is not y
    result.backward()
    with st.no_grad():
        assert not Same.apply(y).requires_grad
        assert Tail.apply(y).requires_grad  # a view stays a view


def test_writes_are_counted_and_returned() -> None:
    class Double(Function):
        @staticmethod
        def forward(ctx: Any, x: Any, returned: bool) -> Any:
            ctx.mark_dirty(x.mul_(2))
            return x if returned else x * 1

    x = st.ones(1)
    assert Double.apply(x, True) is x
    assert x._version == 2
    with pytest.raises(RuntimeError, match="must be returned"):
        Double.apply(x, False)


def test_a_named_tuple_of_outputs_becomes_a_tuple() -> None:
    class Pair(NamedTuple):
        first: Any
        second: Any

    class Both(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return Pair(x * 2, x * 3)

        @staticmethod
        def backward(ctx: Any, g: Any, h: Any) -> Any:
            return g * 2 + h * 3

    x = leaf(1)
    result = Both.apply(x)
    assert type(result) is tuple
    sum(result).backward()
    assert x.grad.tolist() == [5]
