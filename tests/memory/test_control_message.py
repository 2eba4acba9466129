"""The control message: whole or refused, from the right user, in time; no descriptor stays."""

from __future__ import annotations

import array
import errno
import math
import os
import resource
import socket
import stat
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from shmtensor.memory import control_message
from shmtensor.memory.control_message import (
    LENGTH,
    MAX_BYTES,
    MAX_DESCRIPTORS,
    AnotherUser,
    InvalidMessage,
    connect,
    encode,
    receive,
    send,
    take,
)

from .actor import actors
from .hostile import BECOME, NOBODY

ME = os.geteuid()
NAME = f"\0shmtensor-test-{os.getpid()}"
needs_root = pytest.mark.skipif(ME != 0, reason="needs root to become another user")
Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        yield ours, theirs


def n_open() -> int:
    return len(os.listdir("/proc/self/fd"))


def framed(data: bytes) -> bytes:
    return LENGTH.pack(len(data)) + data


def send_raw(connection: socket.socket, data: bytes, descriptors: list[int]) -> None:
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))
    connection.sendmsg([data], [rights] if descriptors else [])


# ---- bytes
MESSAGES = [{}, {"a": 1}, {"text": "\0\n\u20ac\udc80", "list": [1, [2.5, None]], "yes": True}]


def test_messages_of_a_pipe_come_in_any_parts() -> None:
    data = b"".join(map(encode, MESSAGES))
    for size in range(1, len(data) + 1):
        buffer, received = bytearray(), []
        for at in range(0, len(data), size):
            buffer += data[at : at + size]
            while (message := take(buffer)) is not None:
                received.append(message)
        assert (received, buffer) == (MESSAGES, b"")


def test_the_longest_message_fits_into_an_empty_pipe() -> None:
    longest = {"a": "x" * (MAX_BYTES - len('{"a":""}'))}
    reader, writer = os.pipe()
    with ExitStack() as stack:
        stack.callback(os.close, reader)
        stack.callback(os.close, writer)
        os.set_blocking(writer, False)
        data = encode(longest)
        assert os.write(writer, data) == len(data)
        assert take(bytearray(os.read(reader, len(data)))) == longest
    with pytest.raises(ValueError, match=f"too long: {MAX_BYTES + 1} bytes, at most {MAX_BYTES}"):
        encode({"a": longest["a"] + "x"})


INVALID = {
    "no JSON": b"{",
    "bytes": b"\xff\xfe\x00garbage",
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "a list": b"[]",
    "a number": b"1",
    "nothing": b"",
    "deep": b"[" * 60000,
    "huge digits": b'{"a": ' + b"9" * 5000 + b"}",
}


@pytest.mark.parametrize("data", INVALID.values(), ids=INVALID)
def test_what_is_no_message_is_refused(pair: Pair, data: bytes) -> None:
    with pytest.raises(InvalidMessage, match="it is no"):
        take(bytearray(framed(data)))
    before = n_open()
    send_raw(pair[0], framed(data), [0, 1])
    with pytest.raises(InvalidMessage, match="it is no"):
        receive(pair[1], ME, max_descriptors=2)
    assert n_open() == before


def test_a_length_is_refused_before_its_bytes_come() -> None:
    with pytest.raises(InvalidMessage, match="too long: 4294967295 bytes, at most 100"):
        take(bytearray(b"\xff\xff\xff\xff"), 100)


# ---- sockets
def test_descriptors_come_with_a_message_and_are_not_inherited(pair: Pair) -> None:
    null = os.open("/dev/null", os.O_RDONLY)
    try:
        os.set_inheritable(null, True)
        send(pair[0], {"a": 1}, [null] * MAX_DESCRIPTORS)
    finally:
        os.close(null)
    message, descriptors = receive(pair[1], ME, max_descriptors=MAX_DESCRIPTORS)
    try:
        assert (message, len(descriptors)) == ({"a": 1}, MAX_DESCRIPTORS)
        assert not any(map(os.get_inheritable, descriptors))
        assert all(stat.S_ISCHR(os.fstat(each).st_mode) for each in descriptors)
    finally:
        control_message.close_all(descriptors)


REFUSED = {
    "too many descriptors": (encode({}), [0] * 3, "more than 2 descriptors"),
    "a longer length": (framed(b"{}")[:-1] + b"", [0], "its length is not that of the packet"),
    "a shorter length": (framed(b"{}") + b" ", [0], "its length is not that of the packet"),
    "no length": (b"{}", [0], "its length is not that of the packet"),
    "a long packet": (framed(b" " * 200), [0], "too long: more than 100 bytes"),
    "a long length": (b"\xff\0\0\0{}", [0], "too long: 255 bytes, at most 100"),
}


@pytest.mark.parametrize(("data", "descriptors", "why"), REFUSED.values(), ids=REFUSED)
def test_a_refused_message_leaves_no_descriptor(
    pair: Pair, data: bytes, descriptors: list[int], why: str
) -> None:
    before = n_open()
    send_raw(pair[0], data, descriptors)
    with pytest.raises(InvalidMessage, match=why):
        receive(pair[1], ME, max_bytes=100, max_descriptors=2)
    assert n_open() == before


def test_descriptors_are_refused_where_none_are_expected(pair: Pair) -> None:
    before = n_open()
    send(pair[0], {}, [0])
    with pytest.raises(InvalidMessage, match="more than 0 descriptors"):
        receive(pair[1], ME)
    assert n_open() == before


def test_no_free_descriptor_is_said_and_none_stays(pair: Pair) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    send(pair[0], {}, [0] * 20)
    before = n_open()
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + 2, limits[1]))
    try:
        with pytest.raises(OSError, match="no descriptor is free") as raised:
            receive(pair[1], ME, max_descriptors=20)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert (raised.value.errno, n_open()) == (errno.EMFILE, before)


def test_an_end_is_a_connection_error(pair: Pair) -> None:
    pair[0].close()
    with pytest.raises(ConnectionError):
        receive(pair[1], ME)
    with pytest.raises(ConnectionError):
        send(pair[1], {})


def test_silence_ends_at_its_time(pair: Pair) -> None:
    for timeout in (-1.0, 0.0, 0.05):
        with pytest.raises(TimeoutError):
            receive(pair[1], ME, timeout)
    pair[1].settimeout(100)  # the socket's own timeout is not used
    with pytest.raises(TimeoutError):
        receive(pair[1], ME, 0.05)
    send(pair[0], {"a": 1})
    assert receive(pair[1], ME, math.inf) == ({"a": 1}, [])


def test_a_reader_that_does_not_read_ends_a_send_at_its_time(pair: Pair) -> None:
    with pytest.raises(TimeoutError):
        while True:
            send(pair[0], {"a": "x" * 1000}, timeout=0.05)
    assert receive(pair[1], ME)[0] == {"a": "x" * 1000}
    send(pair[0], {"a": "x" * 1000})


# ---- whose process it is
@needs_root
def test_nothing_is_read_of_another_user() -> None:
    with actors(1) as (stranger,), socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(NAME)
        listener.listen()
        stranger.do(f"from shmtensor.memory import control_message; {BECOME}")
        stranger.do(f"c = control_message.connect({NAME!r}, 0); control_message.send(c, {{}}, [0])")
        connection, _ = listener.accept()
        with connection:
            before = n_open()
            for _ in range(2):
                with pytest.raises(AnotherUser, match=f"uid {NOBODY}, pid {stranger.process.pid}"):
                    receive(connection, ME, math.inf, max_descriptors=1)
            assert n_open() == before
            message, descriptors = receive(connection, NOBODY, max_descriptors=1)
            control_message.close_all(descriptors)
            assert (message, len(descriptors)) == ({}, 1)
        said = stranger.fails(f"control_message.connect({NAME!r}, {NOBODY})")
        assert f"the other process is of another user: uid 0, pid {os.getpid()}" in said


def test_an_unmapped_user_is_nobody(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = control_message.UNKNOWN
    monkeypatch.setattr(control_message, "peer", lambda _: (1, unknown, 1))
    with pytest.raises(AnotherUser):
        receive(pair[1], unknown)


def test_connecting_does_not_wait() -> None:
    before = n_open()
    with pytest.raises(ConnectionRefusedError):
        connect(NAME, ME)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(NAME)
        with pytest.raises(ConnectionRefusedError):
            connect(NAME, ME)
        listener.listen(0)
        with connect(NAME, ME), pytest.raises(BlockingIOError):
            connect(NAME, ME)
    assert n_open() == before
