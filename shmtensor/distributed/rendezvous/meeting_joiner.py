"""The side of the ranks that meet rank 0: meeting.py has the picture."""

from __future__ import annotations

import json
import select
import time
from contextlib import suppress
from typing import Any

from ... import native
from ...errors import CollectiveMismatch, CollectiveTimeout, DomainError, PeerLostError
from ...memory import control_message
from ...memory.control_message import close_all
from ...memory.join_domain import adopt
from ...memory.peer_credentials import own_user
from .hosts import is_loopback, is_own_address
from .meeting import (
    HOW_TO,
    Meeting,
    Network,
    Peer,
    apart_error,
    connect,
    encode_error,
    fault_point,
    handles_of,
    hello,
    is_of_this_session,
    open_address,
    peer_of,
    read_error,
    read_place,
    receive_blocks,
    wait,
)
from .notice import SILENCE, Notice
from .places import Place, stopped
from .secret import has_secret
from .store import PrefixStore, Store

RETRY_PAUSE = 0.005  # seconds between two attempts to connect
LATE_PAUSE = 0.05  # the same after SILENCE
NETWORK_AFTER = 0.05  # seconds after which a rank also tries the network
TRIAL = 1.0  # seconds of one such attempt
APART_AFTER = 3.0  # seconds after which a rank 0 of another user has no store that answers
FAR_AFTER = 1.0  # seconds after which an address of another host is believed to be meant
ANCHOR = 64  # bytes of a lent block
ID = 16  # bytes of a handle that are its domain's


class Joiner:
    """Another rank's side."""

    def __init__(
        self,
        name: str,
        place: Place,
        notice: Notice,
        network: Network | Store | None,
        role: str,
        host: str,
    ) -> None:
        self.role = role
        self.name, self.place, self.notice, self.network = name, place, notice, network
        self.where, self.host = notice.where, host
        self.id = self.why = ""  # of the meeting; why this rank cannot reach rank 0's socket
        self.absence = ""
        self.network_error = ""
        self.stranger = ""
        self.other_user = ""  # rank 0, if it is another user's
        self.other_user_since = 0.0
        self.began = time.monotonic()

    def meet(self) -> Meeting:
        """Waits for all ranks; see `Host.meet`."""
        while True:
            if peer := self.connect():
                with peer:
                    meeting = self.take_part(peer)
            else:
                meeting = self.look_elsewhere()
            if meeting is not None:
                return meeting
            self.notice.check(f"{self.place} {self.describe_wait()}")
            has_waited = time.monotonic() - self.began > SILENCE
            time.sleep(LATE_PAUSE if has_waited else RETRY_PAUSE)

    def describe_wait(self) -> str:
        text = f"waits at {self.name!r}: rank 0 is missing: {self.absence}"
        text += self.stranger and f"; {self.stranger}"
        text += self.network_error and f"; {self.network_error}"
        return text if self.network else f"{text}; {HOW_TO}"

    def connect(self) -> Peer | None:
        """A connection to rank 0; None if it does not listen, or accepts nothing."""
        self.absence = "no process of this user listens there"
        if isinstance(self.network, Store) and not self.find_host(self.network):
            return None
        try:
            return connect(self.where, self.name, self.place)
        except PermissionError:
            raise
        except OSError as error:
            if isinstance(error, BlockingIOError):
                self.absence = "a process listens there, but accepts no connection"
            return None

    def find_host(self, store: Store) -> bool:
        """Reads from the store where rank 0 is; returns whether it can be reached at its socket."""
        self.name, self.absence = "the store", "it has written nothing there"
        if store.await_all(["host"], self.notice.pause(LATE_PAUSE)):
            return False
        if (text := store.try_get("host")) is None:
            return False
        host, self.id = read_place(text)
        self.name, self.why = f"store/{self.id}", self.place.why_apart(host)
        if not self.why:
            return True
        self.why = f"{self.place} is {self.why}: {host}"
        if not has_secret():
            error = apart_error(self.where, self.why)
            PrefixStore(self.id, store).set("error", json.dumps(encode_error(error)))
            raise error
        return False

    # ---------------------------------------------------------------- elsewhere
    def look_elsewhere(self) -> Meeting | None:
        """Rank 0 does not listen here: is it another user's, or on another host? Returns the
        meeting if the group runs over TCP.
        """
        if isinstance(self.network, Store):
            if self.why:
                self.wait_for_plan(PrefixStore(self.id, self.network))
            return Meeting() if self.why else None
        self.look_for_another_user()
        waited = time.monotonic() - self.began
        if self.network is not None:
            if waited > NETWORK_AFTER and (meeting := self.come_by_network(self.network)):
                return meeting
            if self.other_user and time.monotonic() - self.other_user_since > APART_AFTER:
                raise apart_error(self.where, f"{self.other_user}: {self.network_error}")
            return None
        if self.host and waited > FAR_AFTER:
            if not is_own_address(self.host, if_unknown=True):  # then it is only a name
                text = f"{self.place} is not on the host of rank 0, {self.host!r}"
                raise apart_error(self.where, text)
            self.host = ""
        return None

    def look_for_another_user(self) -> None:
        """Note [Other users]."""
        try:
            other = control_message.connect(open_address(self.name), None)
        except OSError:
            return
        with other:
            pid, uid = peer_of(other)
            if uid == own_user():
                return
            is_ours = is_of_this_session(pid)
            if is_ours:  # it closes the connection once it has seen who this process is
                ended = select.poll()
                ended.register(other, 0)  # only its end
                ended.poll(TRIAL * 1000)
        self.stranger = f"a process of another user waits for ranks there: pid {pid}, uid {uid}"
        if is_ours and not self.other_user:
            self.other_user_since = time.monotonic()
            self.other_user = (
                f"{self.place}, and pid {pid} of another user, uid {uid}, which waits as rank 0"
            )
        if is_ours and self.network is None:
            raise apart_error(self.where, self.other_user)

    def come_by_network(self, network: Network) -> Meeting | None:
        limit = min(TRIAL, self.notice.pause(TRIAL) + 0.1)
        try:
            store = network.connect(False, limit)
        except OSError as error:  # rank 0 has not come, or another program has the port
            self.network_error = str(error)
            if isinstance(error, PermissionError) and not is_loopback(network.host):
                raise
            return None
        meeting = None
        try:
            text = network.part(store).try_get("host")
            if text is None:
                self.network_error = (
                    f"the store at {network.host}:{network.port} is not that of this group's rank 0"
                )
                return None
            if peer := self.connect():  # it came meanwhile, to the socket too
                peer.close()
                return None
            part = PrefixStore(read_place(text)[1], network.part(store))
            end_key = f"{network.prefix}/{part.prefix}/{{}}/{self.place.rank}"
            store.set_when_gone(end_key.format("gone"), "1")
            try:
                self.wait_for_plan(part)
            except BaseException:  # this rank lives: rank 0 may wait for it to come again
                with suppress(OSError):
                    store.set_when_gone(end_key.format("left"), "1")
                raise
            limit = self.notice.remaining()
            store.set_timeout(limit if limit >= 0 else 1e9)
            meeting = Meeting(store=store)
            return meeting
        except ConnectionError as error:
            raise PeerLostError(f"{self.where}: rank 0 has died: {error}", "rank 0") from None
        finally:
            if meeting is None:
                store.close()

    def wait_for_plan(self, part: PrefixStore) -> None:
        """Writes into the store where this rank is, and waits until rank 0 has decided."""
        text = json.dumps(self.place.as_dict()).encode()
        key = f"came/{self.place.rank}"
        if (other_text := part.compare_set(key, b"", text)) != text:
            other, _ = read_place(other_text)
            mismatch = CollectiveMismatch(
                f"{self.where}: ranks do not fit together: rank {self.place.rank} came twice: "
                f"{self.place} of {self.place.world}, {other} of {other.world}"
            )
            part.set("error", json.dumps(encode_error(mismatch)))
            raise mismatch
        fault_point("came")
        try:
            self.read_plan(part)
        except BaseException:
            with suppress(OSError):
                part.delete_key(key)
            raise

    def read_plan(self, part: PrefixStore) -> None:
        while part.await_all(["plan"], self.notice.pause(60.0)):
            self.notice.check(
                f"{self.place} came to the store, and waits for other ranks",
                f"{self.place} came, and other ranks are missing",
            )
        plan = part.get("plan")
        if plan != b"tcp":
            raise read_error(plan)

    # ---------------------------------------------------------------- at the socket
    def take_part(self, peer: Peer) -> Meeting | None:
        """The meeting by a connection to rank 0; None: it was an earlier group's."""
        try:
            peer.send(hello(self.place))
            fault_point("hello")
            message, _ = self.receive(peer, "welcome", "rank 0 does not answer")
        except ConnectionError:
            if error := peer.last_error():
                raise error from None
            return None
        try:
            peer.set_place(Place.from_dict(message["welcome"]))
        except ValueError as error:
            raise CollectiveMismatch(
                f"{self.where}: what listens at {self.name!r} is not rank 0 of a group: {error}"
            ) from None
        fault_point("welcome")
        self.notice.restart(1.0)  # rank 0 sends a line first
        try:
            return self.follow_plan(peer)
        except ConnectionError:
            raise peer.lost() from None

    def receive(
        self, peer: Peer, kind: str, what: str = "other ranks are missing"
    ) -> tuple[dict[str, Any], list[int]]:
        """Rank 0's next message of this kind; notes are printed."""
        while True:
            while not wait([peer], self.notice.pause(60.0)):
                text = f"{what}: rank 0 is pid {peer.pid}, uid {peer.uid}{stopped(peer.pid)}"
                self.notice.check(
                    f"{self.place} waits: {text}", f"{self.place} at {self.name!r}: {text}"
                )
            message, descriptors = peer.read(kind, "note")
            if kind in message:
                return message, descriptors
            close_all(descriptors)
            self.notice.print(str(message["note"]))
            self.notice.is_due()

    def follow_plan(self, peer: Peer) -> Meeting:
        descriptors: list[int] = []
        try:
            message, descriptors = self.receive(peer, "plan")
            self.notice.restart(1.0)
            fault_point("plan")
            if message["plan"] != "tcp":
                return self.share_memory(peer, message, descriptors)
            if not isinstance(self.network, Network):
                return Meeting()
            return Meeting(store=self.network.connect(False, self.notice.remaining()))
        except (ConnectionError, CollectiveTimeout):  # rank 0 has gone, or waits for others
            raise
        except Exception as error:
            peer.tell(encode_error(error))
            raise
        finally:
            close_all(descriptors)

    def share_memory(self, peer: Peer, plan: dict[str, Any], descriptors: list[int]) -> Meeting:
        (handle,) = handles_of([plan.get("block")])
        if len(descriptors) != 3:
            raise DomainError(f"{self.where}: rank 0 sent {len(descriptors)} descriptors, not 3")
        numbers = descriptors[0], descriptors[1], descriptors[2]
        become_member(numbers, handle[:ID])
        fault_point("member")
        block = native.guest_receive(numbers, False, handle)
        fault_point("guest")
        lent, lent_handles = None, []
        try:
            if native.domain_id() != handle[:ID]:
                lent = native.allocate(ANCHOR, zero=True, shared=True)
                lent_handles = [native.export(lent)]
            lent_descriptors = list(native.domain_fds()) if lent_handles else []
            answer = {"lent": [each.hex() for each in lent_handles]}
            peer.send(answer, lent_descriptors, self.notice.deadline)
            fault_point("lent")
            message, others = self.receive(peer, "domains")
            try:
                blocks = receive_blocks(handles_of(message["domains"]), others)
            finally:
                close_all(others)
            fault_point("domains")
            if self.role:
                native.set_role(self.role)
            control = native.Group(block, self.place.rank, self.place.world, blocks)
            fault_point("group")
            peer.send({"joined": True})
            fault_point("joined")
            self.receive(peer, "go")
            fault_point("go")
            control.barrier(self.notice.remaining())
        finally:
            for each in lent_handles:
                native.acknowledge(each)
        return Meeting(control, block, (block, *blocks) if blocks else ())


def become_member(descriptors: tuple[int, int, int], domain: bytes) -> None:
    """Joins the domain of rank 0, unless this process has one: also if another thread makes the
    first tensor now. From here on it is decided.
    """
    if not native.domain_ready():
        try:
            adopt({"descriptors": descriptors, "id": domain})
        except DomainError:
            if not native.domain_ready():
                raise
