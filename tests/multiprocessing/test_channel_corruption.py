"""Counts, sizes and links of a channel that another process wrote over: an error, never a crash."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable

import numpy as np
import pytest

from shmtensor import memory, native
from tests.memory.fresh import Child

SLOT_BYTES = 64 << 20
HEAD = 64  # of a root: the link of its first segment
LAST, CELLS, CELL = 256, 832, 512  # of a segment
EXPORTED, HANDLES, NBYTES, DATA = 8, 12, 16, 24  # of a cell
HANDLE = struct.Struct("<16sIIIIQQQIIQ")


class Memory:
    """The words of a channel."""

    def __init__(self, channel: native.Channel) -> None:
        handle = memory.export(channel.block)
        _, slot, _, _, _, _, offset, *_ = HANDLE.unpack(handle)
        native.acknowledge(handle)
        self.root = channel.block.address
        self.base = self.root - slot * SLOT_BYTES - offset % SLOT_BYTES

    @property
    def segment(self) -> int:
        link = ctypes.c_uint64.from_address(self.root + HEAD).value
        return self.base + (link & ((1 << 34) - 1)) * 64

    def cell(self, i: int) -> int:
        return self.segment + CELLS + CELL * i


def write(address: int, value: int, kind: type = ctypes.c_uint32) -> None:
    kind.from_address(address).value = value  # type: ignore[attr-defined]


def corrupt_messages() -> None:
    channel = native.Channel()
    memory_of = Memory(channel)
    array = np.frombuffer(native.allocate(64, shared=True), np.uint8)
    for i, (field, value) in enumerate(
        [(HANDLES, 1 << 31), (HANDLES, 7), (NBYTES, 1000), (NBYTES, 2**32 - 1)]
    ):
        cell = memory_of.cell(2 * i)
        channel.put(b"abc", [array], None)
        assert ctypes.string_at(cell + DATA + HANDLE.size, 3) == b"abc"
        write(cell + field, value)
        with pytest.raises(RuntimeError, match="Channel: a message is corrupt"):
            channel.get(0.0)
        channel.put(b"next", [], None)
        assert bytes(channel.get(0.0)[0]) == b"next"


def corrupt_large_message() -> None:
    channel = native.Channel()
    memory_of = Memory(channel)
    channel.put(bytes(10_000), [], None)
    handle = ctypes.string_at(memory_of.cell(0) + DATA, HANDLE.size)
    _, slot, _, _, _, _, offset, *_ = HANDLE.unpack(handle)
    message = memory_of.base + slot * SLOT_BYTES + offset % SLOT_BYTES
    assert ctypes.c_uint64.from_address(message + 8).value == 10_000
    write(message + 8, 1 << 40, ctypes.c_uint64)
    with pytest.raises(
        RuntimeError, match=r"Channel: a message is corrupt: 0 handles and 10995116"
    ):
        channel.get(0.0)
    assert channel.get(0.0) is None


def corrupt_number_of_exported_handles() -> None:
    channel = native.Channel()
    memory_of = Memory(channel)
    channel.put(b"abc", [], None)
    write(memory_of.cell(0) + EXPORTED, 2**32 - 1)
    assert bytes(channel.get(0.0)[0]) == b"abc"


def corrupt_links_and_hints() -> None:
    channel = native.Channel()
    memory_of = Memory(channel)
    channel.put(b"a", [], None)
    write(memory_of.segment + LAST, 1 << 30)
    channel.put(b"b", [], None)  # into the next segment
    assert bytes(channel.get(0.0)[0]) == b"a"
    other = native.Channel(block=channel.block)
    head = ctypes.c_uint64.from_address(memory_of.root + HEAD).value
    write(memory_of.root + HEAD, head | ((1 << 34) - 1), ctypes.c_uint64)
    with pytest.raises(RuntimeError, match="a link leads to a block that is not a segment"):
        other.get(0.0)
    write(memory_of.root + HEAD, head, ctypes.c_uint64)


@pytest.mark.parametrize(
    "scenario",
    [
        corrupt_messages,
        corrupt_large_message,
        corrupt_number_of_exported_handles,
        corrupt_links_and_hints,
    ],
)
def test_corrupt_channels_raise(scenario: Callable[[], None]) -> None:
    """In a child, for a mistake may crash it."""
    assert Child(scenario).wait() == 0
