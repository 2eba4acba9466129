"""What the processes of a named tensor send each other: address, requests, answers, their checks.

Each is a control message (`control_message.py`). An answer is compared with its bounds before it is
used.
"""

from __future__ import annotations

import contextlib
import socket
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..dtypes import bfloat16
from .control_message import AnotherUser, InvalidMessage, connect, receive, send
from .peer_credentials import peer

PREFIX = "shmtensor:3:"  # the number increases when the messages change
ANSWER_TIMEOUT = 5.0  # seconds; a holder that is stopped does not answer
MAX_REQUEST, MAX_ANSWER = 256, 8192  # bytes
MAX_DESCRIPTORS = 3  # in an answer
MAX_DIMENSIONS = 64  # NumPy's
LIMIT = 1 << 62  # of sizes, strides and offsets; sums of 65 of them are computed without a bound

# Dtypes by their name in an answer; NumPy has no name for bfloat16.
DTYPES = {np.dtype(char).str: np.dtype(np.dtype(char).str) for char in "?bhilqBHILQefdgFDG"}
DTYPES["bfloat16"] = bfloat16


def fault_point(step: str) -> None:
    """Marks a step of the protocol. Tests replace this function with one that kills the process."""


def address(uid: int, name: str) -> str:
    return f"\0{PREFIX}{uid}:{name}"


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
    connection: socket.socket | None = None
    try:
        connection = connect_until(uid, name, deadline)
        fault_point("open.connected")
        # Who may not ask is refused before a byte is read: the kernel then reports a broken
        # connection first, and the refusal behind it.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            send(connection, message)
        fault_point("open.asked")
        try:
            return connection, *answer(connection, uid, deadline)
        except ConnectionResetError:
            return connection, *answer(connection, uid, deadline)
    except TimeoutError:
        pid = 0 if connection is None else peer(connection)[0]
        if connection is not None:
            connection.close()
        raise TimeoutError(
            f"open: the holder of {name!r} does not answer: pid {pid}, {timeout:g} s (is it "
            "stopped?)"
        ) from None
    except BaseException:
        if connection is not None:
            connection.close()
        raise


def connect_until(uid: int, name: str, deadline: float) -> socket.socket:
    """Connects, or waits for a place in the holder's queue."""
    while True:
        try:
            return connect(address(uid, name), uid)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise TimeoutError("its queue is full") from None
            time.sleep(0.002)
        except AnotherUser as holder:
            raise PermissionError(
                f"open: the name {name!r} of user {uid} is held by another user: {holder.uid} "
                f"(pid {holder.pid})"
            ) from None


def answer(
    connection: socket.socket, uid: int, deadline: float
) -> tuple[dict[str, Any], list[int]]:
    """The holder's answer, and its descriptors."""
    timeout = deadline - time.monotonic()
    return receive(connection, uid, timeout, MAX_ANSWER, MAX_DESCRIPTORS)


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
