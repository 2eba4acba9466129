"""The door of a published tensor: a socket with its name, where a holder hands out the way in.

    publisher                                            opener (no common ancestor)
      bind  "\\0shmtensor:1:<uid>:<name>"  <--- connect ---
      check the caller's uid and gid      <--- {"ask": "open", "readonly": ...}
      control, volume 0, volume 1 ---- SCM_RIGHTS, {"handle", "shape", ...} --->
                                                           become a guest: row, hold, validate
                                          <--- the connection stays open: a follower --->

The name is an abstract socket address: the kernel gives it to one process at a time and takes it
back when that process ends, however it ends. Nothing lies in any file system. When a holder that
serves the name dies, its connections break, and the first of its followers to notice takes the name
over; the last holder takes it along. `docs/design/memory.md` says what a kill at each step leaves.

Doors are kept by one thread, which exists while there is a name to serve or to follow. It ends
ahead of each fork and begins again after it; a forked child serves nothing until it publishes or
opens.
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

__all__ = ["ANSWER_TIMEOUT", "Keeper", "NameServer", "ask", "keeper", "peer", "speak"]

PREFIX = "shmtensor:1:"
ANSWER_TIMEOUT = 5.0  # seconds; a holder that is stopped does not answer
_MESSAGE = 8192
_SO_PEERGROUPS = 59


def speak(step: str) -> None:
    """A step of the protocol is reached. Tests put something deadly here."""


def address(uid: int, name: str) -> str:
    return f"\0{PREFIX}{uid}:{name}"


def peer(connection: socket.socket) -> tuple[int, int, int]:
    """pid (0: in another pid namespace), uid and gid of the process at the other end."""
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return struct.unpack("iII", packed)


def groups(connection: socket.socket) -> set[int]:
    """Every group of the process at the other end; of one that is in more than 256, its own."""
    gid = peer(connection)[2]
    try:
        packed = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, 1024)  # Python's most
    except OSError:
        return {gid}
    return {gid, *struct.unpack(f"{len(packed) // 4}I", packed)}


def say(connection: socket.socket, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
    socket.send_fds(connection, [json.dumps(message).encode()], fds)


def hear(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """A message and the descriptors that came with it. Raises: ConnectionError, ValueError."""
    data, fds, _, _ = socket.recv_fds(connection, _MESSAGE, 4)
    try:
        message = json.loads(data) if data else None
        if not isinstance(message, dict):
            raise ConnectionError("the other end has gone")
    except BaseException:
        for fd in fds:
            os.close(fd)
        raise
    return message, fds


def ask(uid: int, name: str, message: dict[str, Any], timeout: float) -> tuple[socket.socket, Any]:
    """Connects to a name and puts a question: the open connection, and (answer, descriptors).

    Raises:
        ConnectionError: nobody has the name, or it went meanwhile.
        PermissionError: the name is held by another user than it says.
        TimeoutError: the holder does not answer.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        connection.settimeout(max(timeout, 0.01))
        connection.connect(address(uid, name))
        speak("open.connected")
        if (who := peer(connection))[1] != uid:
            raise PermissionError(
                f"open: the name {name!r} of user {uid} is held by another user: {who[1]} "
                f"(pid {who[0]})"
            )
        say(connection, message)
        speak("open.asked")
        return connection, hear(connection)
    except TimeoutError:
        pid = 0
        with contextlib.suppress(OSError):
            pid = peer(connection)[0]
        connection.close()
        raise TimeoutError(
            f"open: the holder of {name!r} does not answer: pid {pid}, {timeout:g} s (is it "
            "stopped, or in a long call that keeps the interpreter's lock?)"
        ) from None
    except BaseException:
        connection.close()
        raise


@dataclass(eq=False)
class NameServer:
    """A name that this process serves, or follows until it can take it over.

    Attributes:
        mode: permission bits as of a file: 4 reads, 2 writes; user, group, others.
        about: what `describe` tells: id of the domain, shape, dtype, ...
        keeps: the publisher's array; None in a follower, which keeps its link instead.
    """

    uid: int
    name: str
    mode: int
    about: dict[str, Any]
    handle: bytes
    keeps: Any = None
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
        wanted = 6 if write else 4
        return bits & wanted == wanted

    def bind(self) -> None:
        """Takes the name. Raises: OSError (EADDRINUSE): somebody has it."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            listener.bind(address(self.uid, self.name))
            speak("publish.bound")
            listener.listen(128)
        except BaseException:
            listener.close()
            raise
        listener.setblocking(False)
        self.listener = listener

    def sockets(self) -> list[socket.socket]:
        ends = [self.listener, self.link, *self.clients]
        return [end for end in ends if end is not None]

    def close(self, farewell: bool = False) -> None:
        self.closing = True
        for client in list(self.clients):
            if farewell:
                with contextlib.suppress(OSError):
                    say(client, {"gone": True})
        for end in self.sockets():
            end.close()
        self.listener = self.link = self.keeps = None
        self.clients.clear()

    # ---- serving
    def handle_request(self, client: socket.socket) -> None:
        """One question of a client. Raises OSError or ValueError: the client is of no use."""
        message, fds = hear(client)
        for fd in fds:
            os.close(fd)
        speak("serve.asked")
        if message.get("ask") == "describe":
            return say(client, {**self.about, "mode": self.mode} if self.may(client, False) else {})
        readonly = bool(message.get("readonly"))
        if not self.may(client, not readonly):
            how = "read" if readonly else "written"
            return say(client, {"refused": f"it may not be {how} by user {peer(client)[1]}: mode "
                                f"{self.mode:04o} of user {self.uid}"})  # fmt: skip
        control, *volumes = native.domain_fds_of(self.handle[:16])
        opened: list[int] = []
        try:
            if readonly:
                opened += [os.open(f"/proc/self/fd/{v}", os.O_RDONLY) for v in volumes]
            send = [control, *(opened or volumes)]
            if peer(client)[1] not in (os.geteuid(), 0):
                # It cannot reopen the control file for a lock of its own.
                opened.append(os.open(f"/proc/self/fd/{control}", os.O_RDWR))
                send.append(opened[-1])
            say(client, {**self.about, "mode": self.mode, "handle": self.handle.hex()}, tuple(send))
            speak("serve.sent")
        finally:
            for fd in opened:
                os.close(fd)


class Keeper:
    """The thread that keeps the doors of this process."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.doors: dict[tuple[int, str], NameServer] = {}
        self.thread: threading.Thread | None = None
        self.stop = False
        self.bell: tuple[socket.socket, socket.socket] | None = None  # while there is a thread
        os.register_at_fork(
            before=self.pause, after_in_parent=self.go_on, after_in_child=self.forget
        )

    # ---- the thread and forks
    def wake(self) -> None:
        bell = self.bell
        if bell is not None:
            with contextlib.suppress(OSError):
                bell[1].send(b"x", socket.MSG_DONTWAIT)

    def run(self) -> None:
        """Starts the thread if there is something to keep. The lock is held."""
        if self.thread is None and self.doors:
            self.bell = socket.socketpair()
            self.stop = False
            self.thread = threading.Thread(target=self.keep, name="shmtensor-door", daemon=True)
            self.thread.start()

    def pause(self) -> None:
        """Ahead of a fork: the thread is gone, and stays away until the fork is done."""
        self.lock.acquire()
        while (thread := self.thread) is not None:
            self.stop = True
            self.wake()
            self.lock.release()
            thread.join()
            task = f"/proc/self/task/{thread.native_id}"
            end = time.monotonic() + 1
            while os.path.exists(task) and time.monotonic() < end:  # join returns a moment early
                time.sleep(0)
            self.lock.acquire()
            if self.thread is thread:
                self.thread = None

    def go_on(self) -> None:
        self.run()
        self.lock.release()

    def forget(self) -> None:
        """In the child: the names are its parent's."""
        for door in self.doors.values():
            door.close()
        self.doors.clear()
        self.thread = None
        self.lock = threading.RLock()

    # ---- doors
    def add(self, door: NameServer) -> None:
        with self.lock:
            self.doors[door.uid, door.name] = door
            self.run()
        self.wake()

    def remove(self, door: NameServer, farewell: bool = False) -> None:
        with self.lock:
            if self.doors.get((door.uid, door.name)) is door:
                del self.doors[door.uid, door.name]
            door.close(farewell)
        self.wake()

    def follow(self, door: NameServer, block: Any) -> None:
        """Keeps an opener's door until its blocks are gone. A name that this process serves or
        follows already has its door."""
        with self.lock:
            known = self.doors.get((door.uid, door.name))
            if known is None or known.closing:
                self.doors[door.uid, door.name] = known = door
            else:
                door.close()
            if known.keeps is None:
                known.blocks.add(id(block))
                weakref.finalize(block, _let_go, weakref.ref(known), id(block)).atexit = False
            self.run()
        self.wake()

    def keep(self) -> None:
        """The thread: answers, and takes names over."""
        assert self.bell is not None
        mine = self.bell
        while True:
            with self.lock:
                for door in [d for d in self.doors.values() if d.closing]:
                    self.remove(door)
                if self.stop or not self.doors:
                    self.bell = None
                    for end in mine:
                        end.close()
                    if not self.stop:
                        self.thread = None
                    return
                selector = selectors.DefaultSelector()
                selector.register(mine[0], selectors.EVENT_READ, None)
                for door in self.doors.values():
                    for end in door.sockets():
                        selector.register(end, selectors.EVENT_READ, door)
            try:
                ready = selector.select()
            finally:
                selector.close()
            with self.lock:
                for key, _ in ready:
                    if key.data is None:
                        mine[0].recv(4096)
                    elif not key.data.closing:
                        self.attend(key.data, key.fileobj)

    def attend(self, door: NameServer, end: Any) -> None:
        """Something came in at one of a door's sockets."""
        listener, link = door.listener, door.link
        if listener is not None and end is listener:
            try:
                client, _ = listener.accept()
            except OSError:  # it has gone again, or no descriptor is left
                time.sleep(0.01)
                return
            client.settimeout(0.5)
            door.clients.add(client)
        elif link is not None and end is link:
            try:
                gone = bool(hear(link)[0].get("gone"))
            except (OSError, ValueError):
                gone = False
            link.close()
            door.link = None
            if gone:
                self.remove(door)
            else:
                self.succeed(door)
        elif end in door.clients:
            try:
                door.handle_request(end)
            except (OSError, ValueError):
                door.clients.discard(end)
                end.close()

    def succeed(self, door: NameServer) -> None:
        """The holder that this door followed has died: take its name over, or follow who did."""
        if door.uid != os.geteuid():
            return self.remove(door)
        for _ in range(100):
            try:
                speak("follow.broken")
                return door.bind()
            except OSError:
                with contextlib.suppress(OSError, ValueError):
                    door.link, (answer, fds) = ask(door.uid, door.name, {"ask": "describe"}, 0.1)
                    for fd in fds:
                        os.close(fd)
                    if answer.get("id") == door.about["id"]:
                        return None
                    door.link.close()  # another tensor has the name now
                    door.link = None
                    return self.remove(door)
        self.remove(door)
        return None


def _let_go(reference: weakref.ref[NameServer], block: int) -> None:
    door = reference()
    if door is not None:
        door.blocks.discard(block)
        if not door.blocks:
            door.closing = True  # the keeper does the rest: this runs in any thread, at any moment
            keeper.wake()


keeper = Keeper()
