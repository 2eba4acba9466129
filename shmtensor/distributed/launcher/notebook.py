"""`st.launch(fn, nprocs)`: a function as several ranks, from a notebook or a script."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from typing import Any

from ... import native
from ...errors import PeerLostError, ProcessExitedException, ProcessRaisedException
from ..group.init_process_group import (
    abort_groups,
    destroy_process_group,
    join_group,
    set_default_group,
)
from ..rendezvous.find_group import create_block

__all__ = ["launch"]


def run_rank(
    rank: int,
    n: int,
    handle: bytes,
    timeout: float,
    fn: Any,
    args: Any,
    results_queue: Any,
    env: Any,
) -> None:
    import os
    import traceback

    os.environ.update(env, RANK=str(rank), LOCAL_RANK=str(rank))
    block = native.receive(handle, False)
    set_default_group(join_group(block, rank, n, timeout, f"rank {rank}"))
    try:
        results_queue.put((rank, fn(*args), "", (False, 0.0)))
    except BaseException as error:
        # before the other ranks are told: the time shows that their errors are later
        when = (isinstance(error, PeerLostError), time.monotonic())
        abort_groups(error)
        results_queue.put((rank, None, traceback.format_exc(), when))
    finally:
        destroy_process_group()


def launch(
    fn: Callable[..., Any],
    nprocs: int = 2,
    args: tuple[Any, ...] = (),
    start_method: str = "fork",
    timeout: float = 1800.0,
) -> list[Any]:
    """Runs `fn(*args)` on `nprocs` ranks, which are in a process group already.

    Args:
        start_method: "fork" can run functions of a notebook; "spawn" and "forkserver" need a
            function that can be imported.
        timeout: seconds that a collective waits.

    Returns:
        The return value of each rank; tensors have the same memory.

    Raises:
        ProcessRaisedException: a rank raised; the message has the first one's traceback.
        ProcessExitedException: a rank was killed.

    >>> import shmtensor as st
    >>> st.launch(lambda: st.distributed.get_rank() * 10, 3)
    [0, 10, 20]
    """
    from ... import multiprocessing as mp

    if nprocs < 1:
        raise ValueError(f"launch: there is nothing to run: {nprocs} processes")
    context: Any = mp.get_context(start_method)
    block, handle = create_block(nprocs)
    results_queue = context.Queue()
    env = {"WORLD_SIZE": str(nprocs), "LOCAL_WORLD_SIZE": str(nprocs)}
    processes = [
        context.Process(
            target=run_rank, args=(rank, nprocs, handle, timeout, fn, args, results_queue, env),
            name=f"rank {rank}",
        )
        for rank in range(nprocs)
    ]  # fmt: skip
    results: dict[int, Any] = {}
    # (whether another rank's death caused it, time), rank, traceback
    failed: list[tuple[tuple[bool, float], int, str]] = []
    try:
        for process in processes:
            process.start()
        is_final = False
        while len(results) + len(failed) < nprocs:
            reported = {*results, *(r for _, r, _ in failed)}
            exited = [r for r in range(nprocs) if processes[r].exitcode is not None]
            try:
                rank, value, text, when = results_queue.get(True, 0.0 if is_final else 0.05)
            except queue.Empty:
                if is_final:  # all processes have ended, and the queue is empty
                    break
                if not reported.issuperset(exited):
                    end = time.monotonic() + 5
                    for process in processes:
                        process.join(max(end - time.monotonic(), 0))
                    is_final = True
                continue
            if text:
                failed.append((when, rank, text))
            else:
                results[rank] = value
        reported = {*results, *(r for _, r, _ in failed)}
        for process in processes:
            process.join(0 if len(reported) < nprocs else None)
        first = sorted(failed)
        silent = [
            r for r, p in enumerate(processes) if p.exitcode is not None and r not in reported
        ]
        if first and not (first[0][0][0] and silent):
            _, rank, text = first[0]
            raise ProcessRaisedException(
                f"launch: rank {rank} raised:\n\n{text}", rank, processes[rank].pid or 0
            )
        if silent:
            rank = min(silent, key=lambda r: processes[r].exitcode == 0)
            code = processes[rank].exitcode
            raise ProcessExitedException(
                f"launch: rank {rank} exited with code {code}", rank, processes[rank].pid or 0, code
            )
    finally:
        for process in processes:
            if process.pid is not None and process.exitcode is None:
                process.kill()
                process.join()
        results_queue.close()
        native.acknowledge(handle)
        del block
    return [results[rank] for rank in range(nprocs)]
