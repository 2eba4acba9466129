"""How ranks that may have no common ancestor find one another, and begin to share memory.

```
 rank 0                                              rank r, of the same user
   socket "\\0shmtensor-<hash of user id and name>"
   accept          <-- hello: rank, world, place ---   connect, and retry until it can
                   --- welcome ------------------->
   when all came:  --- plan, descriptors --------->   no domain yet: becomes a member of rank 0's
                   <-- lent: a block, descriptors -   its own domain: becomes a guest; a rank of
                   --- domains: all lent blocks -->   each such domain lends a block of it, by which
                   <-- joined ---------------------   all ranks become guests in it
                   --- go ------------------------>   the ledger sees deaths from here on
```

Until `go` the connections show deaths: rank 0 tells all others, which raise the same error. The
blocks keep the memberships until the group ends. docs/design/distributed.md has the consequences of
a death at each arrow.

With a secret rank 0 also opens its store at the group's address. A rank that does not reach the
socket but the store is of another user, in another namespace or on another host. Then the group
runs over TCP. The socket listens before the store does; so who reaches the store looks for the
socket once more, and knows.

Note [Other users]: before anything is sent or believed, both sides ask the kernel who the other one
is (SO_PEERCRED). What another user's process sends is never read. That one waits for the same
meeting is an error only if the kernel says that one session has started both processes, which
another user's process cannot forge; else it is only mentioned while ranks are missing.

Each message is a control message (memory/control_message.py), some with descriptors:

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
import json
import multiprocessing.connection
import os
import resource
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from ... import native
from ...errors import CollectiveMismatch, CollectiveTimeout, DomainError, PeerLostError
from ...memory import control_message
from ...memory.control_message import AnotherUser, InvalidMessage, close_all
from ...memory.peer_credentials import own_user, peer
from .places import Place, has_died
from .store import PrefixStore
from .tcp_store import TCPStore

PROTOCOL = 3  # increases when the messages change
HOW_TO = (
    "ranks of another user, host, pid or network namespace share no memory: with the same "
    "SHMTENSOR_SECRET, or SHMTENSOR_SECRET_FILE, all communicate over TCP, made by: "
    'python -c "import secrets; print(secrets.token_hex())"'
)
wait: Callable[[Iterable[Any], float], list[Any]] = multiprocessing.connection.wait
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


@dataclass
class Meeting:
    """What a rank has when all have met.

    Attributes:
        control: this rank's end of the group; None: the group runs over TCP.
        block: the group's block.
        domain_blocks: a block of each domain in which ranks have tensors; () if there is only one.
        store: this rank's end of the store of rank 0 or the launcher, which the caller closes, if
            the group runs over TCP and no store was given.
    """

    control: native.Group | None = None
    block: native.Block | None = None
    domain_blocks: tuple[native.Block, ...] = ()
    store: TCPStore | None = None


@dataclass(frozen=True)
class Network:
    """Where ranks meet that cannot share memory: the store of rank 0, for who knows the secret."""

    host: str
    port: int
    secret: bytes
    prefix: str

    def connect(self, is_master: bool, timeout: float) -> TCPStore:
        """The store."""
        return TCPStore(
            self.host, self.port, None, is_master, timeout if timeout >= 0 else 1e9,
            wait_for_workers=False, secret=self.secret,
        )  # fmt: skip

    def part(self, store: TCPStore) -> PrefixStore:
        """The part of the store that belongs to this meeting."""
        return PrefixStore(self.prefix, store)


def create_block(world: int) -> tuple[native.Block, bytes]:
    """A zeroed block for a group, and its handle. The caller releases the handle's pin by
    `native.acknowledge` once all ranks have joined.
    """
    block = native.allocate(native.group_nbytes(world), zero=True, shared=True)
    return block, native.export(block)


def fault_point(step: str) -> None:
    """Marks a step of the protocol. Tests replace this function with one that kills the process."""


# ---------------------------------------------------------------- where they meet
def address(name: str) -> bytes:
    """The abstract socket at which the ranks of one user meet."""
    return b"\0shmtensor-" + digest(str(os.geteuid()), name)


def open_address(name: str) -> bytes:
    """The abstract socket by which ranks of different users learn of each other: no more."""
    return b"\0shmtensor-any-" + digest(name)


def digest(*parts: str) -> bytes:
    # a socket's name has at most 107 bytes, and a meeting's name may be longer, so it is hashed
    from hashlib import blake2b

    return blake2b("\0".join(parts).encode(), digest_size=20).hexdigest().encode()


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


def connect(where: str, name: str, place: Place) -> Peer:
    """A connection to rank 0 at its socket.

    Args:
        place: of this rank.

    Raises:
        PermissionError: another user's process listens there.
        OSError: nobody listens, or accepts nothing (BlockingIOError).
    """
    try:
        connection = control_message.connect(address(name), own_user())
    except AnotherUser as holder:
        raise PermissionError(
            f"{where}: another user holds the name {name!r}: uid {holder.uid}, pid {holder.pid}: "
            "it is not rank 0 of this group; end it, or choose another name or port"
        ) from None
    return Peer(where, connection, replace(place, rank=0))


class Peer:
    """A connection to another rank of this user; `with` closes it.

    Attributes:
        place: of that rank.
        pid, uid: of its process, as the kernel says; see `peer_of`.
    """

    def __init__(self, where: str, connection: socket.socket, place: Place) -> None:
        self.where, self.connection = where, connection
        self.pid, self.uid = peer_of(connection)
        self.fileno, self.close = connection.fileno, connection.close
        self.set_place(place)

    def set_place(self, place: Place) -> None:
        """Takes what the other side says, but believes the kernel."""
        self.place = replace(place, pid=self.pid or place.pid, uid=self.uid)

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(
        self, message: dict[str, Any], descriptors: Sequence[int] = (), deadline: float = 0.0
    ) -> None:
        """Sends a message. While too many descriptors of this user are under way (ulimit -n), it
        waits until the deadline of the monotonic clock: other processes receive theirs soon.

        Raises:
            ConnectionError: the other side has gone.
            RuntimeError: the message cannot be sent.
        """
        try:
            timeout = deadline - time.monotonic()
            control_message.send(self.connection, message, descriptors, timeout)
        except ConnectionError:
            raise
        except OSError as error:
            raise RuntimeError(
                f"init_process_group: pid {os.getpid()} cannot send {len(descriptors)} "
                f"descriptors to pid {self.pid}: {error}"
            ) from None

    def tell(self, message: dict[str, Any]) -> None:
        """Sends a message; that the other side has left is noticed where its answer is awaited."""
        with suppress(OSError):
            control_message.send(self.connection, message)

    def receive(
        self,
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
            return control_message.receive(
                self.connection, own_user(), timeout, max_bytes, max_descriptors
            )
        except InvalidMessage as error:
            raise CollectiveMismatch(
                f"init_process_group: pid {self.pid} has sent what no rank sends: {error}"
            ) from None
        except OSError as error:
            if error.errno != errno.EMFILE:
                raise
            raise DomainError(
                f"init_process_group: no free descriptors for another rank's memory: pid "
                f"{os.getpid()} may have {resource.getrlimit(resource.RLIMIT_NOFILE)[0]}: raise "
                "the limit (ulimit -n)"
            ) from None

    def read(self, *kinds: str, timeout: float = 0.0) -> tuple[dict[str, Any], list[int]]:
        """A message of one of these kinds, and its descriptors, which the caller closes. Raises the
        error that has come instead, else as `receive` does.
        """
        message, descriptors = self.receive(timeout)
        if not message.keys() & kinds:
            close_all(descriptors)
            if "error" in message:
                raise decode_error(message)
            raise CollectiveMismatch(
                f"{self.where}: {self.place} sent {sorted(message)}, not "
                f"{' or '.join(kinds) or 'nothing'}"
            )
        return message, descriptors

    def last_error(self) -> Exception | None:
        """The error that the other side sent before it closed the connection, behind other
        messages. The kernel reports that a connection is broken before it delivers what came
        earlier. Does not wait.
        """
        n_failures = 0
        while n_failures < 2:
            try:
                message, descriptors = self.receive()
            except TimeoutError:
                return None
            except (OSError, RuntimeError):
                n_failures += 1
                continue
            close_all(descriptors)
            if "error" in message:
                return decode_error(message)
        return None

    def has_ended(self) -> bool:
        """Whether the process that has closed the connection is dead. Only the kernel's pid counts:
        one that the process itself names may be of another pid namespace.
        """
        end = time.monotonic() + 0.2  # its connections are closed a moment before it is dead
        while self.pid > 0 and not has_died(self.pid):
            if time.monotonic() > end:
                return False
            time.sleep(0.005)
        return self.pid > 0

    def lost(self) -> Exception:
        """The error that the other side has sent before its connection ended, else one that names
        it.
        """
        if error := self.last_error():
            return error
        what = "has died" if self.has_ended() else "gave up"
        what += " before all ranks had joined the group"
        return gone_error(self.where, self.place, what)


# ---------------------------------------------------------------- messages
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


def receive_blocks(handles: list[bytes], descriptors: list[int]) -> tuple[native.Block, ...]:
    """A block of each lent domain, in which this process is then a member or a guest."""
    if len(descriptors) != 3 * len(handles):
        raise DomainError(
            f"init_process_group: {len(descriptors)} descriptors came for {len(handles)} domains"
        )
    triples = zip(descriptors[::3], descriptors[1::3], descriptors[2::3], strict=True)
    return tuple(
        native.guest_receive(triple, False, handle)
        for triple, handle in zip(triples, handles, strict=True)
    )


# ---------------------------------------------------------------- errors, and what is in a store
def apart_error(where: str, text: str) -> PermissionError:
    return PermissionError(
        f"{where}: ranks cannot share memory, and there is no secret: {text}: {HOW_TO}"
    )


def gone_error(where: str, place: Place, what: str) -> PeerLostError:
    """The error that names a rank."""
    text = f"{where}: {place} {what}"
    return PeerLostError(text, f"rank {place.rank}", place.pid, host=place.host)


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


def read_place(text: bytes) -> tuple[Place, str]:
    """Where a rank is, as it has written into the store; of rank 0 also the meeting's id."""
    try:
        values = json.loads(text)
        meeting_id = values.pop("id", "")
        return Place.from_dict(values), str(meeting_id)
    except (ValueError, RecursionError, AttributeError, TypeError):
        raise CollectiveMismatch(
            f"init_process_group: what is in the store is no rank: {text[:80]!r}"
        ) from None


def read_error(text: bytes) -> Exception:
    """An error that another rank has written into the store."""
    try:
        return decode_error(json.loads(text))
    except (ValueError, RecursionError, LookupError, TypeError):
        return CollectiveMismatch(
            f"init_process_group: what is in the store is no error of a rank: {text[:80]!r}"
        )
