"""Where the kernel locks nothing, rows bear the names of their processes: forks, kills, joins."""

# ruff: noqa: F821 (closures name arrays that are deleted after their last call)
from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import shmtensor as st
from shmtensor import memory, native
from shmtensor.cli.doctor import checks
from shmtensor.cli.doctor.finding import WARNING, MachineFiles
from shmtensor.errors import DomainError

from . import test_ledger
from .actor import Actor
from .fresh import (
    SOURCES,
    Child,
    each,
    filter_calls,
    fresh,
    isolated,
    libc,
    settle,
    shared,
    state_of,
    until,
)
from .test_names import IDLE

PROCESS = {"SHMTENSOR_LIVENESS": "process"}
MIB = 1 << 20
CLONE_NEWPID = 0x20000000
PR_SET_CHILD_SUBREAPER = 36


def adopt_grandchildren() -> None:
    libc("prctl", PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


# ---- which mode
def kernel_without_locks() -> None:
    """From now on fcntl() knows no open-file-description locks here."""
    number = {"x86_64": 72, "aarch64": 25}[platform.machine()]
    filter_calls(
        [
            (0x20, 0, 0, 0),  # the system call's number
            (0x15, 0, 4, number),
            (0x20, 0, 0, 24),  # its second argument
            (0x35, 0, 2, 36),  # F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW
            (0x25, 1, 0, 38),
            (0x06, 0, 0, 0x00050000 | 22),  # EINVAL
            (0x06, 0, 0, 0x7FFF0000),
        ]
    )


@isolated
def test_kernel_without_locks_gets_the_mode_by_itself() -> None:
    kernel_without_locks()
    finding = checks.locks(MachineFiles())
    assert finding.status == WARNING, finding
    assert "pid and start time" in finding.found
    x = shared(5000, 3)
    assert memory.statistics().liveness == "process"
    child = Child(lambda: int(x[-1]))
    assert child.wait() == 3
    del x
    settle(0)


@isolated(env={"SHMTENSOR_LIVENESS": "locks"})
def test_locks_where_there_are_none_are_refused() -> None:
    kernel_without_locks()
    with pytest.raises(DomainError, match=r"no open-file-description locks \(F_OFD_SETLK\)"):
        memory.allocate(10)


def mode(expected: str) -> None:
    assert memory.statistics().liveness == expected


def test_mode_is_what_was_asked_for() -> None:
    fresh(doctored, env=PROCESS)
    fresh(mode, "process", env=PROCESS)
    fresh(mode, "locks", env={"SHMTENSOR_LIVENESS": "locks"})
    fresh(mode, "locks", env={"SHMTENSOR_LIVENESS": ""})


def doctored() -> None:
    finding = checks.locks(MachineFiles())
    assert finding.status == WARNING
    assert "unset SHMTENSOR_LIVENESS" in finding.remedy


@isolated(env={"SHMTENSOR_LIVENESS": "pids"})
def test_wrong_mode_is_refused() -> None:
    with pytest.raises(DomainError, match=r'SHMTENSOR_LIVENESS is neither .* nor "process": pids'):
        memory.allocate(10)


# ---- who joins
STRANGER = """
import sys; sys.path.insert(0, {sources!r})
import numpy as np
from shmtensor import memory, native
x = np.frombuffer(memory.receive(bytes.fromhex({handle!r})), np.uint8)
assert (x[:1000] == 9).all()
print(memory.statistics().liveness, native.liveness(*map(int, {whom!r}.split())))
"""


def stranger(handle: bytes, *prefix: str) -> subprocess.CompletedProcess[str]:
    whom = " ".join(map(str, native.row()))
    code = STRANGER.format(sources=SOURCES, handle=handle.hex(), whom=whom)
    return subprocess.run(
        [*prefix, sys.executable, "-c", code],
        env={**os.environ, "SHMTENSOR_DOMAIN": memory.domain_environment(),
             "SHMTENSOR_LIVENESS": "locks"},
        pass_fds=native.domain_fds(), capture_output=True, text=True, timeout=60,
    )  # fmt: skip


@isolated(env=PROCESS)
def test_who_joins_takes_the_domains_mode_and_is_of_its_pid_namespace() -> None:
    x = shared(1000, 9)
    process = stranger(memory.export(x))
    assert (process.returncode, process.stdout) == (0, "process alive\n"), process.stderr
    handle = memory.export(x)
    elsewhere = stranger(handle, "unshare", "--pid", "--fork", "--mount-proc")
    assert elsewhere.returncode != 0
    assert "limited to one pid namespace" in elsewhere.stderr
    assert "DomainError" in elsewhere.stderr
    native.acknowledge(handle)
    del x
    settle(0)


@isolated
def test_a_process_of_another_pid_namespace_is_a_member_as_any_other() -> None:
    """It has the descriptors. A pid means nothing across namespaces; a lock does."""
    x = shared(1000, 9)
    process = stranger(memory.export(x), "unshare", "--pid", "--fork", "--mount-proc")
    assert (process.returncode, process.stdout) == (0, "locks alive\n"), process.stderr
    del x
    settle(0)


@pytest.mark.parametrize("founder", ["process", "locks"])
def test_guest_of_a_domain_in_the_other_mode(founder: str) -> None:
    name = f"liveness/{founder}/{os.getpid()}"
    publisher = Actor({"SHMTENSOR_LIVENESS": founder})
    guest = Actor({"SHMTENSOR_LIVENESS": "locks" if founder == "process" else "process"})
    try:
        publisher.do(f"t = st.full((1000,), 7); memory.publish({name!r}, t)")
        for _ in range(2):
            guest.do(f"t = memory.open({name!r}, timeout=10)")
            assert guest.do("out = t.sum().item()") in ("7000", "7000.0")
            assert publisher.do("out = memory.domains()[0].processes") == "2"
            guest.do("del t; memory.check()")
            assert publisher.do(IDLE) == "(1, 0, 0)"
        guest.do(f"t = memory.open({name!r}, timeout=10)")
        guest.kill()
        assert publisher.do(IDLE) == "(1, 0, 0)"
    finally:
        publisher.kill()
        guest.kill()


# ---- forks and deaths
@pytest.mark.parametrize("how", ["fork", "forkserver", "spawn"])
@isolated(env=PROCESS)
def test_children_of_each_kind(how: str) -> None:
    context = st.multiprocessing.get_context(how)
    t = st.zeros(1000)
    children = [context.Process(target=add_one, args=(t,)) for _ in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
        assert child.exitcode == 0
    assert t[0].item() == 2.0
    mode("process")
    memory.check()


def add_one(t: st.Tensor) -> None:
    mode("process")
    t += 1
    memory.check()


def dying_children(fault: str) -> None:
    """Killed before it has a name, with a name, and at work; its parent takes all of it back."""
    mine = shared(5000, 3)

    def body() -> int:
        x = shared(100_000, 1)
        os.kill(os.getpid(), signal.SIGKILL)
        return int(x[0])

    native.arm_fault(fault)
    child = Child(body)
    native.arm_fault(None)
    until(lambda: state_of(child.pid) == "Z", "the child lives")
    settle(None)  # an unreaped zombie is dead, too
    assert child.wait() == -9
    assert (mine == 3).all()
    del mine
    settle(0)


def child_outlives_its_parent_unborn() -> None:
    """Stopped before it runs; its parent is killed. What it inherited stays its own."""
    adopt_grandchildren()

    def parent() -> None:
        mine = shared(300_000, 7)
        native.arm_fault("fork.child:1:stop")
        if os.fork() == 0:
            good = bool((mine == 7).all())
            memory.check()
            os._exit(0 if good else 1)
        os.kill(os.getpid(), signal.SIGKILL)

    assert Child(parent).wait() == -9
    with open(f"/proc/self/task/{os.getpid()}/children") as children:
        pid = int(children.read())
    until(lambda: state_of(pid) == "T", "the child does not stop")
    for _ in range(3):
        native.sweep(True)
        with memory.shared_numpy():
            other = np.full(300_000, 9, np.uint8)
        del other
        memory.trim()
    assert memory.statistics().processes == 2
    os.kill(pid, signal.SIGCONT)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    settle(0)


def dead_unborn_and_parent() -> None:
    """Killed both, the child before it had a name: the row comes back all the same."""
    adopt_grandchildren()

    def parent() -> None:
        mine = shared(300_000, 7)
        native.arm_fault("fork.child:1:stop")
        pid = os.fork()
        until(lambda: state_of(pid) == "T", "the child does not stop")
        os.kill(pid, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
        del mine

    assert Child(parent).wait() == -9
    settle(0)
    os.waitpid(-1, 0)


@isolated(env=PROCESS)
def test_failed_fork_gives_its_row_back() -> None:
    """No process is to be had: the row is given back."""
    import resource

    x = shared(1000, 1)
    if os.getuid() == 0:
        os.setgid(65534)
        os.setuid(61234)
    libc("prctl", 4, 1, 0, 0, 0)  # dumpable again: /proc/self stays readable
    resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
    with pytest.raises(BlockingIOError):
        os.fork()
    assert memory.statistics().processes == 2
    del x
    settle(0)


def executing() -> None:
    """A child that lives on as another program holds nothing."""
    x = shared(300_000, 1)
    pid = os.fork()
    if pid == 0:
        os.execvp("sleep", ["sleep", "100"])
    del x
    settle(0)
    assert state_of(pid) in "SRD"
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def dying_sweepers(fault: str) -> None:
    """Two sweepers die one after the other over one dead process."""

    def owner() -> None:
        references = shared(300_000, 5)
        memory.export(references)
        os.write(go[1][1], b"x")
        signal.pause()

    def sweeper(number: int) -> None:
        os.read(go[number][0], 1)
        native.arm_fault(fault)
        native.sweep(True)

    go = [os.pipe(), os.pipe(), os.pipe()]
    dead = Child(owner)
    os.read(go[1][0], 1)
    sweepers = [Child(lambda number=number: sweeper(number)) for number in (0, 2)]  # type: ignore[misc]
    dead.kill()
    for number, other in zip((0, 2), sweepers, strict=True):
        os.write(go[number][1], b"x")
        assert other.wait() == -9, fault
    for pipe in go:
        for descriptor in pipe:
            os.close(descriptor)
    settle(0)


def test_births_and_deaths() -> None:
    module = __name__
    env = {**PROCESS, "PYTHONWARNINGS": "error"}
    cases: dict[str, list[tuple[object, ...]]] = {
        "dying_children": [("fork.child",), ("fork.named",), ("fork.live",), ("",)],
        "child_outlives_its_parent_unborn": [()],
        "dead_unborn_and_parent": [()],
        "executing": [()],
    }  # fmt: skip
    for name, arguments in cases.items():
        fresh(each, module, name, *arguments, env=env)


def test_dead_sweepers_are_followed_by_others() -> None:
    points = [("row.obtained",), ("sweep.locked",), ("sweep.orphan",), ("sweep.zombie",)]
    fresh(each, __name__, "dying_sweepers", *points, env=PROCESS)


@isolated(env=PROCESS)
def test_child_of_another_pid_namespace_is_without_a_row() -> None:
    """A child in another pid namespace has no row; what it sees stays, its parent dead or not."""
    out, go = os.pipe(), os.pipe()

    def parent() -> None:
        mine = shared(300_000, 7)
        libc("unshare", CLONE_NEWPID)
        if os.fork() == 0:
            os.read(go[0], 1)
            with memory.shared_numpy():
                private = np.ones(10)
            good = (mine == 7).all() and not memory.is_shared(private)
            os.write(out[1], b"y" if good else b"n")
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)

    adopt_grandchildren()
    assert Child(parent).wait() == -9
    os.close(out[1])
    for _ in range(3):
        native.sweep(True)
        other = shared(300_000, 9)
        del other
        memory.trim()
    os.write(go[1], b"x")
    answer = os.read(out[0], 1)
    assert answer == b"y", answer
    os.waitpid(-1, 0)
    memory.check()


# ---- time namespaces: there the kernel reports other start times of the same processes
CLONE_NEWTIME = 0x80
AHEAD = 100_000  # seconds; more than the time since a machine's start would do as well
needs_clocks = pytest.mark.skipif(
    os.geteuid() != 0 or not os.path.exists("/proc/self/ns/time"),
    reason="needs root and a kernel with time namespaces",
)


def set_clocks_of_children() -> None:
    """From now on the children of this process are in a time namespace of their own."""
    libc("unshare", CLONE_NEWTIME)
    with open("/proc/self/timens_offsets", "w") as offsets:
        offsets.write(f"monotonic {AHEAD} 0\nboottime {AHEAD} 0\n")


def elsewhere_in_time(handle: bytes) -> subprocess.CompletedProcess[str]:
    ahead = ["--monotonic", str(AHEAD), "--boottime", str(AHEAD)]
    return stranger(handle, "unshare", "--time", *ahead, "--fork")


@needs_clocks
@isolated(env=PROCESS)
def test_domain_by_start_times_refuses_other_time_namespaces() -> None:
    x = shared(300_000, 9)
    process = elsewhere_in_time(memory.export(x))
    assert process.returncode != 0
    assert "DomainError" in process.stderr
    assert "limited to one time namespace" in process.stderr
    other = shared(300_000, 1)
    assert (x == 9).all()
    del x, other
    assert memory.statistics().processes == 1


@needs_clocks
@isolated(env=PROCESS)
def test_child_of_another_time_namespace_is_without_a_row() -> None:
    mine = shared(300_000, 7)
    set_clocks_of_children()

    def child() -> int:
        private = shared(10)
        return int(memory.is_shared(private) or not (mine == 7).all())

    assert Child(child).wait() == 0
    assert memory.statistics().processes == 1
    memory.check()


def moved_in_time() -> None:
    """A member moves itself: it judges nobody by start times that it cannot compare."""
    mine = shared(300_000, 7)
    out, go = os.pipe(), os.pipe()

    def other() -> int:
        theirs = shared(300_000, 5)
        os.write(out[1], b"x")
        os.read(go[0], 1)
        return int(not (theirs == 5).all())

    child = Child(other)
    os.read(out[0], 1)
    set_clocks_of_children()
    with open("/proc/self/ns/time_for_children") as namespace:
        libc("setns", namespace.fileno(), CLONE_NEWTIME)
    assert native.liveness(child.row, child.inc) == "alive"
    native.sweep(True)
    fill = [shared(300_000, 1) for _ in range(20)]
    assert memory.statistics().processes == 2
    os.write(go[1], b"x")
    assert child.wait() == 0
    assert (mine == 7).all()
    assert all((x == 1).all() for x in fill)


@needs_clocks
@pytest.mark.parametrize("mode", ["locks", "process"])
def test_member_that_changes_its_time_namespace_declares_nobody_dead(mode: str) -> None:
    fresh(moved_in_time, env={"SHMTENSOR_LIVENESS": mode})


@needs_clocks
@isolated
def test_held_lock_proves_life_across_time_namespaces() -> None:
    x = shared(300_000, 9)
    process = elsewhere_in_time(memory.export(x))
    assert (process.returncode, process.stdout) == (0, "locks alive\n"), process.stderr
    assert (x == 9).all()
    out, go = os.pipe(), os.pipe()
    set_clocks_of_children()

    def child() -> int:
        theirs = shared(300_000, 5)
        os.write(out[1], b"x")
        os.read(go[0], 1)
        return int(native.liveness(*parent) != "alive" or not (theirs == 5).all())

    parent = native.row()
    living = Child(child)
    os.read(out[0], 1)
    assert native.liveness(living.row, living.inc) == "alive"
    native.sweep(True)
    other = shared(300_000, 1)
    os.write(go[1], b"x")
    assert living.wait() == 0
    assert (other == 1).all()
    doomed = Child(signal.pause)
    doomed.kill()
    assert native.liveness(doomed.row, doomed.inc) == "dead"
    del x, other
    settle(0)


@needs_clocks
@isolated
def test_no_living_peer_is_lost_across_time_namespaces() -> None:
    """Waits long enough that the liveness of its peer is checked."""
    context = st.multiprocessing.get_context("fork")
    barrier = context.Barrier(2)
    set_clocks_of_children()

    def child() -> int:
        barrier.wait(20)
        time.sleep(0.3)  # the parent waits, and checks every 25 ms
        barrier.wait(20)
        return 0

    peer = Child(child)
    barrier.wait(20)
    barrier.wait(20)
    assert peer.wait() == 0


@needs_clocks
@isolated
def test_messages_expire_by_their_own_clock() -> None:
    """Unread messages expire by the clock that their times are of."""
    native.set_unread_grace(3600, 3600)
    end, go = os.pipe(), os.pipe()

    def export() -> int:
        memory.export(shared(1000, 3))
        os.read(end[0], 1)
        return 0

    def sweep() -> int:
        os.read(go[0], 1)
        native.sweep(True)
        return memory.statistics().zombies - 2

    first, second = Child(export), Child(export)
    os.write(end[1], b"x")
    dead = os.wait()[0]  # either of them
    native.sweep(True)
    assert memory.statistics().zombies == 1
    set_clocks_of_children()
    sweeper = Child(sweep)
    os.write(end[1], b"x")
    (second if dead == first.pid else first).wait()
    os.write(go[1], b"x")
    assert sweeper.wait() == 0  # the first death was a day before by its clock, the second now
    assert memory.statistics().zombies == 2
    settle(0)


# ---- gVisor itself: no such locks, and a pid namespace whose file is another at each look
GVISOR = (
    "runsc", "--platform=ptrace", "--ignore-cgroups", "--network=none",
    "do", "-force-overlay=false",
)  # fmt: skip


@pytest.mark.skipif(shutil.which("runsc") is None, reason="needs gVisor (Debian: runsc)")
@isolated(prefix=GVISOR)
def test_gvisor() -> None:
    assert memory.statistics().liveness == "process"
    x = shared(5000, 9)
    handles, go = os.pipe(), os.pipe()

    def sender() -> int:
        os.write(handles[1], memory.export(shared(70 * MIB, 7)))
        return len(os.read(go[0], 1))

    child = Child(sender)
    y = np.frombuffer(memory.receive(os.read(handles[0], 72)), np.uint8)
    child.kill()
    native.sweep(True)
    assert (x == 9).all()
    assert (y == 7).all()
    process = stranger(memory.export(x))
    assert (process.returncode, process.stdout) == (0, "process alive\n"), process.stderr
    del x, y
    settle(0)


# ---- the protocol above is the same
def test_ledger_in_this_mode() -> None:
    for name in (
        "test_forked_child_receives_sends_on_and_drops",
        "test_forked_child_keeps_what_its_parent_frees",
        "test_grandchild_is_nothing_special",
        "test_channel_and_its_messages_leave_with_the_last_process",
        "test_unread_message_of_a_dead_sender_expires",
    ):
        fresh(each, test_ledger.__name__, name, (), env=PROCESS)
