"""Rank 0's side of a meeting: meeting.py has the picture."""

from __future__ import annotations

import errno
import json
import os
import socket
import time
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ... import native
from ...errors import CollectiveMismatch, DomainError
from ...memory.control_message import close_all
from ...memory.peer_credentials import own_user
from .handshakes import BACKLOG, LIMIT, PATIENCE, Handshake, Handshakes
from .hosts import is_loopback
from .meeting import (
    HOW_TO,
    Meeting,
    Network,
    address,
    apart_error,
    connect,
    create_block,
    decode_error,
    describe,
    encode_error,
    fault_point,
    gone_error,
    handles_of,
    has_ended,
    hello,
    is_of_this_session,
    last_error,
    lost,
    open_address,
    parse_hello,
    peer_of,
    read_error,
    read_place,
    receive,
    receive_blocks,
    send,
    tcp_line,
    tell,
    wait_readable,
)
from .notice import Notice
from .places import Place, stopped
from .store import PrefixStore, Store
from .tcp_store import TCPStore

__all__ = ["Host"]

RETRY_PAUSE = 0.005  # seconds between two attempts to bind
POLL = 0.02  # seconds between two looks into the store
MAX_DOMAINS = 64  # of which a process can be a guest: kGuests in native/memory/domain/guest.h
ID = 16  # bytes of a handle that are its domain's
MAX_HELLO = 1024  # bytes
LINGER = 1.0  # seconds in which ranks that come after an error are told of it


class Host:
    """Rank 0's side. `meet` ends it."""

    def __init__(
        self, name: str, place: Place, notice: Notice, network: Network | Store | None, role: str
    ) -> None:
        self.role = role
        self.place, self.notice, self.network = place, notice, network
        self.id = os.urandom(16).hex()
        self.name = f"store/{self.id}" if isinstance(network, Store) else name
        self.where, self.world = notice.where, place.world
        self.arrived: dict[int, tuple[socket.socket, Place]] = {}
        self.remote: dict[int, Place] = {}  # ranks that came to the store
        self.refused: set[int] = set()
        self.store: TCPStore | None = None  # opened here
        self.keys: Store | None = None  # of this meeting
        self.port_error = ""
        self.has_told = False  # who is missing, to the ranks that had come by then
        self.strangers: set[tuple[int, int]] = set()  # pid and uid of other users' processes

    def meet(self) -> Meeting:
        """Waits for all ranks.

        Raises:
            CollectiveMismatch, CollectiveTimeout, PeerLostError, PermissionError: on all ranks.
        """
        with (
            socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener,
            socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as open_listener,
        ):
            self.bind(listener)
            listener.listen(BACKLOG)
            fault_point("bound")
            with Handshakes(listener, self.read_hello, LIMIT + self.world) as handshakes:
                try:
                    self.open_store()  # before the other address: who sees that may use the store
                    with suppress(OSError):  # another user's group of this name has it
                        open_listener.bind(open_address(self.name))
                        open_listener.listen(BACKLOG)
                        open_listener.setblocking(False)
                    self.gather(handshakes, open_listener)
                except BaseException as error:
                    self.end_by(error, handshakes)
                    raise
                finally:
                    if isinstance(self.network, Store) and self.keys is not None:
                        with suppress(OSError):
                            self.network.delete_key("host")  # who comes now is of another meeting
        try:
            why = self.why_apart()
            if why or self.remote:
                return self.go_over_tcp(why)
            return self.share_memory()
        except BaseException as error:
            self.end_by(error, None)
            raise
        finally:
            for connection, _ in self.arrived.values():
                connection.close()

    # ---------------------------------------------------------------- they come
    def bind(self, listener: socket.socket) -> None:
        """Binds to the name. If another rank 0 of this user has it, both get an error."""
        while True:
            try:
                listener.bind(address(self.name))
                return
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
            self.ask_holder()
            if self.notice.is_due():
                self.notice.print(f"{self.place} waits: the name {self.name!r} is taken")
            if self.notice.is_over():
                raise self.notice.timed_out(f"the name is taken: {self.name!r}")
            time.sleep(RETRY_PAUSE)

    def ask_holder(self) -> None:
        """Raises the error of another rank 0 that listens at the name."""
        message: dict[str, Any] = {}
        try:
            other = connect(self.where, self.name)
        except PermissionError:
            raise
        except OSError:  # it has closed the name, or does not listen
            return
        with other, suppress(OSError, RuntimeError):  # it has closed the name, or is no rank 0
            send(other, hello(self.place))
            message, descriptors = receive(other, self.notice.pause(PATIENCE) + 1e-3)
            close_all(descriptors)
        if "error" in message:
            raise decode_error(message)

    def read_hello(self, connection: socket.socket) -> Handshake:
        """The place of a rank that has connected."""
        pid, uid = peer_of(connection)
        if uid != own_user():
            raise ConnectionRefusedError("another user's process")
        message = None
        try:
            while message is None:
                yield 0
                with suppress(TimeoutError):  # nothing has come
                    message, _ = receive(connection, 0.0, MAX_HELLO, 0)
            place = parse_hello(message)
        except CollectiveMismatch as error:
            tell(connection, encode_error(error))
            raise ConnectionRefusedError(str(error)) from None
        return replace(place, uid=uid, pid=pid or place.pid)

    def open_store(self) -> None:
        """Writes into the store where this rank is. A store at an address is opened first; at a
        loopback address a port that another program has is an error only if a rank needs it.
        """
        store = self.network
        if isinstance(store, Network):
            limit = self.notice.remaining()
            try:
                self.store = store.connect(True, limit if limit >= 0 else 1e9)
            except OSError as error:
                self.port_error = str(error)
                if is_loopback(store.host):
                    return
                raise RuntimeError(
                    f"{self.where}: {self.place} cannot open the port at which ranks of other "
                    f"hosts meet: {error}: end the program that has it, or choose another "
                    "MASTER_PORT"
                ) from None
            store = store.part(self.store)
        if store is None:
            return
        text = json.dumps({"id": self.id, **self.place.as_dict()}).encode()
        if (other := store.compare_set("host", b"", text)) != text:
            place, other_id = read_place(other)
            mismatch = self.mismatch("rank 0 came twice", self.place, place)
            PrefixStore(other_id, store).set("error", json.dumps(encode_error(mismatch)))
            raise mismatch
        self.keys = PrefixStore(self.id, store)

    def gather(self, handshakes: Handshakes, open_listener: socket.socket) -> None:
        """Waits until all ranks have come."""
        while self.missing():
            connections = [connection for connection, _ in self.arrived.values()]
            pause = self.notice.pause(POLL if self.keys else 60.0)
            pause = min(pause, handshakes.deadline - time.monotonic())
            ready = wait_readable([handshakes, open_listener, *connections], pause)
            for connection, place in handshakes.poll(0):
                self.admit(connection, place)
            for rank in self.ready_ranks(ready):
                self.check_waiting(rank)
            if open_listener in ready:
                self.look_at_strangers(open_listener)
            self.read_store()
            if self.missing() and self.notice.is_due():
                self.tell_who_is_missing(self.describe_missing())
            if self.missing() and self.notice.is_over():
                raise self.notice.timed_out(f"{self.place} {self.describe_missing()}")
        self.notice.restart()
        fault_point("gathered")

    def missing(self) -> list[int]:
        came = {0, *self.arrived, *self.remote}
        return [rank for rank in range(self.world) if rank not in came]

    def describe_missing(self) -> str:
        missing = self.missing()
        count = f"{len(missing)} of {self.world} are missing"
        text = f"waits at {self.name!r}: {count}: {describe(missing)}"
        for pid, uid in sorted(self.strangers):
            text += f"; a process of another user came: pid {pid}, uid {uid}"
        if self.port_error:
            text += f"; ranks that share no memory cannot come: {self.port_error}"
        return text if self.network else f"{text}; {HOW_TO}"

    def tell_who_is_missing(self, text: str) -> None:
        """Prints the line about a wait, here and on the ranks that have come."""
        self.notice.print(f"{self.place} {text}")
        self.has_told = True
        for connection, place in self.arrived.values():
            tell(connection, {"note": f"{place} {text}"})

    def check_fit(self, place: Place) -> None:
        """Raises CollectiveMismatch if a rank does not fit the others."""
        reason = ""
        other = self.place
        if place.rank in (0, *self.arrived, *self.remote):
            if place.rank in self.arrived:
                other = self.arrived[place.rank][1]
            other = self.remote.get(place.rank, other)
            reason = f"rank {place.rank} came twice"
        elif place.world != self.world or not 0 < place.rank < self.world:
            reason = "they disagree about the world size"
        if reason:
            raise self.mismatch(reason, place, other)

    def mismatch(self, reason: str, place: Place, other: Place) -> CollectiveMismatch:
        return CollectiveMismatch(
            f"{self.where}: ranks do not fit together: {reason}: {place} of {place.world}, "
            f"{other} of {other.world}: two jobs need two values of MASTER_PORT, or two names"
        )

    def admit(self, connection: socket.socket, place: Place) -> None:
        """A rank has come."""
        try:
            if place.rank in self.arrived and wait_readable([self.arrived[place.rank][0]], 0):
                self.check_waiting(place.rank)  # it gave up, and comes again
            self.check_fit(place)
            why = self.place.why_apart(place)
            if why and self.network is None:
                raise apart_error(self.where, f"{self.place} is {why}: {place}")
            if why and self.port_error:
                raise RuntimeError(
                    f"{self.where}: {self.place} is {why}: {place}: {self.port_error}"
                )
        except Exception as error:
            self.refused.add(place.rank)
            with connection:
                tell(connection, encode_error(error))
            raise
        self.arrived[place.rank] = connection, place
        tell(connection, {"welcome": self.place.as_dict()})
        if self.has_told and self.missing():
            tell(connection, {"note": f"{place} {self.describe_missing()}"})

    def check_waiting(self, rank: int) -> None:
        """A rank that should wait has sent something, or has ended."""
        connection, place = self.arrived[rank]
        try:
            self.read(rank, "")
        except ConnectionError:
            if has_ended(connection):
                raise lost(self.where, place, connection) from None
            del self.arrived[rank]  # it gave up, and may come again
            connection.close()

    def look_at_strangers(self, open_listener: socket.socket) -> None:
        """Note [Other users]."""
        for _ in range(LIMIT):
            try:
                connection, _ = open_listener.accept()
            except OSError:
                return
            with connection:
                pid, uid = peer_of(connection)
                is_ours = is_of_this_session(pid)
            if uid == own_user():
                continue
            self.strangers.add((pid, uid))
            while len(self.strangers) > LIMIT:
                self.strangers.pop()
            if is_ours and (self.network is None or self.port_error):
                text = f"{self.place}, and pid {pid} of another user, uid {uid}"
                raise apart_error(
                    self.where, f"{text}: {self.port_error}" if self.port_error else text
                )

    def read_store(self) -> None:
        """Ranks that came to the store, or have left it."""
        part = self.keys
        if part is None:
            return
        keys = set(part.list_keys())
        for rank, place in list(self.remote.items()):
            if f"gone/{rank}" in keys:
                what = "has died before all ranks had joined the group: its connection ended"
                raise gone_error(self.where, place, what)
            if f"came/{rank}" not in keys:
                del self.remote[rank]  # it gave up, and may come again
        for key in sorted(keys):
            kind, _, number = key.partition("/")
            rank = int(number) if number.isdigit() else -1
            if kind == "came" and rank not in self.remote:
                if (text := part.try_get(key)) is None:
                    continue
                place, _ = read_place(text)
                self.check_fit(place)
                self.remote[place.rank] = place
            elif kind == "error":
                raise read_error(part.get(key))

    # ---------------------------------------------------------------- all have come
    def why_apart(self) -> str:
        """Why the group runs over TCP; "": all share memory."""
        places = [place for _, place in self.arrived.values()] + list(self.remote.values())
        for place in sorted(places, key=lambda each: each.rank):
            if why := place.why_apart(self.place):
                return f"{place} is {why}: {self.place}"
            if place.rank in self.remote:
                return f"{place} does not reach the socket of {self.place}"
        return ""

    def go_over_tcp(self, why: str) -> Meeting:
        """All ranks connect by TCP, with rank 0's store."""
        self.notice.print(tcp_line(self.world, why))
        for connection, _ in self.arrived.values():
            tell(connection, {"plan": "tcp"})
        if self.keys is not None:
            self.keys.set("plan", "tcp")
        return Meeting(store=self.store)

    def share_memory(self) -> Meeting:
        """The ranks join the group in rank 0's memory."""
        self.close_store()
        block, handle = create_block(self.world)
        answers: dict[int, tuple[dict[str, Any], list[int]]] = {}
        lent: dict[bytes, tuple[bytes, list[int]]] = {}  # by domain: a handle, 3 descriptors
        try:
            for rank in self.arrived:
                plan = {"plan": "memory", "block": handle.hex()}
                self.send(rank, plan, list(native.domain_fds()))
            fault_point("planned")
            answers = self.collect("lent")
            for message, triple in answers.values():
                for each in handles_of(message["lent"]):
                    lent.setdefault(each[:ID], (each, triple))
            if len(lent) > MAX_DOMAINS:
                raise DomainError(
                    f"{self.where}: ranks have tensors in too many domains: {len(lent)} beside "
                    f"that of rank 0, at most {MAX_DOMAINS}: fewer may make a tensor before they "
                    "meet, or start them by one launcher"
                )
            handles = [each for each, _ in lent.values()]
            descriptors = [each for _, triple in lent.values() for each in triple]
            for rank in self.arrived:
                self.send(rank, {"domains": [each.hex() for each in handles]}, descriptors)
            fault_point("shared")
            blocks = receive_blocks(handles, descriptors)
            if self.role:
                native.set_role(self.role)
            control = native.Group(block, 0, self.world, blocks)
            self.collect("joined")
            fault_point("all joined")
            for connection, _ in self.arrived.values():
                tell(connection, {"go": True})  # from here on the ledger notices a death
            control.barrier(self.notice.remaining())
        finally:
            native.acknowledge(handle)
            for _, triple in answers.values():
                close_all(triple)
        return Meeting(control, block, (block, *blocks) if blocks else ())

    def send(self, rank: int, message: dict[str, Any], descriptors: list[int]) -> None:
        connection, place = self.arrived[rank]
        try:
            send(connection, message, descriptors, self.notice.deadline)
        except ConnectionError:
            raise last_error(connection) or lost(self.where, place, connection) from None

    def read(self, rank: int, kind: str) -> tuple[dict[str, Any], list[int]]:
        """The message of a rank whose connection is readable. Raises the error that it has sent;
        ConnectionError: it has gone.
        """
        connection, place = self.arrived[rank]
        try:
            message, descriptors = receive(connection)
        except ConnectionError:
            if error := last_error(connection):
                raise error from None
            raise
        if kind not in message:
            close_all(descriptors)
            if "error" in message:
                raise decode_error(message)
            raise CollectiveMismatch(
                f"{self.where}: {place} sent {sorted(message)}, not {kind or 'nothing'}"
            )
        return message, descriptors

    def ready_ranks(self, ready: list[Any]) -> list[int]:
        return [rank for rank, (connection, _) in self.arrived.items() if connection in ready]

    def collect(self, kind: str) -> dict[int, tuple[dict[str, Any], list[int]]]:
        """A message of this kind from each rank. The end of any rank is noticed at once: who has
        answered sends nothing more.
        """
        answers: dict[int, tuple[dict[str, Any], list[int]]] = {}
        try:
            while silent := [rank for rank in self.arrived if rank not in answers]:
                connections = [connection for connection, _ in self.arrived.values()]
                ready = wait_readable(connections, self.notice.pause(60.0))
                for rank in self.ready_ranks(ready):
                    connection, place = self.arrived[rank]
                    try:
                        answer = self.read(rank, "" if rank in answers else kind)
                    except ConnectionError:
                        raise lost(self.where, place, connection) from None
                    answers[rank] = answer
                if not ready:
                    place = self.arrived[silent[0]][1]
                    text = f"{place}, which came and does not answer"
                    if self.notice.is_due():
                        self.tell_who_is_missing(f"waits for {text}")
                    if self.notice.is_over():
                        raise self.notice.timed_out(text + stopped(place.pid))
        except BaseException:
            for _, descriptors in answers.values():
                close_all(descriptors)
            raise
        return answers

    # ---------------------------------------------------------------- the end
    def end_by(self, error: BaseException, handshakes: Handshakes | None) -> None:
        """Tells all ranks that have come, and those that come soon, of an error."""
        if not isinstance(error, Exception):  # Ctrl-C, SystemExit: an end of this process alone
            error = gone_error(self.where, self.place, f"gave up: {type(error).__name__}")
        message = encode_error(error)
        told = {*self.remote, *self.arrived, *self.refused} - {0}
        for connection, _ in self.arrived.values():
            tell(connection, message)
        if self.keys is not None:
            with suppress(OSError, ValueError):
                self.keys.set("plan", json.dumps(message))
        end = time.monotonic() + LINGER
        is_for_late_ranks = isinstance(error, (CollectiveMismatch, PermissionError, RuntimeError))
        while (
            handshakes is not None
            and is_for_late_ranks
            and not self.notice.is_over()
            and len(told) < self.world - 1
            and time.monotonic() < end
        ):
            wait_readable([handshakes], min(0.1, end - time.monotonic()))
            for connection, place in handshakes.poll(0):
                told.add(place.rank)
                with connection:
                    tell(connection, message)
        if self.remote:
            time.sleep(max(0.0, end - time.monotonic()))  # until they have read it
        if handshakes is not None:
            for connection, _ in self.arrived.values():
                connection.close()
        self.close_store()

    def close_store(self) -> None:
        if self.store is not None:
            self.store.close()
            self.store = None
