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


def live(
    rank: int, n: int, handle: bytes, timeout: float, fn: Any, args: Any, answers: Any, env: Any
) -> None:
    import os
    import traceback

    os.environ.update(env, RANK=str(rank), LOCAL_RANK=str(rank))
    block = native.receive(handle, False)
    set_default_group(join_group(block, rank, n, timeout, f"rank {rank}"))
    try:
        answers.put((rank, fn(*args), "", (False, 0.0)))
    except BaseException as error:
        # before the others are told: what they make of that comes later
        when = (isinstance(error, PeerLostError), time.monotonic())
        abort_groups(error)
        answers.put((rank, None, traceback.format_exc(), when))
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
        start_method: "fork" takes functions of a notebook as they are; "spawn" and "forkserver"
            need a function that can be imported.
        timeout: seconds that a collective waits.

    Returns:
        What each rank returned; tensors arrive as the same memory.

    Raises:
        ProcessRaisedException: a rank raised; the message holds the first's traceback.
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
    answers = context.Queue()
    env = {"WORLD_SIZE": str(nprocs), "LOCAL_WORLD_SIZE": str(nprocs)}
    processes = [
        context.Process(
            target=live, args=(rank, nprocs, handle, timeout, fn, args, answers, env),
            name=f"rank {rank}",
        )
        for rank in range(nprocs)
    ]  # fmt: skip
    results: dict[int, Any] = {}
    failed: list[tuple[tuple[bool, float], int, str]] = []  # what others caused, when
    try:
        for process in processes:
            process.start()
        is_over = False
        while len(results) + len(failed) < nprocs:
            told = {*results, *(r for _, r, _ in failed)}
            ended = [r for r in range(nprocs) if processes[r].exitcode is not None]
            try:
                rank, value, text, when = answers.get(True, 0.0 if is_over else 0.05)
            except queue.Empty:
                if is_over:  # whoever answered did so before it ended
                    break
                if not told.issuperset(ended):
                    end = time.monotonic() + 5
                    for process in processes:
                        process.join(max(end - time.monotonic(), 0))
                    is_over = True
                continue
            if text:
                failed.append((when, rank, text))
            else:
                results[rank] = value
        told = {*results, *(r for _, r, _ in failed)}
        for process in processes:
            process.join(0 if len(told) < nprocs else None)
        first = sorted(failed)
        killed = [r for r, p in enumerate(processes) if p.exitcode is not None and r not in told]
        if first and not (first[0][0][0] and killed):
            _, rank, text = first[0]
            raise ProcessRaisedException(
                f"launch: rank {rank} raised:\n\n{text}", rank, processes[rank].pid or 0
            )
        if killed:
            rank = min(killed, key=lambda r: processes[r].exitcode == 0)
            code = processes[rank].exitcode
            raise ProcessExitedException(
                f"launch: rank {rank} exited with code {code}", rank, processes[rank].pid or 0, code
            )
    finally:
        for process in processes:
            if process.pid is not None and process.exitcode is None:
                process.kill()
                process.join()
        answers.close()
        native.acknowledge(handle)
        del block
    return [results[rank] for rank in range(nprocs)]
