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
"""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass

from ... import native
from ...errors import DomainError, PeerLostError
from ...memory import control_message
from ...memory.control_message import AnotherUser
from ...memory.peer_credentials import own_user
from .meeting_messages import HOW_TO, address, peer_of
from .places import Place, has_died
from .store import PrefixStore
from .tcp_store import TCPStore

__all__ = [
    "Meeting",
    "Network",
    "apart_error",
    "connect",
    "create_block",
    "describe",
    "gone_error",
    "has_ended",
    "lost",
    "receive_blocks",
    "tcp_line",
]


@dataclass
class Meeting:
    """What a rank has when all have met.

    Attributes:
        control: this rank's end of the group; None: the group runs over TCP.
        block: the group's block.
        domain_blocks: a block of each domain in which ranks have tensors; () if there is only one.
        store: rank 0's store, if it opened one.
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
            self.host, self.port, None, is_master, timeout, wait_for_workers=False,
            secret=self.secret,
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


def describe(ranks: list[int]) -> str:
    numbers = ", ".join(map(str, ranks))
    return f"ranks {numbers} have not come" if len(ranks) > 1 else f"rank {numbers} has not come"


def tcp_line(world: int, why: str) -> str:
    """What rank 0 prints if the group runs over TCP."""
    return f"the group of {world} ranks runs over TCP, not in shared memory: {why}"


def apart_error(where: str, text: str) -> PermissionError:
    return PermissionError(
        f"{where}: ranks cannot share memory, and there is no secret: {text}: {HOW_TO}"
    )


def has_ended(connection: socket.socket) -> bool:
    """Whether the process at the other end of a connection that it has closed is dead. Only the
    kernel's pid counts: one that the process itself names may be of another pid namespace.
    """
    pid, _ = peer_of(connection)
    end = time.monotonic() + 0.2  # its connections are closed a moment before it is dead
    while not (is_dead := pid > 0 and has_died(pid)) and pid > 0 and time.monotonic() < end:
        time.sleep(0.005)
    return is_dead


def lost(where: str, place: Place, connection: socket.socket) -> PeerLostError:
    """The error for a rank whose connection has ended before `go`."""
    what = "has died" if has_ended(connection) else "gave up"
    return gone_error(where, place, f"{what} before all ranks had joined the group")


def gone_error(where: str, place: Place, what: str) -> PeerLostError:
    """The error that names a rank."""
    text = f"{where}: {place} {what}"
    return PeerLostError(text, f"rank {place.rank}", place.pid, host=place.host)


def connect(where: str, name: str) -> socket.socket:
    """A connection to rank 0 at its socket.

    Raises:
        PermissionError: another user's process listens there.
        OSError: nobody listens, or accepts nothing (BlockingIOError).
    """
    try:
        return control_message.connect(address(name), own_user())
    except AnotherUser as holder:
        raise PermissionError(
            f"{where}: another user holds the name {name!r}: uid {holder.uid}, pid {holder.pid}: "
            "it is not rank 0 of this group; end it, or choose another name or port"
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
