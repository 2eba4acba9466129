"""The supervisor of child processes: who failed first, in which order children are ended, and that
nothing is left when it is interrupted.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import shmtensor as st
from shmtensor import multiprocessing as mp
from shmtensor.errors import PeerLostError, ProcessExitedException, ProcessRaisedException
from shmtensor.multiprocessing import child_report
from shmtensor.multiprocessing.child_report import Report, decode, report_of
from shmtensor.multiprocessing.children import Child, Children
from tests.memory.fresh import state_of, until

FORK = mp.get_context("fork")


@pytest.fixture(params=["pidfd", "no pidfd"])
def children(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Children]:
    """A supervisor, also on a kernel without pidfds."""
    if request.param == "no pidfd":

        def missing(pid: int, flags: int = 0) -> int:
            raise OSError(errno.ENOSYS, "Function not implemented")

        monkeypatch.setattr(os, "pidfd_open", missing)
    supervisor = Children()
    yield supervisor
    supervisor.end(grace=0.0)
    for child in supervisor.all:
        if not child.is_command:
            child.process.close()
    supervisor.all.clear()


def start(children: Children, target: Any, *args: Any) -> Child:
    name = f"rank {len(children.all)}"
    return children.start(FORK.Process(target=target, args=args, name=name))


def raise_after(gate: Any, error: BaseException) -> None:
    gate.wait()
    raise error


def die(gate: Any, opened: Any = None) -> None:
    gate.wait()
    if opened is not None:
        opened.set()
    os.kill(os.getpid(), signal.SIGKILL)


def open_gate() -> Any:
    gate = FORK.Event()
    gate.set()
    return gate


def test_all_that_end_well(children: Children) -> None:
    with children:
        start(children, open_gate)
        children.run("command", ["true"], dict(os.environ))
        assert children.join() is None
        assert [child.exitcode for child in children.all] == [0, 0]


def test_a_consequence_waits_for_its_cause(children: Children) -> None:
    later = FORK.Event()
    with children:
        start(children, raise_after, open_gate(), PeerLostError("rank 1 has died"))
        start(children, die, later)
        children.wait()
        assert children.is_failing
        assert children.failure() is None  # the cause may still come
        later.set()
        first = children.join()
        assert first is children.all[1]
        error = children.error("here", first)
    assert isinstance(error, ProcessExitedException)
    assert (error.exit_code, error.signal_name, error.error_index) == (-9, "SIGKILL", 1)
    pids = [child.pid for child in children.all]
    assert str(error).splitlines() == [
        f"here: rank 1 (pid {pids[1]}) was killed by SIGKILL (-9)",
        f"rank 0 (pid {pids[0]}): PeerLostError: rank 1 has died",
        f"rank 1 (pid {pids[1]}) was killed by SIGKILL (-9)",
    ]


def test_a_consequence_without_a_cause_is_told(
    children: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shmtensor.multiprocessing.children.WIND_DOWN", 0.2)
    with children:
        start(children, raise_after, open_gate(), PeerLostError("rank 7 is stopped"))
        start(children, time.sleep, 60)  # is well
        first = children.join()
        assert first is children.all[0]
        children.end()
        error = children.error("here", first)
    assert isinstance(error, ProcessRaisedException)
    assert str(error).splitlines()[-1].endswith("PeerLostError: rank 7 is stopped")
    assert "rank 1" not in str(error)  # this process has ended it


def test_the_earliest_cause_counts_although_it_ends_later(children: Children) -> None:
    """Rank 0 has raised first, and still cleans up when rank 1 is dead."""
    raised, dead = FORK.Event(), FORK.Event()

    def fail_and_clean_up() -> None:
        thread = threading.Thread(target=dead.wait)
        thread.start()  # awaited at the end of this process
        raised.set()
        raise LookupError("first")

    with children:
        start(children, fail_and_clean_up)
        raised.wait()
        while children.all[0].report is None:
            children.wait(0.01)
            children.all[0].look()
        start(children, raise_after, raised, ValueError("second"))
        children.wait()
        assert children.all[1].exitcode == 1
        assert children.failure() is None
        dead.set()
        assert children.join() is children.all[0]


@pytest.mark.parametrize(
    "error",
    [PeerLostError("x"), ConnectionResetError("x"), EOFError("x"), threading.BrokenBarrierError()],
)
def test_what_counts_as_a_consequence(error: Exception) -> None:
    """The error itself, raised from it, raised while it is handled; not what hides it."""

    def report(*errors: Any, cause: bool = False) -> Report:
        first, *others = errors
        try:
            try:
                raise first
            except Exception as handled:
                for other in others:
                    raise other from (handled if cause else None)
                raise
        except BaseException as raised:
            return report_of(raised)

    assert report(error).is_consequence
    assert report(error, RuntimeError("step 3"), cause=True).is_consequence
    assert not report(error, RuntimeError("step 3")).is_consequence  # raise ... from None
    assert not report(ValueError("x")).is_consequence
    with pytest.raises(SystemExit) as exit_of_a_rank:
        try:
            raise error
        except Exception:
            sys.exit(3)
    assert report_of(exit_of_a_rank.value).is_consequence
    if group_of := child_report.GROUPS:
        group = group_of("x", [error, group_of("y", [error])])
        assert report(group).is_consequence
        assert not report(group.derive([error, ValueError("z")])).is_consequence


def test_a_report_survives_any_text_and_nothing_else_is_believed() -> None:
    for text in (
        "plain",
        "ä€\U0001f600\udc80\0",
        "x" * 100_000,
        "\udc80" * 100_000,
        '"\\' * 50_000,
    ):
        read, write = os.pipe2(os.O_NONBLOCK)
        child_report.listen(write)
        assert child_report.fail(ValueError(text))
        os.close(write)
        with os.fdopen(read, "rb") as stream:
            data = stream.read()
        report = decode(bytearray(data))
        assert report is not None
        assert report.message == text[: child_report.MESSAGE]
        assert decode(bytearray(data[:-1])) is None  # killed while it wrote
    child_report.listen(None)
    assert decode(bytearray(b"\x05\0\0\0hello")) is None
    assert decode(bytearray(b"\x02\0\0\0{}")) is None


def test_a_stranger_who_writes_into_the_pipe_is_no_report(children: Children) -> None:
    with children:
        program = (
            "import os; os.write(int(os.environ['SHMTENSOR_ERROR_FD'].split(':')[0]), b'!' * 9)"
        )
        children.run("command", [sys.executable, "-c", f"{program}; os._exit(3)"], {})
        first = children.join()
        assert first is not None
        assert first.line() == f"command (pid {first.pid}) exited with code 3"


def test_the_wait_ends_for_other_descriptors(children: Children) -> None:
    read, write = os.pipe()
    with children, os.fdopen(read), os.fdopen(write, "w") as stream:
        start(children, time.sleep, 60)
        assert children.wait(0.01, [read]) == []
        stream.write("x")
        stream.flush()
        assert children.wait(60.0, [read]) == [read]


def resist(ready: Any, got: Any) -> None:
    def note(number: int, _: Any) -> None:
        got.put(number)

    signal.signal(signal.SIGTERM, note)
    ready.set()
    while True:
        time.sleep(60)


def test_children_are_asked_then_terminated_then_killed(children: Children) -> None:
    """One ends when it is asked, one by SIGTERM, one by SIGKILL."""
    please, ready, got = FORK.Event(), FORK.Event(), FORK.SimpleQueue()
    with children:
        start(children, please.wait)
        start(children, time.sleep, 60)
        start(children, resist, ready, got)
        ready.wait()
        children.end(please.set, patience=0.2, grace=0.2)
        assert [child.exitcode for child in children.all] == [0, -15, -9]
        assert got.get(0.0) == signal.SIGTERM
        assert children.failure() is None  # they were ended, none has failed
    got.close()


def test_an_interrupted_end_kills_at_once(children: Children) -> None:
    ready, got = FORK.Event(), FORK.SimpleQueue()

    def ask() -> None:
        raise KeyboardInterrupt

    start(children, resist, ready, got)
    ready.wait()
    with pytest.raises(KeyboardInterrupt):
        children.end(ask, patience=60.0)
    assert children.all[0].exitcode == -9
    got.close()


def test_an_error_of_the_owner_ends_the_children(children: Children) -> None:
    with pytest.raises(ZeroDivisionError), children:
        start(children, time.sleep, 60)
        1 / 0  # noqa: B018
    assert children.all[0].exitcode == -9


def test_what_a_command_leaves_ends_with_it(children: Children) -> None:
    """The shell ends; the program that it has started is of its process group."""
    read, write = os.pipe()
    with children, os.fdopen(read) as stream:
        children.run("sh", ["sh", "-c", "sleep 60 & echo $!"], dict(os.environ), stdout=write)
        os.close(write)
        pid = int(stream.readline())
        assert children.join() is None
        children.end()
    until(lambda: state_of(pid) in "ZX", "it runs on")


def test_a_start_that_fails_leaves_nothing(children: Children) -> None:
    with children:
        with pytest.raises(FileNotFoundError):
            children.run("none", ["/no/such/program"], {})
        assert children.all == []


def test_a_child_takes_the_place_of_one_that_has_ended(children: Children) -> None:
    with children:
        start(children, die, open_gate())
        first = children.join()
        assert first is not None
        children.start(FORK.Process(target=open_gate, name="rank 0"), first)
        assert len(children.all) == 1
        assert children.join() is None
        first.process.close()


def raise_silently(i: int, kind: str) -> None:
    if kind == "exit":
        sys.exit("so be it")
    raise ValueError("x")


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_supervised_children_print_no_traceback(
    method: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ProcessRaisedException, match="ValueError: x"):
        mp.start_processes(raise_silently, ("raise",), start_method=method)
    assert capfd.readouterr().err == ""


def test_the_text_of_a_system_exit_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ProcessExitedException, match="exit code 1"):
        mp.start_processes(raise_silently, ("exit",), start_method="fork")
    assert capfd.readouterr().err == "so be it\n"


def fail_in_a_grandchild(i: int, method: str) -> None:
    process = mp.get_context(method).Process(target=raise_silently, args=(0, "raise"))
    process.start()
    process.join()
    assert process.exitcode == 1


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_grandchild_does_not_report_as_the_child(
    method: str, capfd: pytest.CaptureFixture[str]
) -> None:
    mp.start_processes(fail_in_a_grandchild, (method,), start_method="fork")
    assert "ValueError: x" in capfd.readouterr().err  # a plain Process prints it


def test_a_context_that_nobody_joins_frees_its_descriptors() -> None:
    before = len(os.listdir("/proc/self/fd"))
    context = mp.start_processes(open_and_return, nprocs=2, join=False, start_method="fork")
    assert context is not None
    for process in context.processes:
        process.join()
        process.close()
    del process, context
    assert len(os.listdir("/proc/self/fd")) == before


def open_and_return(i: int) -> None:
    st.ones(1)
