"""The thread that ends holds and closes slabs in a process that does nothing else.

It runs while something waits: blocks in limbo, holds whose work has not ended, slabs of other
processes that are open. It starts from finalisers, too, so it is a bare thread: the locks of
`threading.Thread.start` may be held by the very code that a finaliser interrupts.
"""

from __future__ import annotations

import _thread
import atexit
import os
import time
from multiprocessing import util

from ... import native
from . import lending, waits
from .allocator import allocator

__all__ = ["start", "stop"]

SHORTEST_S, LONGEST_S = 0.002, 0.25  # between two looks at what waits; doubles without progress
LIVENESS_S = 0.5  # between two sweeps for dead owners of open slabs
WAITING_S = 0.1  # the same while streams wait for other processes
EXITING_S = 0.05  # the same while a dead process's context may still be there

thread = 0  # its identity; 0: it does not run
is_enabled = False
has_progressed = False
wake_up = _thread.allocate_lock()  # released to end a pause
wake_up.acquire()


def start() -> None:
    """The thread runs from now on while there is something to wait for."""
    global is_enabled
    if not is_enabled:
        is_enabled = True
        allocator.on_work = wake
        allocator.close_imports = lending.close_idle
        atexit.register(stop)
        util.Finalize(None, finish, exitpriority=0)  # of children, without atexit


def wake() -> None:
    """There is something new to wait for. The allocator's lock is held."""
    global thread
    if not thread and is_enabled:
        thread = _thread.start_new_thread(run, ())


def stop() -> None:
    """Ends the thread; finalisers do nothing from now on, because the process ends."""
    global is_enabled
    is_enabled = False
    finish()
    allocator.is_closed = True
    atexit.unregister(stop)
    end_thread()


def finish() -> None:
    """Waits for this process's own work that others wait for."""
    if allocator.pid == os.getpid():
        waits.finish()


def pause() -> None:
    """Ends the thread; the next work starts it again."""
    global is_enabled
    is_enabled = False
    end_thread()
    is_enabled = True


def end_thread() -> None:
    end = time.monotonic() + 5
    if allocator.pid != os.getpid():  # forked: the thread is the parent's
        return
    while thread and time.monotonic() < end:
        if wake_up.locked():
            wake_up.release()
        time.sleep(0.001)


def run() -> None:
    """The thread. An error ends it, and the next work starts another."""
    global thread
    try:
        look()
    except BaseException:
        thread = 0
        raise


def look() -> None:
    """Note [The timer's lock]: who has the allocator's lock may wait for a stream that waits for a
    process that has died, until this thread sweeps that. So it never waits for the lock.
    """
    pause, next_sweep, is_exiting = SHORTEST_S, time.monotonic() + LIVENESS_S, False
    while True:
        wake_up.acquire(timeout=pause)
        now = time.monotonic()
        is_due = now >= next_sweep and bool(allocator.lent or lending.imports or waits.pending)
        if is_due:
            native.sweep(True)
            is_exiting = bool(native.rows_exiting())
            waits.settle()
        between = EXITING_S if is_exiting else WAITING_S if waits.pending else LIVENESS_S
        if is_due:
            next_sweep = now + between
        try:
            is_free = native.call_if_free(allocator.lock, act)
        finally:
            allocator.retry()
        if is_free and thread != _thread.get_ident():  # the one that starts it has the lock
            return
        longest = min(LONGEST_S, between)
        if has_progressed or not is_free:
            pause = SHORTEST_S
        else:
            pause = min(2 * pause, longest) if has_work() else longest


def act() -> None:
    """Ends what can be ended; and the thread, if nothing is left. The lock is held."""
    global thread, has_progressed
    has_progressed = allocator.poll()
    has_progressed = allocator.reclaim() or has_progressed
    lending.close_idle(lending.IDLE_S)
    if not is_enabled or not (has_work() or lending.imports or waits.pending):
        thread = 0


def has_work() -> bool:
    """Whether something waits, beyond open slabs."""
    return bool(allocator.leaving or allocator.lent)
