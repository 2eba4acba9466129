"""The messages between rank 0 and another rank that meet at a socket, and what delays them.

Each message is one packet with a dictionary in JSON, and descriptors where it has some:

| from | message | with |
|---|---|---|
| rank r | hello: its Place, padded to HELLO bytes | |
| rank 0 | `welcome` | rank 0's Place |
| rank 0 | `note` | a line for stderr: who is missing |
| rank 0 | `plan`: "memory" | the group's block, the 3 descriptors of its domain; whether to lend |
| rank r | `lent` | a block of its domain; its 3 descriptors |
| rank 0 | `domains` | all lent blocks; 3 descriptors of each |
| rank r | `joined` | |
| rank 0 | `go` | |
| rank 0 | `plan`: "tcp" | instead of "memory" |
| rank 0, rank r | `error` | its type and text: all ranks raise it |
"""

from __future__ import annotations

import array
import errno
import json
import os
import select
import socket
import struct
import sys
import time
from contextlib import suppress
from typing import Any

from ...errors import CollectiveMismatch, CollectiveTimeout, DomainError, PeerLostError
from .places import Place
from .store import Store

__all__ = [
    "HELLO",
    "Notice",
    "address",
    "decode_error",
    "encode_error",
    "fault_point",
    "last_error",
    "open_address",
    "peer_of",
    "receive",
    "send",
    "wait_in_store",
    "wait_readable",
]

HELLO = 1024  # bytes
MAX_MESSAGE = 1 << 16  # bytes
MAX_DESCRIPTORS = 253  # the kernel's limit of one message
CREDENTIALS = struct.Struct("3i")  # pid, uid, gid
SILENCE = 5.0  # seconds that a rank waits before it says for whom
HOW_TO = (
    "ranks of another user, host, pid or network namespace share no memory: with the same "
    "SHMTENSOR_SECRET, or SHMTENSOR_SECRET_FILE, all communicate over TCP, made by: "
    'python -c "import secrets; print(secrets.token_hex())"'
)
ERRORS: dict[str, type[Exception]] = {
    each.__name__: each
    for each in (
        CollectiveMismatch,
        CollectiveTimeout,
        DomainError,
        PeerLostError,
        PermissionError,
        RuntimeError,
        ValueError,
    )
}


def fault_point(step: str) -> None:
    """Marks a step of the protocol. Tests replace this function with one that kills the process."""


def digest(*parts: str) -> bytes:
    # a socket's name has at most 107 bytes, and a meeting's name may be longer, so it is hashed
    from hashlib import blake2b

    return blake2b("\0".join(parts).encode(), digest_size=20).hexdigest().encode()


def address(name: str) -> bytes:
    """The abstract socket at which the ranks of one user meet."""
    return b"\0shmtensor-" + digest(str(os.geteuid()), name)


def open_address(name: str) -> bytes:
    """The abstract socket by which ranks of different users learn of each other: no more."""
    return b"\0shmtensor-any-" + digest(name)


def peer_of(connection: socket.socket) -> tuple[int, int]:
    """The pid and the user id of the process that has connected, or that listens."""
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    pid, uid, _ = CREDENTIALS.unpack(data)
    return pid, uid


def is_of_this_session(pid: int) -> bool:
    """Whether one session has started both this process and another one: the kernel's word, which
    a process of another user cannot forge.
    """
    with suppress(OSError):
        return pid > 0 and os.getsid(pid) == os.getsid(0)
    return False


def send(
    connection: socket.socket, message: dict[str, Any], descriptors: list[int] | None = None
) -> None:
    """Sends a message. Raises: OSError: the other side has gone."""
    rights = array.array("i", descriptors or ())
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)] if descriptors else []
    connection.sendmsg([json.dumps(message).encode()], ancillary, socket.MSG_NOSIGNAL)


def receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """A message of a process of this user, and its descriptors, which the caller closes.

    Raises:
        OSError: the other side has gone, or sent what no rank sends.
    """
    space = socket.CMSG_LEN(MAX_DESCRIPTORS * 4)
    data, ancillary, flags, _ = connection.recvmsg(MAX_MESSAGE, space, socket.MSG_CMSG_CLOEXEC)
    descriptors = array.array("i")
    for level, kind, payload in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(payload[: len(payload) // 4 * 4])
    try:
        if not data:
            raise ConnectionResetError("the other side has closed the connection")
        if flags & socket.MSG_CTRUNC:
            raise OSError(errno.EMFILE, "no free descriptors for another rank's memory")
        message = json.loads(data)
        if flags & socket.MSG_TRUNC or type(message) is not dict:
            raise ValueError
    except (ValueError, RecursionError):
        close_all(descriptors)
        raise OSError(errno.EBADMSG, f"no message of a rank: {data[:40]!r}") from None
    except BaseException:
        close_all(descriptors)
        raise
    return message, list(descriptors)


def close_all(descriptors: Any) -> None:
    """Closes descriptors."""
    for each in descriptors:
        os.close(each)


def encode_error(error: BaseException) -> dict[str, Any]:
    """A message by which another rank raises the same error."""
    name = type(error).__name__
    message: dict[str, Any] = {"error": name if name in ERRORS else "RuntimeError"}
    message["text"] = str(error)[:4096]
    if isinstance(error, PeerLostError):
        message |= {"name": error.name, "pid": error.pid, "host": error.host}
    return message


def decode_error(message: dict[str, Any]) -> Exception:
    """The error of such a message."""
    kind, text = ERRORS.get(str(message["error"]), RuntimeError), str(message.get("text"))
    if kind is PeerLostError:
        name, pid, host = message.get("name"), message.get("pid"), message.get("host")
        return PeerLostError(text, str(name), pid if type(pid) is int else 0, None, str(host))
    return kind(text)


def last_error(connection: socket.socket) -> Exception | None:
    """The error that the other side sent before it closed a connection, behind other messages. The
    kernel reports that a connection is broken before it delivers what came earlier.
    """
    n_failures = 0
    while n_failures < 2:
        try:
            message, descriptors = receive(connection)
        except OSError:
            n_failures += 1
            continue
        close_all(descriptors)
        if "error" in message:
            return decode_error(message)
    return None


def wait_readable(sources: list[Any], seconds: float) -> list[Any]:
    """Those of some sockets that can be read, or have ended, after at most so many seconds."""
    poll = select.poll()
    by_number = {each if type(each) is int else each.fileno(): each for each in sources}
    for number in by_number:
        poll.register(number, select.POLLIN)
    return [by_number[number] for number, _ in poll.poll(max(0.0, seconds) * 1000)]


class Notice:
    """The deadline of a wait, and the line on stderr that says after SILENCE for whom it is.

    Args:
        timeout: seconds; negative: no limit.
    """

    def __init__(self, where: str, timeout: float) -> None:
        began = time.monotonic()
        self.where, self.timeout = where, timeout
        self.deadline = began + timeout if timeout >= 0 else float("inf")
        self._next = began + SILENCE
        self._printed: set[str] = set()

    def remaining(self) -> float:
        """Seconds until the deadline; for `timeout` arguments -1 means no limit."""
        return -1.0 if self.timeout < 0 else max(0.0, self.deadline - time.monotonic())

    def is_over(self) -> bool:
        """Whether the deadline has passed."""
        return time.monotonic() >= self.deadline

    def pause(self, longest: float) -> float:
        """Seconds until the deadline or the line, at most `longest`."""
        end = min(self.deadline, self._next)
        return max(0.0, min(longest, end - time.monotonic()))

    def is_due(self) -> bool:
        """Whether it is time for the line, once."""
        if time.monotonic() < self._next:
            return False
        self._next = float("inf")
        return True

    def restart(self) -> None:
        """Another wait begins, with a line of its own; the deadline stays."""
        self._next = time.monotonic() + SILENCE

    def print(self, text: str) -> None:
        """Prints a line, each once."""
        if text not in self._printed:
            self._printed.add(text)
            print(f"shmtensor: {self.where}: {text}", file=sys.stderr, flush=True)

    def timed_out(self, text: str) -> CollectiveTimeout:
        """The error at the deadline."""
        return CollectiveTimeout(
            f"{self.where}: timed out after {self.timeout:g} s: not all ranks came in time: {text}"
        )


def wait_in_store(store: Store, keys: list[str], own: Place, notice: Notice) -> None:
    """Returns when all ranks have written their keys, which are their numbers."""
    while missing := store.await_all(keys, notice.pause(60.0)):
        ranks = ", ".join(sorted(missing, key=int))
        text = f"{own} waits at the store: {len(missing)} of {own.world} are missing: ranks {ranks}"
        if notice.is_due():
            notice.print(f"{text} have not come")
        if notice.is_over():
            raise notice.timed_out(text)


def parse_hello(data: bytes) -> Place:
    """Who a hello is from. Raises: ConnectionRefusedError: it is none."""
    try:
        return Place.from_dict(json.loads(data))
    except (ValueError, RecursionError):
        raise ConnectionRefusedError(f"no hello: {data[:40]!r}") from None
