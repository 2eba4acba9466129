"""GPU tensors among what the codec encodes: handles, without a pickle."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import shmtensor as st
from shmtensor import native
from shmtensor.errors import ForeignHandle, PeerLostError, StaleHandle
from shmtensor.multiprocessing.reduce_cuda import Handles
from shmtensor.multiprocessing.reduction import dumps, loads

HEAD = 2  # the mark and the tag come before it
N_HANDLE = HEAD + 34
SIZES = HEAD + 40 + 72


@pytest.fixture
def handles(mc: ModuleType) -> Iterator[Handles]:
    """Those of the test's messages; discarded at its end."""
    found = Handles()
    yield found
    found.discard()


def through(obj: Any, handles: Handles) -> Any:
    """`obj` as it is received, in the process that owns the memory."""
    message = native.encode(obj, handles)
    assert message is not None, "left to the pickler"
    assert not message[1], "no block of the heap"
    return native.decode(*message)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "bfloat16", "complex64"])
def test_a_tensor_arrives_as_the_same_memory(handles: Handles, dtype: str) -> None:
    x = st.arange(24, device="cuda").reshape(2, 3, 4).to(getattr(st, dtype))
    views = [x, x[1], x.transpose(0, 2), x[:, ::2, 1:], x[0, 0, 3]]
    for view, result in zip(views, through(views, handles), strict=True):
        assert (result.shape, result.stride(), result.dtype) == (
            view.shape,
            view.stride(),
            view.dtype,
        )
        assert result.data_ptr() == view.data_ptr()
        assert st.equal(result, view)


def test_containers_and_what_is_on_the_cpu(handles: Handles) -> None:
    x, y = st.ones(3, device="cuda"), st.zeros(2)
    message = native.encode({"x": x, "rest": (1, "two", [y])}, handles)
    assert message is not None
    data, blocks = message
    received = [native.receive(native.export(block), True) for block in blocks]
    result = native.decode(data, received)
    result["x"].add_(1)
    assert x.tolist() == [2.0] * 3
    assert result["rest"][2][0].tolist() == [0.0] * 2


def test_without_elements(handles: Handles) -> None:
    for x in (st.zeros(0, 3, device="cuda"), st.ones(3, 4, device="cuda")[:, 4:]):
        result = through(x, handles)
        assert (result.shape, result.device) == (x.shape, x.device)


@pytest.mark.parametrize("rest", [{1, 2}, lambda: None])
def test_what_is_left_to_the_pickler_has_no_handles_of_the_codec(
    handles: Handles, rest: Any
) -> None:
    x = st.ones(3, device="cuda")
    assert native.encode([x, x + 1, rest], handles) is None
    assert not handles.messages
    assert native.encode([x, x], handles) is None  # one object for the receiver, too
    assert not handles.messages
    data, blocks = dumps([x, x, {1, 2}], handles)
    first, second, _ = loads(data, blocks)
    assert first is second


def test_a_tensor_with_history_is_left_to_the_pickler(handles: Handles) -> None:
    x = st.ones(3, device="cuda", requires_grad=True)
    assert native.encode(x, handles) is None
    with pytest.raises(RuntimeError, match="non-leaf tensor that requires grad"):
        dumps([st.ones(2, device="cuda"), x * 2], handles)
    assert not handles.messages


@pytest.mark.parametrize(
    ("at", "code", "value"),
    [
        (HEAD + 24, "q", 1 << 40),  # the offset
        (HEAD + 24, "q", -4),
        (HEAD + 32, "B", 17),  # the dtype: objects
        (HEAD + 33, "B", 200),  # dimensions
        (N_HANDLE, "B", 16),
        (N_HANDLE, "B", 71),
        (N_HANDLE + 1, "B", 1),
        (SIZES, "q", 1 << 20),
        (SIZES, "q", -1),
        (SIZES, "q", 0),
        (SIZES + 16, "q", 1 << 62),  # a stride
    ],
)
def test_a_forged_layout_is_refused(handles: Handles, at: int, code: str, value: int) -> None:
    message = native.encode(st.ones(3, 4, device="cuda"), handles)
    assert message is not None
    forged = bytearray(message[0])
    struct.pack_into("<" + code, forged, at, value)
    with pytest.raises(ValueError, match="malformed"):
        native.decode(bytes(forged), [])


def test_bytes_changed_at_random_give_a_tensor_or_an_error(handles: Handles) -> None:
    """As a hostile writer would send them: nothing outside of the slab can be reached, all of which
    each process that has a block of it has open."""
    from shmtensor.memory.cuda.allocator import allocator

    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    rng = random.Random(seed)
    x = st.zeros(4, 5, device="cuda")
    message = native.encode(x.t(), handles)
    assert message is not None
    data = message[0]
    [slab] = allocator.devices[0].slabs.values()
    for _ in range(1500):
        forged = bytearray(data)
        for _ in range(rng.randint(1, 3)):
            forged[rng.randrange(HEAD, len(data))] = rng.randrange(256)
        try:
            result = native.decode(bytes(forged), [])
        except (ValueError, TypeError, RuntimeError, ForeignHandle, StaleHandle, PeerLostError):
            continue
        ends = [
            (size - 1) * stride
            for size, stride in zip(result.shape, result.stride(), strict=True)
            if size
        ]
        if result.numel():
            first = result.data_ptr() + sum(end for end in ends if end < 0) * result.itemsize
            last = result.data_ptr() + (sum(end for end in ends if end > 0) + 1) * result.itemsize
            assert slab.ptr <= first, seed
            assert last <= slab.ptr + slab.size, seed
        del result
    st.cuda.synchronize()
