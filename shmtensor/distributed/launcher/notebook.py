"""`st.launch(fn, nprocs)`: a function as several ranks, from a notebook or a script."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ... import native
from ..group.init_process_group import destroy_process_group, join_group, set_default_group
from ..rendezvous.find_group import create_block


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
    os.environ.update(env, RANK=str(rank), LOCAL_RANK=str(rank))
    block = native.receive(handle, False)
    set_default_group(join_group(block, rank, n, timeout, f"rank {rank}"))
    results_queue.put((rank, fn(*args)))
    destroy_process_group()


def launch(
    fn: Callable[..., Any],
    nprocs: int = 2,
    args: tuple[Any, ...] = (),
    start_method: str = "fork",
    timeout: float = 1800.0,
) -> list[Any]:
    """Runs `fn(*args)` on `nprocs` ranks, which are in a process group already.

    Parameters
    ----------
    fn : callable
        What each rank runs.
    nprocs : int, optional
        The number of ranks.
    args : tuple, optional
        Its arguments.
    start_method : str, optional
        "fork" can run functions of a notebook; "spawn" and "forkserver" need a function that can be
        imported.
    timeout : float, optional
        Seconds that a collective waits.

    Returns
    -------
    list
        The return value of each rank; tensors have the same memory.

    Raises
    ------
    ProcessRaisedException
        A rank raised; the message has the first one's traceback.
    ProcessExitedException
        A rank was killed.

    Examples
    --------
    >>> st.launch(lambda: st.distributed.get_rank() * 10, 3)
    [0, 10, 20]
    """
    from ... import multiprocessing as mp
    from ...multiprocessing.children import Children

    if nprocs < 1:
        raise ValueError(f"launch: there is nothing to run: {nprocs} processes")
    context: Any = mp.get_context(start_method)
    block, handle = create_block(nprocs)
    results_queue = context.Queue()
    env = {"WORLD_SIZE": str(nprocs), "LOCAL_WORLD_SIZE": str(nprocs)}
    results: dict[int, Any] = {}
    children = Children()
    try:
        for rank in range(nprocs):
            arguments = (rank, nprocs, handle, timeout, fn, args, results_queue, env)
            children.start(context.Process(target=run_rank, args=arguments, name=f"rank {rank}"))
        first = children.join()
        while not results_queue.empty():
            rank, value = results_queue.get()
            results[rank] = value
        if first is None or first.is_consequence:  # a rank that ended early may be the cause
            ended = (c for c in children.all if c.exitcode == 0 and c.index not in results)
            first = next(ended, first)
        if first is not None:
            children.end()
            raise children.error("launch", first)
    finally:
        children.end(grace=0.0)
        results_queue.close()
        native.acknowledge(handle)
        del block
    return [results[rank] for rank in range(nprocs)]
