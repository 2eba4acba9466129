"""Named tensors: programs without a common ancestor share one, and may die at any step."""

from __future__ import annotations

import os
import signal
import socket

import numpy as np
import pytest

import shmtensor as st
from shmtensor import memory
from shmtensor.memory import name_protocol

from .actor import Actor, actors
from .fresh import until

NAME = f"test/{os.getpid()}"
PUBLISH = f"t = st.arange(12, dtype=st.float32).reshape(3, 4); memory.publish({NAME!r}, t)"
PUBLISH_FILE = PUBLISH.replace(", t)", ", t, mode=0o644)")
OPEN = f"t = memory.open({NAME!r}, timeout=10)"
both_kinds = pytest.mark.parametrize("publish", [PUBLISH, PUBLISH_FILE], ids=["domain", "file"])
GONE = f"""
import time
end = time.monotonic() + 20
while [n for n in memory.names() if n.name == {NAME!r}] and time.monotonic() < end:
    time.sleep(0.01)
out = [n for n in memory.names() if n.name == {NAME!r}]
"""
IDLE = """
import time
end = time.monotonic() + 20
while True:
    native.sweep(True)
    s = memory.domains()[0]
    if (s.processes, s.zombies) == (1, 0) or time.monotonic() > end:
        break
    time.sleep(0.01)
memory.check()
out = (s.processes, s.zombies, s.slots_orphaned)
"""


def mine() -> list[memory.Name]:
    return [name for name in memory.names() if name.name == NAME]


def test_unrelated_programs_see_the_same_bytes() -> None:
    with actors(2) as (publisher, opener):
        publisher.do(PUBLISH)
        opener.do(OPEN)
        assert opener.do("out = t.sum().item(), t.is_shared(), t.shape") == repr(
            (66.0, True, st.Size((3, 4)))
        )
        opener.do("t[1, 2] = 70")
        assert publisher.do("out = t[1, 2].item()") == "70.0"
        publisher.do("t[0, 0] = 5")
        assert opener.do("out = t[0, 0].item()") == "5.0"
        assert opener.do("out = [d.own for d in memory.domains()]") == "[True, False]"
        assert publisher.do("out = memory.domains()[0].processes") == "2"
        opener.do("u = t + 1; memory.check()")  # results lie in its own heap
        opener.do("del t")
        assert opener.do("out = [d.own for d in memory.domains()]") == "[True]"
        assert publisher.do(IDLE) == "(1, 0, 0)"
        opener.do(OPEN)  # and once more
        assert opener.do("out = t[1, 2].item()") == "70.0"


def test_a_name_is_free_as_soon_as_it_is_withdrawn() -> None:
    t = st.arange(5)
    for _ in range(500):
        memory.publish(NAME, t)
        memory.unpublish(NAME)


def test_views_keep_their_strides_and_dtype() -> None:
    with actors(1) as (publisher,):
        publisher.do(
            "x = st.arange(60, dtype=st.int64).reshape(3, 4, 5)\n"
            f"memory.publish({NAME!r}, x[:, 1:3, ::2].transpose(0, 2))"
        )
        t = memory.open(NAME)
        x = st.arange(60, dtype=st.int64).reshape(3, 4, 5)[:, 1:3, ::2].transpose(0, 2)
        assert (t.dtype, t.stride()) == (st.int64, x.stride())
        assert (t == x).all()
        (name,) = mine()
        assert (name.pid, name.shape, name.dtype) == (publisher.process.pid, (3, 2, 3), "int64")
        assert (name.nbytes, name.mode, name.owner) == (18 * 8, 0o600, os.geteuid())
        del t, x


def test_own_name_opens_to_the_same_memory() -> None:
    t = st.arange(5)
    memory.publish(NAME, t)
    try:
        u = memory.open(NAME)
        u[2] = 9
        assert t[2] == 9
        (domain,) = memory.domains()
        assert isinstance(domain, memory.Domain)
        assert (domain.own, domain.id, domain.readonly) == (True, memory.domain_id(), False)
        with pytest.raises(FileExistsError, match=r"publish: the name is taken: .* held by pid"):
            memory.publish(NAME, t)
    finally:
        memory.unpublish(NAME)
    with pytest.raises(FileNotFoundError, match=r"open: no such name: 'test/"):
        memory.open(NAME)
    with pytest.raises(FileNotFoundError, match=r"unpublish: not published by this process"):
        memory.unpublish(NAME)
    assert not mine()


def test_wrong_use_is_refused() -> None:
    t = st.arange(5)
    for name in ("", "a b", "x" * 81, "a\0b", "ä"):
        with pytest.raises(ValueError, match=r"publish: a name has 1 to 80 letters"):
            memory.publish(name, t)
    with pytest.raises(TypeError, match=r"open: a name is a str: int"):
        memory.open(3)  # type: ignore[arg-type]
    for mode in (0o700, 0o200, 0o602, -1, True):
        with pytest.raises(ValueError, match=r"publish: (a mode has bits|a mode that grants)"):
            memory.publish(NAME, t, mode=mode)
    with pytest.raises(ValueError, match=r"is not shared: 24 bytes of float64, share_memory_"):
        memory.publish(NAME, np.zeros(3))
    assert not mine()


def test_no_descriptor_left_is_said_and_not_taken_for_a_taken_name() -> None:
    fill = "import resource; limit = resource.getrlimit(7); resource.setrlimit(7, (20, limit[1]))"
    with actors(1) as (publisher,):
        publisher.do(f"{fill}; t = st.arange(5); fds = [os.dup(0)]")
        publisher.do("while fds[-1] < 19: fds.append(os.dup(0))")
        said = publisher.fails(f"memory.publish({NAME!r}, t)")
        assert "Too many open files" in said
        assert "FileExistsError" not in said
        publisher.do("for fd in fds: os.close(fd)")
        publisher.do(f"memory.publish({NAME!r}, t)")
        assert memory.open(NAME).tolist() == [0, 1, 2, 3, 4]


@both_kinds
def test_name_outlives_its_publisher_and_dies_with_the_last_holder(publish: str) -> None:
    with actors(3) as (publisher, first, second):
        publisher.do(publish)
        first.do(OPEN)
        publisher.kill()
        second.do(OPEN)  # from the first opener
        first.do("t[2, 3] = 50")
        assert second.do("out = t.sum().item()") == "105.0"
        first.kill()
        until(lambda: (n := mine()) and n[0].pid == second.process.pid, "nobody took over")
        assert second.do("memory.check(); out = t.sum().item()") == "105.0"
        second.kill()
        until(lambda: not mine(), "the name outlived everybody")
        with pytest.raises(FileNotFoundError):
            memory.open(NAME)


@both_kinds
def test_opener_lets_go_of_the_name_with_its_tensors(publish: str) -> None:
    with actors(2) as (publisher, opener):
        publisher.do(publish)
        opener.do(OPEN + "; u = memory.open(" + repr(NAME) + ")")
        opener.do("del t")
        publisher.kill()
        until(lambda: (n := mine()) and n[0].pid == opener.process.pid, "nobody took over")
        opener.do("del u")
        until(lambda: not mine(), "the name outlived its last tensor")


@both_kinds
def test_unpublish_takes_the_name_from_the_openers_too(publish: str) -> None:
    with actors(2) as (publisher, opener):
        publisher.do(publish)
        opener.do(OPEN)
        publisher.do(f"memory.unpublish({NAME!r}); del t")
        publisher.kill()
        assert opener.do(GONE) == "[]"
        assert opener.do("out = t.sum().item()") == "66.0"


def test_readonly_tensor_refuses_writes() -> None:
    with actors(2) as (publisher, opener):
        publisher.do(PUBLISH)
        opener.do(f"t = memory.open({NAME!r}, readonly=True)")
        assert "read-only" in opener.fails("t[0, 0] = 1")
        assert "cannot set WRITEABLE" in opener.fails("t.array.flags.writeable = True")
        assert "cannot set WRITEABLE" in opener.fails("t[1:].array.flags.writeable = True")
        assert opener.do("out = t.sum().item(), memory.domains()[1].readonly") == "(66.0, True)"
        opener.do(f"u = memory.open({NAME!r}); u[0, 0] = 1")  # widened, the same addresses
        assert opener.do("out = t[0, 0].item(), memory.domains()[1].readonly") == "(1.0, False)"
        assert publisher.do("out = t[0, 0].item()") == "1.0"
    with actors(1) as (publisher,):
        publisher.do(PUBLISH.replace(", t)", ", t, mode=0o400)"))
        with pytest.raises(PermissionError, match=r"user \d+ may not write it: mode 0400"):
            memory.open(NAME)
        assert memory.open(NAME, readonly=True).sum() == 66


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_name_held_by_another_user_is_not_believed() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as squatter:
        squatter.bind(name_protocol.address(65534, NAME))
        squatter.listen()
        with pytest.raises(PermissionError, match=r"of user 65534 is held by another user: 0"):
            memory.open(NAME, owner=65534)


def test_stopped_publisher_does_not_hang_its_opener(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shmtensor.memory.name_protocol.ANSWER_TIMEOUT", 0.3)
    with actors(1) as (publisher,):
        publisher.do(PUBLISH)
        publisher.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, publisher.process.pid, os.WSTOPPED)
        with pytest.raises(TimeoutError, match=rf"not answer: pid {publisher.process.pid}, 0.3 s"):
            memory.open(NAME)
        publisher.process.send_signal(signal.SIGCONT)
        assert memory.open(NAME).sum() == 66


def test_forked_child_of_an_opener_is_a_guest_too() -> None:
    fork = """
r, w = os.pipe()
pid = os.fork()
if pid == 0:
    os.close(w)
    os.read(r, 1)
    ok = t.sum().item() == 66 and memory.domains()[1].row != row
    memory.check()
    t[0, 0] = 10 if ok else 1
    del t
    os._exit(len(memory.domains()))
os.close(r)
"""
    with actors(2) as (publisher, opener):
        publisher.do(PUBLISH)
        opener.do(OPEN + "; row = memory.domains()[1].row")
        opener.do(fork)
        assert publisher.do("out = memory.domains()[0].processes") == "3"
        opener.do("del t")  # the child's hold is its own
        publisher.do(f"memory.unpublish({NAME!r}); t2 = t; del t; memory.trim()")
        opener.do("os.write(w, b'x'); out = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])")
        assert publisher.do("out = t2[0, 0].item()") == "10.0"
        assert publisher.do(IDLE) == "(1, 0, 0)"


def test_publisher_serves_on_after_a_fork() -> None:
    with actors(2) as (publisher, opener):
        publisher.do(PUBLISH)
        publisher.do("pid = os.fork()\nif pid == 0: os._exit(0)")
        publisher.do("os.waitpid(pid, 0)")
        opener.do(OPEN)
        opener.do("pid = os.fork()\nif pid == 0: os._exit(0)")
        opener.do("os.waitpid(pid, 0)")
        publisher.kill()
        until(lambda: (n := mine()) and n[0].pid == opener.process.pid, "nobody took over")


DEADLY = """
def deadly(step):
    if step == {step!r}: os.kill(os.getpid(), 9)
name_protocol.fault_point = deadly
"""


def dies(actor: Actor, step: str, line: str) -> None:
    actor.do(DEADLY.format(step=step))
    actor.tell(line)
    assert actor.heard() == "", "the step was not reached"
    assert actor.process.wait(30) == -9


@pytest.mark.parametrize(
    ("publish", "steps"),
    [(PUBLISH, ("bound", "exported")), (PUBLISH_FILE, ("bound", "created", "moved", "exported"))],
    ids=["domain", "file"],
)
def test_kill_in_publish(publish: str, steps: tuple[str, ...]) -> None:
    for step in steps:
        with actors(2) as (victim, other):
            dies(victim, f"publish.{step}", publish)
            assert other.do(GONE) == "[]"
            other.do(publish)  # the name is free again
            assert memory.open(NAME).sum() == 66


@both_kinds
@pytest.mark.parametrize("step", ["open.connected", "open.asked", "open.answered", "open.held"])
def test_kill_in_open(step: str, publish: str) -> None:
    with actors(2) as (publisher, victim):
        publisher.do(publish)
        dies(victim, step, OPEN)
        assert publisher.do(IDLE) == "(1, 0, 0)"
        assert memory.open(NAME).sum() == 66


@both_kinds
@pytest.mark.parametrize("step", ["serve.asked", "serve.sent"])
def test_kill_in_serving(step: str, publish: str) -> None:
    with actors(2) as (victim, opener):
        victim.do(publish)
        victim.do(DEADLY.format(step=step))
        if step == "serve.asked":
            assert "FileNotFoundError" in opener.fails(f"memory.open({NAME!r})")
            opener.do("memory.check()")
        else:  # the answer is on its way: the opener is the last holder, or comes too late
            opener.tell(f"t = memory.open({NAME!r})")
            answer = opener.heard()
            assert answer == "done None" or answer.startswith("FileNotFoundError"), answer
            if answer == "done None":
                assert opener.do("out = t.sum().item()") == "66.0"
            opener.do("memory.check()")


@both_kinds
def test_kill_in_taking_over(publish: str) -> None:
    with actors(3) as (publisher, victim, heir):
        publisher.do(publish)
        victim.do(OPEN + DEADLY.format(step="follow.broken").replace("\n", "\\n"))
        heir.do(OPEN)
        publisher.kill()
        assert victim.process.wait(30) == -9
        until(lambda: (n := mine()) and n[0].pid == heir.process.pid, "nobody took over")
        assert heir.do("memory.check(); out = t.sum().item()") == "66.0"
