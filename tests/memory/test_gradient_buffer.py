"""Who sees the memory of a gradient: buffers that lend it, and gradients that are taken over."""

from __future__ import annotations

import functools
import gc
import pickle
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import native
from shmtensor.multiprocessing.reduction import pickled

SHAPE = (4, 2)


class Exporter:
    """An array as another library's object would show it."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.__array_interface__ = array.__array_interface__


def in_cycle(g: Any) -> None:
    """Garbage that only the collector finds."""
    cycle: list[Any] = [g]
    cycle.append(cycle)


KEEPERS: dict[str, Callable[[Any], Any]] = {
    "array": lambda g: g,
    "view": lambda g: g[1:],
    "view of a view": lambda g: g[1:].T[0],
    "reshaped": lambda g: g.reshape(-1),
    "memoryview": memoryview,
    "slice of a memoryview": lambda g: memoryview(g)[1:],
    "another dtype": lambda g: g.view(np.int32),
    "asarray": np.asarray,
    "DLPack": lambda g: np.from_dlpack(g),
    "ctypes": lambda g: np.ctypeslib.as_ctypes(g),
    "frombuffer": lambda g: np.frombuffer(g, np.float32),
    "PickleBuffer": pickle.PickleBuffer,
    "iterator over elements": lambda g: g.flat,
    "nditer": lambda g: np.nditer(g),
    "broadcast": lambda g: np.broadcast_to(g, (3, *g.shape)),
    "strided": lambda g: np.lib.stride_tricks.as_strided(g, (2,), (8,)),
    "array interface": lambda g: np.asarray(Exporter(g)),
    "bound method": lambda g: g.sum,
    "partial": lambda g: functools.partial(np.sum, g),
    "closure": lambda g: lambda: g,
    "list": lambda g: [g],
    "tensor": lambda g: st.from_numpy(g),
}
keepers = pytest.mark.parametrize("keeper", KEEPERS.values(), ids=KEEPERS.keys())


@pytest.fixture
def buffer() -> native.GradientBuffer:
    """A part of a block."""
    return native.GradientBuffer(np.ndarray(SHAPE, np.float32, bytearray(256), 64))


def is_free(buffer: native.GradientBuffer) -> bool:
    """Whether the buffer gives its memory out; what it gives ends at once."""
    free = not buffer.lent
    assert (buffer.take() is not None) == free
    return free


# ---------------------------------------------------------------- a buffer lends its memory


def test_the_memory_is_lent_to_one_array_at_a_time(buffer: native.GradientBuffer) -> None:
    assert not buffer.lent
    g = buffer.take()
    assert buffer.lent
    assert buffer.take() is None
    del g
    assert not buffer.lent
    assert is_free(buffer)
    assert is_free(buffer)


def test_the_lent_array_is_the_memory(buffer: native.GradientBuffer) -> None:
    g = buffer.take()
    assert g is not None
    assert (g.shape, g.dtype) == (buffer.shape, buffer.dtype) == (SHAPE, np.float32)
    assert g.ctypes.data == buffer.address
    assert g.flags.writeable
    g[...] = 7
    whole = np.frombuffer(buffer.memory, np.float32)
    assert whole.tolist() == [0] * 16 + [7] * 8 + [0] * 40


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (0, 2, 1)])
def test_the_lent_array_has_the_strides_of_the_given_one(order: tuple[int, ...]) -> None:
    given = np.empty((2, 3, 4)).transpose(order)
    g = native.GradientBuffer(given).take()
    assert g is not None
    assert (g.shape, g.strides) == (given.shape, given.strides)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,) * 33])
def test_any_shape_is_lent(shape: tuple[int, ...]) -> None:
    buffer = native.GradientBuffer(np.empty(shape))
    g = buffer.take()
    assert g is not None
    assert g.shape == shape
    assert buffer.owns(g)


@keepers
def test_memory_that_something_sees_is_not_lent_again(
    buffer: native.GradientBuffer, keeper: Callable[[Any], Any]
) -> None:
    kept = keeper(buffer.take())
    assert not is_free(buffer)
    del kept
    assert is_free(buffer)


def test_the_lease_itself_counts(buffer: native.GradientBuffer) -> None:
    g = buffer.take()
    assert g is not None
    lease = g.base
    del g
    assert not is_free(buffer)
    del lease
    assert is_free(buffer)


def test_a_local_variable_of_a_caller_counts(buffer: native.GradientBuffer) -> None:
    def caller() -> bool:
        local = buffer.take()
        return is_free(buffer) and local is not None

    assert not caller()
    assert is_free(buffer)


def test_a_suspended_generator_counts(buffer: native.GradientBuffer) -> None:
    def generate() -> Iterator[None]:
        local = buffer.take()
        yield
        del local

    generator = generate()
    next(generator)
    assert not is_free(buffer)
    generator.close()
    assert is_free(buffer)


def test_a_traceback_counts(buffer: native.GradientBuffer) -> None:
    def fail() -> None:
        into = buffer.take()
        raise ValueError(into is not None)

    with pytest.raises(ValueError, match="True") as info:
        fail()
    assert not is_free(buffer)
    del info
    gc.collect()
    assert is_free(buffer)


def test_garbage_counts_until_it_is_collected(buffer: native.GradientBuffer) -> None:
    gc.disable()
    try:
        in_cycle(buffer.take())
        assert not is_free(buffer)
        gc.collect()
    finally:
        gc.enable()
    assert is_free(buffer)


def test_a_weak_reference_and_a_copy_do_not_count(buffer: native.GradientBuffer) -> None:
    g = buffer.take()
    assert g is not None
    reference, copy = weakref.ref(g), g.copy()
    del g
    assert reference() is None
    assert is_free(buffer)
    assert copy.base is None


def test_another_threads_local_variable_counts(buffer: native.GradientBuffer) -> None:
    ready, end = threading.Event(), threading.Event()

    def hold() -> None:
        local = buffer.take()
        ready.set()
        end.wait()
        del local

    thread = threading.Thread(target=hold)
    thread.start()
    ready.wait()
    assert not is_free(buffer)
    end.set()
    thread.join()
    assert is_free(buffer)


def test_one_of_many_threads_gets_the_memory(buffer: native.GradientBuffer) -> None:
    start = threading.Barrier(8)
    given: list[Any] = []

    def take() -> None:
        start.wait()
        given.append(buffer.take())

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(g is not None for g in given) == 1


SENDERS: dict[str, Callable[[Any], Any]] = {
    "message": native.encode,
    "pickled message": pickled,
    "handle": lambda g: native.acknowledge(native.export(g)),
    "message of a part": lambda g: native.encode([g[1:].T]),
    "message of a memoryview": lambda g: native.encode(np.asarray(memoryview(g))),
}


@pytest.mark.parametrize("sender", SENDERS.values(), ids=SENDERS.keys())
def test_memory_that_was_sent_to_another_process_is_not_lent_again(
    sender: Callable[[Any], Any],
) -> None:
    block: Any = native.allocate(256)
    arrays = (np.ndarray(SHAPE, np.float32, block, at) for at in (0, 64))
    sent, other = map(native.GradientBuffer, arrays)
    assert sender(sent.take()) is not NotImplemented
    assert sent.lent
    assert sent.take() is None
    assert is_free(other)


def test_a_buffer_owns_what_it_lent_and_nothing_else(buffer: native.GradientBuffer) -> None:
    g = buffer.take()
    assert g is not None
    assert buffer.owns(g)
    other = native.GradientBuffer(np.empty(SHAPE, np.float32))
    for x in (g[:], g.T, g[1:], g.copy(), other.take(), np.empty(SHAPE), g.base, None, 3):
        assert not buffer.owns(x)
    assert not other.owns(g)


@pytest.mark.filterwarnings("ignore:Setting the shape:DeprecationWarning")  # NumPy 2.5
def test_a_lent_array_that_was_given_another_shape_is_no_longer_owned(
    buffer: native.GradientBuffer,
) -> None:
    g = buffer.take()
    assert g is not None
    g.shape = (8,)
    assert not buffer.owns(g)
    del g
    g = buffer.take()
    assert g is not None
    assert g.shape == SHAPE


def test_the_memory_lives_as_long_as_a_buffer_or_an_array_of_it() -> None:
    block: Any = native.allocate(64)
    buffer = native.GradientBuffer(np.ndarray((4,), np.float32, block))
    assert buffer.memory is block
    alive = weakref.ref(block)
    del block
    g = buffer.take()
    assert g is not None
    part = g[1:]
    del buffer, g
    assert alive() is not None
    part[...] = 1
    del part
    assert alive() is None


def test_what_no_buffer_can_be_over_is_refused() -> None:
    fixed = np.ones(3)
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="GradientBuffer: the array is read-only"):
        native.GradientBuffer(fixed)
    with pytest.raises(TypeError, match="GradientBuffer: the array holds Python objects"):
        native.GradientBuffer(np.array([None]))
    for x in ([1.0], np.ma.ones(3), memoryview(b"a")):
        with pytest.raises(TypeError, match="GradientBuffer: an array is needed"):
            native.GradientBuffer(x)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        native.GradientBuffer()  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        native.Lease()


def test_repr_says_the_state(buffer: native.GradientBuffer) -> None:
    assert repr(buffer) == "<GradientBuffer: shape (4, 2), dtype float32, free>"
    g = buffer.take()
    assert "lent" in repr(buffer)
    del g


# ---------------------------------------------------------------- a gradient is taken over


class Leaf:
    """A leaf with an array of its own, and the sums of a walk that came to it."""

    def __init__(self, gradient: Any, home: native.GradientBuffer | None = None) -> None:
        self.tensor = st.ones(*gradient.shape)
        self.home = home
        self.sums = {"leaf": gradient, "other": None}

    def taken(self) -> Any:
        return native.taken(self.sums, "leaf", weakref.ref(self.tensor), self.home).array


def is_taken_over(make: Callable[[], Any], keeper: Callable[[Any], Any], home: Any = None) -> bool:
    """Whether a gradient becomes `.grad` without a copy while the keeper keeps it."""
    leaf = Leaf(make(), home)
    leaf.sums["leaf"][...] = 5
    address = leaf.sums["leaf"].ctypes.data
    kept = keeper(leaf.sums["leaf"])
    g = leaf.taken()
    assert leaf.sums == {"other": None}
    assert (g == 5).all()
    del kept
    return bool(g.ctypes.data == address)


def fresh() -> Any:
    return np.empty(SHAPE, np.float32)


def test_a_fresh_gradient_is_taken_over() -> None:
    assert is_taken_over(fresh, lambda g: None)
    assert is_taken_over(fresh, weakref.ref)
    assert is_taken_over(fresh, np.copy)


@keepers
def test_a_gradient_that_something_sees_is_copied(keeper: Callable[[Any], Any]) -> None:
    assert not is_taken_over(fresh, keeper)


def test_a_gradient_born_at_home_stays_there(buffer: native.GradientBuffer) -> None:
    for keeper in (lambda g: None, weakref.ref, np.copy):
        assert is_taken_over(buffer.take, keeper, buffer)


@keepers
def test_a_gradient_born_at_home_that_something_sees_is_copied(
    buffer: native.GradientBuffer, keeper: Callable[[Any], Any]
) -> None:
    assert not is_taken_over(buffer.take, keeper, buffer)
    assert is_free(buffer)


def test_a_lease_that_somebody_has_makes_a_copy(buffer: native.GradientBuffer) -> None:
    assert not is_taken_over(buffer.take, lambda g: g.base, buffer)


@pytest.mark.parametrize("home", [None, "free", "lent"])
def test_a_gradient_in_garbage_is_copied(home: str | None, buffer: native.GradientBuffer) -> None:
    lent = buffer.take() if home == "lent" else None
    gc.disable()
    try:
        taken_over = is_taken_over(fresh, in_cycle, buffer if home else None)
    finally:
        gc.enable()
    assert not taken_over
    del lent


def test_a_gradient_that_another_leaf_gets_too_is_copied_for_the_first() -> None:
    g = np.full(SHAPE, 5, np.float32)
    address = g.ctypes.data
    leaf = Leaf(g)
    leaf.sums["other"] = g
    del g
    first = leaf.taken()
    second = native.taken(leaf.sums, "other", weakref.ref(leaf.tensor), None).array
    assert first.ctypes.data != address
    assert second.ctypes.data == address
    assert leaf.sums == {}


def test_a_gradient_whose_memory_is_not_its_own_is_copied() -> None:
    leaf = Leaf(np.ones((2, *SHAPE), np.float32)[0])
    assert leaf.taken().flags.owndata
    other = native.GradientBuffer(np.ones(SHAPE, np.float32))
    leaf = Leaf(other.take())
    assert leaf.taken().flags.owndata
    assert is_free(other)


def test_a_read_only_gradient_is_copied(buffer: native.GradientBuffer) -> None:
    def locked(g: Any) -> None:
        g.flags.writeable = False

    assert not is_taken_over(fresh, locked)
    leaf = Leaf(buffer.take(), buffer)
    locked(leaf.sums["leaf"])
    assert leaf.taken().flags.writeable


def test_a_gradient_from_elsewhere_is_brought_home(buffer: native.GradientBuffer) -> None:
    leaf = Leaf(np.full(SHAPE, 5, np.float32), buffer)
    g = leaf.taken()
    assert buffer.owns(g)
    assert (g == 5).all()


def test_a_gradient_is_not_brought_home_where_somebody_sees_it(
    buffer: native.GradientBuffer,
) -> None:
    kept = buffer.take()
    assert kept is not None
    kept[...] = 1
    assert is_taken_over(fresh, lambda g: None, buffer)
    assert (kept == 1).all()


@pytest.mark.parametrize("home", [False, True])
def test_a_gradient_is_laid_as_its_leaf(home: bool, buffer: native.GradientBuffer) -> None:
    kept = buffer.take()
    leaf = Leaf(fresh(), buffer if home else None)
    leaf.tensor = st.ones(*SHAPE[::-1]).T
    g = leaf.taken()
    assert g.strides == (4, 16)
    leaf = Leaf(g, None)
    del g
    address = leaf.sums["leaf"].ctypes.data
    leaf.tensor = st.ones(*SHAPE[::-1]).T
    assert leaf.taken().ctypes.data == address
    assert kept is not None


def test_a_leaf_that_is_gone_gets_its_gradient() -> None:
    leaf = Leaf(fresh())
    gone = weakref.ref(st.ones(1))
    assert native.taken(leaf.sums, "leaf", gone, None).shape == SHAPE


def test_a_gradient_that_is_no_array_stays_what_it_is() -> None:
    leaf = Leaf(fresh())
    assert native.taken(leaf.sums, "other", weakref.ref(leaf.tensor), None) is None
    assert list(leaf.sums) == ["leaf"]


def test_wrong_arguments_of_taken_are_named() -> None:
    leaf = Leaf(fresh())
    reference = weakref.ref(leaf.tensor)
    with pytest.raises(KeyError, match="none"):
        native.taken(leaf.sums, "none", reference, None)
    for wrong in (
        (leaf.sums, "leaf", reference),
        ([], 0, reference, None),
        (leaf.sums, "leaf", reference, fresh()),
    ):
        with pytest.raises(TypeError, match=r"taken: \(sums, leaf, tensor, home\) is needed"):
            native.taken(*wrong)  # type: ignore[arg-type, call-arg]
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
    kept = keeper(x.array)
    assert not native.is_only_owner(x)
    del kept
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
    seen = memoryview(block_of("block"))
    x = native.wrap(np.frombuffer(seen[:32], np.float32))
    assert not native.is_only_owner(x)
    del seen
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
