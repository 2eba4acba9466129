"""spawn and start_processes: the same function in several processes; the first failure is raised in
the caller.
"""

from __future__ import annotations

import os
import signal
import time
import traceback
import warnings
from collections.abc import Callable
from multiprocessing import connection
from typing import Any

from shmtensor import native
from shmtensor.errors import ProcessException, ProcessExitedException, ProcessRaisedException

from .child_main import end_with_parent
from .context import default_context

__all__ = [
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "spawn",
    "start_processes",
]


def _run(fn: Callable[..., Any], i: int, n: int, args: tuple[Any, ...], errors: Any) -> None:
    try:
        end_with_parent()
        native.share_threads(n)
        fn(i, *args)
    except KeyboardInterrupt:
        return  # the parent has ended, or the terminal sent SIGINT to all: not an error
    except Exception:
        errors.put(traceback.format_exc())
        raise SystemExit(1) from None


class ProcessContext:
    """Processes that were started together.

    Attributes:
        processes: the Process objects, by index.
        sentinels: descriptors that become readable when the process ends, by index.
    """

    def __init__(self, processes: list[Any], errors: list[Any]) -> None:
        self.processes = processes
        self.error_queues = errors
        self.sentinels = {process.sentinel: index for index, process in enumerate(processes)}

    def pids(self) -> list[int]:
        """Process ids, by index."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Waits for a process to end; True: all have ended with exit code 0.

        Args:
            timeout: the longest wait for the next process to end, in seconds.
            grace_period: seconds between the first failure and SIGTERM to the other processes, and
                from then to SIGKILL (None: SIGTERM at once, SIGKILL after 30).
        Raises:
            ProcessRaisedException: one ended with an exception; the message holds its traceback.
            ProcessExitedException: one ended by a signal or with an exit code other than 0.
        """
        if not self.sentinels:
            return True
        ready: list[Any] = connection.wait(self.sentinels.keys(), timeout=timeout)
        failed_index = None
        for sentinel in ready:
            index = self.sentinels.pop(sentinel)
            process = self.processes[index]
            process.join()
            if process.exitcode != 0 and failed_index is None:
                failed_index = index
        if failed_index is None:
            if not self.sentinels:
                self._close()
            return not self.sentinels
        self._end_others(grace_period)
        self._raise(failed_index)
        return False

    def _end_others(self, grace_period: float | None) -> None:
        if grace_period is not None:
            self._join_within(grace_period)
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        self._join_within(30.0 if grace_period is None else grace_period)
        for process in self.processes:
            if process.is_alive():
                process.kill()
            process.join()
        self.sentinels.clear()

    def _join_within(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        for process in self.processes:
            process.join(max(end - time.monotonic(), 0.0))

    def _raise(self, index: int) -> None:
        process, errors = self.processes[index], self.error_queues[index]
        code, pid = process.exitcode, process.pid
        text = None if errors.empty() else errors.get()
        self._close()
        if text is not None:
            raise ProcessRaisedException(
                f"\n\n-- Process {index} terminated with the following error:\n{text}",
                error_index=index,
                error_pid=pid,
            )
        if code < 0:
            try:
                name = signal.Signals(-code).name
            except ValueError:
                name = f"<Unknown signal {-code}>"
            raise ProcessExitedException(
                f"process {index} (pid {pid}) terminated with signal {name}",
                error_index=index,
                error_pid=pid,
                exit_code=code,
                signal_name=name,
            )
        raise ProcessExitedException(
            f"process {index} (pid {pid}) terminated with exit code {code}",
            error_index=index,
            error_pid=pid,
            exit_code=code,
        )

    def _close(self) -> None:
        for errors in self.error_queues:
            errors.close()


class SpawnContext(ProcessContext):
    """The class of the result of `spawn(join=False)` in PyTorch."""


def start_processes(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Calls `fn(i, *args)` in `nprocs` processes, i from 0.

    Args:
        join: wait for all; if one fails, end the others and raise.
        daemon: the processes end with this one.
    Returns: None if `join`, else a context to join later.
    Raises: ProcessRaisedException, ProcessExitedException, as `ProcessContext.join`.
    Copies: none; tensors in args are sent as handles.
    """
    context = default_context.get_context(start_method)
    processes: list[Any] = []
    errors: list[Any] = []
    for i in range(nprocs):
        queue = context.SimpleQueue()
        process = context.Process(
            target=_run, args=(fn, i, nprocs, args, queue), daemon=daemon, name=f"process {i}"
        )
        process.start()
        processes.append(process)
        errors.append(queue)
    spawn_context = SpawnContext(processes, errors)
    if not join:
        return spawn_context
    try:
        while not spawn_context.join():
            continue
    except BaseException:
        for process in processes:
            if process.pid != os.getpid() and process.is_alive():
                process.kill()
                process.join()
        raise
    return None


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """As `start_processes` by spawn; another `start_method` is a FutureWarning, as in PyTorch."""
    if start_method != "spawn":
        warnings.warn(
            f"spawn: start_method {start_method!r} is ignored, use start_processes for it",
            FutureWarning,
            stacklevel=2,
        )
    return start_processes(fn, args, nprocs, join, daemon, "spawn")
