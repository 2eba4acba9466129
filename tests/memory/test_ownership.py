"""Whether anybody else has a gradient, or a tensor's memory: counts in C, which are exact."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import native

from .keepers import SHAPE, fresh, in_cycle, is_free, keepers, make_buffer


@pytest.fixture
def buffer() -> native.GradientBuffer:
    return make_buffer()


# ---------------------------------------------------------------- a gradient is taken over


class Leaf:
    """A leaf with its own array, and the sums of a backward."""

    def __init__(self, gradient: Any, grad_buffer: native.GradientBuffer | None = None) -> None:
        self.tensor = st.ones(*gradient.shape)
        self.grad_buffer = grad_buffer
        self.sums = {"leaf": gradient, "other": None}

    def take_over(self) -> Any:
        return native.steal_gradient(
            self.sums, "leaf", weakref.ref(self.tensor), self.grad_buffer
        ).array


def is_taken_over(
    make: Callable[[], Any], keeper: Callable[[Any], Any], grad_buffer: Any = None
) -> bool:
    """Whether a gradient becomes `.grad` without a copy while the keeper keeps it."""
    leaf = Leaf(make(), grad_buffer)
    leaf.sums["leaf"][...] = 5
    address = leaf.sums["leaf"].ctypes.data
    references = keeper(leaf.sums["leaf"])
    g = leaf.take_over()
    assert leaf.sums == {"other": None}
    assert (g == 5).all()
    del references
    return bool(g.ctypes.data == address)


def test_a_fresh_gradient_is_taken_over() -> None:
    assert is_taken_over(fresh, lambda g: None)
    assert is_taken_over(fresh, weakref.ref)
    assert is_taken_over(fresh, np.copy)


@keepers
def test_a_gradient_that_something_sees_is_copied(keeper: Callable[[Any], Any]) -> None:
    assert not is_taken_over(fresh, keeper)


def test_a_gradient_in_its_buffer_stays_there(buffer: native.GradientBuffer) -> None:
    for keeper in (lambda g: None, weakref.ref, np.copy):
        assert is_taken_over(buffer.take, keeper, buffer)


@keepers
def test_a_gradient_in_its_buffer_that_something_sees_is_copied(
    buffer: native.GradientBuffer, keeper: Callable[[Any], Any]
) -> None:
    assert not is_taken_over(buffer.take, keeper, buffer)
    assert is_free(buffer)


def test_a_lease_that_somebody_has_makes_a_copy(buffer: native.GradientBuffer) -> None:
    assert not is_taken_over(buffer.take, lambda g: g.base, buffer)


@pytest.mark.parametrize("grad_buffer", [None, "free", "lent"])
def test_a_gradient_in_garbage_is_copied(
    grad_buffer: str | None, buffer: native.GradientBuffer
) -> None:
    array = buffer.take() if grad_buffer == "lent" else None
    gc.disable()
    try:
        taken_over = is_taken_over(fresh, in_cycle, buffer if grad_buffer else None)
    finally:
        gc.enable()
    assert not taken_over
    del array


def test_a_gradient_that_another_leaf_gets_too_is_copied_for_the_first() -> None:
    g = np.full(SHAPE, 5, np.float32)
    address = g.ctypes.data
    leaf = Leaf(g)
    leaf.sums["other"] = g
    del g
    first = leaf.take_over()
    second = native.steal_gradient(leaf.sums, "other", weakref.ref(leaf.tensor), None).array
    assert first.ctypes.data != address
    assert second.ctypes.data == address
    assert leaf.sums == {}


def test_a_gradient_whose_memory_is_not_its_own_is_copied() -> None:
    leaf = Leaf(np.ones((2, *SHAPE), np.float32)[0])
    assert leaf.take_over().flags.owndata
    other = native.GradientBuffer(np.ones(SHAPE, np.float32))
    leaf = Leaf(other.take())
    assert leaf.take_over().flags.owndata
    assert is_free(other)


def test_a_read_only_gradient_is_copied(buffer: native.GradientBuffer) -> None:
    def locked(g: Any) -> None:
        g.flags.writeable = False

    assert not is_taken_over(fresh, locked)
    leaf = Leaf(buffer.take(), buffer)
    locked(leaf.sums["leaf"])
    assert leaf.take_over().flags.writeable


def test_a_gradient_from_elsewhere_is_brought_home(buffer: native.GradientBuffer) -> None:
    leaf = Leaf(np.full(SHAPE, 5, np.float32), buffer)
    g = leaf.take_over()
    assert buffer.owns(g)
    assert (g == 5).all()


def test_a_gradient_is_not_copied_to_a_referenced_buffer(buffer: native.GradientBuffer) -> None:
    references = buffer.take()
    assert references is not None
    references[...] = 1
    assert is_taken_over(fresh, lambda g: None, buffer)
    assert (references == 1).all()


@pytest.mark.parametrize("grad_buffer", [False, True])
def test_a_gradient_has_the_strides_of_its_leaf(
    grad_buffer: bool, buffer: native.GradientBuffer
) -> None:
    references = buffer.take()
    leaf = Leaf(fresh(), buffer if grad_buffer else None)
    leaf.tensor = st.ones(*SHAPE[::-1]).T
    g = leaf.take_over()
    assert g.strides == (4, 16)
    leaf = Leaf(g, None)
    del g
    address = leaf.sums["leaf"].ctypes.data
    leaf.tensor = st.ones(*SHAPE[::-1]).T
    assert leaf.take_over().ctypes.data == address
    assert references is not None


def test_a_freed_leaf_gets_its_gradient() -> None:
    leaf = Leaf(fresh())
    dead_reference = weakref.ref(st.ones(1))
    assert native.steal_gradient(leaf.sums, "leaf", dead_reference, None).shape == SHAPE


def test_a_gradient_that_is_no_array_stays_what_it_is() -> None:
    leaf = Leaf(fresh())
    assert native.steal_gradient(leaf.sums, "other", weakref.ref(leaf.tensor), None) is None
    assert list(leaf.sums) == ["leaf"]


def test_wrong_arguments_of_steal_gradient_are_named() -> None:
    leaf = Leaf(fresh())
    reference = weakref.ref(leaf.tensor)
    with pytest.raises(KeyError, match="none"):
        native.steal_gradient(leaf.sums, "none", reference, None)
    for wrong in (
        (leaf.sums, "leaf", reference),
        ([], 0, reference, None),
        (leaf.sums, "leaf", reference, fresh()),
    ):
        with pytest.raises(TypeError, match=r"steal_gradient: \(sums, accumulate_grad, tensor, "):
            native.steal_gradient(*wrong)  # type: ignore[arg-type, call-arg]
    assert "leaf" in leaf.sums


# ---------------------------------------------------------------- a tensor's own memory


ARRAYS: dict[str, Callable[[], Any]] = {
    "owner": fresh,
    "part": lambda: np.empty((8, 2), np.float32)[2:6],
    "part of a block": lambda: np.ndarray(SHAPE, np.float32, native.allocate(64), 32),
}


@keepers
@pytest.mark.parametrize("make", ARRAYS.values(), ids=ARRAYS.keys())
def test_a_tensor_whose_memory_something_sees_is_not_its_only_owner(
    make: Callable[[], Any], keeper: Callable[[Any], Any]
) -> None:
    x = native.wrap(make())
    assert native.is_only_owner(x)
    references = keeper(x.array)
    assert not native.is_only_owner(x)
    del references
    assert native.is_only_owner(x)


def block_of(kind: str) -> Any:
    return native.allocate(64) if kind == "block" else bytes(64)


@pytest.mark.parametrize("kind", ["block", "bytes"])
@pytest.mark.parametrize("view", [lambda b: b, memoryview, lambda b: memoryview(b)[16:]])
def test_the_owner_of_the_memory_counts(kind: str, view: Callable[[Any], Any]) -> None:
    block = block_of(kind)
    x = native.wrap(np.frombuffer(view(block), np.float32))
    assert not native.is_only_owner(x)
    del block
    assert native.is_only_owner(x)


def test_a_second_memoryview_counts() -> None:
    observed = memoryview(block_of("block"))
    x = native.wrap(np.frombuffer(observed[:32], np.float32))
    assert not native.is_only_owner(x)
    del observed
    assert native.is_only_owner(x)


def test_two_tensors_over_an_array_are_both_not_its_only_owner() -> None:
    x = st.ones(3)
    y = x.detach()
    assert not native.is_only_owner(x)
    assert not native.is_only_owner(y)
    del x
    assert native.is_only_owner(y)
    z = y[1:]
    assert not native.is_only_owner(y)
    assert not native.is_only_owner(z)


def test_memory_that_may_be_seen_without_a_reference_is_nobodys_own(
    buffer: native.GradientBuffer,
) -> None:
    for array in (np.frombuffer(bytearray(64), np.float32), buffer.take()):
        assert not native.is_only_owner(native.wrap(array))
    assert not native.is_only_owner(np.ones(3))
    assert not native.is_only_owner(None)
