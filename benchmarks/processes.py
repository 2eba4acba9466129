"""What processes cost: noticing a death, waiting, joining; against a bound, or fewer of them."""

from __future__ import annotations

import os
import signal
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

from .harness.case import OURS, Case
from .harness.partner_process import PATIENCE, partner

__all__ = ["CASES"]

SOON = f"{OURS}, 50 ms"  # the bound of the median; a second is the bound of each
IDLE = f"{OURS}, 1 % of a core"
FEW = f"{OURS}, 25 processes"
WATCH = 2.0  # seconds for which a waiter is watched


def bound(seconds: float) -> Callable[[Any], Callable[[], float]]:
    """A party that always takes so long."""
    return lambda library: lambda: seconds


def gather(block: Any, rank: int) -> Any:
    """A barrier of two ranks."""
    from shmtensor import native

    group = native.Group(block, rank, 2)
    return lambda: group.barrier(PATIENCE)


def victim(what: str, thing: Any, ready: Any) -> None:
    """Comes to where the other one waits for it, and stays."""
    if what == "lock":
        thing.acquire()
    elif what == "barrier":
        thing.wait()
    elif what == "group":
        meet = gather(thing, 1)  # who lets a group go leaves it
        meet()
    ready.put(os.getpid())
    time.sleep(60)


def kill_at(pid: int, after: float) -> tuple[int, int]:
    """A child that kills a process after a while: its pid, and a pipe into which it writes when."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        time.sleep(after)
        os.write(write, struct.pack("d", time.perf_counter()))
        os.kill(pid, signal.SIGKILL)
        os._exit(0)
    os.close(write)
    return child, read


def group_words(context: Any) -> Any:
    """The block of a group of two."""
    from shmtensor import native

    return native.allocate(native.group_nbytes(2), shared=True)


MAKE: dict[str, Callable[[Any], Any]] = {
    "queue": lambda context: context.SimpleQueue(),
    "lock": lambda context: context.Lock(),
    "barrier": lambda context: context.Barrier(2),
    "group": group_words,
}


def notice(what: str) -> Callable[[Any], Any]:
    """Seconds from a SIGKILL to the PeerLostError of the one who waits."""

    def build(st: Any) -> Callable[[], float]:
        import shmtensor.multiprocessing as mp

        context = mp.get_context("fork")
        turn = iter(range(1 << 30))

        def run() -> float:
            thing = MAKE[what](context)
            ready = context.SimpleQueue()
            process = context.Process(target=victim, args=(what, thing, ready), daemon=True)
            process.start()
            meet = gather(thing, 0) if what == "group" else getattr(thing, "wait", None)
            if meet is not None:
                meet()
            pid = ready.get()
            after = 0.1 + 0.01 * (next(turn) % 7)  # at any moment of a slice
            killer, said = kill_at(pid, after)
            try:
                if what == "queue":
                    thing.get(timeout=PATIENCE, watch=[process])
                elif what == "lock":
                    thing.acquire(timeout=PATIENCE)
                else:
                    meet()
            except st.errors.PeerLostError:
                now = time.perf_counter()  # one clock for all processes
                took = now - struct.unpack("d", os.read(said, 8))[0]
            else:
                raise RuntimeError(f"notice: nobody said that the process had died: {what}")
            finally:
                os.waitpid(killer, 0)
                os.close(said)
                process.join()
            if took > 1.0:
                raise RuntimeError(f"notice: a death was noticed late: {what}, {took:.3f} s")
            return took

        return run

    return build


def wait_idly(queue: Any, answer: Any) -> None:
    """Waits for a message, then says how much CPU time that has cost."""
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
    """Seconds for each of n processes, forked one after the other, until all are members."""

    def build(st: Any) -> Callable[[], float]:
        from shmtensor import native

        def run() -> float:
            native.domain_ensure()
            read, write = os.pipe()
            go, gone = os.pipe()
            began = time.perf_counter()
            pids = []
            for _ in range(n):
                pid = os.fork()
                if pid == 0:
                    native.row()
                    os.write(write, b".")
                    os.close(gone)
                    os.read(go, 1)  # until the parent closes its end
                    os._exit(0)
                pids.append(pid)
            left = n
            while left:
                left -= len(os.read(read, left))
            took = time.perf_counter() - began
            members = st.memory.statistics().processes
            os.close(gone)
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
    *(
        Case(
            f"processes/death, {what}",
            {OURS: notice(what), SOON: bound(0.05)},
            1.0,
            SOON,
            long=True,
        )
        for what in MAKE
    ),
    Case("processes/idle wait", {OURS: idle, IDLE: bound(0.01 * WATCH)}, 1.0, IDLE, long=True),
    *(
        Case(f"processes/join, {n}", {OURS: join(n), FEW: join(25)}, 1.5, FEW, long=True)
        for n in (50, 100, 250)
    ),
]
