"""What the processes of a named tensor send each other: address, requests, answers, their checks.

Everything here treats the other end as hostile: messages are bounded, an answer is compared with
its bounds before it is used, and no descriptor of a message that is refused stays open.
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import socket
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..dtypes import bfloat16
from .peer_credentials import peer

__all__ = [
    "ANSWER_TIMEOUT",
    "InvalidMessage",
    "Layout",
    "address",
    "ask",
    "close_all",
    "fault_point",
    "parse",
    "receive",
    "send",
]

PREFIX = "shmtensor:2:"
ANSWER_TIMEOUT = 5.0  # seconds; a holder that is stopped does not answer
MAX_REQUEST, MAX_ANSWER = 256, 8192  # bytes
MAX_DESCRIPTORS = 4  # the kernel closes what exceeds these
MAX_DIMENSIONS = 64  # NumPy's
LIMIT = 1 << 62  # of sizes, strides and offsets; sums of 65 of them are computed without a bound

# Dtypes by their name in an answer; NumPy has no name for bfloat16.
DTYPES = {np.dtype(char).str: np.dtype(np.dtype(char).str) for char in "?bhilqBHILQefdgFDG"}
DTYPES["bfloat16"] = bfloat16


class InvalidMessage(ValueError):
    """A message that no honest process sends."""


def fault_point(step: str) -> None:
    """Marks a step of the protocol. Tests replace this function with one that kills the process."""


def address(uid: int, name: str) -> str:
    return f"\0{PREFIX}{uid}:{name}"


def close_all(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)


# ---- messages


def send(connection: socket.socket, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
    socket.send_fds(connection, [json.dumps(message).encode()], fds)


def parse(data: bytes) -> dict[str, Any]:
    """The dictionary that a message is. Raises: InvalidMessage."""
    try:
        message = json.loads(data)
    except (ValueError, RecursionError, MemoryError) as error:
        raise InvalidMessage(f"it is no JSON: {type(error).__name__}: {data[:40]!r}") from None
    if not isinstance(message, dict):
        raise InvalidMessage(f"it is no dictionary: {data[:40]!r}")
    return message


def receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """An answer and its descriptors. Raises: ConnectionError, InvalidMessage."""
    space = socket.CMSG_LEN(MAX_DESCRIPTORS * 4)
    data, ancillary, flags, _ = connection.recvmsg(MAX_ANSWER, space, socket.MSG_CMSG_CLOEXEC)
    fds = array.array("i")
    for level, kind, payload in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(payload[: len(payload) // 4 * 4])
    try:
        if not data:
            raise ConnectionError("the other end has closed the connection")
        if flags & socket.MSG_TRUNC:
            raise InvalidMessage(f"it has more than {MAX_ANSWER} bytes")
        return parse(data), list(fds)
    except BaseException:
        close_all(list(fds))
        raise


def connect(connection: socket.socket, uid: int, name: str, deadline: float) -> None:
    """Connects, or waits for a place in the holder's queue: the kernel refuses to wait for one on
    a socket with a timeout.
    """
    while True:
        try:
            return connection.connect(address(uid, name))
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise TimeoutError("its queue is full") from None
            time.sleep(0.002)


def ask(
    uid: int, name: str, message: dict[str, Any], timeout: float
) -> tuple[socket.socket, dict[str, Any], list[int]]:
    """Connects to a name and sends a request.

    Returns:
        The open connection, the answer, its descriptors.

    Raises:
        ConnectionError: nobody has the name, or its holder ended meanwhile.
        PermissionError: the name is held by another user than it says.
        TimeoutError: the holder does not answer.
        InvalidMessage: it answers what no honest process answers.
    """
    deadline = time.monotonic() + timeout
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        connection.settimeout(max(timeout, 0.01))
        connect(connection, uid, name, deadline)
        fault_point("open.connected")
        pid, holder, _ = peer(connection)
        if holder != uid:
            raise PermissionError(
                f"open: the name {name!r} of user {uid} is held by another user: {holder} "
                f"(pid {pid})"
            )
        # Who may not ask is refused before a byte is read: the kernel then reports a broken
        # connection first, and the refusal behind it.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            send(connection, message)
        fault_point("open.asked")
        try:
            return connection, *receive(connection)
        except ConnectionResetError:
            return connection, *receive(connection)
    except TimeoutError:
        pid = 0
        with contextlib.suppress(OSError):
            pid = peer(connection)[0]
        connection.close()
        raise TimeoutError(
            f"open: the holder of {name!r} does not answer: pid {pid}, {timeout:g} s (is it "
            "stopped?)"
        ) from None
    except BaseException:
        connection.close()
        raise


# ---- layouts


def _text(value: Any) -> str:
    """A value in an error message; nested lists may be too deep to be printed."""
    return repr(value)[:40] if type(value) in (int, float, str, bool) else type(value).__name__


def _integer(value: Any, low: int, high: int) -> int:
    if type(value) is not int or not low <= value <= high:
        raise InvalidMessage(f"no number between {low} and {high}: {_text(value)}")
    return value


def _integers(value: Any, low: int) -> tuple[int, ...]:
    if type(value) is not list or len(value) > MAX_DIMENSIONS:
        raise InvalidMessage(f"no list of at most {MAX_DIMENSIONS} numbers: {_text(value)}")
    return tuple(_integer(n, low, LIMIT) for n in value)


@dataclass(frozen=True)
class Layout:
    """How an array lies in its memory.

    Attributes:
        strides, offset: in bytes, the latter from the beginning of the block or file.
        begin, end: the bytes that the array covers.
    """

    dtype: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    readonly: bool
    mode: int
    nbytes: int
    begin: int
    end: int

    @staticmethod
    def describe(array: Any, offset: int) -> dict[str, Any]:
        """The entries of an answer for an array at an offset."""
        return {
            "shape": array.shape,
            "strides": array.strides,
            "dtype": "bfloat16" if array.dtype == bfloat16 else array.dtype.str,
            "offset": offset,
            "readonly": not array.flags.writeable,
        }

    @classmethod
    def of(cls, answer: dict[str, Any]) -> Layout:
        """The layout of an answer, each value compared with its bounds. Raises: InvalidMessage."""
        missing = {"shape", "strides", "dtype", "offset", "readonly", "mode"} - answer.keys()
        if missing:
            raise InvalidMessage(f"it lacks {', '.join(sorted(missing))}")
        name = answer["dtype"]
        dtype = DTYPES.get(name) if type(name) is str else None
        if dtype is None:
            raise InvalidMessage(f"no dtype: {_text(name)}")
        shape, strides = _integers(answer["shape"], 0), _integers(answer["strides"], -LIMIT)
        if len(shape) != len(strides):
            raise InvalidMessage(f"{len(shape)} sizes, {len(strides)} strides")
        begin = end = offset = _integer(answer["offset"], 0, LIMIT)
        if 0 not in shape:
            steps = [(n - 1) * stride for n, stride in zip(shape, strides, strict=True)]
            begin += sum(step for step in steps if step < 0)
            end += dtype.itemsize + sum(step for step in steps if step > 0)
        if begin < 0:
            raise InvalidMessage(f"it begins {-begin} bytes before its memory")
        nbytes = dtype.itemsize
        for n in shape:
            nbytes *= n
        if nbytes > LIMIT:
            raise InvalidMessage(f"the shape {shape} has too many elements")
        mode = _integer(answer["mode"], 0, 0o777)
        readonly = answer["readonly"] is not False
        return cls(dtype, shape, strides, offset, readonly, mode, nbytes, begin, end)

    def array(self, memory: Any) -> Any:
        """The array over an array of bytes, read-only if that is.

        Raises: InvalidMessage: it is not inside the memory.
        """
        if self.end > memory.nbytes:
            raise InvalidMessage(f"bytes {self.begin} to {self.end} of {memory.nbytes}")
        try:
            return np.ndarray(self.shape, self.dtype, memory, self.offset, self.strides)
        except (ValueError, MemoryError) as error:
            raise InvalidMessage(str(error)) from None
