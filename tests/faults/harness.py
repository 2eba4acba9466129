"""Runs a scenario in which a victim dies, and checks the survivors.

    parent (this process)   sets up the scenario, forks the victim, checks what remains
    witness                 another survivor with its own row; checks itself on request
    victim                  acts with one fault point armed: killed or stopped there, or counted

A scenario is a function of a `Harness`. It calls `harness.victim(act)` once and then asserts its
own results. The harness checks the rest: no process hangs, every survivor's `check()` holds, all
holds of the dead process are released, nothing is leaked.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import select
import signal
import socket
import time
import traceback
from collections.abc import Callable, Iterator

import numpy as np
from memory.fresh import state_of, until

from shmtensor import memory, native

MIB = 1 << 20
PATIENCE = 20.0  # seconds until a wait counts as a hang


def tensor(n: int, tag: int) -> np.ndarray:
    """`n` shared bytes with the tag at both ends and in every page between."""
    with memory.shared_numpy():
        x = np.empty(n, np.uint8)
    x[:: 1 << 12] = tag
    x[-1] = tag
    return x


def has_tag(x: np.ndarray, tag: int) -> bool:
    return bool(x[-1] == tag and (x[:: 1 << 12] == tag).all())


def fork(function: Callable[[], int | None]) -> tuple[int, int, int]:
    """A child that runs `function` and ends: its pid, row and incarnation."""
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            code = function() or 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return (pid, *(native.last_child() or (-1, 0)))


def stopped(pid: int) -> bool:
    """Whether a child has been stopped, or is no more."""
    what = os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT)
    return what is not None


def reap(child: tuple[int, int, int]) -> int:
    """The exit code of a child, as `multiprocessing` has it."""
    code = os.waitstatus_to_exitcode(os.waitpid(child[0], 0)[1])
    native.record_exit(child[1], child[2], code)
    return code


class Witness:
    """A survivor in a process of its own that answers one byte at a time."""

    def __init__(self) -> None:
        self.socket, theirs = socket.socketpair()
        self.child = fork(lambda: self.live(theirs))
        theirs.close()

    def live(self, orders: socket.socket) -> None:
        self.socket.close()
        while order := orders.recv(200):
            if order[:1] == b"r":  # receive and let go
                memory.receive(order[1:73])
            mine = tensor(5000, 9)
            memory.check()
            assert has_tag(mine, 9)
            del mine
            memory.trim()
            orders.send(b"y")

    def ask(self, order: bytes) -> None:
        self.socket.send(order)
        assert select.select([self.socket], [], [], PATIENCE)[0], "the witness hangs"
        assert self.socket.recv(1) == b"y", "the witness has failed"


class Mail:
    """A pipe of handles and sizes: what the victim sent before it died is there."""

    def __init__(self) -> None:
        self.read, self.write = os.pipe()
        os.set_blocking(self.read, False)

    def send(self, x: np.ndarray) -> bytes:
        handle = memory.export(x)
        os.write(self.write, handle + x.size.to_bytes(8, "little"))
        return handle

    def all(self) -> Iterator[tuple[bytes, int]]:
        while True:
            try:
                letter = os.read(self.read, 80)
            except BlockingIOError:
                return
            yield letter[:72], int.from_bytes(letter[72:], "little")

    def close(self) -> None:
        os.close(self.read)
        os.close(self.write)


class Harness:
    """One scenario with one specification of a fault: `?`, `point:nth` or `point:nth:stop`."""

    def __init__(self, witness: Witness, specification: str) -> None:
        self.witness = witness
        self.specification = specification
        self.point = specification.partition(":")[0]
        self.stops = specification.endswith(":stop")
        self.code: int | None = None
        self.point_counts: dict[str, int] | None = None  # by a victim that is no child by fork

    def victim(
        self, act: Callable[[], object], before: Callable[[int], object] = bool, first: str = ""
    ) -> None:
        """Runs `act` in a child with the fault armed, to its end.

        Args:
            before: runs here, with the victim's pid, before the victim is looked after.
            first: where the victim stops before its fault is armed; `before` continues it.
        """

        def run() -> None:
            native.arm_fault("?")  # all counts to zero
            native.arm_fault(first + self.specification)
            act()

        child = fork(run)
        before(child[0])
        self.wait(child)
        if self.specification == "?" or self.specification.endswith(":stop"):
            assert self.code == 0, "the victim has failed"
        else:
            assert self.code in (0, -9), f"the victim has failed: {self.code}"

    def wait(self, child: tuple[int, int, int]) -> None:
        end = time.monotonic() + PATIENCE
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT | (os.WSTOPPED if self.stops else 0)
        while (what := os.waitid(os.P_PID, child[0], flags)) is None:
            if self.stops and self.reached() and self.stopped_elsewhere(child[0]):
                self.meanwhile()
            if time.monotonic() > end:
                os.kill(child[0], signal.SIGABRT)  # its stack, by faulthandler
                time.sleep(1)
                raise AssertionError(f"the victim hangs: {self.specification}")
            time.sleep(0.001)
        if what.si_code == os.CLD_STOPPED:
            self.meanwhile()
            os.kill(child[0], signal.SIGCONT)
            self.stops = False
            self.wait(child)
            return
        if self.code is None:
            self.code = reap(child)

    def stopped_elsewhere(self, pid: int) -> bool:
        """A child of the victim is stopped, and continued here; the victim waits for it."""
        result = False
        with open(f"/proc/{pid}/task/{pid}/children") as children:
            remaining = [int(other) for other in children.read().split()]
        for other in remaining:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
                if state_of(other) == "T":
                    os.kill(other, signal.SIGCONT)
                    result = True
        return result

    def reached(self) -> bool:
        """Whether somebody came to the armed point."""
        return bool(self.counts().get(self.point, 0))

    def counts(self) -> dict[str, int]:
        return self.point_counts or native.fault_points()

    def meanwhile(self) -> None:
        """What the others do while the victim is stopped: everything, and nobody waits for it."""
        x, y = tensor(3000, 4), tensor(300_000, 6)
        self.witness.ask(b"r" + memory.export(x))
        self.witness.ask(b"r" + memory.export(y))
        native.sweep(True)
        assert has_tag(x, 4)
        del x, y
        memory.trim()
        memory.check()


class NotReachedError(AssertionError):
    """The victim did not come to the point; all else was as it should be."""


def perform(
    scenario: Callable[[Harness], None], witness: Witness, specification: str
) -> dict[str, int]:
    """A scenario from a settled domain to a settled domain; how often each point was reached."""
    slots = settled(None)
    native.set_unread_grace(60.0, 3600.0)
    harness = Harness(witness, specification)
    faulthandler.dump_traceback_later(2 * PATIENCE, exit=True)
    scenario(harness)
    faulthandler.cancel_dump_traceback_later()
    counts = harness.counts()
    is_reached = specification == "?" or harness.reached()
    memory.check()
    witness.ask(b"c")
    settled(slots)
    if not is_reached:
        raise NotReachedError(f"{specification} was not reached")
    return counts


def settled(slots: int | None) -> int:
    """Two members, no zombies, no orphans, no unread message, as many slots as before."""
    native.set_unread_grace(0.0, 0.0)

    def quiet() -> bool:
        native.sweep(True)
        memory.trim()
        s = memory.statistics()
        return (
            (s.processes, s.zombies, s.slots_orphaned, s.unread_messages) == (2, 0, 0, 0)
            and not native.unread()
            and slots in (None, s.slots_used)
        )

    until(quiet, f"{slots} slots were in use")
    memory.check()
    return memory.statistics().slots_used
