"""How ranks meet at a socket: other users, silent processes, what is no rank 0."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from shmtensor.distributed.rendezvous import find_group as find_group_module
from shmtensor.distributed.rendezvous import handshakes
from shmtensor.distributed.rendezvous.find_group import find_group
from shmtensor.distributed.rendezvous.hosts import is_own_address
from shmtensor.distributed.rendezvous.meeting import (
    PROTOCOL,
    Peer,
    address,
    decode_error,
    encode_error,
    hello,
    is_of_this_session,
    open_address,
    parse_hello,
    peer_of,
)
from shmtensor.distributed.rendezvous.places import Place, has_died, own_place
from shmtensor.errors import CollectiveMismatch, CollectiveTimeout, PeerLostError
from shmtensor.memory.control_message import LENGTH, encode
from shmtensor.memory.peer_credentials import UNKNOWN

NOBODY = 65534
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")

# Another user's process; it tells what happens and ends with its input.
HOLDER = """
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
    listener.bind(bytes.fromhex(sys.argv[1]))
    listener.listen(8)
    print("holds", flush=True)
    sys.stdin.read()
"""
STRANGER = """
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
    while stranger.connect_ex(bytes.fromhex(sys.argv[1])):
        pass
    print("heard", stranger.recv(1000), flush=True)
"""


def framed(data: bytes) -> bytes:
    """A control message with this in place of JSON."""
    return LENGTH.pack(len(data)) + data


def peer(connection: socket.socket) -> Peer:
    return Peer("test", connection, own_place(0, 2))


def start(program: str, place: bytes, own_session: bool = False) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", program, place.hex()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=own_session,
    )


class Rank(threading.Thread):
    """A rank in a thread of this process."""

    def __init__(self, name: str, rank: int, world: int) -> None:
        super().__init__()
        self.arguments = name, rank, world, 60.0
        self.error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            find_group(*self.arguments)
        except Exception as error:
            self.error = error


@AS_ROOT
@pytest.mark.parametrize("rank", [0, 1])
def test_a_name_that_another_user_holds_is_named(rank: int) -> None:
    name = f"held/{os.getpid()}/{rank}"
    with start(HOLDER, address(name)) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "holds\n"
        with pytest.raises(PermissionError, match=f"uid {NOBODY}, pid {holder.pid}"):
            find_group(name, rank, 2, 60.0)
        holder.communicate("")


@AS_ROOT
@pytest.mark.parametrize("place", [address, open_address])
def test_another_users_process_hears_nothing_from_rank_0(place: Any) -> None:
    name = f"heard/{os.getpid()}"
    rank = Rank(name, 0, 2)
    with start(STRANGER, place(name), own_session=True) as stranger:
        assert stranger.stdout is not None
        assert stranger.stdout.readline() == "heard b''\n"
    find_group(name, 1, 2, 60.0)
    rank.join()
    assert rank.error is None


def test_a_hundred_silent_processes_delay_no_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshakes, "PATIENCE", 1000.0)  # nobody is served by waiting for an end
    name = f"silent/{os.getpid()}"
    rank = Rank(name, 0, 3)
    strangers = []
    while len(strangers) < 100:
        stranger = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if stranger.connect_ex(address(name)):
            stranger.close()  # rank 0 does not listen yet
        else:
            strangers.append(stranger)
            if len(strangers) == 1:
                stranger.sendall(b"")  # at once: a fast rank 0 drops the oldest of many
    ranks = [rank, Rank(name, 2, 3), Rank(name, 1, 3)]
    for each in ranks:
        each.join()
        assert each.error is None
    for silent in strangers:
        silent.close()


def test_a_name_in_use_is_waited_for() -> None:
    name = f"used/{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as earlier:
        earlier.bind(address(name))
        with pytest.raises(CollectiveTimeout, match="the name is taken"):
            find_group(name, 0, 2, 0.05)
        earlier.listen(8)
        with pytest.raises(CollectiveTimeout, match="the name is taken"):
            find_group(name, 0, 2, 0.05)
        with pytest.raises(CollectiveTimeout, match="rank 0 does not answer"):
            find_group(name, 1, 2, 0.05)  # it connects, and hears nothing
    ranks = [Rank(name, 0, 2), Rank(name, 1, 2)]
    for each in ranks:
        each.join()
        assert each.error is None


def test_a_full_queue_of_connections_is_no_silent_wait() -> None:
    name = f"full/{os.getpid()}"
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        listener.bind(address(name))
        listener.listen(0)
        is_full = False
        while not is_full:
            client = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            client.setblocking(False)
            is_full = bool(client.connect_ex(address(name)))
        with pytest.raises(CollectiveTimeout, match="accepts no connection"):
            find_group(name, 1, 2, 0.1)


def connect(name: str) -> socket.socket:
    """A connection to rank 0, once it listens."""
    while True:
        client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if not client.connect_ex(address(name)):
            return client
        client.close()


def test_what_no_rank_sends_is_an_error_at_once() -> None:
    name = f"wrong/{os.getpid()}"
    rank = Rank(name, 0, 3)
    with connect(name) as client:
        peer(client).tell(hello(own_place(1, 3)))
        assert "welcome" in peer(client).receive(60.0)[0]
        client.sendall(framed(b"nothing"))
        rank.join()
    assert isinstance(rank.error, CollectiveMismatch)
    assert f"pid {os.getpid()} has sent what no rank sends: it is no JSON" in str(rank.error)


OTHER_VERSIONS: list[bytes] = [
    encode(own_place(1, 2).as_dict()),
    encode({**hello(own_place(1, 2)), "protocol": PROTOCOL - 1}),
    json.dumps(hello(own_place(1, 2))).encode(),
    framed(b"[" * 1000),
    framed(b" " * 2000),
    b"\0",
]


@pytest.mark.parametrize("data", OTHER_VERSIONS, ids=range(len(OTHER_VERSIONS)))
def test_a_rank_of_another_version_is_told(data: bytes) -> None:
    name = f"version/{os.getpid()}"
    rank = Rank(name, 0, 2)
    with connect(name) as client:
        client.sendall(data)
        said = peer(client).receive(60.0)[0]["text"]
        assert "no rank of this version of shmtensor" in said or "what no rank sends" in said
    find_group(name, 1, 2, 60.0)
    rank.join()
    assert rank.error is None


def test_too_many_ranks_for_one_machine_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHMTENSOR_SECRET", raising=False)
    monkeypatch.delenv("SHMTENSOR_SECRET_FILE", raising=False)
    with pytest.raises(ValueError, match="too many ranks for one machine: 129, at most 128"):
        find_group("many", 1, 129, 60.0)


def test_processes_that_no_user_id_identifies_do_not_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find_group_module, "own_user", lambda: UNKNOWN)
    with pytest.raises(PermissionError, match="user namespace does not map"):
        find_group("nobody", 1, 2, 60.0)


def test_a_session_of_another_pid_namespace_is_no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getsid", lambda _: 7)
    assert is_of_this_session(os.getpid())
    monkeypatch.setattr(os, "getsid", lambda _: 0)
    assert not is_of_this_session(os.getpid())


MESSAGES: list[Any] = [
    {"welcome": 3},
    {"welcome": {"rank": 0}},
    {"go": True},
    [1],
    {"welcome": "rank 0", "plan": "memory"},
]


@pytest.mark.parametrize("message", MESSAGES, ids=str)
def test_what_is_no_rank_0_is_not_believed(message: Any) -> None:
    name = f"absurd/{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(address(name))
        listener.listen(8)

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                assert parse_hello(peer(connection).receive(60.0)[0]).rank == 1
                connection.sendall(framed(json.dumps(message).encode()))
                with suppress(OSError):
                    connection.recv(1)

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(CollectiveMismatch, match=r"rank 0|no rank sends"):
            find_group(name, 1, 2, 1.0)
        thread.join()


def test_the_kernel_tells_who_the_other_side_is() -> None:
    one, other = socket.socketpair()
    assert peer_of(one) == (os.getpid(), os.geteuid())
    one.close(), other.close()


# ---------------------------------------------------------------- places and messages
def test_why_two_ranks_share_no_memory() -> None:
    here = own_place(0, 2)
    assert here.why_apart(here) == ""
    assert Place.from_dict(json.loads(json.dumps(here.as_dict()))) == here
    values = here.as_dict()
    for name, value, text in (
        ("boot", "another", "on another host"),
        ("uid", 77, f"of another user: uid 77, not {os.geteuid()}"),
        ("pid_namespace", 5, "in another pid namespace"),
        ("net_namespace", 6, "in another net namespace"),
    ):
        assert text in Place(**{**values, name: value}).why_apart(here)


@pytest.mark.parametrize("change", [{"rank": "1"}, {"pid": True}, {"host": "x" * 65}, {"more": 1}])
def test_a_forged_place_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="not a rank's place"):
        Place.from_dict({**own_place(0, 2).as_dict(), **change})
    with pytest.raises(CollectiveMismatch, match="no rank of this version"):
        parse_hello({"protocol": PROTOCOL, "place": [[]]})


def test_errors_are_the_same_on_all_ranks() -> None:
    lost = decode_error(encode_error(PeerLostError("gone", "rank 3", 77, host="there")))
    assert isinstance(lost, PeerLostError)
    assert (str(lost), lost.name, lost.pid, lost.host) == ("gone", "rank 3", 77, "there")
    assert isinstance(decode_error(encode_error(PermissionError("no"))), PermissionError)
    assert isinstance(decode_error(encode_error(KeyError("no"))), RuntimeError)


def test_descriptors_of_a_bad_message_are_closed() -> None:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with one, other:
        before = len(os.listdir("/proc/self/fd"))
        fds = [one.fileno(), other.fileno()]
        socket.send_fds(one, [framed(b"[1, 2]")], fds)
        with pytest.raises(CollectiveMismatch, match="what no rank sends"):
            peer(other).receive()
        assert len(os.listdir("/proc/self/fd")) == before


def test_a_process_has_died_once_it_is_a_zombie() -> None:
    assert not has_died(os.getpid())
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert has_died(process.pid)
    process.wait()
    assert has_died(process.pid)


def test_addresses_of_this_host_are_known() -> None:
    assert is_own_address("127.0.0.1")
    assert is_own_address("localhost")
    assert is_own_address("no such name.", if_unknown=True)
    assert not is_own_address("no such name.")
    assert not is_own_address("192.0.2.1")  # of a network reserved for documentation
