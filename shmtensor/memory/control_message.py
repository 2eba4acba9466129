"""The control message: what processes of one machine say to each other, beside tensors.

```
length u32, little-endian | a dictionary in JSON, UTF-8 | on a Unix socket also: descriptors
```

On a Unix socket (SOCK_SEQPACKET) a message is one packet; in a pipe the messages follow each other.
docs/design/messages.md says who sends which.

Everything here treats the other end as hostile. Whose process it is, the kernel says before a byte
is read. A message has at most MAX_BYTES, a wait ends at its time, and no descriptor of a message
that is refused stays open. What a message says is not checked: its reader checks each value.
"""

from __future__ import annotations

import array
import errno
import json
import math
import os
import select
import socket
import struct
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import Any

from .peer_credentials import UNKNOWN, peer

LENGTH = struct.Struct("<I")
MAX_BYTES = (1 << 16) - LENGTH.size  # of the JSON: a message fits into an empty pipe
MAX_DESCRIPTORS = 253  # the kernel's limit of one message
PAUSE = 0.005  # seconds between two attempts to send descriptors
LONGEST_WAIT = 3600.0  # seconds; the kernel's limit is 24 days


class InvalidMessage(ValueError):
    """A message that no honest process sends."""


class AnotherUser(PermissionError):
    """The process at the other end of a connection is of another user.

    Attributes:
        uid, pid: of that process, as `peer_credentials.peer` reports them.
    """

    def __init__(self, uid: int, pid: int) -> None:
        text = f"the other process is of another user: uid {uid}, pid {pid}"
        super().__init__(errno.EPERM, text)
        self.uid, self.pid = uid, pid


def close_all(descriptors: Iterable[int]) -> None:
    """Closes descriptors."""
    for each in descriptors:
        os.close(each)


# ---------------------------------------------------------------- bytes
def encode(message: dict[str, Any]) -> bytes:
    """The bytes of a message. Raises: ValueError: it is longer than MAX_BYTES.

    >>> encode({"code": 1})
    b'\\n\\x00\\x00\\x00{"code":1}'
    """
    text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
    data = text.encode(errors="backslashreplace")  # JSON's own escape of half a surrogate pair
    if len(data) > MAX_BYTES:
        raise ValueError(f"a message is too long: {len(data)} bytes, at most {MAX_BYTES}")
    return LENGTH.pack(len(data)) + data


def take(buffer: bytearray, max_bytes: int = MAX_BYTES) -> dict[str, Any] | None:
    """Removes the first message from what has come of a pipe; None: it has not come whole.

    Raises: InvalidMessage: it is too long, or no dictionary in JSON.

    >>> buffer = bytearray(encode({"code": 1}) + encode({"code": 2})[:6])
    >>> take(buffer), take(buffer), len(buffer)
    ({'code': 1}, None, 6)
    """
    if len(buffer) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack_from(buffer)
    if length > max_bytes:
        raise InvalidMessage(f"it is too long: {length} bytes, at most {max_bytes}")
    end = LENGTH.size + length
    if len(buffer) < end:
        return None
    data = bytes(buffer[LENGTH.size : end])
    del buffer[:end]
    try:
        message = json.loads(data.decode())
    except (ValueError, RecursionError, MemoryError) as error:
        raise InvalidMessage(f"it is no JSON: {type(error).__name__}: {data[:40]!r}") from None
    if type(message) is not dict:
        raise InvalidMessage(f"it is no dictionary: {data[:40]!r}")
    return message


# ---------------------------------------------------------------- Unix sockets
def connect(address: str | bytes, uid: int | None) -> socket.socket:
    """A connection to the process that listens at a Unix socket. Does not wait.

    Args:
        uid: the user id that the process must have, by the kernel's word; None: any.

    Raises:
        AnotherUser: another user's process listens there.
        ConnectionRefusedError: nobody listens there.
        BlockingIOError: its queue is full.
    """
    with ExitStack() as stack:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        stack.enter_context(connection)
        connection.setblocking(False)
        connection.connect(address)
        check_peer(connection, uid)
        stack.pop_all()
    return connection


def check_peer(connection: socket.socket, uid: int | None) -> None:
    """Raises AnotherUser if the process at the other end is of another user than `uid`."""
    pid, other, _ = peer(connection)
    if uid is not None and (other != uid or other == UNKNOWN):
        raise AnotherUser(other, pid)


def send(
    connection: socket.socket,
    message: dict[str, Any],
    descriptors: Sequence[int] = (),
    timeout: float = 0.0,
) -> None:
    """Sends a message and descriptors, which stay open here.

    Args:
        timeout: seconds to wait while the other side does not read, or too many descriptors of this
            user are under way (ulimit -n).

    Raises:
        ConnectionError: the other side has gone.
        TimeoutError: the message is not sent.
        OSError: the descriptors cannot be sent.
    """
    data, deadline = encode(message), time.monotonic() + timeout
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
    flags = socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT
    while True:
        wait(connection, select.POLLOUT, deadline)
        try:
            connection.sendmsg([data], rights if descriptors else [], flags)
            return
        except BlockingIOError:
            continue
        except OSError as error:
            if error.errno != errno.ETOOMANYREFS or time.monotonic() >= deadline:
                raise
            time.sleep(PAUSE)


def receive(
    connection: socket.socket,
    uid: int | None,
    timeout: float = 0.0,
    max_bytes: int = MAX_BYTES,
    max_descriptors: int = 0,
) -> tuple[dict[str, Any], list[int]]:
    """A message and its descriptors, which the caller closes; no program inherits them.

    Args:
        uid: the user id that the other side must have, by the kernel's word; None: any.
        timeout: seconds to wait for the message.

    Raises:
        AnotherUser: the other side is of another user; nothing was read.
        ConnectionError: the other side has gone.
        TimeoutError: no message has come.
        InvalidMessage: it is no message, or too long, or has too many descriptors.
        OSError (EMFILE): no descriptor is free for those in the message.
    """
    check_peer(connection, uid)
    deadline = time.monotonic() + timeout
    space = socket.CMSG_LEN(max_descriptors * 4) if max_descriptors else 0
    flags = socket.MSG_CMSG_CLOEXEC | socket.MSG_DONTWAIT
    while True:
        wait(connection, select.POLLIN, deadline)
        try:
            received = connection.recvmsg(LENGTH.size + max_bytes, space, flags)
            break
        except BlockingIOError:  # another thread has read it
            continue
    data, ancillary, packet_flags, _ = received
    descriptors = array.array("i")
    for level, kind, payload in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(payload[: len(payload) // 4 * 4])
    try:
        return whole(data, packet_flags, len(descriptors), max_bytes, max_descriptors), list(
            descriptors
        )
    except BaseException:
        close_all(descriptors)
        raise


def whole(
    data: bytes, flags: int, n_descriptors: int, max_bytes: int, max_descriptors: int
) -> dict[str, Any]:
    """The message of a packet, of which nothing is missing and nothing is left."""
    if not data:
        raise ConnectionResetError(errno.ECONNRESET, "the other side has closed the connection")
    if flags & socket.MSG_TRUNC:
        raise InvalidMessage(f"it is too long: more than {max_bytes} bytes")
    if flags & socket.MSG_CTRUNC:
        if n_descriptors < max_descriptors:
            raise OSError(errno.EMFILE, "no descriptor is free for those in a message")
        raise InvalidMessage(f"it has more than {max_descriptors} descriptors")
    buffer = bytearray(data)
    message = take(buffer, max_bytes)
    if message is None or buffer:
        raise InvalidMessage(f"its length is not that of the packet: {data[:40]!r}")
    return message


def wait(connection: socket.socket, event: int, deadline: float) -> None:
    """Waits until a socket is ready. Raises: TimeoutError: it is not, at the deadline."""
    poll = select.poll()
    poll.register(connection, event)
    while True:
        remaining = max(0.0, min(deadline - time.monotonic(), LONGEST_WAIT))
        if poll.poll(math.ceil(remaining * 1000)):
            return
        if time.monotonic() >= deadline:
            raise TimeoutError(errno.ETIMEDOUT, "the other side does not answer")
