"""The server of a published tensor: a Unix socket that sends descriptors of its memory.

    publisher                                            opener (no common ancestor)
      bind  "\\0shmtensor:3:<uid>:<name>"  <--- connect ---
      uid and gid of the caller may not?  ---- {"refused": true, "mode"} ---> closed, unread
                                          <--- {"ask": "open", "readonly": ...}
      mode 0600:  control, volume 0, volume 1 ---- SCM_RIGHTS, {"handle", "shape", ...} --->
                                                           become a guest: row, hold, validate
      beyond 0600:  file of this storage ---- SCM_RIGHTS, {"shape", ...} --->
                                                           check the file and the layout, map it
      the same user:                      <--- the connection stays open: a follower --->
      another user: the connection is closed

The name is an abstract socket address: the kernel gives it to one process at a time and releases it
when that process ends, however it ends. No file system is involved. When a holder that serves the
name dies, its connections break, and the first follower to notice takes the name over. The name
ends with its last holder. `docs/design/memory.md` says what remains after a kill at each step.

Note [Who gets descriptors]
A domain's descriptors give access to all of its tensors, and to a ledger that trusts its members.
They are sent only to a process of this process's effective user id, and accepted only from one, by
the kernel's word (SO_PEERCRED); root is another user in both directions. Every other user gets the
descriptor of a file that holds one storage (Note [Files of their own] in `published_file.py`).

Note [Hostile clients]
Any process in the network namespace can connect. A caller whom the mode excludes is refused before
a byte is read. A request has at most 256 bytes; descriptors that come with it are closed by the
kernel. No send waits. Another user's connection ends with its first answer; silent ones are few,
and a new one takes the place of the oldest of the user who has most. Whatever goes wrong while a
client is served closes that client alone.

One thread serves all names of a process. It exists while there is a name to serve or to follow. It
ends before each fork and is started again after it; a forked child serves nothing until it
publishes or opens.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
import time
import weakref
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from .. import native
from . import name_protocol
from .control_message import AnotherUser, InvalidMessage, close_all, connect, receive, send
from .list_names import NO_DESCRIPTOR
from .name_protocol import MAX_ANSWER, MAX_DESCRIPTORS, MAX_REQUEST, address
from .peer_credentials import groups, peer
from .published_file import PublishedFile, file_of

BACKLOG = 512
STRANGERS_PER_USER, STRANGERS = 16, 64  # connections of other users, over all names
ACCEPTED_AT_ONCE = 64
TAKE_OVER_TIMEOUT = 1.0  # seconds after which a name with an unknown holder is given up
RETRY = 0.01  # seconds between two steps of a take-over
PAUSE = 0.05  # seconds without accepting, when no descriptor is free


@dataclass(eq=False)
class Client:
    """A connection to a name that this process serves."""

    socket: socket.socket
    uid: int
    since: float
    is_silent: bool = True  # it has not asked anything


@dataclass(eq=False)
class NameServer:
    """A name that this process serves, or follows until it can take it over.

    Attributes:
        mode: permission bits as of a file: 4 reads, 2 writes; user, group, others.
        about: the answer to `describe`: id of the domain or file, shape, dtype, ...
        handle: of a block; None: the memory is in a PublishedFile.
        array: the publisher's array; None in a follower.
        listener: accepts clients; None in a follower.
        link: a follower's connection to the process that serves the name.
        take_over_end: a follower whose holder has died gives up then; 0: it has a holder.
        opened: in a follower, the Blocks or PublishedFiles that it opened, by id.
    """

    uid: int
    name: str
    mode: int
    about: dict[str, Any] = field(default_factory=dict)
    handle: bytes | None = None
    array: Any = None
    listener: socket.socket | None = None
    link: socket.socket | None = None
    take_over_end: float = 0.0  # of time.monotonic()
    clients: dict[socket.socket, Client] = field(default_factory=dict)
    opened: dict[int, weakref.ref[Any]] = field(default_factory=dict)
    closing: bool = False

    def bits(self, connection: socket.socket) -> int:
        """What the mode lets the caller do: 4 reads, 2 writes."""
        uid = peer(connection)[1]
        if uid in (self.uid, 0):
            return self.mode >> 6
        if os.getegid() in groups(connection):
            return self.mode >> 3 & 7
        return self.mode & 7

    def admits(self, connection: socket.socket) -> bool:
        """Whether the caller may ask at all."""
        return peer(connection)[1] in (self.uid, 0) or bool(self.bits(connection) & 4)

    def may_open(self, connection: socket.socket, write: bool) -> bool:
        """Note [Who gets descriptors]."""
        if self.handle and peer(connection)[1] != os.geteuid():
            return False
        required = 6 if write else 4
        return self.bits(connection) & required == required

    def refuse(self, connection: socket.socket) -> None:
        send(connection, {"refused": True, "mode": self.mode})

    def bind(self) -> None:
        """Takes the name. Raises: OSError (EADDRINUSE): another process has it."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            listener.bind(address(self.uid, self.name))
            name_protocol.fault_point("publish.bound")
            listener.listen(BACKLOG)
        except BaseException:
            listener.close()
            raise
        listener.setblocking(False)
        self.listener = listener

    def file(self) -> PublishedFile | None:
        """The file of the memory, open for writing if this process has it so."""
        files = [file_of(self.array)] if self.array is not None else []
        files += [file() for file in self.opened.values()]
        return max((f for f in files if f is not None), key=lambda f: f.writable, default=None)

    def drop(self, client: socket.socket) -> None:
        self.clients.pop(client, None)
        client.close()

    def close(self, notify: bool = False) -> None:
        self.closing = True
        for client in list(self.clients):
            if notify:
                with contextlib.suppress(OSError):
                    send(client, {"gone": True})
            self.drop(client)
        for sock in (self.listener, self.link):
            if sock is not None:
                sock.close()
        self.listener = self.link = self.array = None

    # ---- serving
    def handle_request(self, client: Client) -> None:
        """Answers one request. Any exception means that the client cannot be served."""
        # Of any user: `admits` has asked the kernel.
        message, _ = receive(client.socket, None, max_bytes=MAX_REQUEST)
        client.is_silent = False
        name_protocol.fault_point("serve.asked")
        if message.get("ask") == "describe":
            is_reader = self.bits(client.socket) & 4
            return send(client.socket, {**self.about, "mode": self.mode} if is_reader else {})
        if message.get("ask") != "open":
            raise InvalidMessage("no such request")
        readonly = message.get("readonly") is not False
        if not self.may_open(client.socket, not readonly):
            return self.refuse(client.socket)
        self.send_memory(client.socket, readonly)
        name_protocol.fault_point("serve.sent")
        return None

    def send_memory(self, client: socket.socket, readonly: bool) -> None:
        """Sends the answer and the descriptors of a domain, or of a file."""
        answer = {**self.about, "mode": self.mode}
        temporary: list[int] = []
        try:
            if self.handle:
                answer["handle"] = self.handle.hex()
                control, *volumes = native.domain_fds_of(self.handle[:16])
                if readonly:
                    for volume in volumes:
                        temporary.append(os.open(f"/proc/self/fd/{volume}", os.O_RDONLY))
                fds = (control, *(temporary or volumes))
            else:
                file = self.file()
                if file is None:
                    raise ConnectionError("its last tensor was freed")
                fds = (file.descriptor,)
                if readonly and file.writable:
                    temporary.append(file.open_readonly())
                    fds = tuple(temporary)
            send(client, answer, fds)
        finally:
            close_all(temporary)


class ServerThread:
    """The thread that serves the names of this process."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.polling = threading.Lock()  # held by the thread while it waits
        self.servers: dict[tuple[int, str], NameServer] = {}
        self.thread: threading.Thread | None = None
        self.stop = False
        self.wake_pipe: tuple[socket.socket, socket.socket] | None = None  # while there are names
        self.accepts_after = 0.0  # of time.monotonic()
        os.register_at_fork(
            before=self.pause, after_in_parent=self.resume, after_in_child=self.clear_in_child
        )

    # ---- the thread and forks
    def wake(self) -> None:
        wake_pipe = self.wake_pipe
        if wake_pipe is not None:
            with contextlib.suppress(OSError):
                wake_pipe[1].send(b"x", socket.MSG_DONTWAIT)

    def run(self) -> None:
        """Starts the thread if there is a name to serve or follow. The caller holds the lock."""
        if self.thread is None and not self.servers:
            self.close_pipe()
        elif self.thread is None:
            self.wake_pipe = self.wake_pipe or socket.socketpair()
            self.stop = False
            thread = threading.Thread(target=self.serve, name="shmtensor-names", daemon=True)
            thread.start()
            self.thread = thread

    def close_pipe(self) -> None:
        for sock in self.wake_pipe or ():
            sock.close()
        self.wake_pipe = None

    def pause(self) -> None:
        """Before a fork: stops the thread and keeps the lock until `resume`."""
        self.lock.acquire()
        while (thread := self.thread) is not None:
            self.stop = True
            self.wake()
            self.lock.release()
            thread.join()
            task = f"/proc/self/task/{thread.native_id}"
            deadline = time.monotonic() + 1
            while os.path.exists(task) and time.monotonic() < deadline:  # join returns too early
                time.sleep(0)
            self.lock.acquire()
            if self.thread is thread:
                self.thread = None

    def resume(self) -> None:
        try:
            self.run()
        finally:
            self.lock.release()

    def clear_in_child(self) -> None:
        """In a forked child: the names belong to the parent."""
        for server in self.servers.values():
            server.close()
        self.servers.clear()
        self.close_pipe()
        self.thread = None
        self.lock = threading.RLock()
        self.polling = threading.Lock()

    # ---- servers
    def add(self, server: NameServer) -> None:
        """Serves a name. If no thread can be started, the server is closed."""
        with self.lock:
            if former := self.servers.get((server.uid, server.name)):  # it followed a dead holder
                self.remove(former)
            self.servers[server.uid, server.name] = server
            self.run_for(server)
        self.wake()

    def run_for(self, server: NameServer) -> None:
        try:
            self.run()
        except BaseException:  # no thread, or no descriptor for it
            self.remove(server)
            raise

    def remove(self, server: NameServer, notify: bool = False) -> None:
        with self.lock:
            if self.servers.get((server.uid, server.name)) is server:
                del self.servers[server.uid, server.name]
            server.close(notify)
            self.wake()
            if threading.current_thread() is not self.thread:
                with self.polling:  # poll() refers to the closed socket, and so keeps the name
                    pass

    def follow(self, server: NameServer, memory: Any) -> None:
        """Follows a name until the opened memory is freed. If this process serves or follows the
        name already, its present server counts the memory too."""
        with self.lock:
            current = self.servers.get((server.uid, server.name))
            if current is not None and current.take_over_end:  # `server` leads to the new holder
                if current.about["id"] == server.about["id"]:
                    current.link, server.link = server.link, current.link
                    current.take_over_end = 0.0
                else:
                    current.closing = True
            if current is not None and current.closing:
                self.remove(current)
                current = None
            if current is None:
                self.servers[server.uid, server.name] = current = server
            else:
                server.close()
            if current.array is None:
                current.mode |= server.mode
                current.opened[id(memory)] = weakref.ref(memory)
                ended = weakref.finalize(memory, _discard, weakref.ref(current), id(memory))
                ended.atexit = False
            self.run_for(current)
        self.wake()

    def serve(self) -> None:
        """Body of the thread: answers requests and takes names over."""
        while True:
            with self.lock:
                for server in [s for s in self.servers.values() if s.closing]:
                    self.remove(server)
                if self.stop:
                    return
                if not self.servers:
                    self.close_pipe()
                    self.thread = None
                    return
                poll, sockets, timeout = self.watched()
            with self.polling:
                ready = poll.poll(timeout)
            with self.lock:
                for fd, _ in ready:
                    self.handle_event(*sockets[fd])
                for server in [s for s in self.servers.values() if s.take_over_end]:
                    self.take_over(server)

    def watched(self) -> tuple[Any, dict[int, tuple[NameServer | None, socket.socket]], Any]:
        """What to wait for: a poll object, (server, socket) by descriptor, milliseconds or None.

        poll() needs no descriptor of its own, unlike epoll.
        """
        assert self.wake_pipe is not None
        remaining = self.accepts_after - time.monotonic()
        is_taking_over = any(server.take_over_end for server in self.servers.values())
        sockets: dict[int, tuple[NameServer | None, socket.socket]] = {}
        sockets[self.wake_pipe[0].fileno()] = None, self.wake_pipe[0]
        for server in self.servers.values():
            if server.link is not None:
                sockets[server.link.fileno()] = server, server.link
            for client in server.clients:
                sockets[client.fileno()] = server, client
            if server.listener is not None and remaining <= 0:
                sockets[server.listener.fileno()] = server, server.listener
        poll = select.poll()
        for fd in sockets:
            poll.register(fd, select.POLLIN)
        pauses = [remaining] * (remaining > 0) + [RETRY] * is_taking_over
        return poll, sockets, min(pauses) * 1000 if pauses else None

    def handle_event(self, server: NameServer | None, sock: socket.socket) -> None:
        """Handles a readable socket. Note [Hostile clients]: an error ends that socket alone."""
        if server is None:
            sock.recv(4096)
            return
        try:
            if sock is server.listener:
                self.accept(server, sock)
            elif sock is server.link:
                self.handle_link(server, sock)
            elif client := server.clients.get(sock):
                server.handle_request(client)
                if client.uid != os.geteuid():
                    server.drop(sock)
        except Exception:
            if sock is server.link:
                self.remove(server)
            elif sock in server.clients:
                server.drop(sock)

    # ---- clients
    def accept(self, server: NameServer, listener: socket.socket) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                client, _ = listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno not in NO_DESCRIPTOR:  # the client has closed
                    continue
                silent = [c for c in self.clients() if c[1].is_silent]
                if silent:
                    self.drop_oldest(silent)
                else:
                    self.accepts_after = time.monotonic() + PAUSE
                    return
                continue
            try:
                self.admit(server, client)
            except Exception:  # it has closed
                server.drop(client)

    def admit(self, server: NameServer, client: socket.socket) -> None:
        client.setblocking(False)
        uid = peer(client)[1]
        if not server.admits(client):
            server.refuse(client)
            client.close()
            return
        if uid != os.geteuid():
            strangers = [c for c in self.clients() if c[1].uid != os.geteuid()]
            counts = Counter(c[1].uid for c in strangers)
            if counts[uid] >= STRANGERS_PER_USER:
                self.drop_oldest([c for c in strangers if c[1].uid == uid])
            elif len(strangers) >= STRANGERS:
                busiest = max(counts, key=counts.__getitem__)
                self.drop_oldest([c for c in strangers if c[1].uid == busiest])
        server.clients[client] = Client(client, uid, time.monotonic())

    def clients(self) -> list[tuple[NameServer, Client]]:
        return [(s, client) for s in self.servers.values() for client in s.clients.values()]

    def drop_oldest(self, clients: list[tuple[NameServer, Client]]) -> None:
        server, client = min(clients, key=lambda c: c[1].since)
        server.drop(client.socket)

    # ---- followers
    def handle_link(self, server: NameServer, link: socket.socket) -> None:
        """The holder notifies of its end, has died, or is a new one that has answered."""
        try:
            message, fds = receive(link, server.uid, 0.0, MAX_ANSWER, MAX_DESCRIPTORS)
        except (OSError, InvalidMessage):  # it has died
            link.close()
            server.link = None
            server.take_over_end = server.take_over_end or time.monotonic() + TAKE_OVER_TIMEOUT
            return
        close_all(fds)
        is_another = server.take_over_end and message.get("id") != server.about["id"]
        if message.get("gone") or is_another:  # the name belongs to another tensor now
            self.remove(server)
        server.take_over_end = 0.0

    def take_over(self, server: NameServer) -> None:
        """After the death of the name's holder: binds the name, or asks its new holder. A step that
        does not wait: whoever holds the name, other names are served meanwhile.
        """
        if server.uid != os.geteuid() or time.monotonic() >= server.take_over_end:
            return self.remove(server)
        if server.link is not None:  # the answer has not come
            return None
        with contextlib.suppress(OSError):
            name_protocol.fault_point("follow.broken")
            server.bind()
            server.take_over_end = 0.0
            return None
        try:
            link = connect(address(server.uid, server.name), server.uid)
        except AnotherUser:
            return self.remove(server)
        except OSError:  # who has it does not listen yet, or its queue is full: again
            return None
        try:
            send(link, {"ask": "describe"})
        except OSError:
            link.close()
        else:
            server.link = link
        return None


def _discard(reference: weakref.ref[NameServer], memory: int) -> None:
    server = reference()
    if server is not None:
        server.opened.pop(memory, None)
        if not server.opened:
            server.closing = True  # the thread closes it: a finalizer may run in any thread
            server_thread.wake()


server_thread = ServerThread()
