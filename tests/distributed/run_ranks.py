"""Runs a function on several ranks of a new group and returns what each returned or raised. The
group uses shared memory, or TCP between simulated nodes of this machine.
"""

from __future__ import annotations

import os
import queue
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from shmtensor import distributed as dist
from shmtensor import multiprocessing as mp
from shmtensor import native
from shmtensor.distributed.group.init_process_group import (
    abort_groups,
    init_process_group,
    join_group,
    set_default_group,
)
from shmtensor.distributed.rendezvous.find_group import create_block

START_METHODS = ("fork", "forkserver", "spawn")
SECRET = "6b" * 16


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def node_of(rank: int, node: int, ranks: int) -> list[int]:
    """The ranks of a rank's node, if `node` of them make one."""
    first = rank // node * node
    return list(range(first, min(first + node, ranks)))


@dataclass
class Outcome:
    """Of one rank: `value`, or `error` with the seconds from the call to it; neither if it was
    killed.
    """

    rank: int
    value: Any = None
    error: BaseException | None = None
    exitcode: int | None = None


def live(
    rank: int,
    ranks: int,
    place: bytes | tuple[int, int],
    timeout: float,
    function: Any,
    arguments: Any,
    results: Any,
) -> None:
    """Joins the group: of a block's handle, or of a port where nodes of so many ranks meet."""
    if isinstance(place, bytes):
        block = native.receive(place, False)
        set_default_group(join_group(block, rank, ranks, timeout, f"rank {rank}"))
    else:
        port, node = place
        os.environ.update(
            LOCAL_WORLD_SIZE=str(node), SHMTENSOR_RANKS_PER_NODE=str(node), SHMTENSOR_SECRET=SECRET
        )
        init_process_group("gloo", f"tcp://127.0.0.1:{port}", timeout, ranks, rank)
    try:
        results.put((rank, function(*arguments), None))
    except Exception as error:
        abort_groups(error)
        try:
            results.put((rank, None, error))
        except TypeError:  # it has an object that cannot be pickled
            results.put((rank, None, type(error)(str(error))))
    finally:
        dist.destroy_process_group()


def run(
    function: Callable[..., Any],
    ranks: int,
    *arguments: Any,
    start_method: str | None = None,
    timeout: float = 20.0,
    patience: float = 60.0,
    node: int = 0,
) -> list[Outcome]:
    """`function(*arguments)` on every rank, inside a process group.

    Args:
        node: the number of ranks of a node, with TCP between nodes; 0: all share memory.
    """
    context: Any = mp.get_context(start_method)
    block, handle = create_block(1 if node else ranks)
    place = (free_port(), node) if node else handle
    results = context.Queue()
    processes = [
        context.Process(
            target=live,
            args=(rank, ranks, place, timeout, function, arguments, results),
            name=f"rank {rank}",
        )
        for rank in range(ranks)
    ]
    outcomes = [Outcome(rank) for rank in range(ranks)]
    try:
        for process in processes:
            process.start()
        end = time.monotonic() + patience
        missing = set(range(ranks))
        while missing and time.monotonic() < end:
            try:
                rank, outcomes[rank].value, outcomes[rank].error = results.get(True, 0.05)
                missing.discard(rank)
            except queue.Empty:
                # The exit code first: then the result of a rank that has ended is in the queue.
                dead = {r for r in missing if processes[r].exitcode is not None}
                if dead and results.empty():
                    missing -= dead
        for process in processes:
            process.join(10)
            assert process.exitcode is not None, f"{process.name} hangs: {outcomes}"
        for outcome, process in zip(outcomes, processes, strict=True):
            outcome.exitcode = process.exitcode
    finally:
        for process in processes:
            if process.pid is not None and process.exitcode is None:
                process.kill()
                process.join()
        results.close()
        native.acknowledge(handle)
        del block
    return outcomes


def values(outcomes: list[Outcome]) -> list[Any]:
    """The ranks' return values; raises the error of one that raised."""
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error
        assert outcome.exitcode == 0, outcome
    return [outcome.value for outcome in outcomes]


def die() -> None:
    os.kill(os.getpid(), 9)
