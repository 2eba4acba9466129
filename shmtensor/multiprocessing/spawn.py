"""spawn and start_processes: the same function in several processes; the first failure is raised in
the caller.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from shmtensor import native
from shmtensor.errors import ProcessException, ProcessExitedException, ProcessRaisedException

from .child_main import end_with_parent
from .context import default_context
from .queue import signal_name

if TYPE_CHECKING:
    from .children import Children

__all__ = [
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "spawn",
    "start_processes",
]


def _run(fn: Callable[..., Any], i: int, n: int, args: tuple[Any, ...]) -> None:
    try:
        end_with_parent()
        native.share_threads(n)
        fn(i, *args)
    except KeyboardInterrupt:
        return  # the parent has ended, or the terminal sent SIGINT to all: not an error


class ProcessContext:
    """Processes that were started together.

    Parameters
    ----------
    children : Children
        The processes.

    Attributes
    ----------
    processes : list of Process
        By index.

    Examples
    --------
    >>> from shmtensor import multiprocessing as mp
    >>> def nothing(rank):
    ...     pass
    >>> context = mp.start_processes(nothing, nprocs=2, join=False, start_method="fork")
    >>> while not context.join():
    ...     pass
    >>> len(context.processes)
    2
    """

    def __init__(self, children: Children) -> None:
        self._children = children
        self.processes = [child.process for child in children.all]

    @property
    def sentinels(self) -> dict[int, int]:
        """The indices of the processes that run, by a descriptor that becomes readable when the
        process ends."""
        return {child.process.sentinel: child.index for child in self._children.running}

    def pids(self) -> list[int]:
        """Process ids, by index."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Waits for a process to end.

        Parameters
        ----------
        timeout : float, optional
            The longest wait for the next process to end, in seconds.
        grace_period : float, optional
            Seconds between the first failure and SIGTERM to the other processes, and from then to
            SIGKILL (None: SIGTERM at once, SIGKILL after 30).

        Returns
        -------
        bool
            True: all have ended with exit code 0.

        Raises
        ------
        ProcessRaisedException
            One ended with an exception; the message holds its traceback.
        ProcessExitedException
            One ended by a signal or with an exit code other than 0.
        """
        children = self._children
        if not children.running:
            return True
        if not children.is_failing:
            children.wait(timeout)
        first = children.join(timeout) if children.is_failing else None
        if first is None:
            return not children.running
        patience, grace = (0.0, 30.0) if grace_period is None else (grace_period, grace_period)
        children.end(patience=patience, grace=grace)
        index, pid, code = first.index, first.pid, first.exitcode or 0
        end = f"signal {signal_name(code)}" if code < 0 else f"exit code {code}"
        raise children.error(
            "spawn",
            first,
            raised=f"\n\n-- Process {index} terminated with the following error:",
            exited=f"process {index} (pid {pid}) terminated with {end}",
        )


class SpawnContext(ProcessContext):
    """The class of the result of `spawn(join=False)` in PyTorch.

    Parameters
    ----------
    children : Children
        The processes.

    See Also
    --------
    ProcessContext

    Examples
    --------
    >>> from shmtensor import multiprocessing as mp
    >>> issubclass(mp.SpawnContext, mp.ProcessContext)
    True
    """


def start_processes(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Calls `fn(i, *args)` in `nprocs` processes, i from 0.

    Parameters
    ----------
    fn : callable
        Called as `fn(i, *args)`.
    args : tuple, optional
        Its further arguments. Copies: none; tensors are sent as handles.
    nprocs : int, optional
        How many processes.
    join : bool, optional
        Whether to wait for all; if one fails, the others are ended and the error raised.
    daemon : bool, optional
        Whether the processes end with this one.
    start_method : str, optional
        "spawn", "fork" or "forkserver".

    Returns
    -------
    ProcessContext or None
        None if `join`, else a context to join later.

    Raises
    ------
    ProcessRaisedException, ProcessExitedException
        A process has failed, as `ProcessContext.join`.

    See Also
    --------
    spawn, Process

    Examples
    --------
    >>> from shmtensor import multiprocessing as mp
    >>> def write(rank, x):
    ...     x[rank] = rank + 1
    >>> x = st.zeros(2)
    >>> mp.start_processes(write, (x,), nprocs=2, start_method="fork")
    >>> x
    tensor([1., 2.])
    """
    from .children import Children  # loads what only the parent needs

    context = default_context.get_context(start_method)
    children = Children()
    try:
        for i in range(nprocs):
            children.start(
                context.Process(
                    target=_run, args=(fn, i, nprocs, args), daemon=daemon, name=f"process {i}"
                )
            )
        spawn_context = SpawnContext(children)
        while join and not spawn_context.join():
            continue
    except BaseException:
        children.end(grace=0.0)
        raise
    return None if join else spawn_context


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """`start_processes` by spawn: calls `fn(i, *args)` in fresh processes.

    Parameters
    ----------
    fn : callable
        Called as `fn(i, *args)`, i from 0.
    args : tuple, optional
        Its further arguments.
    nprocs : int, optional
        How many processes.
    join : bool, optional
        Whether to wait for all; if one fails, the others are ended and the error raised.
    daemon : bool, optional
        Whether the processes end with this one.
    start_method : str, optional
        Another one than "spawn" is a FutureWarning, as in PyTorch, and ignored.

    Returns
    -------
    ProcessContext or None
        None if `join`, else a context to join later.

    Raises
    ------
    ProcessRaisedException, ProcessExitedException
        A process has failed.

    See Also
    --------
    start_processes

    Examples
    --------
    >>> from shmtensor import multiprocessing as mp
    >>> def train(rank, x):
    ...     x[rank] = rank
    >>> def main():
    ...     x = st.zeros(4)
    ...     mp.spawn(train, (x,), nprocs=4)
    ...     return x
    """
    if start_method != "spawn":
        warnings.warn(
            f"spawn: start_method {start_method!r} is ignored, use start_processes for it",
            FutureWarning,
            stacklevel=2,
        )
    return start_processes(fn, args, nprocs, join, daemon, "spawn")
