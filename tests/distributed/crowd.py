"""Runs a function on several ranks of a fresh group, and hands back what each returned or
raised.
"""

from __future__ import annotations

import os
import queue
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from shmtensor import distributed as dist
from shmtensor import multiprocessing as mp
from shmtensor import native
from shmtensor.distributed.membership import enter, give_up, join
from shmtensor.distributed.rendezvous import create_block

START_METHODS = ("fork", "forkserver", "spawn")


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
    handle: bytes,
    timeout: float,
    function: Any,
    arguments: Any,
    answers: Any,
) -> None:
    block = native.receive(handle, False)
    enter(join(block, rank, ranks, timeout, f"rank {rank}"))
    try:
        answers.put((rank, function(*arguments), None))
    except Exception as error:
        give_up(error)
        answers.put((rank, None, error))
    finally:
        dist.destroy_process_group()


def run(
    function: Callable[..., Any],
    ranks: int,
    *arguments: Any,
    start_method: str | None = None,
    timeout: float = 20.0,
    patience: float = 60.0,
) -> list[Outcome]:
    """`function(*arguments)` on every rank, inside a process group."""
    context: Any = mp.get_context(start_method)
    block, handle = create_block(ranks)
    answers = context.Queue()
    processes = [
        context.Process(
            target=live,
            args=(rank, ranks, handle, timeout, function, arguments, answers),
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
                rank, outcomes[rank].value, outcomes[rank].error = answers.get(True, 0.05)
                missing.discard(rank)
            except queue.Empty:
                # The exit code first: what a rank said before it ended is in the queue by then.
                gone = {r for r in missing if processes[r].exitcode is not None}
                if gone and answers.empty():
                    missing -= gone
        for process in processes:
            process.join(10)
            assert process.exitcode is not None, f"{process.name} hangs"
        for outcome, process in zip(outcomes, processes, strict=True):
            outcome.exitcode = process.exitcode
    finally:
        for process in processes:
            if process.pid is not None and process.exitcode is None:
                process.kill()
                process.join()
        answers.close()
        native.acknowledge(handle)
        del block
    return outcomes


def values(outcomes: list[Outcome]) -> list[Any]:
    """What the ranks returned; raises what one raised."""
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error
        assert outcome.exitcode == 0, outcome
    return [outcome.value for outcome in outcomes]


def die() -> None:
    os.kill(os.getpid(), 9)
