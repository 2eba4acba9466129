"""The messages between rank 0 and another rank that meet at a socket.

Each is a control message (memory/control_message.py), with descriptors where it has some:

| from | message | with |
|---|---|---|
| rank r | `protocol`: PROTOCOL; `place`: its Place | |
| rank 0 | `welcome` | rank 0's Place |
| rank 0 | `note` | a line for stderr: who is missing |
| rank 0 | `plan`: "memory" | the group's block, the 3 descriptors of its domain |
| rank r | `lent` | if it has another domain: a block of it, its 3 descriptors |
| rank 0 | `domains` | all lent blocks; 3 descriptors of each |
| rank r | `joined` | |
| rank 0 | `go` | |
| rank 0 | `plan`: "tcp" | instead of "memory" |
| rank 0, rank r | `error` | its type and text: all ranks raise it |
"""

from __future__ import annotations

import errno
import os
import resource
import select
import socket
import time
from contextlib import suppress
from typing import Any

from ...errors import CollectiveMismatch, CollectiveTimeout, DomainError, PeerLostError
from ...memory import control_message
from ...memory.control_message import InvalidMessage, close_all
from ...memory.peer_credentials import own_user, peer
from .places import Place

__all__ = [
    "PROTOCOL",
    "address",
    "decode_error",
    "encode_error",
    "fault_point",
    "handles_of",
    "hello",
    "last_error",
    "open_address",
    "parse_hello",
    "peer_of",
    "receive",
    "send",
    "wait_readable",
]

PROTOCOL = 3  # increases when the messages change
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
    """The pid (0: in a pid namespace that this process does not see) and the user id (UNKNOWN: it
    could be any user's) of the process that has connected, or that listens.
    """
    return peer(connection)[:2]


def is_of_this_session(pid: int) -> bool:
    """Whether one session has started both this process and another one: the kernel's word, which
    a process of another user cannot forge. Session 0 is one of another pid namespace.
    """
    with suppress(OSError):
        return pid > 0 and os.getsid(0) != 0 and os.getsid(pid) == os.getsid(0)
    return False


def send(
    connection: socket.socket,
    message: dict[str, Any],
    descriptors: list[int] | None = None,
    deadline: float = 0.0,
) -> None:
    """Sends a message. While too many descriptors of this user are under way (ulimit -n), it waits
    until the deadline of the monotonic clock: other processes receive theirs soon.

    Raises:
        ConnectionError: the other side has gone.
        RuntimeError: the message cannot be sent.
    """
    try:
        timeout = deadline - time.monotonic()
        control_message.send(connection, message, descriptors or (), timeout)
    except ConnectionError:
        raise
    except OSError as error:
        raise RuntimeError(
            f"init_process_group: pid {os.getpid()} cannot send {len(descriptors or ())} "
            f"descriptors to pid {peer_of(connection)[0]}: {error}"
        ) from None


def receive(
    connection: socket.socket,
    timeout: float = 0.0,
    max_bytes: int = control_message.MAX_BYTES,
    max_descriptors: int = control_message.MAX_DESCRIPTORS,
) -> tuple[dict[str, Any], list[int]]:
    """A message of a process of this user, and its descriptors, which the caller closes.

    Raises:
        ConnectionError: the other side has gone.
        TimeoutError: no message has come.
        CollectiveMismatch: it has sent what no rank sends.
        DomainError: there is no free descriptor for those in the message.
    """
    try:
        return control_message.receive(connection, own_user(), timeout, max_bytes, max_descriptors)
    except InvalidMessage as error:
        pid, _ = peer_of(connection)
        raise CollectiveMismatch(
            f"init_process_group: pid {pid} has sent what no rank sends: {error}"
        ) from None
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
        raise DomainError(
            f"init_process_group: no free descriptors for another rank's memory: pid "
            f"{os.getpid()} may have {resource.getrlimit(resource.RLIMIT_NOFILE)[0]}: raise "
            "the limit (ulimit -n)"
        ) from None


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
    kernel reports that a connection is broken before it delivers what came earlier. Does not wait.
    """
    n_failures = 0
    while n_failures < 2:
        try:
            message, descriptors = receive(connection)
        except TimeoutError:
            return None
        except (OSError, RuntimeError):
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


def handles_of(values: Any) -> list[bytes]:
    """The handles in a message of rank 0. Raises: CollectiveMismatch: it has others."""
    try:
        return [bytes.fromhex(each) for each in values]
    except (TypeError, ValueError):
        raise CollectiveMismatch(
            f"init_process_group: not a handle of rank 0: {str(values)[:80]}"
        ) from None


def hello(place: Place) -> dict[str, Any]:
    """What a rank sends at first."""
    return {"protocol": PROTOCOL, "place": place.as_dict()}


def parse_hello(message: dict[str, Any]) -> Place:
    """Who a hello is from. Raises: CollectiveMismatch: it is none of this protocol."""
    try:
        if message.get("protocol") != PROTOCOL:
            raise ValueError
        return Place.from_dict(message.get("place"))
    except ValueError:
        raise CollectiveMismatch(
            "init_process_group: what came is no rank of this version of shmtensor: "
            f"{str(message)[:80]}"
        ) from None
