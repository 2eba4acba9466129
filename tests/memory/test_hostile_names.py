"""Hostile publishers, hostile clients and forged entries of the kernel's table: nothing crashes,
hangs or leaks, and honest processes are served."""

from __future__ import annotations

import os
import resource
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest

from shmtensor import memory
from shmtensor.errors import DomainError
from shmtensor.memory import list_names, name_protocol, named_tensor_server
from shmtensor.memory.control_message import encode
from shmtensor.memory.name_protocol import Layout

from . import hostile
from .actor import Actor, actors
from .fresh import until
from .hostile import ANSWERS, BECOME, LAYOUT, NOBODY, REQUESTS, forged_publisher

NAME = f"hostile/{os.getpid()}"
SERVE = f"t = st.arange(12, dtype=st.float32).reshape(3, 4); memory.publish({NAME!r}, t)"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")


@contextmanager
def publisher_of(forged: str, uid: int) -> Iterator[None]:
    """A hostile publisher that is user `uid`."""
    if uid == os.geteuid():
        with forged_publisher(NAME, ANSWERS[forged]):
            yield
        return
    with actors(1) as (actor,):
        actor.do(f"from memory import hostile; {BECOME}")
        actor.do(f"p = hostile.ForgedPublisher({uid}, {NAME!r}, hostile.ANSWERS[{forged!r}])")
        yield


# ---- hostile publishers
@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize("forged", ANSWERS)
def test_forged_answers_are_domain_errors(forged: str, readonly: bool) -> None:
    if readonly and forged == "a file that is read-only":
        with publisher_of(forged, os.geteuid()):
            assert memory.open(NAME, readonly=True).tolist() == np.zeros((3, 4)).tolist()
        return
    with publisher_of(forged, os.geteuid()):
        with pytest.raises(DomainError, match=r"open: the holder of 'hostile/.* invalid answer"):
            memory.open(NAME, readonly=readonly)
        names = [name for name in memory.names() if name.name == NAME]
        assert [(name.name, name.owner) for name in names] == [(NAME, os.geteuid())]


def test_the_honest_answer_is_good() -> None:
    """What the forged answers are changes of."""
    with forged_publisher(NAME, hostile.answer(hostile.sealed)):
        t = memory.open(NAME)
        t[2, 3] = 1
        assert t.sum() == 1


@pytest.mark.parametrize("refusal", ["words", None, -1, 2**70, [1], {"a": 1}])
def test_a_forged_refusal_is_a_permission_error(refusal: object) -> None:
    forged = hostile.answer(refused="\x1b[2J", mode=refusal)
    with (
        forged_publisher(NAME, forged),
        pytest.raises(PermissionError, match=r"may not write it: an unknown mode of user"),
    ):
        memory.open(NAME)


def test_silence_is_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shmtensor.memory.name_protocol.ANSWER_TIMEOUT", 0.2)
    with forged_publisher(NAME, None):
        with pytest.raises(TimeoutError, match="does not answer"):
            memory.open(NAME)
        assert [n.pid for n in memory.names() if n.name == NAME] == [None]


def test_a_full_queue_is_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shmtensor.memory.name_protocol.ANSWER_TIMEOUT", 0.2)
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        listener.bind(name_protocol.address(os.geteuid(), NAME))
        listener.listen(0)
        stack.enter_context(hostile.connected(os.geteuid(), NAME))
        with pytest.raises(TimeoutError, match="does not answer: pid 0"):
            memory.open(NAME)
        assert not [n for n in memory.names() if n.name == NAME]  # not confirmed


def test_whoever_closes_at_once_has_no_such_name() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(name_protocol.address(os.geteuid(), NAME))
        with pytest.raises(FileNotFoundError, match="no such name"):
            memory.open(NAME)


@needs_root
@pytest.mark.parametrize("forged", ["8000 brackets", "no seals", "a file that is too short"])
def test_another_users_forged_answers_are_domain_errors(forged: str) -> None:
    with (
        publisher_of(forged, NOBODY),
        pytest.raises(DomainError, match=r"the holder of 'hostile/.*' of user 65534 sends"),
    ):
        memory.open(NAME, owner=NOBODY, readonly=True)


@needs_root
def test_another_users_domain_is_not_joined() -> None:
    with actors(1) as (actor,):
        actor.do(f"from memory import hostile; {BECOME}; forged = hostile.domain_answer()")
        actor.do(f"p = hostile.ForgedPublisher({NOBODY}, {NAME!r}, forged)")
        with pytest.raises(DomainError, match="invalid answer: 3 descriptors"):
            memory.open(NAME, owner=NOBODY)
        assert len(memory.domains()) == 1


def test_layouts_are_computed_without_bounds() -> None:
    layout = Layout.of({**LAYOUT, "shape": [3, 4], "strides": [-16, 4], "offset": 32})
    assert (layout.begin, layout.end, layout.nbytes) == (0, 48, 48)
    assert layout.array(np.zeros(48, np.uint8)).strides == (-16, 4)
    empty = Layout.of({**LAYOUT, "shape": [0, 2**62], "strides": [2**62, 2**62]})
    assert (empty.begin, empty.end, empty.nbytes) == (0, 0, 0)


# ---- hostile clients
def assert_serves(actor: Actor, descriptors: str | None = None) -> None:
    t = memory.open(NAME)
    assert t.sum() == 66
    del t
    if descriptors is not None:
        wait = (
            "import time; end = time.monotonic() + 20\n"
            f"while len(os.listdir('/proc/self/fd')) > {descriptors} and time.monotonic() < end:\n"
            "    time.sleep(0.01)\n"
            "out = len(os.listdir('/proc/self/fd'))"
        )
        assert actor.do(wait) == descriptors


COUNT = "out = len(os.listdir('/proc/self/fd'))"


def test_hostile_requests_end_their_own_connection() -> None:
    with actors(1) as (actor,):
        actor.do(SERVE)
        descriptors = actor.do(COUNT)
        for request in REQUESTS.values():
            with hostile.connected(os.geteuid(), NAME) as connection:
                connection.settimeout(20)
                connection.send(request)
                assert connection.recv(1000) == b""
        assert_serves(actor, descriptors)


def test_descriptors_in_requests_are_not_kept() -> None:
    with actors(1) as (actor,):
        actor.do(SERVE)
        descriptors = actor.do(COUNT)
        for n in (1, 4, 200):
            hostile.request_with_descriptors(os.geteuid(), NAME, n)
        assert_serves(actor, descriptors)


def test_clients_that_never_read_hold_nobody_up() -> None:
    with actors(1) as (actor,):
        actor.do(SERVE)
        clients = [
            threading.Thread(target=hostile.ask_and_never_read, args=(os.geteuid(), NAME))
            for _ in range(30)
        ]
        for client in clients:
            client.start()
        while any(client.is_alive() for client in clients):  # each ends when it is closed
            assert_serves(actor)
        for client in clients:
            client.join()
        with hostile.connected(os.geteuid(), NAME) as connection:
            connection.send(encode({"ask": "describe"}))
            connection.recv(1000)
            timeouts = "{c.gettimeout() for s in thread.servers.values() for c in s.clients}"
            line = f"thread = named_tensor_server.server_thread; out = {timeouts}"
            assert actor.do(line) == "{0.0}"  # no send waits


def test_silent_clients_give_way_when_no_descriptor_is_free() -> None:
    limit = f"import resource; resource.setrlimit({resource.RLIMIT_NOFILE}, (80, 4096))"
    with actors(1) as (actor,), ExitStack() as stack:
        actor.do(f"{SERVE}; {limit}")
        for _ in range(100):
            stack.enter_context(hostile.connected(os.geteuid(), NAME))
        assert_serves(actor)


STRANGERS = "out = [len(s.clients) for s in named_tensor_server.server_thread.servers.values()]"


@needs_root
@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_silent_strangers_are_few_and_honest_ones_are_served(mode: int) -> None:
    with actors(2) as (publisher, stranger):
        publisher.do(SERVE.replace(", t)", f", t, mode={mode})"))
        stranger.do(f"from memory import hostile; {BECOME}")
        stranger.do(f"clients = [hostile.connected(0, {NAME!r}) for _ in range(100)]")
        assert_serves(publisher)
        if mode == 0o644:
            assert stranger.do(
                f"out = memory.open({NAME!r}, owner=0, readonly=True).sum().item()"
            ) == "66.0"  # fmt: skip
        assert int(publisher.do(STRANGERS)[1:-1]) <= named_tensor_server.STRANGERS_PER_USER


@needs_root
@pytest.mark.parametrize("mode", [0o600, 0o640])
def test_whom_the_mode_excludes_is_refused_unread(mode: int) -> None:
    with actors(2) as (publisher, stranger):
        publisher.do(SERVE.replace(", t)", f", t, mode={mode})"))
        stranger.do(f"from memory import hostile; {BECOME}")
        stranger.do(
            f"c = hostile.connected(0, {NAME!r})\n"
            "from shmtensor.memory import control_message\n"
            "answer, fds = control_message.receive(c, 0, 20)\n"  # without a request
            "out = answer, fds, c.recv(100)"
        )
        assert stranger.do("out = answer, fds, c.recv(100)") == repr(
            ({"refused": True, "mode": mode}, [], b"")
        )
        for question in ("describe", "open"):
            line = f"name_protocol.ask(0, {NAME!r}, {{'ask': {question!r}}}, 20)[1:]"
            assert stranger.do(f"out = {line}") == repr(({"refused": True, "mode": mode}, []))
        said = stranger.fails(f"memory.open({NAME!r}, owner=0, readonly=True)")
        assert said.startswith("PermissionError open: 'hostile/")
        assert f"user 65534 may not read it: mode {mode:04o} of user 0" in said
        names = stranger.do(f"out = [n.pid for n in memory.names() if n.name == {NAME!r}]")
        assert names == "[None]"
        assert_serves(publisher)


@needs_root
def test_root_does_not_get_another_users_domain() -> None:
    with actors(1) as (publisher,):
        publisher.do(BECOME)
        publisher.do(SERVE)
        for readonly in (False, True):
            with pytest.raises(PermissionError, match=r"user 0 may not .*: mode 0600 of user"):
                memory.open(NAME, owner=NOBODY, readonly=readonly)
        (name,) = (n for n in memory.names() if n.name == NAME)
        assert (name.pid, name.shape, name.owner) == (publisher.process.pid, (3, 4), NOBODY)
        assert len(memory.domains()) == 1


# ---- who takes the names of a dead publisher
HOLD = """
import socket
held = []
def hold(name, backlog):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    held.append(s)
    s.bind(name_protocol.address(0, name))
    if backlog is None:
        return
    s.listen(backlog)
    for _ in range(not backlog):
        held.append(hostile.connected(0, name))
"""
FOLLOWED = "out = sorted(n for u, n in named_tensor_server.server_thread.servers)"


def stop(actor: Actor) -> None:
    os.kill(actor.process.pid, signal.SIGSTOP)
    os.waitpid(actor.process.pid, os.WUNTRACED)


def holders(name: str = NAME) -> list[int | None]:
    return [n.pid for n in memory.names() if n.name == name]


@needs_root
@pytest.mark.parametrize("backlog", [None, 0, 512], ids=["bound", "full", "silent"])
def test_who_takes_the_names_of_a_dead_publisher_stalls_nobody(backlog: int | None) -> None:
    """Another user binds them first: bound alone, with a full queue, or silent."""
    names = [f"{NAME}/{i}" for i in range(8)]
    unrelated = f"{NAME}/unrelated"
    with actors(4) as (publisher, follower, other, stranger):
        publisher.do(f"xs = [st.ones(3) for _ in range(8)]; names = {names!r}")
        publisher.do("for n, x in zip(names, xs): memory.publish(n, x)")
        other.do(f"y = st.ones(3); memory.publish({unrelated!r}, y)")
        follower.do(f"ts = [memory.open(n) for n in {names!r}]")
        follower.do(f"z = st.ones(3); memory.publish({NAME!r}, z)")
        follower.do("named_tensor_server.TAKE_OVER_TIMEOUT = 3600.0")  # whoever waits is noticed
        stranger.do(f"from memory import hostile; {BECOME}\n{HOLD}")
        stop(follower)
        publisher.kill()
        stranger.do(f"for n in {names!r}: hold(n, {backlog})")
        os.kill(follower.process.pid, signal.SIGCONT)
        assert follower.do(f"out = memory.open({unrelated!r}).sum().item()") == "3.0"
        fork = "pid = os.fork()\nif not pid: os._exit(0)\nout = os.waitpid(pid, 0)[1]"
        assert follower.do(fork) == "0"
        assert other.do(f"out = memory.open({NAME!r}).sum().item()") == "3.0"
        assert follower.do("out = sum(t.sum().item() for t in ts)") == "24.0"
        if backlog:  # the kernel has said who holds them
            until(lambda: follower.do(FOLLOWED) == repr([NAME]), "names of another user")
            return
        stranger.kill()  # it is not known who held them
        until(lambda: holders(names[-1]) == [follower.process.pid], "nobody took the names over")
        assert other.do(f"out = memory.open({names[0]!r}).sum().item()") == "3.0"


@needs_root
def test_a_name_whose_holder_stays_unknown_is_given_up() -> None:
    with actors(3) as (publisher, follower, stranger):
        publisher.do(SERVE)
        follower.do(f"t = memory.open({NAME!r}); named_tensor_server.TAKE_OVER_TIMEOUT = 0.1")
        stranger.do(f"from memory import hostile; {BECOME}\n{HOLD}")
        stop(follower)
        publisher.kill()
        stranger.do(f"hold({NAME!r}, 0)")
        os.kill(follower.process.pid, signal.SIGCONT)
        until(lambda: follower.do(FOLLOWED) == "[]", "the name is followed for ever")
        assert follower.do("out = t.sum().item()") == "66.0"


@pytest.mark.parametrize("is_same", [True, False], ids=["the same tensor", "another"])
def test_who_opens_a_name_that_is_being_taken_over_follows_its_new_holder(is_same: bool) -> None:
    late = "named_tensor_server.ServerThread.take_over = lambda self, server: None"
    server = "(s,) = named_tensor_server.server_thread.servers.values()"
    with actors(3) as (publisher, follower, heir):
        publisher.do(SERVE)
        follower.do(f"t = memory.open({NAME!r}); {late}")
        if is_same:
            heir.do(f"t = memory.open({NAME!r})")
        publisher.kill()
        if not is_same:
            heir.do(SERVE)
        until(lambda: holders() == [heir.process.pid], "nobody took over")
        follower.do(f"u = memory.open({NAME!r}); u[0, 0] = 1")
        about = "s.take_over_end, len(s.opened), s.link is None"
        assert follower.do(f"{server}; out = {about}") == f"(0.0, {1 + is_same}, False)"
        assert follower.do("out = t[0, 0].item()") == f"{float(is_same)}"
        assert heir.do("out = t[0, 0].item()") == "1.0"


# ---- forged entries
GOOD = b"0000000000000000: 00000002 00000000 00010000 0005 01 12345 @shmtensor:3:7:a/b"
FORGED = {
    "another protocol": GOOD.replace(b"0005", b"0001"),
    "not listening": GOOD.replace(b"00010000", b"00000000"),
    "no valid name": GOOD + b" c",
    "a control character": GOOD + b"\r",
    "a NUL": GOOD + b"\0",
    "no UTF-8": GOOD + b"\xff",
    "too long a name": GOOD + b"x" * 80,
    "another prefix": GOOD.replace(b"@shmtensor", b"@xshmtensor"),
    "an older version": GOOD.replace(b":3:", b":2:"),
    "a user that is no number": GOOD.replace(b":7:", b":x:"),
    "a user in other digits": GOOD.replace(b":7:", ":\u0667:".encode()),
    "a user with zeros before it": GOOD.replace(b":7:", b":07:"),
    "a user beyond 32 bits": GOOD.replace(b":7:", b":4294967296:"),
    "no user": GOOD.replace(b":7:", b":"),
    "a part of a line": GOOD[10:],
}


@pytest.mark.parametrize("forged", FORGED)
def test_lines_that_are_no_names_are_left_out(forged: str) -> None:
    assert list_names.listed(GOOD) == {(7, "a/b")}
    assert list_names.listed(GOOD + b"\n" + FORGED[forged] + b"\n") == {(7, "a/b")}


def test_each_user_has_its_turn() -> None:
    own, a, b = os.geteuid(), os.geteuid() + 1, os.geteuid() + 2
    pairs = [(own, "z"), (a, "1"), (b, "1"), (a, "2"), (a, "3")]
    assert list_names.in_turn(set(pairs)) == pairs


TOKEN = b"forged%d" % os.getpid()
ADDRESSES = [
    b"\0shmtensor:3:0:\xff" + TOKEN,
    b"\0shmtensor:3:x:" + TOKEN,
    b"\0shmtensor:3:0:a\n" + TOKEN,
    b"\0shmtensor:3:0:" + TOKEN + b"\nb",
    b"\0shmtensor:3:0:" + TOKEN + b"\0b",
    b"\0x\n" + GOOD.replace(b":7:a/b", b":%d:" % os.geteuid() + TOKEN),
    b"\0shmtensor:3:0:" + TOKEN * 3 + b"y" * 60,
]


def test_sockets_with_other_names_are_left_out() -> None:
    """The last but one is a further line of the table, in the kernel's format."""
    with ExitStack() as stack:
        for address in ADDRESSES:
            listener = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            listener.bind(address)
            listener.listen()
        listed = list_names.listed(Path("/proc/net/unix").read_bytes())
        assert (os.geteuid(), TOKEN.decode()) in listed
        assert not [name for name in memory.names() if TOKEN.decode() in name.name]


@needs_root
def test_a_name_that_another_user_holds_is_left_out() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as squatter:
        squatter.bind(name_protocol.address(NOBODY, NAME))
        squatter.listen()
        assert not [name for name in memory.names() if name.name == NAME]


SILENT = """
import resource, socket
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
sockets = []
for i in range(1000):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.bind(name_protocol.address(os.geteuid(), f"silent/{i}/{os.getppid()}"))
    s.listen()
    sockets.append(s)
"""


def test_a_thousand_silent_holders_take_a_second_in_all() -> None:
    with actors(2) as (hostile_actor, honest):
        hostile_actor.do(SILENT)
        honest.do(SERVE)
        start = time.monotonic()
        names = memory.names()
        assert time.monotonic() - start < 30  # one after the other: 1000 s
        assert (NAME, honest.process.pid) in [(name.name, name.pid) for name in names]
        silent = [n for n in names if n.name.startswith("silent/")]
        assert silent
        assert {n.pid for n in silent} == {None}


def test_a_survey_needs_few_descriptors() -> None:
    with ExitStack() as stack:
        for i in range(10):
            listener = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            listener.bind(name_protocol.address(os.geteuid(), f"{NAME}/{i}"))
            listener.listen()
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        used = max(int(name) for name in os.listdir("/proc/self/fd"))
        free = os.open("/dev/null", os.O_RDONLY)
        fill = [free]
        try:
            while fill[-1] < used:
                fill.append(os.dup(free))
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(used, fill[-1]) + 4, limits[1]))
            names = [n.name for n in memory.names() if n.name.startswith(NAME)]
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            for fd in fill:
                os.close(fd)
    assert len(names) == 10
