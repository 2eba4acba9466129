"""Messages over a TCP connection to each other rank.

A connection that closes means that its process has ended; `find_dead` reports it after ranks on the
same node had time to send the cause.
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
from collections.abc import Iterable, Sequence
from contextlib import suppress

from ...group.operands import Array
from ...rendezvous.hosts import is_silent, keep_alive
from ..transport import Transport
from .connection import TAKEN, Broken, Link, Request

PATIENCE = 2.0  # seconds that `close` waits until the other kernels have acknowledged all data
ASK = 1.0  # seconds between two checks for machines that no longer answer
NEWS_FIRST = 0.2  # seconds in which ranks on the dead one's node, which know more, may send news
CLOSED = 7  # TCP_CLOSE: the state of a connection that the other side has reset


all_connections: weakref.WeakSet[Connections] = weakref.WeakSet()


class Connections(Transport):
    """All connections of this rank.

    Attributes:
        processes: everybody's pid and host.
        local_ranks: the ranks of this node, whose deaths shared memory reports with their causes.
    """

    def __init__(
        self, rank: int, links: dict[int, socket.socket], processes: list[tuple[int, str]]
    ):
        super().__init__(rank, len(links) + 1, TAKEN - 1, Broken)
        self.processes = processes
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

    # ---------------------------------------------------------------- messages
    def send(self, x: Array, to: int, tag: int, until_received: bool = False) -> Request:
        """Begins to send; done when the kernel has taken it, or the receiver has confirmed it."""
        if until_received:
            self._number = self._number % (TAKEN - 1) + 1
        request = Request(x.data)
        link = self._links[to]
        link.send(tag, request, self._number if until_received else 0)
        self._update_events(to, link)
        return request

    def receive(self, x: Array, source: int, tag: int) -> Request:
        """Begins to receive."""
        request = Request(x.data)
        link = self._links[source]
        link.receive(tag, request)
        self._update_events(source, link)
        return request

    def are_done(self, requests: Sequence[Request]) -> bool:
        """Whether requests are done, after polling the connections."""
        if all(each.is_done for each in requests):
            return True
        self.progress()
        return all(each.is_done for each in requests)

    def find(self, tag: int) -> int | None:
        """A rank whose message has come, or None."""
        self.progress()
        for rank, link in self._links.items():
            messages = link.unexpected.get(tag)
            if messages and messages[0].is_complete:
                return rank
        return None

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

    def find_dead(self) -> dict[int, tuple[int, str]]:
        """Pid and host of remote ranks whose connections have closed, after NEWS_FIRST for news."""
        now = time.monotonic()
        if now - self._last_check > ASK:
            self._last_check = now
            with self.lock:
                for rank, link in self._links.items():
                    if not link.is_closed and not self._is_closed and is_silent(link.socket):
                        link.end()
                        self._update_events(rank, link)
        closed_at = {r: at for r, at in self._closed_at.items() if r not in self.local_ranks}
        if closed_at and now - min(closed_at.values()) > NEWS_FIRST:
            return {rank: self.processes[rank] for rank in sorted(closed_at)}
        return {}

    # ---------------------------------------------------------------- the end
    def leave(self) -> None:
        """A group has been left. With the last one all connections are closed."""
        super().leave()
        if not self.n_open:
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
