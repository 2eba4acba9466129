"""The connections by which ranks on different nodes see one another die, without MPI."""

from __future__ import annotations

import os
import socket
import threading
import time
from typing import Any

import pytest

from shmtensor.distributed.backends.mpi import liveness_across_nodes as watch
from shmtensor.distributed.backends.mpi.liveness_across_nodes import (
    Watch,
    accept,
    addresses,
    connect,
    keep_alive,
)
from shmtensor.distributed.rendezvous import handshakes

SECRET = b"s" * 16


def connect_and_accept(
    infos: list[dict[str, Any]], listener: socket.socket, secret: bytes, patience: float = 5.0
) -> tuple[dict[int, socket.socket], dict[int, socket.socket]]:
    """The connections of rank 1 to rank 0, and of rank 0 from rank 1."""
    accepted: list[dict[int, socket.socket]] = []
    deadline = time.monotonic() + patience
    thread = threading.Thread(
        target=lambda: accepted.append(accept(0, {1}, listener, SECRET, deadline))
    )
    thread.start()
    connected = connect(1, [0], infos, secret, deadline)
    thread.join()
    return connected, accepted[0]


def close(*links: dict[int, socket.socket]) -> None:
    for each in links:
        for link in each.values():
            link.close()


@pytest.fixture
def listener() -> Any:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(handshakes.BACKLOG)
        yield server


def place(listener: socket.socket, *before: str) -> list[dict[str, Any]]:
    return [{"addresses": [*before, "127.0.0.1"], "port": listener.getsockname()[1]}]


def test_ranks_connect_where_they_can_be_reached(listener: socket.socket) -> None:
    connected, accepted = connect_and_accept(
        place(listener, "127.77.77.77"), listener, SECRET
    )  # no listener there
    assert (list(connected), list(accepted)) == ([0], [1])
    close(connected, accepted)


def test_strangers_are_refused(listener: socket.socket) -> None:
    connected, accepted = connect_and_accept(
        place(listener), listener, b"another secret..", patience=0.5
    )
    assert (connected, accepted) == ({}, {})


def test_three_hundred_silent_strangers_delay_no_rank(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshakes, "PATIENCE", 1000.0)  # nobody is served by waiting for an end
    address = listener.getsockname()
    talking = socket.create_connection(address)
    talking.sendall(b"GET / HTTP/1.1\r\nHost: nobody\r\n\r\n")
    strangers = [talking] + [socket.create_connection(address) for _ in range(300)]
    connected, accepted = connect_and_accept(place(listener), listener, SECRET, patience=60.0)
    assert (list(connected), list(accepted)) == ([0], [1])
    assert strangers[-1].recv(1) == b""
    for each in strangers:
        each.close()
    close(connected, accepted)


def test_an_end_is_reported_after_a_delay_for_news(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "NEWS_FIRST", 0.05)
    pairs = [socket.socketpair() for _ in range(3)]
    watcher = Watch({r + 4: end_here for r, (end_here, _) in enumerate(pairs)}, [])
    assert watcher.dead_ranks() == []
    pairs[2][1].close()
    assert watcher.dead_ranks() == []  # others have time to send the cause
    pairs[1][1].close()
    end = time.monotonic() + 10
    while not (dead := watcher.dead_ranks()) and time.monotonic() < end:
        time.sleep(0.01)
    assert dead == [5, 6]
    assert watcher.dead_ranks() == [5, 6]
    watcher.close()
    pairs[0][1].close()


def test_a_forked_child_does_not_keep_a_connection_alive() -> None:
    here, peer = socket.socketpair()
    watcher = Watch({1: here}, [])
    wait, go = os.pipe()
    if not (pid := os.fork()):
        os.close(go)
        os.read(wait, 1)
        os._exit(0)
    os.close(wait)
    watcher.close()  # as when this process ends; the child still runs
    peer.settimeout(10)
    assert peer.recv(1) == b""
    os.close(go)
    os.waitpid(pid, 0)
    peer.close()


def test_a_silent_machine_is_probed(listener: socket.socket) -> None:
    with socket.create_connection(listener.getsockname()) as link:
        keep_alive(link)
        assert link.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        idle, between, most = (
            link.getsockopt(socket.IPPROTO_TCP, name)
            for name in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        )
        assert idle + between * most <= 10


def test_addresses_are_reachable() -> None:
    for address in addresses():
        assert not address.startswith("127.")
        with socket.socket() as server:
            server.bind((address, 0))  # the address belongs to this machine
