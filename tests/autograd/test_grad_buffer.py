"""Gradients are computed in the leaf's buffer, unless something else refers to its memory."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import native, nn
from shmtensor.autograd.engine.grad_buffer import in_grad_buffer
from shmtensor.nn.functional import linear

Product = Callable[[Any, Any], Any]
Reference = Callable[[Any], Any]

PRODUCTS: dict[str, tuple[Product, tuple[int, ...], tuple[int, ...]]] = {
    "linear": (linear, (5, 4), (3, 4)),
    "linear, batches": (linear, (2, 5, 4), (3, 4)),
    "matmul": (st.matmul, (5, 4), (4, 3)),
    "matmul, batches": (st.matmul, (2, 5, 4), (4, 3)),
}


def in_bfloat16(x: Any, weight: Any) -> Any:
    with st.autocast("cpu", dtype=st.bfloat16):
        return linear(x, weight).float()


def parameter(shape: tuple[int, ...], dtype: Any = np.float32) -> Any:
    """A parameter with a buffer in a block of gradients, between two sevens."""
    rng = np.random.default_rng(0)
    p = nn.Parameter(st.tensor(rng.standard_normal(shape).astype(dtype)))
    block = bytearray(np.full(p.array.size + 2, 7, dtype).tobytes())
    p.accumulate_grad.grad_buffer = native.GradientBuffer(
        np.ndarray(shape, dtype, block, p.array.itemsize)
    )
    return p


def operand(shape: tuple[int, ...], dtype: Any = np.float32) -> Any:
    return st.tensor(np.random.default_rng(1).standard_normal(shape).astype(dtype))


def clone_grad(p: Any) -> Any:
    """A copy of the parameter without a gradient buffer."""
    return nn.Parameter(st.tensor(p.detach().numpy().copy()))


def is_in_buffer(g: Any, grad_buffer: Any) -> bool:
    return bool(g.array.ctypes.data == grad_buffer.address)


def test_the_gradient_of_a_cast_weight_is_cast_into_its_buffer() -> None:
    p, x = parameter((30, 40)), operand((50, 40))
    in_buffer: list[bool] = []
    p.register_hook(lambda g: in_buffer.append(is_in_buffer(g, p.accumulate_grad.grad_buffer)))
    in_bfloat16(x, p).sum().backward()
    other = clone_grad(p)
    in_bfloat16(x, other).sum().backward()
    assert in_buffer == [True]
    assert p.grad.dtype is st.float32
    assert p.grad.equal(other.grad)
    assert p.accumulate_grad.grad_buffer is not None


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.float16])
def test_gradient_is_computed_in_its_buffer(name: str, dtype: Any) -> None:
    product, x_shape, shape = PRODUCTS[name]
    p, x = parameter(shape, dtype), operand(x_shape, dtype)
    in_buffer: list[bool] = []
    p.register_hook(lambda g: in_buffer.append(is_in_buffer(g, p.accumulate_grad.grad_buffer)))
    for _ in range(2):
        p.grad = None
        y = product(x, p)
        y.backward(st.ones_like(y))
    assert in_grad_buffer(p.accumulate_grad, p.grad.array)
    assert in_buffer == [dtype is not np.float16] * 2  # 16 bits are computed in 32, and rounded
    other = clone_grad(p)
    y = product(x, other)
    y.backward(st.ones_like(y))
    np.testing.assert_array_equal(p.grad.numpy(), other.grad.numpy())
    block = np.frombuffer(p.accumulate_grad.grad_buffer.memory, dtype)
    assert block[0] == block[-1] == 7


REFERENCES: dict[str, Reference] = {
    "tensor": lambda g: g,
    "view": lambda g: g[1:],
    "detached": lambda g: g.detach(),
    "data": lambda g: g.data.T,
    "array": lambda g: g.numpy(),
    "memoryview": lambda g: memoryview(g.numpy()),
    "DLPack": lambda g: np.from_dlpack(g),
    "history": lambda g: (g * st.ones(3, 4).requires_grad_()).sum(),
    "generator": lambda g: (x for x in [g]),
    "method": lambda g: g.sum,
}


@pytest.mark.parametrize("make_reference", REFERENCES.values(), ids=REFERENCES.keys())
def test_a_referenced_gradient_is_not_overwritten(make_reference: Reference) -> None:
    p, x = parameter((3, 4)), operand((5, 4))
    linear(x, p).sum().backward()
    before = p.grad.numpy().copy()
    array = np.ndarray((3, 4), np.float32, p.accumulate_grad.grad_buffer.memory, 4)
    holder = make_reference(p.grad)
    p.grad = None
    linear(x * 2, p).sum().backward()
    assert not in_grad_buffer(p.accumulate_grad, p.grad.array)
    np.testing.assert_array_equal(array, before)
    np.testing.assert_array_equal(p.grad.numpy(), before * 2)
    del holder
    p.grad = None
    linear(x * 3, p).sum().backward()
    assert in_grad_buffer(p.accumulate_grad, p.grad.array)
    np.testing.assert_allclose(array, before * 3, rtol=1e-6)


USES: dict[str, Product] = {
    "once": lambda x, p: linear(x, p).sum(),
    "twice": lambda x, p: (linear(x, p) * linear(x * 2, p)).sum(),
    "elementwise": lambda x, p: (p * p).sum(),
    "as a view": lambda x, p: p.T.sum(),
    "with a hook on the way": lambda x, p: with_hook(p * 2).sum(),
}


def with_hook(y: Any) -> Any:
    y.register_hook(lambda g: g * 2)
    return y


@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
def test_every_gradient_is_accumulated_in_its_buffer(use: Product) -> None:
    p, x = parameter((3, 4)), operand((5, 4))
    other = clone_grad(p)
    for _ in range(3):
        p.grad = other.grad = None
        for n in (1, 2):
            use(x, p).backward()
            use(x, other).backward()
            assert in_grad_buffer(p.accumulate_grad, p.grad.array), n
            np.testing.assert_allclose(p.grad.numpy(), other.grad.numpy(), rtol=1e-6)


def test_a_gradient_stays_in_its_buffer_with_inputs() -> None:
    p, x = parameter((3, 4)), operand((5, 4))
    linear(x, p).sum().backward(inputs=[p])
    assert in_grad_buffer(p.accumulate_grad, p.grad.array)


def test_a_gradient_filled_with_zeros_stays_in_its_buffer() -> None:
    p, x = parameter((3, 4)), operand((5, 4))
    linear(x, p).sum().backward()
    before = p.grad.numpy().copy()
    p.grad.zero_()
    linear(x, p).sum().backward()
    assert in_grad_buffer(p.accumulate_grad, p.grad.array)
    np.testing.assert_array_equal(p.grad.numpy(), before)


def test_a_backward_after_a_failed_one_is_right() -> None:
    p, x = parameter((3, 4)), operand((5, 4))
    in_buffer: list[Any] = []

    def fail(g: Any) -> None:
        in_buffer.append(is_in_buffer(g, p.accumulate_grad.grad_buffer))
        raise ValueError("hook")

    handle = p.register_hook(fail)
    with pytest.raises(ValueError, match="hook") as info:
        linear(x, p).sum().backward()
    handle.remove()
    assert in_buffer == [True]
    assert p.grad is None
    assert p.accumulate_grad.grad_buffer.lent  # the traceback refers to the gradient
    linear(x, p).sum().backward()
    other = clone_grad(p)
    linear(x, other).sum().backward()
    np.testing.assert_array_equal(p.grad.numpy(), other.grad.numpy())
    del info
    gc.collect()
    p.grad = None
    linear(x, p).sum().backward()
    assert in_grad_buffer(p.accumulate_grad, p.grad.array)


def test_a_post_accumulate_hook_sees_the_gradient_in_its_buffer() -> None:
    p, x = parameter((3, 4)), operand((5, 4))
    in_buffer: list[bool] = []
    p.register_post_accumulate_grad_hook(
        lambda p: in_buffer.append(in_grad_buffer(p.accumulate_grad, p.grad.array))
    )
    linear(x, p).sum().backward()
    linear(x, p).sum().backward()
    assert in_buffer == [True, True]


@pytest.mark.filterwarnings("ignore:Setting the shape:DeprecationWarning")  # NumPy 2.5
def test_a_gradient_reshaped_in_place_is_accumulated() -> None:
    p, x = parameter((3, 4)), operand((5, 4))
    linear(x, p).sum().backward()
    before = p.grad.numpy().copy()
    p.grad.array.shape = (1, 3, 4)
    assert not in_grad_buffer(p.accumulate_grad, p.grad.array)
    linear(x, p).sum().backward()
    np.testing.assert_array_equal(p.grad.numpy(), before[None] * 2)
    p.grad = None
    linear(x, p).sum().backward()
    np.testing.assert_array_equal(p.grad.numpy(), before)


def test_gradients_of_a_sum_do_not_share_memory() -> None:
    p, q, mine = parameter((3, 4)), parameter((3, 4)), st.ones(3, 4)
    a, b = (st.ones(3, 4).requires_grad_() for _ in range(2))
    ((p + q) + (a + b)).backward(mine)
    arrays = [p.grad.array, q.grad.array, a.grad.array, b.grad.array, mine.array]
    for i, one in enumerate(arrays):
        assert not any(np.shares_memory(one, other) for other in arrays[:i])


def test_gradients_in_several_threads_add_up() -> None:
    p, x = parameter((3, 4)), operand((5, 4))
    threads = [threading.Thread(target=lambda: linear(x, p).sum().backward()) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    other = clone_grad(p)
    (linear(x, other).sum() * 8).backward()
    np.testing.assert_allclose(p.grad.numpy(), other.grad.numpy(), rtol=1e-5)


def test_a_gradient_that_a_hook_keeps_is_not_the_one_of_the_tensor() -> None:
    p, x = parameter((3, 4)), operand((5, 4))
    gradients: list[Any] = []
    handle = p.register_hook(gradients.append)
    linear(x, p).sum().backward()
    handle.remove()
    before = gradients[0].numpy().copy()
    p.grad.mul_(3)
    np.testing.assert_array_equal(gradients[0].numpy(), before)
    np.testing.assert_array_equal(p.grad.numpy(), before * 3)


def test_gradients_of_two_uses_are_added() -> None:
    p, x = parameter((4, 4)), operand((5, 4))
    other = clone_grad(p)
    for weight in (p, other):
        linear(linear(x, weight), weight).sum().backward()
    np.testing.assert_array_equal(p.grad.numpy(), other.grad.numpy())
    assert in_grad_buffer(p.accumulate_grad, p.grad.array)


def test_backwards_accumulate_in_the_buffer() -> None:
    p, x = parameter((3, 4)), operand((5, 4))
    other = clone_grad(p)
    for weight in (p, other):
        linear(x, weight).sum().backward()
        linear(x * 3, weight).sum().backward()
    np.testing.assert_array_equal(p.grad.numpy(), other.grad.numpy())
    assert in_grad_buffer(p.accumulate_grad, p.grad.array)


def test_grad_returns_separate_memory() -> None:
    p, x = parameter((3, 4)), operand((5, 4))
    (g,) = st.autograd.grad(linear(x, p).sum(), p)
    assert not is_in_buffer(g, p.accumulate_grad.grad_buffer)
    assert p.grad is None
    linear(x, p).sum().backward()
    np.testing.assert_array_equal(p.grad.numpy(), g.numpy())
    assert in_grad_buffer(p.accumulate_grad, p.grad.array)


def test_a_graph_of_the_gradient_does_not_hold_the_buffer() -> None:
    p, x = parameter((3, 4)), operand((5, 4))
    linear(x, p).square().sum().backward(create_graph=True)
    assert not is_in_buffer(p.grad, p.accumulate_grad.grad_buffer)
