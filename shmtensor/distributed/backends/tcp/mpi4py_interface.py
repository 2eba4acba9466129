"""Messages over a TCP connection to each other rank, by the few names of mpi4py's that `Wire` uses.

A message is found by its source and tag; those with the same come in order. All calls but `pause`
are made one at a time in a process (`Wire` has the lock). A connection that ends means that its
process has: `gone` tells so once neighbours of the dead had time to say why.
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

PATIENCE = 2.0  # seconds that an end waits until the others' kernels have all that was sent
ASK = 1.0  # seconds between two looks for machines that no longer answer
ANY_SOURCE = -1
CLOSED = 7  # TCP_CLOSE: of a connection that the other side has reset


class Status:
    """Where a message came from."""

    source = ANY_SOURCE

    def Get_source(self) -> int:
        """The sender's rank."""
        return self.source


living: weakref.WeakSet[Connections] = weakref.WeakSet()


class Connections:
    """All connections of this rank.

    Attributes:
        library: what `Wire` takes from the module MPI.
        rank, size: of all ranks.
        who: everybody's pid and host.
        near: ranks whose death the ledger tells, with its cause; set when that is known.
    """

    library: Any = SimpleNamespace(
        Request=Request, Status=Status, Exception=Broken, ANY_SOURCE=ANY_SOURCE, TAG_UB=0
    )

    def __init__(self, rank: int, links: dict[int, socket.socket], who: list[tuple[int, str]]):
        self.rank, self.size, self.who = rank, len(links) + 1, who
        self.near: Iterable[int] = ()
        self._links: dict[int, Link] = {}
        self._ranks: dict[int, int] = {}
        self._epoll = select.epoll()
        self._behind: set[int] = set()  # ranks to whom something waits to be written
        self._ended: dict[int, float] = {}
        self._number = 0
        self._is_closed = False
        self._asked = 0.0
        for peer, connection in links.items():
            keep_alive(connection)
            self._links[peer] = Link(connection)
            self._ranks[connection.fileno()] = peer
            self._epoll.register(connection, select.EPOLLIN)
        living.add(self)

    # ---------------------------------------------------------------- mpi4py's names
    def Get_attr(self, _: int) -> int:
        """The highest tag."""
        return TAKEN - 1

    def Isend(self, x: Array, to: int, tag: int) -> Request:
        """Begins to send bytes; done when the kernel has them."""
        return self._send(x, to, tag, 0)

    def Issend(self, x: Array, to: int, tag: int) -> Request:
        """Begins to send bytes; done when they are being taken."""
        self._number = self._number % (TAKEN - 1) + 1
        return self._send(x, to, tag, self._number)

    def Irecv(self, x: Array, source: int, tag: int) -> Request:
        """Begins to receive bytes."""
        request = Request(self, x.data)
        link = self._links[source]
        link.receive(tag, request)
        self._note(source, link)
        return request

    def Iprobe(self, source: int, tag: int, status: Status) -> bool:
        """Whether a message has come that nobody has asked for."""
        self.progress()
        ranks = self._links if source == ANY_SOURCE else (source,)
        for rank in ranks:
            found = self._links[rank].arrived.get(tag)
            if found and found[0].is_whole:
                status.source = rank
                return True
        return False

    def Recv(self, x: Array, source: int, tag: int) -> None:
        """Takes a message that `Iprobe` has found."""
        assert self.Irecv(x, source, tag).is_done

    def _send(self, x: Array, to: int, tag: int, number: int) -> Request:
        request = Request(self, x.data)
        link = self._links[to]
        link.send(tag, request, number)
        self._note(to, link)
        return request

    # ---------------------------------------------------------------- going on
    def progress(self) -> None:
        """Reads and writes what can be, without waiting."""
        if self._is_closed:
            return
        for descriptor, events in self._epoll.poll(0):
            rank = self._ranks[descriptor]
            link = self._links[rank]
            if events & ~select.EPOLLOUT:
                link.read()
            if events & select.EPOLLOUT:
                link.write()
            self._note(rank, link)

    def pause(self, seconds: float) -> None:
        """Waits until something can be read or written, or for so long."""
        if self._is_closed:
            time.sleep(seconds)
        else:
            self._epoll.poll(seconds)

    def _note(self, rank: int, link: Link) -> None:
        """Has the kernel tell when more can be written, and nothing more of what has ended."""
        if link.ended:
            if rank not in self._ended:
                self._ended[rank] = time.monotonic()
                self._behind.discard(rank)  # nothing more will be written: `close` need not wait
                self._epoll.unregister(link.socket)
        elif link.is_behind != (rank in self._behind):
            self._behind ^= {rank}
            out = select.EPOLLOUT if link.is_behind else 0
            self._epoll.modify(link.socket, select.EPOLLIN | out)

    def gone(self) -> list[int]:
        """The far ranks whose connection has ended, once somebody else had time to say why."""
        now = time.monotonic()
        if now - self._asked > ASK:
            self._asked = now
            with lock:
                for rank, link in self._links.items():
                    if not link.ended and not self._is_closed and is_silent(link.socket):
                        link.end()
                        self._note(rank, link)
        ended = {rank: at for rank, at in self._ended.items() if rank not in self.near}
        if ended and now - min(ended.values()) > NEWS_FIRST:
            return sorted(ended)
        return []

    # ---------------------------------------------------------------- the end
    def release(self, wire: Wire) -> None:
        """A group has been left; with the last one all connections end."""
        with suppress(ValueError):
            Base.wires.remove(wire)
        if not any(each.comm is self for each in Base.wires):
            self.close()

    def close(self) -> None:
        """Ends the connections, after what was sent has arrived; Note [Last words]."""
        if self._is_closed:
            return
        end = time.monotonic() + PATIENCE
        while self._behind and time.monotonic() < end:
            self.progress()
            self._epoll.poll(1e-3)
        self._is_closed = True
        links = [each for each in self._links.values() if not each.ended]
        for link in links:
            with suppress(OSError):
                link.socket.shutdown(socket.SHUT_WR)
        # Note [Last words]: a socket closed with unread data in it (a peer's news that came late)
        # throws away what it has not delivered yet; so it is closed when everything is.
        while any(unsent(link.socket) for link in links) and time.monotonic() < end:
            time.sleep(1e-3)
        self.drop()

    def drop(self) -> None:
        """Closes this process's descriptors, and tells nobody: in a forked child, too."""
        self._is_closed = True
        self._epoll.close()
        for link in self._links.values():
            link.socket.close()


def unsent(connection: socket.socket) -> int:
    """Bytes that the other side's kernel does not have yet; none for one that is gone: the kernel
    counts what it had not acknowledged for ever.
    """
    with suppress(OSError):
        if connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == CLOSED:
            return 0
        told = fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4))
        return int(struct.unpack("i", told)[0])
    return 0


def drop_in_child() -> None:
    for each in list(living):  # or a child would keep them alive
        each.drop()


os.register_at_fork(after_in_child=drop_in_child)
