"""Which gradients on a GPU become `.grad` themselves, and which are copied since something else
refers to their memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import shmtensor as st
from shmtensor import nn
from shmtensor.autograd import wrap


def leaf(*shape: int) -> Any:
    return st.ones(shape).cuda().requires_grad_()


class Gives(st.autograd.Function):
    """The identity; its gradient is what a function makes of the incoming one."""

    @staticmethod
    def forward(ctx: Any, x: Any, make: Callable[[Any], Any]) -> Any:
        ctx.make = make
        return x.clone()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return ctx.make(g), None


def is_taken(x: Any, make: Callable[[Any], Any]) -> bool:
    """Whether `.grad` of x has the address of the gradient that `make` returns."""
    seen: list[int] = []

    def made(g: Any) -> Any:
        gradient = make(g)
        seen.append(gradient.data_ptr())
        return gradient

    Gives.apply(x, made).sum().backward()
    return bool(x.grad.data_ptr() == seen[0])


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4)])
def test_the_gradients_of_linear_are_taken(cp: Any, shape: Any) -> None:
    layer, x = nn.Linear(4, 5).cuda(), leaf(*shape)
    seen: dict[str, int] = {}
    leaves = {"weight": layer.weight, "bias": layer.bias, "x": x}
    for name, p in leaves.items():
        p.register_hook(lambda g, name=name: seen.__setitem__(name, g.data_ptr()))
    layer(x).backward(st.ones(*shape[:-1], 5).cuda())
    assert seen == {name: p.grad.data_ptr() for name, p in leaves.items()}


@pytest.mark.parametrize(
    "make",
    [
        lambda g: g * 2,
        lambda g: (g * 2).reshape(3, 4)[None][0],
        lambda g: st.ones(12, device="cuda").reshape(3, 4),
        lambda g: st.ones(4, 3, device="cuda").T,
        lambda g: st.ones(3, 2, 2, device="cuda").permute(0, 2, 1).contiguous().view(3, 4),
    ],
)
def test_a_view_of_all_of_its_base_is_taken(cp: Any, make: Any) -> None:
    assert is_taken(leaf(3, 4), make)


@pytest.mark.parametrize(
    "make",
    [
        lambda g: st.ones(1, device="cuda").expand(3, 4),
        lambda g: st.ones(3, 8, device="cuda")[:, ::2],
        lambda g: st.ones(6, 4, device="cuda")[:3],
        lambda g: st.ones(6, 4, device="cuda")[3:],
        lambda g: st.ones(12, device="cuda").as_strided((3, 4), (1, 1)),
    ],
)
def test_a_part_of_an_array_is_copied(cp: Any, make: Any) -> None:
    x = leaf(3, 4)
    assert not is_taken(x, make)
    x.grad.add_(1)
    assert x.grad.tolist() == [[2] * 4] * 3


def test_memory_that_another_tensor_has_is_copied(cp: Any) -> None:
    """By the same array, as a view of it, or as the array of which the gradient is a view."""
    kept: list[Any] = []

    def keep(x: Any) -> Any:
        kept.append(x)
        return x

    made = (
        lambda g: keep(g * 2),
        lambda g: keep((g * 2).reshape(12)).reshape(3, 4),
        lambda g: keep((g * 2).reshape(12)).reshape(3, 4).reshape(4, 3).reshape(3, 4),
        lambda g: (lambda y: (keep(y[:1]), y)[1])(g * 2),
        lambda g: (lambda y: (keep(y.detach()), y)[1])(g * 2),
        lambda g: (lambda y: (keep(y.as_strided((2,), (1,))), y)[1])(g * 2),
        lambda g: (lambda y: (keep(y.as_strided((2,), (1,), 3)), y)[1])(g * 2),
        lambda g: keep((g * 2).reshape(12)).as_strided((3, 4), (4, 1)),
    )
    for make in made:
        x = leaf(3, 4)
        assert not is_taken(x, make)
        x.grad.zero_()
        assert (kept.pop() == 2).all()


def test_cupys_strided_arrays_are_copied(cp: Any) -> None:
    """They share memory, and their `base` is None."""
    kept = cp.ones((12,), "f4")

    def make(g: Any) -> Any:
        return wrap(cp.lib.stride_tricks.as_strided(kept, (3, 4), (16, 4)))

    x = leaf(3, 4)
    Gives.apply(x, make).sum().backward()
    x.grad.zero_()
    assert kept.sum() == 12


def test_a_hook_that_keeps_the_gradient(cp: Any) -> None:
    x, kept = leaf(3), []
    x.register_hook(kept.append)
    (x * 2).sum().backward()
    x.grad.zero_()
    assert kept[0].tolist() == [2, 2, 2]
    y = leaf(3)
    y.register_hook(lambda g: kept.append(g[:2]))
    (y * 2).sum().backward()
    y.grad.zero_()
    assert kept[1].tolist() == [2, 2]


def test_two_leaves_of_one_gradient(cp: Any) -> None:
    x, y = leaf(3), leaf(3)
    g = st.ones(3).cuda()
    (x + y).backward(g)
    assert x.grad.data_ptr() != y.grad.data_ptr()
    x.grad.zero_()
    assert y.grad.tolist() == g.tolist() == [1, 1, 1]
    y.grad.zero_()
    assert g.tolist() == [1, 1, 1]


def test_an_array_that_the_graph_keeps(cp: Any) -> None:
    """The gradient of x is y, that of y is x: saved arrays of a graph that is retained."""
    x, y = leaf(3), leaf(3)
    out = Gives.apply(x, lambda g: y.detach()) + x * y
    out.sum().backward(retain_graph=True)
    x.grad.zero_(), y.grad.zero_()
    assert x.tolist() == y.tolist() == [1, 1, 1]
    out.sum().backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([2, 2, 2], [1, 1, 1])


def test_a_saved_output_is_the_gradient(cp: Any) -> None:
    x = leaf(3)
    y = x.exp()
    y.backward(st.ones(3).cuda(), retain_graph=True)
    x.grad.zero_()
    y.backward(st.ones(3).cuda())
    assert x.grad.allclose(y.detach())


def test_memory_of_others_is_copied(cp: Any) -> None:
    """That of another process, or of another library, is not `.grad`'s."""
    others = cp.full(4, 7, "f")
    memory = cp.cuda.UnownedMemory(others.data.ptr, others.nbytes, others)
    foreign = cp.ndarray((4,), "f", cp.cuda.MemoryPointer(memory, 0))
    for gradient in (lambda g: st.from_dlpack(foreign), lambda g: wrap(foreign)):
        x = leaf(4)
        x.register_hook(gradient)
        (x * 2).sum().backward()
        x.grad.zero_()
        assert others.tolist() == [7.0] * 4
