"""Children: the child processes of one owner, started, waited for, ended and reaped together; and
which of them failed first. docs/design/multiprocessing.md has the states of a child and the rules.

    with Children() as children:
        children.start(process)
        if (first := children.join()) is not None:
            children.end()
            raise children.error("where", first)
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from multiprocessing import connection
from typing import Any

from shmtensor import native
from shmtensor.errors import ProcessException, ProcessExitedException, ProcessRaisedException

from . import child_report
from .popen import ForkserverPopen
from .queue import describe_exit, signal_name

GRACE = 5.0  # seconds from SIGTERM to SIGKILL
WIND_DOWN = 5.0  # seconds from the first failure, in which its cause may still be seen
_RUNS_UNSEEN = 0.05  # seconds between two looks at a command on a kernel without pidfds
# A command leads a process group. Python 3.10's Popen has no argument for it.
_OWN_GROUP: dict[str, Any] = (
    {"process_group": 0} if sys.version_info >= (3, 11) else {"preexec_fn": os.setpgrp}
)


class Child:
    """A child process: a `Process` of ours, or a command (`subprocess.Popen`).

    Attributes:
        exitcode: None while it runs; negative: the signal that killed it.
        report: what it has said about its failure so far.
        ended_by: when its supervisor has signalled it; what it does from then on is no failure.
    """

    def __init__(self, index: int, name: str) -> None:
        self.index = index
        self.name = name
        self.process: Any = None
        self.pid = 0
        self.exitcode: int | None = None
        self.report: child_report.Report | None = None
        self.ended_by = math.inf
        self._ended_at = 0.0
        self._record = bytearray()
        self._fds: list[int] = []  # the pipe for its report, and its pidfd
        self._pidfd: int | None = None

    def _begin(self, start: Callable[[int], Any]) -> Child:
        report_fd, child_fd = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._fds.append(report_fd)
        try:
            self.process = start(child_fd)
            self.pid = self.process.pid
            # The pid of a fork server's child may be another's by now: the server reaps it.
            if self.is_command or not isinstance(self.process._popen, ForkserverPopen):
                with suppress(OSError, AttributeError):  # no pidfds: Linux, or Python's build
                    self._pidfd = os.pidfd_open(self.pid)
                    self._fds.append(self._pidfd)
        except BaseException:
            self._close()
            raise
        finally:
            os.close(child_fd)
        return self

    def _close(self, close: Callable[[int], None] = os.close) -> None:
        fds, self._fds = self._fds, []
        for fd in fds:
            close(fd)

    __del__ = _close  # of one that nobody has joined

    @property
    def handle(self) -> int | None:
        """The descriptor that becomes readable when the child ends; None: there is none."""
        if self._pidfd is not None or self.is_command:
            return self._pidfd
        return int(self.process.sentinel)

    @property
    def is_command(self) -> bool:
        return isinstance(self.process, subprocess.Popen)

    @property
    def is_consequence(self) -> bool:
        """Whether its failure, as far as it is known, comes from that of another process."""
        return self.report is not None and self.report.is_consequence

    @property
    def is_unguarded(self) -> bool:
        """Whether the main module has no guard, so that no child can begin."""
        return self.report is not None and self.report.is_unguarded

    @property
    def failed_at(self) -> float:
        return self._ended_at if self.report is None else self.report.time

    @property
    def has_failed(self) -> bool:
        """Whether it has failed by itself."""
        return bool(self.exitcode or self.report) and self.failed_at <= self.ended_by

    def look(self) -> None:
        """Learns its exit code, if it has ended, and its report."""
        if self.exitcode is None:
            code = self.process.poll() if self.is_command else self.process.exitcode
            self._read_report()
            if code is not None:
                self._end(code)

    def _read_report(self) -> None:
        with suppress(BlockingIOError):
            while part := os.read(self._fds[0], 65536):
                self._record += part
        self.report = self.report or child_report.decode(self._record)

    def _end(self, code: int) -> None:
        self.exitcode, self._ended_at = code, time.monotonic()
        if self.is_command:
            native.record_exit_pid(self.pid, code)
        else:
            self.process.join()  # multiprocessing forgets it
        self._close()

    def signal(self, number: int) -> None:
        """Sends a signal; to a command's whole process group, also when its leader has ended."""
        if self.exitcode is None:
            self.ended_by = min(self.ended_by, time.monotonic())
        if self.is_command:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number)
        elif self.exitcode is None:
            self.process._popen._send_signal(number)

    def reap(self) -> None:
        """Waits until it has ended."""
        if self.exitcode is None:
            self.process.wait() if self.is_command else self.process.join()
            self.look()

    def who(self) -> str:
        return f"{self.name} (pid {self.pid})"

    @property
    def raised(self) -> child_report.Report | None:
        """The report of an exception that is no SystemExit."""
        return None if self.report is None or self.report.type == "SystemExit" else self.report

    def line(self) -> str:
        """Its failure in a line: who raised what, or ended how."""
        if self.raised is not None:
            return f"{self.who()}: {self.raised.line()}"
        return f"{self.who()} {describe_exit(self.exitcode)}"


class Children:
    """Child processes of one owner; `with` ends those that still run.

    Attributes:
        all: in the order in which they were started, also those that have ended.
    """

    def __init__(self) -> None:
        self.all: list[Child] = []
        self._deadline = 0.0  # for the cause of the failures so far

    def __enter__(self) -> Children:
        return self

    def __exit__(self, *_: object) -> None:
        self.end(grace=0.0)

    # ---------------------------------------------------------------- start
    def start(self, process: Any, replaced: Child | None = None) -> Child:
        """Starts a `Process` of ours. It reports its failure instead of printing it.

        Args:
            replaced: a child that has ended, whose place this one takes.
        """

        def start(descriptor: int) -> Any:
            process._report = descriptor
            process.start()
            return process

        index = len(self.all) if replaced is None else replaced.index
        child = Child(index, process.name)._begin(start)
        self.all[index : index + 1] = [child]
        self._deadline = 0.0
        return child

    def run(self, name: str, command: list[str], env: dict[str, str], **popen: Any) -> Child:
        """Starts a program in a process group of its own.

        Args:
            env: its environment, to which SHMTENSOR_ERROR_FD, its pipe for a report, is added.
            popen: further arguments of `subprocess.Popen`.
        """

        def start(descriptor: int) -> Any:
            pipe = f"{descriptor}:{os.fstat(descriptor).st_ino}"
            popen["pass_fds"] = (*popen.get("pass_fds", ()), descriptor)
            return subprocess.Popen(
                command, env={**env, "SHMTENSOR_ERROR_FD": pipe}, **_OWN_GROUP, **popen
            )

        self.all.append(Child(len(self.all), name)._begin(start))
        return self.all[-1]

    # ---------------------------------------------------------------- wait
    @property
    def running(self) -> list[Child]:
        return [child for child in self.all if child.exitcode is None]

    def wait(self, timeout: float | None = None, others: Iterable[Any] = ()) -> list[Any]:
        """Waits until a child ends or one of `others` is readable, or for so many seconds, less
        if a failure's cause is waited for; returns the others that are readable.

        Args:
            others: descriptors, or objects with `fileno()`.
        """
        if (wind_down := self._deadline - time.monotonic()) > 0:
            timeout = wind_down if timeout is None else min(timeout, wind_down)
        handles = {child.handle: child for child in self.running}
        if handles.pop(None, None) is not None:
            timeout = _RUNS_UNSEEN if timeout is None else min(timeout, _RUNS_UNSEEN)
        ready: list[Any] = connection.wait([*handles, *others], timeout)  # type: ignore[list-item]
        for child in self.running:
            if child.handle in ready or child.handle is None:
                child.look()
            if child.handle in ready:
                child.reap()  # its sentinel is closed a little earlier
        return [item for item in ready if item not in handles]

    @property
    def is_failing(self) -> bool:
        """Whether a child has failed, be it the first or not."""
        return any(child.exitcode and child.has_failed for child in self.all)

    def failure(self) -> Child | None:
        """The child that failed first; None: none has, or the cause of what has failed is not yet
        known."""
        if not self.is_failing:
            return None
        for child in self.all:
            child.look()
        self._deadline = self._deadline or time.monotonic() + WIND_DOWN
        failed = [c for c in self.all if c.exitcode != 0 and c.has_failed]
        first = min(failed, key=lambda child: (child.is_consequence, child.failed_at))
        is_known = first.exitcode is not None and not first.is_consequence
        return first if is_known or self.is_late or not self.running else None

    @property
    def is_late(self) -> bool:
        """Whether the time is over in which the cause of a failure is waited for."""
        return 0.0 < self._deadline <= time.monotonic()

    def join(self, timeout: float | None = None) -> Child | None:
        """Waits until all have ended (None) or one has failed; None after so many seconds, too."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while (first := self.failure()) is None and self.running:
            remaining = None if deadline is None else deadline - time.monotonic()
            if remaining is not None and remaining <= 0:
                break
            self.wait(remaining)
        return first

    # ---------------------------------------------------------------- end
    def end(
        self, ask: Callable[[], None] | None = None, patience: float = 0.0, grace: float = GRACE
    ) -> None:
        """Ends all children and reaps them: asks and waits for `patience` seconds, SIGTERM and
        waits for `grace` seconds (0: neither), SIGKILL. An exception meanwhile goes on to SIGKILL.
        """
        try:
            if ask is not None and self.running:
                ask()
            self._wait_for_all(patience)
            for child in self.running if grace > 0 else ():
                child.signal(signal.SIGTERM)
            self._wait_for_all(grace)
        finally:
            for child in self.all:
                child.signal(signal.SIGKILL)
            for child in self.all:
                child.reap()

    def close(self) -> None:
        """Frees the Process objects of children that have ended."""
        for child in self.all:
            child.process.close()

    def _wait_for_all(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while self.running and (remaining := deadline - time.monotonic()) > 0:
            self.wait(remaining)

    # ---------------------------------------------------------------- words
    def explain(self, text: str, last: str, first: Child | None) -> str:
        """`text` about the first failure; the failures of the others, one a line; `last`."""
        others = [c.line() for c in self.all if c is not first and c.has_failed]
        return "\n".join([text, *others, last]) if others else text

    def error(
        self, where: str, first: Child, raised: str = "", exited: str = ""
    ) -> ProcessException:
        """The exception for the first failure.

        Args:
            raised: the line above a child's traceback; by default who raised what.
            exited: what is said of a child without a traceback; by default who ended how.
        """
        report, code = first.raised, first.exitcode or 0
        if report is None:
            text = self.explain(exited or f"{where}: {first.line()}", first.line(), first)
            name = signal_name(code) if code < 0 else None
            return ProcessExitedException(text, first.index, first.pid, code, name)
        text = f"{where}: {report.message}"
        if not report.is_unguarded:
            head = raised or f"{where}: {first.line()}\n"
            text = self.explain(f"{head}\n{report.traceback.rstrip()}", report.line(), first)
        return ProcessRaisedException(text, first.index, first.pid)
