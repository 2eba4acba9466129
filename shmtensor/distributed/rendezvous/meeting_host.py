"""Rank 0's side of a meeting: meeting.py has the picture."""

from __future__ import annotations

import errno
import json
import os
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
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
    Peer,
    address,
    apart_error,
    connect,
    create_block,
    encode_error,
    fault_point,
    gone_error,
    handles_of,
    hello,
    is_of_this_session,
    open_address,
    parse_hello,
    peer_of,
    read_error,
    read_place,
    receive_blocks,
    wait,
)
from .notice import Notice
from .places import Place, stopped
from .store import PrefixStore, Store
from .tcp_store import TCPStore

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
        self.peers: dict[int, Peer] = {}  # ranks that came to the socket
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
            for peer in self.peers.values():
                peer.close()

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
            self.notice.check(
                f"{self.place} waits: the name {self.name!r} is taken",
                f"the name is taken: {self.name!r}",
            )
            time.sleep(RETRY_PAUSE)

    def ask_holder(self) -> None:
        """Raises the error of another rank 0 that listens at the name."""
        try:
            other = connect(self.where, self.name, self.place)
        except PermissionError:
            raise
        except OSError:  # it has closed the name, or does not listen
            return
        with other, suppress(ConnectionError, TimeoutError):  # the same
            other.tell(hello(self.place))
            other.read(timeout=self.notice.pause(PATIENCE) + 1e-3)

    def read_hello(self, connection: socket.socket) -> Handshake:
        """The rank that has connected."""
        peer = Peer(self.where, connection, self.place)
        if peer.uid != own_user():
            raise ConnectionRefusedError("another user's process")
        message = None
        try:
            while message is None:
                yield 0
                with suppress(TimeoutError):  # nothing has come
                    message, _ = peer.receive(0.0, MAX_HELLO, 0)
            peer.set_place(parse_hello(message))
        except CollectiveMismatch as error:
            peer.tell(encode_error(error))
            raise ConnectionRefusedError(str(error)) from None
        return peer

    def open_store(self) -> None:
        """Writes into the store where this rank is. A store at an address is opened first; at a
        loopback address a port that another program has is an error only if a rank needs it.
        """
        store = self.network
        if isinstance(store, Network):
            try:
                self.store = store.connect(True, self.notice.remaining())
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
            pause = self.notice.pause(POLL if self.keys else 60.0)
            pause = min(pause, handshakes.deadline - time.monotonic())
            ready = wait([handshakes, open_listener, *self.peers.values()], pause)
            for _, peer in handshakes.poll(0):
                self.admit(peer)
            for peer in self.peers_in(ready):
                self.check_waiting(peer)
            if open_listener in ready:
                self.look_at_strangers(open_listener)
            self.read_store()
            if self.missing() and self.notice.is_due():
                self.tell_who_is_missing(self.describe_missing())
            if self.missing() and self.notice.is_over():
                raise self.notice.timed_out(f"{self.place} {self.describe_missing()}")
        self.notice.restart()
        fault_point("gathered")

    def places(self) -> dict[int, Place]:
        """The ranks that have come."""
        places = {rank: peer.place for rank, peer in self.peers.items()}
        return {0: self.place, **places, **self.remote}

    def missing(self) -> list[int]:
        return sorted(set(range(self.world)) - self.places().keys())

    def describe_missing(self) -> str:
        missing = self.missing()
        who = f"rank{'s' * (len(missing) > 1)} {', '.join(map(str, missing))}"
        have = "have" if len(missing) > 1 else "has"
        text = f"waits at {self.name!r}: {len(missing)} of {self.world} are missing: "
        text += f"{who} {have} not come"
        for pid, uid in sorted(self.strangers):
            text += f"; a process of another user came: pid {pid}, uid {uid}"
        if self.port_error:
            text += f"; ranks that share no memory cannot come: {self.port_error}"
        return text if self.network else f"{text}; {HOW_TO}"

    def tell_who_is_missing(self, text: str) -> None:
        """Prints the line about a wait, here and on the ranks that have come."""
        self.notice.print(f"{self.place} {text}")
        self.has_told = True
        for peer in self.peers.values():
            peer.tell({"note": f"{peer.place} {text}"})

    def check_fit(self, place: Place) -> None:
        """Raises CollectiveMismatch if a rank does not fit the others."""
        if other := self.places().get(place.rank):
            raise self.mismatch(f"rank {place.rank} came twice", place, other)
        if place.world != self.world or not 0 < place.rank < self.world:
            raise self.mismatch("they disagree about the world size", place, self.place)

    def mismatch(self, reason: str, place: Place, other: Place) -> CollectiveMismatch:
        return CollectiveMismatch(
            f"{self.where}: ranks do not fit together: {reason}: {place} of {place.world}, "
            f"{other} of {other.world}: two jobs need two values of MASTER_PORT, or two names"
        )

    def admit(self, peer: Peer) -> None:
        """A rank has come."""
        place = peer.place
        try:
            if place.rank in self.peers and wait([self.peers[place.rank]], 0):
                self.check_waiting(self.peers[place.rank])  # it gave up, and comes again
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
            with peer:
                peer.tell(encode_error(error))
            raise
        self.peers[place.rank] = peer
        peer.tell({"welcome": self.place.as_dict()})
        if self.has_told and self.missing():
            peer.tell({"note": f"{place} {self.describe_missing()}"})

    def check_waiting(self, peer: Peer) -> None:
        """A rank that should wait has sent something, or has ended."""
        try:
            peer.read()
        except ConnectionError:
            if (error := peer.last_error()) or peer.has_ended():
                raise error or peer.lost() from None
            del self.peers[peer.place.rank]  # it gave up, and may come again
            peer.close()

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
        for rank, place in sorted(self.places().items()):
            if why := place.why_apart(self.place):
                return f"{place} is {why}: {self.place}"
            if rank in self.remote:
                return f"{place} does not reach the socket of {self.place}"
        return ""

    def go_over_tcp(self, why: str) -> Meeting:
        """All ranks connect by TCP, with rank 0's store."""
        self.notice.print(
            f"the group of {self.world} ranks runs over TCP, not in shared memory: {why}"
        )
        for peer in self.peers.values():
            peer.tell({"plan": "tcp"})
        if self.keys is not None:
            self.keys.set("plan", "tcp")
        return Meeting(store=self.store)

    def share_memory(self) -> Meeting:
        """The ranks join the group in rank 0's memory."""
        self.close_store()
        block, handle = create_block(self.world)
        answers: list[tuple[dict[str, Any], list[int]]] = []
        lent: dict[bytes, tuple[bytes, list[int]]] = {}  # by domain: a handle, 3 descriptors
        try:
            plan = {"plan": "memory", "block": handle.hex()}
            self.send_all(plan, native.domain_fds())
            fault_point("planned")
            answers = self.collect("lent")
            for message, triple in answers:
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
            self.send_all({"domains": [each.hex() for each in handles]}, descriptors)
            fault_point("shared")
            blocks = receive_blocks(handles, descriptors)
            if self.role:
                native.set_role(self.role)
            control = native.Group(block, 0, self.world, blocks)
            self.collect("joined")
            fault_point("all joined")
            for peer in self.peers.values():
                peer.tell({"go": True})  # from here on the ledger notices a death
            control.barrier(self.notice.remaining())
        finally:
            native.acknowledge(handle)
            for _, triple in answers:
                close_all(triple)
        return Meeting(control, block, (block, *blocks) if blocks else ())

    def send_all(self, message: dict[str, Any], descriptors: Sequence[int]) -> None:
        for peer in self.peers.values():
            try:
                peer.send(message, descriptors, self.notice.deadline)
            except ConnectionError:
                raise peer.lost() from None

    def peers_in(self, ready: list[Any]) -> list[Peer]:
        return [peer for peer in self.peers.values() if peer in ready]

    def collect(self, kind: str) -> list[tuple[dict[str, Any], list[int]]]:
        """A message of this kind from each rank. The end of any rank is noticed at once: who has
        answered sends nothing more.
        """
        answers: dict[Peer, tuple[dict[str, Any], list[int]]] = {}
        try:
            while silent := [peer for peer in self.peers.values() if peer not in answers]:
                ready = wait(self.peers.values(), self.notice.pause(60.0))
                for peer in self.peers_in(ready):
                    try:
                        answers[peer] = peer.read(*([] if peer in answers else [kind]))
                    except ConnectionError:
                        raise peer.lost() from None
                if not ready:
                    place = silent[0].place
                    text = f"{place}, which came and does not answer"
                    if self.notice.is_due():
                        self.tell_who_is_missing(f"waits for {text}")
                    if self.notice.is_over():
                        raise self.notice.timed_out(text + stopped(place.pid))
        except BaseException:
            for _, descriptors in answers.values():
                close_all(descriptors)
            raise
        return list(answers.values())

    # ---------------------------------------------------------------- the end
    def end_by(self, error: BaseException, handshakes: Handshakes | None) -> None:
        """Tells all ranks that have come, and those that come soon, of an error."""
        if not isinstance(error, Exception):  # Ctrl-C, SystemExit: an end of this process alone
            error = gone_error(self.where, self.place, f"gave up: {type(error).__name__}")
        message = encode_error(error)
        told = {*self.places(), *self.refused}
        for peer in self.peers.values():
            peer.tell(message)
        if self.keys is not None:
            with suppress(OSError, ValueError):
                self.keys.set("plan", json.dumps(message))
        end = time.monotonic() + LINGER
        is_for_late_ranks = isinstance(error, (CollectiveMismatch, PermissionError, RuntimeError))
        while (
            handshakes is not None
            and is_for_late_ranks
            and not self.notice.is_over()
            and len(told) < self.world
            and time.monotonic() < end
        ):
            for _, peer in handshakes.poll(min(0.1, end - time.monotonic())):
                told.add(peer.place.rank)
                with peer:
                    peer.tell(message)
        if self.remote:
            time.sleep(max(0.0, end - time.monotonic()))  # until they have read it
        if handshakes is not None:
            for peer in self.peers.values():
                peer.close()
        self.close_store()

    def close_store(self) -> None:
        if self.store is not None:
            self.store.close()
            self.store = None
