"""The names that exist: what the kernel's table of sockets lists, confirmed by connecting.

Note [Forged names]
A socket's address may have any bytes, and the kernel prints them as they are: a newline in one
looks like a further line. So a line counts only if all of it has the kernel's format and a valid
name, and an entry only if a connection to it exists and its holder is the user that the name says.
A holder need not answer: all are asked at the same time, this user's first, then one of each other
user in turn, for a second in total.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import select
import socket
import time
from collections import deque
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

from . import name_protocol
from .control_message import InvalidMessage, close_all, connect, receive, send
from .name_protocol import MAX_ANSWER, MAX_DESCRIPTORS, Layout, address
from .peer_credentials import peer

NAME = re.compile(r"[\w.:@/+-]{1,80}", re.ASCII)
# columns: address, references, protocol, flags (it listens), type (SOCK_SEQPACKET), state, inode
LINE = re.compile(
    rb"[0-9a-f]+: [0-9A-F]{8} 0{8} 00010000 0005 01 +[0-9]+ @"
    + re.escape(name_protocol.PREFIX).encode()
    + rb"(0|[1-9][0-9]{0,9}):("
    + NAME.pattern.encode()
    + rb")"
)
TOTAL = 1.0  # seconds for all names
NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
AT_ONCE, PATIENCE = 128, 0.05  # connections at a time; seconds after which one gives way


@dataclass(frozen=True)
class Name:
    """A published tensor, as its holder describes it.

    Parameters
    ----------
    name, owner : str, int
        Arguments of `open`: the name and the user id.
    pid : int or None
        The process that serves it; 0 in another pid namespace; None: it does not answer, or this
        user may not read it.
    shape, dtype, nbytes, mode : tuple of int, str, int, int
        Of the tensor; None where pid is.

    Notes
    -----
    `names` makes these; programs read their fields.

    Examples
    --------
    >>> import os
    >>> name = f"example-{os.getpid()}"
    >>> st.memory.publish(name, st.ones(2, 3))
    >>> [(n.shape, n.dtype, n.nbytes) for n in st.memory.names() if n.name == name]
    [((2, 3), 'float32', 24)]
    >>> st.memory.unpublish(name)
    """

    name: str
    owner: int
    pid: int | None = None
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    nbytes: int | None = None
    mode: int | None = None


def names() -> list[Name]:
    """All names of all users in this network namespace, sorted.

    Returns
    -------
    list of Name
        Without names that are not valid, and those held by another user than they say.

    Raises
    ------
    OSError
        /proc/net/unix cannot be read.

    Notes
    -----
    Takes a second at most, if holders do not answer.

    Examples
    --------
    >>> import os
    >>> name = f"example-{os.getpid()}"
    >>> st.memory.publish(name, st.ones(3), mode=0o400)
    >>> [oct(n.mode) for n in st.memory.names() if n.name == name]
    ['0o400']
    >>> st.memory.unpublish(name)
    """
    survey = Survey(deque(in_turn(listed(Path("/proc/net/unix").read_bytes()))))
    try:
        survey.run(time.monotonic() + TOTAL)
    finally:
        survey.close()
    return sorted(survey.found.values(), key=lambda name: (name.name, name.owner))


def listed(table: bytes) -> set[tuple[int, str]]:
    """User id and name of each line of the kernel's table that may be a name."""
    matches = (LINE.fullmatch(line) for line in table.split(b"\n"))
    pairs = {(int(match[1]), match[2].decode()) for match in matches if match}
    return {(uid, name) for uid, name in pairs if uid < 1 << 32}


def in_turn(pairs: set[tuple[int, str]]) -> list[tuple[int, str]]:
    """This user's names, then those of the others in turn: no user comes before all others."""
    by_user: dict[int, list[tuple[int, str]]] = {}
    for pair in sorted(pairs):
        by_user.setdefault(pair[0], []).append(pair)
    own = by_user.pop(os.geteuid(), [])
    rounds = zip_longest(*by_user.values())
    return own + [pair for each in rounds for pair in each if pair is not None]


@dataclass
class Asked:
    uid: int
    name: str
    socket: socket.socket
    since: float


@dataclass
class Survey:
    """Asks all holders, a number of them at a time.

    Attributes:
        queue: user id and name of those to be asked.
        asked: connections without an answer, the oldest first, by descriptor.
        found: the confirmed names.
    """

    queue: deque[tuple[int, str]]
    asked: dict[int, Asked] = field(default_factory=dict)
    found: dict[tuple[int, str], Name] = field(default_factory=dict)
    at_once: int = AT_ONCE

    def run(self, deadline: float) -> None:
        while (self.queue or self.asked) and (now := time.monotonic()) < deadline:
            while self.queue and len(self.asked) < self.at_once:
                self.ask(*self.queue.popleft())
            end = deadline
            if self.queue and self.asked:  # the oldest gives way in time
                end = min(deadline, next(iter(self.asked.values())).since + PATIENCE)
            poll = select.poll()
            for fd in self.asked:
                poll.register(fd, select.POLLIN)
            for fd, _ in poll.poll(max(0.0, end - now) * 1000):
                self.hear(self.asked.pop(fd))
            if self.queue:
                late = time.monotonic() - PATIENCE
                for fd, asked in [item for item in self.asked.items() if item[1].since <= late]:
                    del self.asked[fd]
                    asked.socket.close()

    def ask(self, uid: int, name: str) -> None:
        try:
            connection = connect(address(uid, name), uid)
        except OSError as error:
            if error.errno in NO_DESCRIPTOR:  # fewer at a time
                if not self.asked:
                    raise
                self.at_once = len(self.asked)
                self.queue.appendleft((uid, name))
            return  # no such name, forged, or its queue is full
        self.found[uid, name] = Name(name, uid)
        with contextlib.suppress(OSError):  # refused already: the answer is there
            send(connection, {"ask": "describe"})
        self.asked[connection.fileno()] = Asked(uid, name, connection, time.monotonic())

    def hear(self, asked: Asked) -> None:
        """Reads an answer; one that says nothing leaves the name without details."""
        with asked.socket, contextlib.suppress(OSError, InvalidMessage):
            answer, fds = receive(asked.socket, asked.uid, 0.0, MAX_ANSWER, MAX_DESCRIPTORS)
            close_all(fds)
            layout = Layout.of(answer)
            pid = peer(asked.socket)[0]
            self.found[asked.uid, asked.name] = Name(
                asked.name,
                asked.uid,
                pid,
                layout.shape,
                layout.dtype.name,
                layout.nbytes,
                layout.mode,
            )

    def close(self) -> None:
        for asked in self.asked.values():
            asked.socket.close()
