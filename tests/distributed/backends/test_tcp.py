"""Groups over several hosts without MPI: the whole contract on two nodes, made of this machine by
splitting its ranks, as test_mpi.py does; the same cases.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import threading
import time
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from shmtensor import distributed as dist
from shmtensor.distributed.backends.mpi.messages import NEWS, PIECE, Wire
from shmtensor.distributed.backends.tcp import connection, connections
from shmtensor.distributed.backends.tcp.connect_ranks import (
    RANKS,
    accept,
    addresses,
    connect,
    exchange_infos,
    world_engine,
)
from shmtensor.distributed.backends.tcp.connection import FRAME, TAKEN, Broken
from shmtensor.distributed.backends.tcp.connections import Connections
from shmtensor.distributed.rendezvous import handshakes
from shmtensor.distributed.rendezvous.handshakes import prove_to_server
from shmtensor.distributed.rendezvous.hosts import address_of, keep_alive, spans_hosts
from shmtensor.distributed.rendezvous.store import HashStore, PrefixStore
from shmtensor.distributed.rendezvous.tcp_store import TCPStore
from shmtensor.errors import CollectiveMismatch, CollectiveTimeout, PeerLostError
from tests.interrupts import interrupt_after

from ..battery import sweep
from ..kills import SOON, STOPPED, one_round
from ..rendezvous.strangers import Stranger
from ..run_ranks import SECRET, free_port, run
from ..run_ranks import values as values_of
from .test_mpi import CONTRACT, check_contract, values

SPAN = ("LOCAL_WORLD_SIZE", "SHMTENSOR_SECRET", "SHMTENSOR_SECRET_FILE", "MASTER_ADDR")


def across(*cases: str, ranks: int = 4, node: int = 2) -> dict[int, list[dict[str, Any]]]:
    """The ranks' results of the cases."""
    port, env = free_port(), {"BACKEND": "gloo", "SHMTENSOR_SECRET": SECRET}
    env |= {"LOCAL_WORLD_SIZE": str(node), "SHMTENSOR_RANKS_PER_NODE": str(node)}
    program = f"{__package__}.across_nodes"
    processes = [Stranger(r, ranks, port, *cases, program=program, **env) for r in range(ranks)]
    records_by_rank: dict[int, list[dict[str, Any]]] = {}
    outputs = [each.process.communicate(timeout=250) for each in processes]
    for out, _ in outputs:
        for line in out.splitlines():
            if line.startswith("{"):
                record = json.loads(line)
                records_by_rank.setdefault(record["rank"], []).append(record)
    assert records_by_rank, outputs
    return records_by_rank


def test_the_contract_holds_across_two_nodes() -> None:
    check_contract(across(*CONTRACT))


@pytest.mark.parametrize("ending", ["kill", "point", "exception", "limit", "node", "stop"])
def test_every_end_of_a_rank_is_named_by_all_within_a_second(ending: str) -> None:
    """Each round checks its own bound, without the time that a rank had no CPU: kills.py."""
    rounds = [one_round(seed, ending, ranks, nodes=True) for seed, ranks in enumerate((2, 3, 4))]
    late = sorted(seconds for _, seconds, _ in rounds)
    assert late[1] < SOON + (STOPPED if ending == "stop" else 0.0)


def end_of_a_neighbour(ending: str) -> str:
    """Rank 0 ends while rank 1, on the same node, waits for a message of rank 2, on another one."""
    rank, group = dist.get_rank(), dist.GroupMember.WORLD
    assert group is not None
    engine: Any = group.native
    pids: list[Any] = [None] * 3
    dist.all_gather_object(pids, os.getpid())
    if rank == 0:
        if ending != "leaves":
            os.kill(os.getpid(), signal.SIGKILL)
        dist.destroy_process_group()
        os._exit(0)
    x = np.zeros(4, np.uint8)
    if rank == 2:
        wait_until_dead(pids[0])
        if ending == "dies, vague news":
            text = f"rank 0 (pid {pids[0]}) has died: its connection ended, host there"
            news = engine.wire.set_failure("lost", 0, text, name="rank 0", pid=pids[0])
            engine.wire.send_news(news, [1])
        elif ending == "leaves":
            engine.wait("reduce", [(engine.isend(x, 1), [])], 10.0)
        engine.wire.listen(10.0)  # until rank 1 has noticed, or has left
        return ""
    if ending == "dies, vague news":
        wait_until_dead(pids[0])
        while not engine.wire.find(NEWS):
            time.sleep(1e-3)
    try:
        engine.wait("reduce", [(engine.irecv(x, 2), [2])], 10.0)
    except PeerLostError as error:
        engine.report_failure("reduce", error)
        return str(error)
    engine.break_off("the message came")
    return "came"


def wait_until_dead(pid: int) -> None:
    with suppress(ProcessLookupError):
        descriptor = os.pidfd_open(pid)
        select.select([descriptor], [], [], 10.0)
        os.close(descriptor)


@pytest.mark.parametrize("ending", ["dies", "dies, vague news", "leaves"])
def test_a_rank_that_waits_for_another_node_notices_the_death_of_a_neighbour(ending: str) -> None:
    outcomes = run(end_of_a_neighbour, 3, ending, node=2)
    text = outcomes[1].value
    if ending == "leaves":
        assert text == "came", outcomes
    else:
        assert "rank 0" in text, outcomes
        assert "SIGKILL" in text, outcomes


def test_the_contract_holds_between_nodes_of_one_rank_and_of_two() -> None:
    """A sample of the battery: `python -m tests.distributed.battery --node 2` runs all of it."""
    for ranks, node in ((2, 1), (3, 2)):
        counts = values_of(run(sweep, ranks, 1, timeout=60.0, patience=200.0, node=node))
        assert len(set(counts)) == 1
        assert counts[0] > 40


def test_a_death_that_no_neighbour_notices_is_named_with_pid_and_host() -> None:
    records_by_rank = across("check_deaths")
    assert records_by_rank[2][0]["value"] == "knows nothing"
    for r in (0, 1):
        *who, seconds = records_by_rank[r][0]["value"]
        assert who[1:] == [True, True]
        assert seconds < 20
    assert records_by_rank[1][0]["value"][0] == "rank 3"


def test_missing_and_departed_ranks_are_named() -> None:
    (late,) = values(across("late"))
    assert [kind for kind, _ in late] == ["CollectiveTimeout"] * 4
    assert "0.5 s" in late[0][1]
    (leave,) = values(across("leave"))
    assert leave[2] == "left"
    assert all("rank 2" in leave[r] and "has left the group" in leave[r] for r in (0, 1, 3))


# ---------------------------------------------------------------- connections
@pytest.fixture
def pair() -> Any:
    """Both ends of a connection, as two ranks have them."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        here = socket.create_connection(listener.getsockname())
        peer, _ = listener.accept()
    who = [(11, "here"), (22, "there")]
    ends = Connections(0, {1: here}, who), Connections(1, {0: peer}, who)
    yield ends
    for each in ends:
        each.drop()


def bytes_of(*numbers: int) -> Any:
    return np.array(numbers, np.uint8)


def until_done(request: Any, *ends: Connections) -> None:
    end = time.monotonic() + 20
    while not request.is_done and time.monotonic() < end:
        for each in ends:
            each.progress()
    assert request.is_done


def test_messages_of_a_tag_come_in_order(pair: Any) -> None:
    a, b = pair
    early = [np.zeros(2, np.uint8) for _ in range(2)]
    requests = [b.receive(x, 0, 7) for x in early]
    messages = [(9, (1,)), (7, (2, 3)), (9, (4,)), (7, (5, 6)), (9, (7,)), (7, (8, 9)), (9, (10,))]
    for tag, x in messages:
        a.send(bytes_of(*x), 1, tag)
    for each in requests:
        until_done(each, b)
    assert [x.tolist() for x in early] == [[2, 3], [5, 6]]
    end = time.monotonic() + 20  # until all have come, to receive them in another order
    while len(b._links[0].unexpected[9]) < 4 and time.monotonic() < end:
        b.progress()
    for want in (1, 4, 7, 10):
        late = np.zeros(1, np.uint8)
        until_done(b.receive(late, 0, 9), b)
        assert late.tolist() == [want]
    late = np.zeros(2, np.uint8)
    until_done(b.receive(late, 0, 7), b)
    assert late.tolist() == [8, 9]


def test_large_messages_go_both_ways_at_once(pair: Any) -> None:
    xs = [np.random.default_rng(r).integers(0, 256, 30_000_000, np.uint8) for r in range(2)]
    outs = [np.zeros_like(x) for x in xs]
    requests = [each.send(x, 1 - r, 1) for r, (each, x) in enumerate(zip(pair, xs, strict=True))]
    requests += [each.receive(out, 1 - r, 1) for r, (each, out) in enumerate(zip(pair, outs))]
    for each in requests:
        until_done(each, *pair)
    assert np.array_equal(outs[0], xs[1])
    assert np.array_equal(outs[1], xs[0])


def test_a_message_is_taken_when_somebody_asks(pair: Any) -> None:
    a, b = pair
    request = a.send(bytes_of(5), 1, 3, until_received=True)
    for _ in range(20):
        a.progress(), b.progress()
    assert not a.are_done([request])
    b.receive(np.zeros(1, np.uint8), 0, 3)
    until_done(request, a, b)


def test_last_messages_arrive_although_earlier_ones_are_unread(pair: Any) -> None:
    a, b = pair
    b.send(bytes_of(1, 2, 3), 0, 5)  # a never reads it
    x = np.arange(3_000_000, dtype=np.int64).view(np.uint8)
    out = np.zeros_like(x)
    a.send(x, 1, 4)
    closing = threading.Thread(target=a.close)
    closing.start()
    until_done(b.receive(out, 0, 4), b)
    closing.join()
    assert np.array_equal(out, x)


def test_a_dead_peer_without_a_ledger_entry_is_gone(
    pair: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "NEWS_FIRST", 60.0)
    a, b = pair
    wire = Wire(b, 1, range(2))
    a.drop()
    end = time.monotonic() + 20
    while not b._closed_at and time.monotonic() < end:
        wire.receive_news()
    assert b.find_dead() == {}  # others have time to send the cause
    monkeypatch.setattr(connections, "NEWS_FIRST", 0.0)
    assert b.find_dead() == {0: (11, "here")}
    b.local_ranks = [0]
    assert b.find_dead() == {}


def test_the_last_group_closes_the_connections(pair: Any) -> None:
    a, b = pair
    wires = [Wire(a, 0, range(2)) for _ in range(2)]
    wires[0].close()
    until_done(b.receive(np.zeros(1, np.uint8), 0, 1) if a.send(bytes_of(1), 1, 1) else None, b)
    wires[1].close()
    until_dead_is(b, [0])


def test_a_forked_child_does_not_keep_a_connection_alive(pair: Any) -> None:
    a, b = pair
    wait, go = os.pipe()
    if not (pid := os.fork()):
        os.close(go)
        os.read(wait, 1)
        os._exit(0)
    os.close(wait)
    a.drop()  # as when this process ends; the child still runs
    until_dead_is(b, [0])
    os.close(go)
    os.waitpid(pid, 0)


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (FRAME.pack(3, 0, 2**63), "a frame of 9223372036854775808 bytes"),
        (FRAME.pack(3, 0, PIECE + 1), f"a frame of {PIECE + 1} bytes"),
        (FRAME.pack(TAKEN, 5, 0), "confirms a message that was not sent: 5"),
    ],
)
def test_a_frame_that_cannot_be_ends_the_connection(pair: Any, frame: bytes, text: str) -> None:
    a, b = pair
    a._links[1].socket.send(frame)
    with pytest.raises(Broken, match=text):
        while True:
            b.progress()
    until_dead(a, b)


def test_a_frame_that_an_interrupt_cuts_ends_the_connection(pair: Any) -> None:
    """The bytes that were read may be lost, and what follows would be misread."""
    a, b = pair
    b.receive(np.zeros(8, np.uint8), 0, 1)
    a.send(bytes_of(*range(8)), 1, 1)
    link = b._links[0]
    select.select([link.socket], [], [], 20)
    assert interrupt_after(20, b.progress, connection.__file__)
    until_dead(a, b)


def until_dead(a: Connections, b: Connections) -> None:
    until_dead_is(a, [1])
    until_dead_is(b, [0])


def until_dead_is(connections: Connections, dead: list[int]) -> None:
    end = time.monotonic() + 20
    while not connections.find_dead() and time.monotonic() < end:
        connections.progress()
    assert list(connections.find_dead()) == dead


# ---------------------------------------------------------------- the begin
def test_what_makes_a_group_span_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SPAN:
        monkeypatch.delenv(name, raising=False)
    assert not spans_hosts(4, "tcp://10.0.0.1:5000")
    monkeypatch.setenv("SHMTENSOR_SECRET", SECRET)
    assert not spans_hosts(4, "tcp://10.0.0.1:5000")  # the ranks find out when they meet
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert not spans_hosts(4, "tcp://10.0.0.1:5000")
    assert spans_hosts(8, None)
    assert not spans_hosts(8, "a name")
    assert address_of("tcp://[::1]:5000") == ("::1", 5000)
    with pytest.raises(ValueError, match="several hosts need an address"):
        address_of("tcp://host")


def test_without_a_secret_no_rank_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1")
    monkeypatch.delenv("SHMTENSOR_SECRET", raising=False)
    with pytest.raises(PermissionError, match="need a secret in common"):
        dist.init_process_group("gloo", f"tcp://127.0.0.1:{free_port()}", rank=0, world_size=2)


def test_a_rank_with_another_secret_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1")
    monkeypatch.setenv("SHMTENSOR_SECRET", "5d" * 16)
    with TCPStore("127.0.0.1", 0, is_master=True, secret=bytes.fromhex(SECRET)) as store:
        place = f"tcp://127.0.0.1:{store.port}"
        with pytest.raises(PermissionError, match="does not know the run's secret"):
            dist.init_process_group("gloo", place, rank=1, world_size=2, timeout=20)


def test_a_port_in_use_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1")
    monkeypatch.setenv("SHMTENSOR_SECRET", SECRET)
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(OSError, match=f"cannot listen at {place}: Address already in use"):
            dist.init_process_group("gloo", f"tcp://{place}", rank=0, world_size=2)


KEY = b"s" * 16


def connect_and_accept(
    infos: list[dict[str, Any]], listener: socket.socket, secret: bytes, patience: float = 5.0
) -> tuple[dict[int, socket.socket], dict[int, socket.socket]]:
    """The connections of rank 1 to rank 0, and of rank 0 from rank 1."""
    accepted: list[dict[int, socket.socket]] = []
    deadline = time.monotonic() + patience
    thread = threading.Thread(
        target=lambda: accepted.append(accept(0, {1}, listener, KEY, deadline))
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
    infos = place(listener, "127.77.77.77")  # no listener there
    connected, accepted = connect_and_accept(infos, listener, KEY)
    assert (list(connected), list(accepted)) == ([0], [1])
    close(connected, accepted)


def test_a_peer_with_another_key_is_refused(listener: socket.socket) -> None:
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
    connected, accepted = connect_and_accept(place(listener), listener, KEY, patience=60.0)
    assert (list(connected), list(accepted)) == ([0], [1])
    with strangers[-1].makefile("rb") as file:  # a challenge, and the end
        assert len(file.read()) == len(handshakes.MAGIC) + handshakes.NONCE
    for each in strangers:
        each.close()
    close(connected, accepted)


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


@pytest.mark.parametrize("dead", [0, 1], ids=["accepts", "connects"])
def test_a_rank_that_dies_before_it_connects_is_missed_at_the_timeout(
    dead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rank dies after it has published its address."""
    monkeypatch.setenv("SHMTENSOR_SECRET", SECRET)
    monkeypatch.delenv("SHMTENSOR_ROUND", raising=False)
    store = HashStore()
    dead_rank = {"world": 2, "pid": 5, "host": "there", "port": free_port(), "key": "00" * 16}
    published = json.dumps({**dead_rank, "addresses": ["127.0.0.1"]})
    PrefixStore("world/0/0", store).set(str(dead), published)
    with pytest.raises(CollectiveTimeout, match=rf"has no connection to ranks \[{dead}\]"):
        world_engine(1 - dead, 2, 0.5, store, 0)


@pytest.mark.parametrize("twice", [True, False], ids=["rank", "world size"])
def test_ranks_that_do_not_fit_are_named(twice: bool) -> None:
    store = HashStore()
    store.set("0" if twice else "1", json.dumps({"world": 3, "pid": 5, "host": "there"}))
    mine = {"world": 2, "pid": 4, "host": "here"}
    with pytest.raises(CollectiveMismatch, match="pid 5 on there" if twice else "of 3"):
        exchange_infos(store, 0, 2, mine, 5.0)


def test_who_proves_the_secret_and_is_no_rank_of_the_group_is_not_taken_for_one() -> None:
    links: list[dict[int, Any]] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        infos = [{"addresses": ["127.0.0.1"], "port": listener.getsockname()[1]}]
        end = time.monotonic() + 60
        server = threading.Thread(
            target=lambda: links.append(accept(0, {1}, listener, b"key", end))
        )
        server.start()
        for ranks in (RANKS.pack(2, 0), RANKS.pack(1, 1), b"\1"):
            with socket.create_connection(listener.getsockname()) as stranger:
                prove_to_server(stranger, b"key", end)
                stranger.sendall(ranks)
                stranger.shutdown(socket.SHUT_WR)
                assert stranger.recv(1) == b""
        links.append(connect(1, [0], infos, b"key", end))
        server.join()
    assert sorted(map(sorted, links)) == [[0], [1]]
    for each in links:
        for link in each.values():
            link.close()
