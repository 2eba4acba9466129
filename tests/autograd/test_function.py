"""Function: a user's own forward and backward."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

import shmtensor as st
from shmtensor import autograd
from shmtensor.autograd import Function, gradcheck, gradgradcheck, once_differentiable


def leaf(*values: float) -> Any:
    return st.tensor(list(values), dtype=st.float64, requires_grad=True)


class Cube(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 3 * g * x * x


class Exp(Function):
    """New style: forward without ctx, and a saved output."""

    @staticmethod
    def forward(x: Any) -> Any:
        return x.exp()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (out,) = ctx.saved_tensors
        return g * out


@pytest.mark.parametrize("function", [Cube, Exp])
def test_first_and_second_order(function: type[Function]) -> None:
    assert gradcheck(function.apply, leaf(0.5, 2))
    assert gradgradcheck(function.apply, leaf(0.5, 2))


def test_grad_fn_is_named_after_the_function() -> None:
    assert Cube.apply(leaf(1)).grad_fn.name() == "CubeBackward"


def test_without_grad_nothing_is_recorded() -> None:
    with st.no_grad():
        assert Cube.apply(leaf(1)).grad_fn is None
    assert Cube.apply(st.ones(1)).grad_fn is None


def test_several_inputs_and_outputs() -> None:
    class Both(Function):
        @staticmethod
        def forward(ctx: Any, x: Any, n: int, y: Any) -> Any:
            ctx.n = n
            assert ctx.needs_input_grad == (True, False, False)
            return x * n, y * 2

        @staticmethod
        def backward(ctx: Any, g: Any, h: Any) -> Any:
            assert h.tolist() == [0]
            return g * ctx.n, None, None

    x = leaf(3)
    a, b = Both.apply(x, 4, st.ones(1, dtype=st.float64))
    a.sum().backward()
    assert x.grad.tolist() == [4]
    assert b.tolist() == [2]


def test_missing_gradients_stay_none_without_materialize() -> None:
    gradients = []

    class Two(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.set_materialize_grads(False)
            return x * 1, x * 2

        @staticmethod
        def backward(ctx: Any, g: Any, h: Any) -> Any:
            gradients.append(g)
            return h * 2

    x = leaf(1)
    Two.apply(x)[1].sum().backward()
    assert gradients == [None]
    assert x.grad.tolist() == [2]


def test_mark_dirty() -> None:
    class Double(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    x = leaf(1, 2)
    y = x * 1
    z = Double.apply(y)
    assert z is y
    z.sum().backward()
    assert x.grad.tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="leaf"):
        Double.apply(leaf(1))


def test_mark_non_differentiable() -> None:
    class Order(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            order = st.tensor([1.0, 0.0], dtype=st.float64)
            ctx.mark_non_differentiable(order)
            return x * 2, order

        @staticmethod
        def backward(ctx: Any, g: Any, _: Any) -> Any:
            return g * 2

    values, order = Order.apply(leaf(1, 2))
    assert values.requires_grad
    assert not order.requires_grad


def test_once_differentiable() -> None:
    class Square(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return g * 2 * x.numpy(force=True).sum()

    x = leaf(3)
    (g,) = autograd.grad((Square.apply(x) * x).sum(), x, create_graph=True)
    assert g.tolist() == [27]
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g.sum().backward()


def test_wrong_number_of_gradients() -> None:
    class Bad(Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            return x + y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g

    with pytest.raises(RuntimeError, match=r"expected 2, got 1"):
        Bad.apply(leaf(1), leaf(1)).sum().backward()


def test_wrong_shape_of_a_gradient() -> None:
    class Bad(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.sum()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return st.ones(5)

    with pytest.raises(
        RuntimeError, match=r"invalid gradient: shape \(5,\) is not compatible.*\(2,\)"
    ):
        Bad.apply(leaf(1, 2)).backward()


def test_a_saved_tensor_written_later_is_caught() -> None:
    x = leaf(1) * 1
    y = Cube.apply(x)
    x.add_(1)
    with pytest.raises(RuntimeError, match="inplace"):
        y.sum().backward()


def test_the_heap_is_shut_in_user_code() -> None:
    arrays = []

    class Private(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            arrays.append(np.ones(100))
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            arrays.append(np.ones(100))
            return g

    x = leaf(1)
    y = x * 2
    y.register_hook(lambda g: arrays.append(np.ones(100)))
    Private.apply(y).sum().backward()
    assert len(arrays) == 3
    assert not any(st.from_numpy(a).is_shared() for a in arrays)


def test_a_function_may_call_scipy() -> None:
    class Airy(Function):
        """Ai(x), with its derivative from the same call."""

        @staticmethod
        def forward(ctx: Any, x: st.Tensor) -> st.Tensor:
            value, slope, _, _ = special.airy(x.numpy())
            ctx.slope = st.from_numpy(slope)
            return st.from_numpy(value)

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, g: st.Tensor) -> st.Tensor:
            return g * ctx.slope

    x = st.tensor([0.5, -1.0, 2.0], dtype=st.float64, requires_grad=True)
    assert st.autograd.gradcheck(Airy.apply, (x,))


def test_setup_context() -> None:
    class Scaled(Function):
        @staticmethod
        def forward(x: st.Tensor, y: st.Tensor, factor: float) -> st.Tensor:
            return x * y * factor

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: st.Tensor) -> None:
            x, y, ctx.factor = inputs
            ctx.save_for_backward(x, y)

        @staticmethod
        def backward(ctx: Any, g: st.Tensor) -> Any:
            assert ctx.needs_input_grad == (True, True, False)
            x, y = ctx.saved_tensors
            return g * y * ctx.factor, g * x * ctx.factor, None

        @staticmethod
        def vmap(info: Any, in_dims: Any, x: st.Tensor, y: st.Tensor, factor: float) -> Any:
            return Scaled.apply(x, y, factor), 0

    x = st.tensor([0.5, -1.0], dtype=st.float64, requires_grad=True)
    y = st.tensor([1.5, 2.0], dtype=st.float64, requires_grad=True)
    assert st.autograd.gradcheck(lambda x, y: Scaled.apply(x, y, 3.0), (x, y))
    assert st.autograd.gradgradcheck(lambda x, y: Scaled.apply(x, y, 3.0), (x, y))
    assert Scaled.vmap(None, (0, 0, None), x, y, 2.0)[1] == 0
    assert not Function.generate_vmap_rule
    with pytest.raises(NotImplementedError, match="vmap staticmethod"):
        Function.vmap(None, (0,), x)
