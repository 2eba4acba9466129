"""How ranks find their group by a name: other users, silent processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading

import pytest

from shmtensor import native
from shmtensor.distributed.rendezvous import find_group, handshakes
from shmtensor.distributed.rendezvous.find_group import address, find_block, peer_of
from shmtensor.errors import CollectiveMismatch, CollectiveTimeout

NOBODY = 65534
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")

# Another user's process; it tells what happens and ends with its input.
HOLDER = """
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
    listener.bind(bytes.fromhex(sys.argv[1]))
    listener.listen(8)
    print("holds", flush=True)
    sys.stdin.read()
"""
STRANGER = """
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stranger:
    while stranger.connect_ex(bytes.fromhex(sys.argv[1])):
        pass
    print("heard", stranger.recv(1000), flush=True)
"""


def start(program: str, name: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", program, address(name).hex()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


class Rank(threading.Thread):
    """A rank in a thread of this process."""

    def __init__(self, name: str, rank: int, world: int) -> None:
        super().__init__()
        self.arguments = name, rank, world, 60.0
        self.handle = b""
        self.start()

    def run(self) -> None:
        block, self.handle = find_block(*self.arguments)
        del block


@AS_ROOT
@pytest.mark.parametrize("rank", [0, 1])
def test_a_name_that_another_user_holds_is_named(rank: int) -> None:
    name = f"held/{os.getpid()}/{rank}"
    with start(HOLDER, name) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "holds\n"
        with pytest.raises(PermissionError, match=f"uid {NOBODY}, pid {holder.pid}"):
            find_block(name, rank, 2, 60.0)
        holder.communicate("")


@AS_ROOT
def test_another_users_process_hears_nothing_from_rank_0() -> None:
    name = f"heard/{os.getpid()}"
    rank = Rank(name, 0, 2)
    with start(STRANGER, name) as stranger:
        assert stranger.stdout is not None
        assert stranger.stdout.readline() == "heard b''\n"
    _, handle = find_block(name, 1, 2, 60.0)
    rank.join()
    assert handle == rank.handle
    native.acknowledge(handle)


def test_a_hundred_silent_processes_delay_no_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshakes, "PATIENCE", 1000.0)  # nobody is served by waiting for an end
    name = f"silent/{os.getpid()}"
    rank = Rank(name, 0, 3)
    strangers = []
    while len(strangers) < 100:
        stranger = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        if stranger.connect_ex(address(name)):
            stranger.close()  # rank 0 does not listen yet
        else:
            strangers.append(stranger)
    handles = {find_block(name, r, 3, 60.0)[1] for r in (2, 1)}
    rank.join()
    assert handles == {rank.handle}
    for each in strangers:
        each.close()
    native.acknowledge(rank.handle)


def test_a_name_in_use_is_waited_for() -> None:
    name = f"used/{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as earlier:
        earlier.bind(address(name))
        with pytest.raises(CollectiveTimeout, match="the name is taken"):
            find_block(name, 0, 2, 0.05)
        earlier.listen(8)
        with pytest.raises(CollectiveTimeout, match="the name is taken"):
            find_block(name, 0, 2, 0.05)
        with pytest.raises(CollectiveTimeout, match="rank 0 is missing"):
            find_block(name, 1, 2, 0.05)  # it connects, and hears nothing
    rank = Rank(name, 0, 2)
    _, handle = find_block(name, 1, 2, 60.0)
    rank.join()
    native.acknowledge(handle)


def test_a_handle_of_absurd_size_is_not_believed() -> None:
    name = f"absurd/{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(address(name))
        listener.listen(8)

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(8)
                connection.sendall(find_group.HELLO.pack(2, 2**32 - 1))
                connection.recv(1)

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(CollectiveMismatch, match=r"is not rank 0: .* 4294967295 bytes"):
            find_block(name, 1, 2, 60.0)
        thread.join()


def test_the_kernel_tells_who_the_other_side_is() -> None:
    one, other = socket.socketpair()
    assert peer_of(one) == (os.getpid(), os.geteuid())
    one.close(), other.close()
