"""Who sees the memory of a gradient: buffers that lend it to one array at a time."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from shmtensor import native
from shmtensor.multiprocessing.reduction import pickle_dumps

from .keepers import SHAPE, in_cycle, is_free, keepers, make_buffer


@pytest.fixture
def buffer() -> native.GradientBuffer:
    return make_buffer()


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
    full = np.frombuffer(buffer.memory, np.float32)
    assert full.tolist() == [0] * 16 + [7] * 8 + [0] * 40


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (0, 2, 1)])
def test_the_lent_array_has_the_strides_of_the_given_one(order: tuple[int, ...]) -> None:
    array = np.empty((2, 3, 4)).transpose(order)
    g = native.GradientBuffer(array).take()
    assert g is not None
    assert (g.shape, g.strides) == (array.shape, array.strides)


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
    references = keeper(buffer.take())
    assert not is_free(buffer)
    del references
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
    arrays: list[Any] = []

    def take() -> None:
        start.wait()
        arrays.append(buffer.take())

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(g is not None for g in arrays) == 1


SENDERS: dict[str, Callable[[Any], Any]] = {
    "message": native.encode,
    "pickled message": pickle_dumps,
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
    message, other = map(native.GradientBuffer, arrays)
    assert sender(message.take()) is not NotImplemented
    assert message.lent
    assert message.take() is None
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
