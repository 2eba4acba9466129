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

SHORTEST_S, LONGEST_S = 0.002, 0.25  # between two looks at what waits; doubles without progress
LIVENESS_S = 0.5  # between two sweeps for dead owners of open slabs
EXITING_S = 0.05  # the same while a dead process's context may still be there

is_running = False
is_enabled = False
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
    global is_running
    if not is_running and is_enabled:
        is_running = True
        try:
            _thread.start_new_thread(run, ())
        except BaseException:  # no thread can be had now
            is_running = False
            raise


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
    while is_running and time.monotonic() < end:
        if wake_up.locked():
            wake_up.release()
        time.sleep(0.001)


def run() -> None:
    """The thread. An error ends it, and the next work starts another."""
    global is_running
    try:
        look()
    except BaseException:
        is_running = False
        raise


def look() -> None:
    global is_running
    pause, next_sweep, is_exiting = SHORTEST_S, time.monotonic() + LIVENESS_S, False
    while True:
        wake_up.acquire(timeout=pause)
        waits.settle()
        now = time.monotonic()
        is_due = now >= next_sweep and bool(allocator.lent or lending.imports)
        if is_due:
            native.sweep(True)
            is_exiting = bool(native.rows_exiting())
            next_sweep = now + (EXITING_S if is_exiting else LIVENESS_S)
        try:
            with allocator.lock:
                progress = allocator.poll()
                progress = allocator.reclaim() or progress
                lending.close_idle(lending.IDLE_S)
                waiting = allocator.leaving or allocator.lent
                if not is_enabled or not (waiting or lending.imports):
                    is_running = False
                    return
                longest = EXITING_S if is_exiting else LONGEST_S
                pause = SHORTEST_S if progress else min(2 * pause, longest) if waiting else longest
        finally:
            allocator.retry()
