"""Importing, against NumPy; detecting a death, waiting, joining, against a constant, or fewer
processes."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

from .harness.case import OURS, Case
from .harness.partner_process import PATIENCE, partner

SOON = f"{OURS}, 50 ms"  # the bound of the median; each detection takes at most a second
IDLE = f"{OURS}, 1 % of a core"
FEW = f"{OURS}, 25 processes"
WATCH = 2.0  # seconds for which a waiter is watched


def imported(name: str) -> Callable[[Any], Iterator[Any]]:
    """CPU seconds of an import in a new process: other load on the machine does not change them.

    The modules are compiled once, as an install does. NumPy's BLAS starts no threads: they use CPU
    time while they wait for their first work.
    """
    code = f"import time; a = time.process_time(); import {name}; print(time.process_time() - a)"
    command = [sys.executable, "-c", code]

    def build(library: Any) -> Iterator[Any]:
        with tempfile.TemporaryDirectory() as folder:
            compiled = {"PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}
            environment = {**os.environ, **compiled, "OPENBLAS_NUM_THREADS": "1"}

            def run() -> float:
                return float(subprocess.check_output(command, env=environment))

            run()
            yield run

    return build


def constant(seconds: float) -> Callable[[Any], Callable[[], float]]:
    """A party with a constant time."""
    return lambda library: lambda: seconds


def barrier_of(block: Any, rank: int) -> Any:
    """A barrier of two ranks."""
    from shmtensor import native

    group = native.Group(block, rank, 2)
    return lambda: group.barrier(PATIENCE)


def victim(what: str, primitive: Any, ready: Any) -> None:
    """Takes the lock, or passes the barrier, and then sleeps."""
    if what == "lock":
        primitive.acquire()
    elif what == "barrier":
        primitive.wait()
    elif what == "group":
        meet = barrier_of(primitive, 1)  # a reference: a group without references leaves
        meet()
    ready.put(os.getpid())
    time.sleep(60)


def kill_at(pid: int, after: float) -> tuple[int, int]:
    """A child that kills a process after a while: its pid, and a pipe with the time."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        time.sleep(after)
        os.write(write, struct.pack("d", time.perf_counter()))
        os.kill(pid, signal.SIGKILL)
        os._exit(0)
    os.close(write)
    return child, read


def group_block(context: Any) -> Any:
    """The block of a group of two."""
    from shmtensor import native

    return native.allocate(native.group_nbytes(2), shared=True)


MAKE: dict[str, Callable[[Any], Any]] = {
    "queue": lambda context: context.SimpleQueue(),
    "lock": lambda context: context.Lock(),
    "barrier": lambda context: context.Barrier(2),
    "group": group_block,
}


def time_to_notice(what: str) -> Callable[[Any], Any]:
    """Seconds from a SIGKILL to the PeerLostError of the waiting process."""

    def build(st: Any) -> Callable[[], float]:
        import shmtensor.multiprocessing as mp

        context = mp.get_context("fork")
        turn = iter(range(1 << 30))

        def run() -> float:
            primitive = MAKE[what](context)
            ready = context.SimpleQueue()
            process = context.Process(target=victim, args=(what, primitive, ready), daemon=True)
            process.start()
            wait = barrier_of(primitive, 0) if what == "group" else getattr(primitive, "wait", None)
            if wait is not None:
                wait()
            pid = ready.get()
            after = 0.1 + 0.01 * (next(turn) % 7)  # at any moment of a slice
            killer, pipe = kill_at(pid, after)
            try:
                if what == "queue":
                    primitive.get(timeout=PATIENCE, watch=[process])
                elif what == "lock":
                    primitive.acquire(timeout=PATIENCE)
                else:
                    wait()
            except st.errors.PeerLostError:
                now = time.perf_counter()  # one clock for all processes
                took = now - struct.unpack("d", os.read(pipe, 8))[0]
            else:
                raise RuntimeError(f"time_to_notice: the death was not detected: {what}")
            finally:
                os.waitpid(killer, 0)
                os.close(pipe)
                process.join()
            if took > 1.0:
                raise RuntimeError(
                    f"time_to_notice: a death was detected late: {what}, {took:.3f} s"
                )
            return took

        return run

    return build


def wait_idly(queue: Any, answer: Any) -> None:
    """Waits for a message, and sends the CPU time of the wait."""
    queue.get()
    while queue.get():
        began = time.process_time()
        queue.get()
        answer.put(time.process_time() - began)


def idle(st: Any) -> Iterator[Any]:
    """CPU seconds of a process that waits in `get` for WATCH seconds."""
    import shmtensor.multiprocessing as mp

    context = mp.get_context("fork")
    queue, answer = st.Queue(4), st.Queue(4)

    def run() -> float:
        queue.put(True)
        time.sleep(WATCH)
        queue.put(True)
        return float(answer.get())

    with partner(context, wait_idly, queue, answer, end=lambda: queue.put(False)):
        queue.put(True)
        yield run
    queue.close()
    answer.close()


def join(n: int) -> Callable[[Any], Callable[[], float]]:
    """Seconds per process until n processes, forked one after the other, are members."""

    def build(st: Any) -> Callable[[], float]:
        from shmtensor import native

        def run() -> float:
            native.domain_ensure()
            read, write = os.pipe()
            go, stop_end = os.pipe()
            began = time.perf_counter()
            pids = []
            for _ in range(n):
                pid = os.fork()
                if pid == 0:
                    native.row()
                    os.write(write, b".")
                    os.close(stop_end)
                    os.read(go, 1)  # until the parent closes its end
                    os._exit(0)
                pids.append(pid)
            remaining = n
            while remaining:
                remaining -= len(os.read(read, remaining))
            took = time.perf_counter() - began
            members = st.memory.statistics().processes
            os.close(stop_end)
            for pid in pids:
                os.waitpid(pid, 0)
            for fd in (read, write, go):
                os.close(fd)
            native.sweep(True)
            if members <= n:
                raise RuntimeError(f"join: {members} members of {n} processes and this one")
            return took / n

        return run

    return build


CASES = [
    Case(
        "processes/import",
        {OURS: imported("shmtensor"), "numpy": imported("numpy")},
        2.0,
        "numpy",
        slow=True,
    ),
    *(
        Case(
            f"processes/death, {what}",
            {OURS: time_to_notice(what), SOON: constant(0.05)},
            1.0,
            SOON,
            long=True,
        )
        for what in MAKE
    ),
    Case("processes/idle wait", {OURS: idle, IDLE: constant(0.01 * WATCH)}, 1.0, IDLE, long=True),
    *(
        Case(f"processes/join, {n}", {OURS: join(n), FEW: join(25)}, 1.5, FEW, long=True)
        for n in (50, 100, 250)
    ),
]
