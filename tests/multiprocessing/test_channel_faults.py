"""A process killed at each arrow of the channel's protocol loses no other message, blocks nobody
and leaves nothing."""

from __future__ import annotations

import gc
import signal
import time

import numpy as np
import pytest
from test_channel import end_of, in_child, killed_at, shared_array

from shmtensor import memory, native

WRITER = ["channel.put.writing", "channel.put.written", "channel.put.ready"]
READER = ["channel.get.claimed", "channel.get.held", "channel.get.done", "channel.get.released"]
SEGMENT = ["channel.segment.made", "channel.segment.pinned", "channel.segment.linked"]
RETIRE = ["channel.retire.tail", "channel.retire.head"]


def everything(channel: native.Channel, seconds: float = 5.0) -> list[bytes]:
    """All messages, those of dead readers included: their death takes the kernel a moment."""
    result = []
    end = time.monotonic() + seconds
    while time.monotonic() < end and (message := channel.get(0.5)):
        result.append(bytes(message[0]))
    return result


def unread_blocks() -> int:
    native.sweep(True)
    gc.collect()
    return memory.statistics().unread_messages


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("point", WRITER)
def test_killed_writer(point: str, large: bool) -> None:
    channel = native.Channel()
    array = shared_array()
    data = b"x" * (10_000 if large else 10)
    channel.put(b"before", [], None)
    killed_at(point, lambda: channel.put(data, [array], None))
    channel.put(b"after", [array], None)
    expected = (
        [b"before", data, b"after"] if point == "channel.put.ready" else [b"before", b"after"]
    )
    assert everything(channel) == expected
    assert channel.size() == 0


@pytest.mark.parametrize("point", WRITER)
def test_killed_writer_of_a_bounded_channel_gives_its_room_back(point: str) -> None:
    channel = native.Channel(2)
    killed_at(point, lambda: channel.put(b"dead", [], None))
    assert channel.put(b"one", [], 5.0)
    if point != "channel.put.ready":
        assert channel.put(b"two", [], 5.0)
    assert not channel.put(b"three", [], 0.0)


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("point", READER)
def test_killed_reader_gives_its_message_back(point: str, large: bool) -> None:
    channel = native.Channel()
    arrays = [shared_array(value=i) for i in range(3)]
    for i in range(3):
        channel.put(bytes([i]) * (10_000 if large else 10), [arrays[i]], None)
    killed_at(point, lambda: channel.get(None))
    remaining = []
    end = time.monotonic() + 5.0
    while time.monotonic() < end and (message := channel.get(0.5)):
        remaining.append((message[0][0], np.frombuffer(message[1][0], np.float64)[0]))
    result = point in ("channel.get.done", "channel.get.released")
    assert sorted(remaining) == [(i, float(i)) for i in ((1, 2) if result else (0, 1, 2))]


@pytest.mark.parametrize("point", SEGMENT)
def test_killed_while_growing(point: str) -> None:
    channel = native.Channel()

    def fill() -> None:
        for i in range(200):
            channel.put(str(i).encode(), [], None)

    killed_at(point, fill)
    for i in range(200):
        channel.put(f"b{i}".encode(), [], None)
    result = everything(channel)
    assert [m for m in result if m[:1] == b"b"] == [f"b{i}".encode() for i in range(200)]
    theirs = [int(m) for m in result if m[:1] != b"b"]
    assert theirs == list(range(len(theirs)))
    assert len(theirs) == 64


@pytest.mark.parametrize("point", RETIRE)
def test_killed_while_leaving_a_segment(point: str) -> None:
    channel = native.Channel()
    before = unread_blocks()
    for i in range(200):
        channel.put(str(i).encode(), [], None)

    def read() -> None:
        while channel.get(None):
            continue

    killed_at(point, read)
    assert [int(m) for m in everything(channel)] == list(range(64, 200))
    for i in range(200):
        channel.put(str(i).encode(), [], None)
    assert len(everything(channel)) == 200
    assert unread_blocks() <= before


def test_a_stopped_reader_blocks_nobody() -> None:
    import os

    channel = native.Channel()
    for i in range(100):
        channel.put(str(i).encode(), [], None)

    def read() -> None:
        native.arm_fault("channel.get.claimed:1:stop")
        channel.get(None)

    pid = in_child(read)
    os.waitpid(pid, os.WUNTRACED)
    assert [int(channel.get(1.0)[0]) for _ in range(99)] == list(range(1, 100))
    for i in range(300):
        channel.put(str(i).encode(), [], None)
    assert [int(channel.get(1.0)[0]) for _ in range(300)] == list(range(300))
    os.kill(pid, signal.SIGKILL)
    assert end_of(pid) == -signal.SIGKILL
    assert everything(channel) == [b"0"]
