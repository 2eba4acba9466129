"""Gradients are born where they are wanted, and only while nobody else looks there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import native, nn
from shmtensor.autograd.home import at_home
from shmtensor.nn.functional import linear

Product = Callable[[Any, Any], Any]

PRODUCTS: dict[str, tuple[Product, tuple[int, ...], tuple[int, ...]]] = {
    "linear": (linear, (5, 4), (3, 4)),
    "linear, batches": (linear, (2, 5, 4), (3, 4)),
    "matmul": (st.matmul, (5, 4), (4, 3)),
    "matmul, batches": (st.matmul, (2, 5, 4), (4, 3)),
}


def parameter(shape: tuple[int, ...], dtype: Any = np.float32) -> Any:
    """One with a home in a block of gradients, between two sevens."""
    rng = np.random.default_rng(0)
    p = nn.Parameter(st.tensor(rng.standard_normal(shape).astype(dtype)))
    block = bytearray(np.full(p.array.size + 2, 7, dtype).tobytes())
    p.leaf.home = native.GradientBuffer(np.ndarray(shape, dtype, block, p.array.itemsize))
    return p


def operand(shape: tuple[int, ...], dtype: Any = np.float32) -> Any:
    return st.tensor(np.random.default_rng(1).standard_normal(shape).astype(dtype))


def own(p: Any) -> Any:
    """The gradient of a parameter without a home, for the same numbers."""
    return nn.Parameter(st.tensor(p.detach().numpy().copy()))


def is_in(g: Any, home: Any) -> bool:
    return bool(g.array.ctypes.data == home.address)


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.float16])
def test_gradient_is_born_at_home(name: str, dtype: Any) -> None:
    product, x_shape, shape = PRODUCTS[name]
    p, x = parameter(shape, dtype), operand(x_shape, dtype)
    born: list[bool] = []
    p.register_hook(lambda g: born.append(is_in(g, p.leaf.home)))
    for _ in range(2):
        p.grad = None
        y = product(x, p)
        y.backward(st.ones_like(y))
    assert at_home(p.leaf, p.grad.array)
    assert born == [dtype is not np.float16] * 2  # 16 bits are computed in 32, and rounded
    other = own(p)
    y = product(x, other)
    y.backward(st.ones_like(y))
    np.testing.assert_array_equal(p.grad.numpy(), other.grad.numpy())
    block = np.frombuffer(p.leaf.home.memory, dtype)
    assert block[0] == block[-1] == 7


def test_a_kept_gradient_is_not_written_anew() -> None:
    p, x = parameter((3, 4)), operand((5, 4))
    linear(x, p).sum().backward()
    kept = p.grad
    before = kept.numpy().copy()
    p.grad = None
    linear(x * 2, p).sum().backward()
    np.testing.assert_array_equal(kept.numpy(), before)
    np.testing.assert_array_equal(p.grad.numpy(), before * 2)


def test_a_view_of_a_kept_gradient_is_not_written_anew() -> None:
    p, x = parameter((3, 4)), operand((5, 4))
    linear(x, p).sum().backward()
    kept = p.grad[1:]
    before = kept.numpy().copy()
    p.grad = None
    linear(x * 2, p).sum().backward()
    np.testing.assert_array_equal(kept.numpy(), before)


def test_a_gradient_that_a_hook_keeps_is_not_the_one_of_the_tensor() -> None:
    p, x = parameter((3, 4)), operand((5, 4))
    kept: list[Any] = []
    handle = p.register_hook(kept.append)
    linear(x, p).sum().backward()
    handle.remove()
    before = kept[0].numpy().copy()
    p.grad.mul_(3)
    np.testing.assert_array_equal(kept[0].numpy(), before)
    np.testing.assert_array_equal(p.grad.numpy(), before * 3)


def test_gradients_of_two_uses_are_added() -> None:
    p, x = parameter((4, 4)), operand((5, 4))
    other = own(p)
    for each in (p, other):
        linear(linear(x, each), each).sum().backward()
    np.testing.assert_array_equal(p.grad.numpy(), other.grad.numpy())
    assert at_home(p.leaf, p.grad.array)


def test_backwards_add_up_at_home() -> None:
    p, x = parameter((3, 4)), operand((5, 4))
    other = own(p)
    for each in (p, other):
        linear(x, each).sum().backward()
        linear(x * 3, each).sum().backward()
    np.testing.assert_array_equal(p.grad.numpy(), other.grad.numpy())
    assert at_home(p.leaf, p.grad.array)


def test_grad_gives_memory_of_the_callers_own() -> None:
    p, x = parameter((3, 4)), operand((5, 4))
    (g,) = st.autograd.grad(linear(x, p).sum(), p)
    assert not is_in(g, p.leaf.home)
    assert p.grad is None
    linear(x, p).sum().backward()
    np.testing.assert_array_equal(p.grad.numpy(), g.numpy())
    assert at_home(p.leaf, p.grad.array)


def test_a_graph_of_the_gradient_does_not_hold_the_home() -> None:
    p, x = parameter((3, 4)), operand((5, 4))
    linear(x, p).square().sum().backward(create_graph=True)
    assert not is_in(p.grad, p.leaf.home)
