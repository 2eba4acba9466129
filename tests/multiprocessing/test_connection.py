"""Pipes: interrupted calls."""

from __future__ import annotations

import os
import threading
from multiprocessing import connection as stdlib
from typing import Any

import pytest

import shmtensor as st
from shmtensor import multiprocessing as mp
from shmtensor.multiprocessing import connection
from tests.interrupts import Alarm, interrupt_after

FILES = connection.__file__, stdlib.__file__


@pytest.mark.parametrize("duplex", [True, False])
def test_a_receive_interrupted_at_any_instruction_leaves_the_next_message_whole(
    duplex: bool,
) -> None:
    reader, writer = mp.Pipe(duplex)
    at, n = 1, 0
    while True:
        writer.send(("first", at, st.ones(3)))
        writer.send(("second", at))
        is_interrupted = interrupt_after(at, reader.recv, *FILES)
        n += is_interrupted
        assert reader.poll()
        message = reader.recv()
        if message[0] == "first":  # nothing of it was lost
            assert (message[1], message[2].tolist()) == (at, [1, 1, 1])
            message = reader.recv()
        assert message == ("second", at)
        assert not reader.poll()
        at += 1
        if not is_interrupted:
            break
    assert n > 50
    reader.close(), writer.close()


def test_a_send_interrupted_at_any_instruction_leaves_the_next_message_whole() -> None:
    reader, writer = mp.Pipe()
    at, is_interrupted = 1, True
    while is_interrupted:
        x = st.ones(3)
        is_interrupted = interrupt_after(at, lambda: writer.send(("x", x)), *FILES)  # noqa: B023
        writer.send("next")
        message = reader.recv()
        if message != "next":
            assert message[1].tolist() == [1, 1, 1]
            message = reader.recv()
        assert message == "next"
        assert not reader.poll()
        at += 1
    assert at > 50
    reader.close(), writer.close()


def test_messages_in_pieces_are_completed_by_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = mp.Pipe()
    remaining = -1
    real_read, real_write = os.read, os.write

    def count() -> None:
        nonlocal remaining
        remaining -= 1
        if remaining == 0:
            raise Alarm

    def read(fd: int, _: int) -> bytes:
        count()
        return real_read(fd, 1)

    def write(fd: int, data: Any) -> int:
        count()
        return real_write(fd, data[:1])

    monkeypatch.setattr(os, "read", read)
    monkeypatch.setattr(os, "write", write)
    at, is_interrupted = 0, True
    while is_interrupted:
        at += 1
        received: list[Any] = []
        is_interrupted = False
        remaining = at
        try:
            writer.send("ab")
        except Alarm:
            is_interrupted = True
        remaining = -1
        writer.send("cd")  # completes what was sent in part
        remaining = at
        try:
            received.append(reader.recv())
        except Alarm:
            is_interrupted = True
        remaining = -1
        while reader.poll():
            received.append(reader.recv())
        assert received in (["cd"], ["ab", "cd"]), at
    assert at > 10
    reader.close(), writer.close()


def test_a_large_message_and_the_end_arrive() -> None:
    reader, writer = mp.Pipe(duplex=False)
    data = os.urandom(3_000_000)
    thread = threading.Thread(target=lambda: (writer.send(data), writer.send_bytes(data)))
    thread.start()
    assert reader.recv() == data
    assert reader.recv_bytes() == data
    thread.join()
    writer.close()
    for _ in range(2):
        with pytest.raises(EOFError):
            reader.recv()
    reader.close()
