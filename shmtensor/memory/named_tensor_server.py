"""The server of a published tensor: a Unix socket that sends the domain's descriptors.

    publisher                                            opener (no common ancestor)
      bind  "\\0shmtensor:1:<uid>:<name>"  <--- connect ---
      check the caller's uid and gid      <--- {"ask": "open", "readonly": ...}
      control, volume 0, volume 1 ---- SCM_RIGHTS, {"handle", "shape", ...} --->
                                                           become a guest: row, hold, validate
                                          <--- the connection stays open: a follower --->

The name is an abstract socket address: the kernel gives it to one process at a time and releases it
when that process ends, however it ends. No file system is involved. When a holder that serves the
name dies, its connections break, and the first follower to notice takes the name over. The name
ends with its last holder. `docs/design/memory.md` says what remains after a kill at each step.

One thread serves all names of a process. It exists while there is a name to serve or to follow. It
ends before each fork and is started again after it; a forked child serves nothing until it
publishes or opens.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import struct
import threading
import time
import weakref
from dataclasses import dataclass, field
from typing import Any

from .. import native

__all__ = [
    "ANSWER_TIMEOUT",
    "NameServer",
    "ServerThread",
    "ask",
    "fault_point",
    "peer",
    "server_thread",
]

PREFIX = "shmtensor:1:"
ANSWER_TIMEOUT = 5.0  # seconds; a holder that is stopped does not answer
_MAX_MESSAGE = 8192
_SO_PEERGROUPS = 59


def fault_point(step: str) -> None:
    """Marks a step of the protocol. Tests replace this function with one that kills the process."""


def address(uid: int, name: str) -> str:
    return f"\0{PREFIX}{uid}:{name}"


def peer(connection: socket.socket) -> tuple[int, int, int]:
    """pid (0: in another pid namespace), uid and gid of the process at the other end."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return struct.unpack("iII", credentials)


def groups(connection: socket.socket) -> set[int]:
    """All groups of the process at the other end; only its primary group if it is in over 256."""
    gid = peer(connection)[2]
    try:
        data = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, 1024)  # Python's maximum
    except OSError:
        return {gid}
    return {gid, *struct.unpack(f"{len(data) // 4}I", data)}


def send(connection: socket.socket, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
    socket.send_fds(connection, [json.dumps(message).encode()], fds)


def receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """A message and its descriptors. Raises: ConnectionError, ValueError."""
    data, fds, _, _ = socket.recv_fds(connection, _MAX_MESSAGE, 4)
    try:
        message = json.loads(data) if data else None
        if not isinstance(message, dict):
            raise ConnectionError("the other end has closed the connection")
    except BaseException:
        for fd in fds:
            os.close(fd)
        raise
    return message, fds


def ask(uid: int, name: str, message: dict[str, Any], timeout: float) -> tuple[socket.socket, Any]:
    """Connects to a name and sends a request.

    Returns:
        The open connection, and (answer, descriptors).

    Raises:
        ConnectionError: nobody has the name, or its holder ended meanwhile.
        PermissionError: the name is held by another user than it says.
        TimeoutError: the holder does not answer.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        connection.settimeout(max(timeout, 0.01))
        connection.connect(address(uid, name))
        fault_point("open.connected")
        pid, holder, _ = peer(connection)
        if holder != uid:
            raise PermissionError(
                f"open: the name {name!r} of user {uid} is held by another user: {holder} "
                f"(pid {pid})"
            )
        send(connection, message)
        fault_point("open.asked")
        return connection, receive(connection)
    except TimeoutError:
        pid = 0
        with contextlib.suppress(OSError):
            pid = peer(connection)[0]
        connection.close()
        raise TimeoutError(
            f"open: the holder of {name!r} does not answer: pid {pid}, {timeout:g} s (is it "
            "stopped, or in a long call that holds the GIL?)"
        ) from None
    except BaseException:
        connection.close()
        raise


@dataclass(eq=False)
class NameServer:
    """A name that this process serves, or follows until it can take it over.

    Attributes:
        mode: permission bits as of a file: 4 reads, 2 writes; user, group, others.
        about: the answer to `describe`: id of the domain, shape, dtype, ...
        array: the publisher's array; None in a follower.
        listener: accepts clients; None in a follower.
        link: a follower's connection to the process that serves the name.
        blocks: in a follower, ids of the blocks that it opened.
    """

    uid: int
    name: str
    mode: int
    about: dict[str, Any]
    handle: bytes
    array: Any = None
    listener: socket.socket | None = None
    link: socket.socket | None = None
    clients: set[socket.socket] = field(default_factory=set)
    blocks: set[int] = field(default_factory=set)
    closing: bool = False

    def may(self, connection: socket.socket, write: bool) -> bool:
        _, uid, _ = peer(connection)
        if uid in (self.uid, 0):
            bits = self.mode >> 6
        elif os.getegid() in groups(connection):
            bits = self.mode >> 3
        else:
            bits = self.mode
        required = 6 if write else 4
        return bits & required == required

    def bind(self) -> None:
        """Takes the name. Raises: OSError (EADDRINUSE): another process has it."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            listener.bind(address(self.uid, self.name))
            fault_point("publish.bound")
            listener.listen(128)
        except BaseException:
            listener.close()
            raise
        listener.setblocking(False)
        self.listener = listener

    def sockets(self) -> list[socket.socket]:
        ends = [self.listener, self.link, *self.clients]
        return [sock for sock in ends if sock is not None]

    def close(self, notify: bool = False) -> None:
        self.closing = True
        for client in list(self.clients):
            if notify:
                with contextlib.suppress(OSError):
                    send(client, {"gone": True})
        for sock in self.sockets():
            sock.close()
        self.listener = self.link = self.array = None
        self.clients.clear()

    # ---- serving
    def handle_request(self, client: socket.socket) -> None:
        """Answers one request. Raises OSError or ValueError: the client cannot be served."""
        message, fds = receive(client)
        for fd in fds:
            os.close(fd)
        fault_point("serve.asked")
        if message.get("ask") == "describe":
            return send(
                client, {**self.about, "mode": self.mode} if self.may(client, False) else {}
            )
        readonly = bool(message.get("readonly"))
        if not self.may(client, not readonly):
            verb = "read" if readonly else "write"
            return send(client, {"refused": f"user {peer(client)[1]} may not {verb} it: mode "
                                f"{self.mode:04o} of user {self.uid}"})  # fmt: skip
        control, *volumes = native.domain_fds_of(self.handle[:16])
        temporary: list[int] = []
        try:
            if readonly:
                temporary += [os.open(f"/proc/self/fd/{v}", os.O_RDONLY) for v in volumes]
            fds = [control, *(temporary or volumes)]
            if peer(client)[1] not in (os.geteuid(), 0):
                # Another user cannot reopen the control file for its own lock.
                temporary.append(os.open(f"/proc/self/fd/{control}", os.O_RDWR))
                fds.append(temporary[-1])
            send(client, {**self.about, "mode": self.mode, "handle": self.handle.hex()}, tuple(fds))
            fault_point("serve.sent")
        finally:
            for fd in temporary:
                os.close(fd)


class ServerThread:
    """The thread that serves the names of this process."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.servers: dict[tuple[int, str], NameServer] = {}
        self.thread: threading.Thread | None = None
        self.stop = False
        self.wake_pipe: tuple[socket.socket, socket.socket] | None = None  # while there is a thread
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
        if self.thread is None and self.servers:
            self.wake_pipe = socket.socketpair()
            self.stop = False
            self.thread = threading.Thread(target=self.serve, name="shmtensor-names", daemon=True)
            self.thread.start()

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
        self.run()
        self.lock.release()

    def clear_in_child(self) -> None:
        """In a forked child: the names belong to the parent."""
        for server in self.servers.values():
            server.close()
        self.servers.clear()
        self.thread = None
        self.lock = threading.RLock()

    # ---- servers
    def add(self, server: NameServer) -> None:
        with self.lock:
            self.servers[server.uid, server.name] = server
            self.run()
        self.wake()

    def remove(self, server: NameServer, notify: bool = False) -> None:
        with self.lock:
            if self.servers.get((server.uid, server.name)) is server:
                del self.servers[server.uid, server.name]
            server.close(notify)
        self.wake()

    def follow(self, server: NameServer, block: Any) -> None:
        """Follows a name until the opened blocks are freed. If this process serves or follows the
        name already, its present server counts the block too."""
        with self.lock:
            current = self.servers.get((server.uid, server.name))
            if current is None or current.closing:
                self.servers[server.uid, server.name] = current = server
            else:
                server.close()
            if current.array is None:
                current.blocks.add(id(block))
                weakref.finalize(block, _discard, weakref.ref(current), id(block)).atexit = False
            self.run()
        self.wake()

    def serve(self) -> None:
        """Body of the thread: answers requests and takes names over."""
        assert self.wake_pipe is not None
        wake_pipe = self.wake_pipe
        while True:
            with self.lock:
                for server in [s for s in self.servers.values() if s.closing]:
                    self.remove(server)
                if self.stop or not self.servers:
                    self.wake_pipe = None
                    for sock in wake_pipe:
                        sock.close()
                    if not self.stop:
                        self.thread = None
                    return
                selector = selectors.DefaultSelector()
                selector.register(wake_pipe[0], selectors.EVENT_READ, None)
                for server in self.servers.values():
                    for sock in server.sockets():
                        selector.register(sock, selectors.EVENT_READ, server)
            try:
                ready = selector.select()
            finally:
                selector.close()
            with self.lock:
                for key, _ in ready:
                    if key.data is None:
                        wake_pipe[0].recv(4096)
                    elif not key.data.closing:
                        self.handle_event(key.data, key.fileobj)

    def handle_event(self, server: NameServer, sock: Any) -> None:
        """Handles a readable socket of a server."""
        listener, link = server.listener, server.link
        if listener is not None and sock is listener:
            try:
                client, _ = listener.accept()
            except OSError:  # the client has closed, or no descriptor is free
                time.sleep(0.01)
                return
            client.settimeout(0.5)
            server.clients.add(client)
        elif link is not None and sock is link:
            try:
                is_unpublished = bool(receive(link)[0].get("gone"))
            except (OSError, ValueError):
                is_unpublished = False
            link.close()
            server.link = None
            if is_unpublished:
                self.remove(server)
            else:
                self.take_over(server)
        elif sock in server.clients:
            try:
                server.handle_request(sock)
            except (OSError, ValueError):
                server.clients.discard(sock)
                sock.close()

    def take_over(self, server: NameServer) -> None:
        """After the death of the name's holder: binds the name, or follows its new holder."""
        if server.uid != os.geteuid():
            return self.remove(server)
        for _ in range(100):
            try:
                fault_point("follow.broken")
                return server.bind()
            except OSError:
                with contextlib.suppress(OSError, ValueError):
                    server.link, (answer, fds) = ask(
                        server.uid, server.name, {"ask": "describe"}, 0.1
                    )
                    for fd in fds:
                        os.close(fd)
                    if answer.get("id") == server.about["id"]:
                        return None
                    server.link.close()  # the name belongs to another tensor now
                    server.link = None
                    return self.remove(server)
        self.remove(server)
        return None


def _discard(reference: weakref.ref[NameServer], block: int) -> None:
    server = reference()
    if server is not None:
        server.blocks.discard(block)
        if not server.blocks:
            server.closing = True  # the thread closes it: a finalizer may run in any thread
            server_thread.wake()


server_thread = ServerThread()
