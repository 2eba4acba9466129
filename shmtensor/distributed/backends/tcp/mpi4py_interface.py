"""Messages over a TCP connection to each other rank, by the few names of mpi4py that `Wire` uses.

Messages are matched by source and tag; those with the same source and tag come in order. A process
makes one call at a time, except for `pause` (`Wire` has the lock). A connection that closes means
that its process has ended; `dead_ranks` reports it after ranks on the same node had time to send
the cause.
"""

from __future__ import annotations

import fcntl
import os
import select
import socket
import struct
import termios
import time
import weakref
from collections.abc import Iterable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

from ...group.operands import Array
from ...rendezvous.hosts import is_silent, keep_alive
from ..mpi.liveness_across_nodes import NEWS_FIRST
from ..mpi.messages import Base, Wire, lock
from .connection import TAKEN, Broken, Link, Request

__all__ = ["Connections"]

PATIENCE = 2.0  # seconds that `close` waits until the other kernels have acknowledged all data
ASK = 1.0  # seconds between two checks for machines that no longer answer
ANY_SOURCE = -1
CLOSED = 7  # TCP_CLOSE: the state of a connection that the other side has reset


class Status:
    """Where a message came from."""

    source = ANY_SOURCE

    def Get_source(self) -> int:
        """The sender's rank."""
        return self.source


all_connections: weakref.WeakSet[Connections] = weakref.WeakSet()


class Connections:
    """All connections of this rank.

    Attributes:
        library: the names that `Wire` uses of the module MPI.
        rank, size: as of MPI's COMM_WORLD.
        processes: everybody's pid and host.
        local_ranks: the ranks of this node, whose deaths shared memory reports with their causes.
    """

    library: Any = SimpleNamespace(
        Request=Request, Status=Status, Exception=Broken, ANY_SOURCE=ANY_SOURCE, TAG_UB=0
    )

    def __init__(
        self, rank: int, links: dict[int, socket.socket], processes: list[tuple[int, str]]
    ):
        self.rank, self.size, self.processes = rank, len(links) + 1, processes
        self.local_ranks: Iterable[int] = ()
        self._links: dict[int, Link] = {}
        self._ranks: dict[int, int] = {}
        self._epoll = select.epoll()
        self._with_output: set[int] = set()  # ranks with output that waits
        self._closed_at: dict[int, float] = {}
        self._number = 0
        self._is_closed = False
        self._last_check = 0.0
        for peer, connection in links.items():
            keep_alive(connection)
            self._links[peer] = Link(connection)
            self._ranks[connection.fileno()] = peer
            self._epoll.register(connection, select.EPOLLIN)
        all_connections.add(self)

    # ---------------------------------------------------------------- mpi4py's names
    def Get_attr(self, _: int) -> int:
        """The highest tag."""
        return TAKEN - 1

    def Isend(self, x: Array, to: int, tag: int) -> Request:
        """Begins to send bytes; done when the kernel has taken them."""
        return self._send(x, to, tag, 0)

    def Issend(self, x: Array, to: int, tag: int) -> Request:
        """Begins to send bytes; done when the receiver has confirmed them."""
        self._number = self._number % (TAKEN - 1) + 1
        return self._send(x, to, tag, self._number)

    def Irecv(self, x: Array, source: int, tag: int) -> Request:
        """Begins to receive bytes."""
        request = Request(self, x.data)
        link = self._links[source]
        link.receive(tag, request)
        self._update_events(source, link)
        return request

    def Iprobe(self, source: int, tag: int, status: Status) -> bool:
        """Whether a message has come for which no receive is posted."""
        self.progress()
        ranks = self._links if source == ANY_SOURCE else (source,)
        for rank in ranks:
            messages = self._links[rank].unexpected.get(tag)
            if messages and messages[0].is_complete:
                status.source = rank
                return True
        return False

    def Recv(self, x: Array, source: int, tag: int) -> None:
        """Receives a message that `Iprobe` has reported."""
        if not self.Irecv(x, source, tag).is_done:
            raise RuntimeError(f"Recv: no complete message with tag {tag} from rank {source}")

    def _send(self, x: Array, to: int, tag: int, number: int) -> Request:
        request = Request(self, x.data)
        link = self._links[to]
        link.send(tag, request, number)
        self._update_events(to, link)
        return request

    # ---------------------------------------------------------------- progress
    def progress(self) -> None:
        """Reads and writes what is possible without waiting."""
        if self._is_closed:
            return
        for descriptor, events in self._epoll.poll(0):
            rank = self._ranks[descriptor]
            link = self._links[rank]
            if events & ~select.EPOLLOUT:
                link.read()
            if events & select.EPOLLOUT:
                link.write()
            self._update_events(rank, link)

    def pause(self, seconds: float) -> None:
        """Waits until a connection can be read or written, at most for `seconds`."""
        if self._is_closed:
            time.sleep(seconds)
        else:
            self._epoll.poll(seconds)

    def _update_events(self, rank: int, link: Link) -> None:
        """Registers for write events while output waits, and for none if the link is closed."""
        if link.is_closed:
            if rank not in self._closed_at:
                self._closed_at[rank] = time.monotonic()
                # Nothing more will be written: `close` need not wait.
                self._with_output.discard(rank)
                self._epoll.unregister(link.socket)
        elif link.has_output != (rank in self._with_output):
            self._with_output ^= {rank}
            out = select.EPOLLOUT if link.has_output else 0
            self._epoll.modify(link.socket, select.EPOLLIN | out)

    def dead_ranks(self) -> list[int]:
        """The remote ranks whose connections have closed, after NEWS_FIRST for news of it."""
        now = time.monotonic()
        if now - self._last_check > ASK:
            self._last_check = now
            with lock:
                for rank, link in self._links.items():
                    if not link.is_closed and not self._is_closed and is_silent(link.socket):
                        link.end()
                        self._update_events(rank, link)
        closed_at = {r: at for r, at in self._closed_at.items() if r not in self.local_ranks}
        if closed_at and now - min(closed_at.values()) > NEWS_FIRST:
            return sorted(closed_at)
        return []

    # ---------------------------------------------------------------- the end
    def release(self, wire: Wire) -> None:
        """Called when a group is left. With the last group all connections are closed."""
        with suppress(ValueError):
            Base.wires.remove(wire)
        if not any(each.comm is self for each in Base.wires):
            self.close()

    def close(self) -> None:
        """Closes the connections, after all data has arrived. Note [Unsent data]."""
        if self._is_closed:
            return
        end = time.monotonic() + PATIENCE
        while self._with_output and time.monotonic() < end:
            self.progress()
            self._epoll.poll(1e-3)
        self._is_closed = True
        links = [each for each in self._links.values() if not each.is_closed]
        for link in links:
            with suppress(OSError):
                link.socket.shutdown(socket.SHUT_WR)
        # Note [Unsent data]: a socket that is closed with unread data in it (a peer's late news)
        # discards what it has not delivered yet; so it is closed after everything is delivered.
        while any(unsent(link.socket) for link in links) and time.monotonic() < end:
            time.sleep(1e-3)
        self.drop()

    def drop(self) -> None:
        """Closes this process's descriptors at once; a forked child does this, too."""
        self._is_closed = True
        self._epoll.close()
        for link in self._links.values():
            link.socket.close()


def unsent(connection: socket.socket) -> int:
    """Bytes that the other side's kernel has not acknowledged; 0 for a reset connection, for which
    the kernel would count them for ever.
    """
    with suppress(OSError):
        if connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == CLOSED:
            return 0
        response = fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4))
        return int(struct.unpack("i", response)[0])
    return 0


def drop_in_child() -> None:
    for each in list(all_connections):  # else the child would keep them open
        each.drop()


os.register_at_fork(after_in_child=drop_in_child)
