"""The worker processes that train for a supervising parent.

```
parent   iterates the loader, puts each batch (handles) into every rank's queue,
  |      reads the progress board, has the user's model
  |         commands: ("begin", ...), ("train" | "evaluate", batch), ("end",), ("stop",)
  +--> queue 0 --> rank 0
  +--> queue 1 --> rank 1       each takes its part of every batch; a group connects the ranks
  ^                  |
  +---- replies -----+          (rank, "done", ...) at the end of a pass, (rank, "failed", report)
```

The parent is not a rank. So when a rank dies, the process with the user's model lives, knows the
exit code of its child, and can tell whether the weights are complete.
"""

from __future__ import annotations

import os
import queue
import time
import traceback
from collections.abc import Callable
from typing import Any

from .. import distributed, multiprocessing, native
from ..device import CPU
from ..errors import ProcessRaisedException
from ..multiprocessing.queue import peer_lost_error
from .progress_board import ProgressBoard
from .rank_step import Replica, set_threads
from .sharded_optimizer import Shards
from .split_batch import on_host

__all__ = ["WorkerPool"]

PREFETCH = 4  # batches that wait in a rank's queue
POLL_INTERVAL = 0.05  # seconds between two checks of the processes
GRACE = 10.0  # seconds that surviving ranks have to notice a death and end by themselves


class Barrier:
    """A group's barrier with the group's timeout."""

    def __init__(self, group: native.Group, timeout: float) -> None:
        self.group = group
        self.timeout = timeout

    def barrier(self) -> None:
        self.group.barrier(self.timeout)


class WorkerPool:
    """Starts `ranks` processes that share the model's weights; `with` ends them.

    Args:
        setup: the arguments of each rank: model, optimizer, loss function, gradients, board, ...
    """

    def __init__(
        self, ranks: int, setup: dict[str, Any], board: ProgressBoard, start_method: str | None
    ) -> None:
        from ..distributed.rendezvous.find_group import create_block

        context = multiprocessing.get_context(start_method)
        self.ranks = ranks
        self.board = board
        block, self.handle = create_block(ranks)
        self.block: native.Block | None = block
        self.replies = context.Queue()
        self.queues = [context.Queue(PREFETCH) for _ in range(ranks)]
        self.processes: list[Any] = []
        self.has_failed = False
        try:
            for rank in range(ranks):
                process = context.Process(
                    target=run_rank,
                    name=f"rank {rank}",
                    args=(rank, ranks, self.handle, setup, self.queues[rank], self.replies),
                    daemon=True,
                )
                process.start()
                self.processes.append(process)
            self.collect("ready", lambda: None)
        except BaseException:
            self.close(graceful=False)
            raise

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.close(graceful=kind is None)

    def send(self, *command: Any) -> None:
        """Sends a command to every rank; waits while a queue has PREFETCH batches."""
        for each in self.queues:
            while True:
                try:
                    each.put(command, True, POLL_INTERVAL)
                    break
                except queue.Full:
                    self.check()

    def collect(self, expected: str, progress: Callable[[], None]) -> list[Any]:
        """Waits for a reply of the expected kind from every rank; returns them in rank order."""
        values: dict[int, Any] = {}
        while len(values) < self.ranks:
            try:
                rank, kind, value = self.replies.get(True, POLL_INTERVAL)
            except queue.Empty:
                progress()
                self.check()
                continue
            if kind == "failed":
                self.raise_failure(rank, value)
            assert kind == expected, f"trainer: rank {rank} replied {kind}, not {expected}"
            values[rank] = value
        progress()
        return [values[rank] for rank in range(self.ranks)]

    # ---------------------------------------------------------------- failures
    def check(self) -> None:
        """Raises if a rank has died or failed."""
        if any(p.exitcode is not None for p in self.processes):
            self.raise_failure(None, None)

    def raise_failure(self, rank: int | None, report: dict[str, Any] | None) -> None:
        """Waits for the ranks to end, and raises the error of the first that failed."""
        self.has_failed = True
        reports = {} if rank is None or report is None else {rank: report}
        self.stop_remaining(reports)
        failed = next((r for r, each in reports.items() if each["type"] != "PeerLostError"), None)
        # One that noticed a death has reported it: the dead one is silent.
        silent = (p for r, p in enumerate(self.processes) if r not in reports and p.exitcode)
        first = next(silent, self.processes[rank or 0])
        error = peer_lost_error("Trainer", first)
        pids = [p.pid or 0 for p in self.processes]
        self.close(graceful=False)
        if failed is not None:
            text = f"Trainer: rank {failed} (pid {pids[failed]}) failed:\n\n"
            raise ProcessRaisedException(text + reports[failed]["traceback"], failed, pids[failed])
        raise error

    def stop_remaining(self, reports: dict[int, dict[str, Any]]) -> None:
        """Waits until the remaining ranks end by themselves: killing them might leave a shard torn.

        A rank that waits for the dead one notices within a second; one that waits for a command
        gets "stop".
        """
        without_stop = list(self.queues)
        deadline = time.monotonic() + GRACE
        while any(p.exitcode is None for p in self.processes) and time.monotonic() < deadline:
            without_stop = [each for each in without_stop if not send_stop(each)]
            self.drain(reports)
            time.sleep(0.01)
        self.drain(reports)

    def drain(self, reports: dict[int, dict[str, Any]]) -> None:
        while True:
            try:
                rank, kind, value = self.replies.get(False)
            except queue.Empty:
                return
            if kind == "failed":
                reports[rank] = value

    def close(self, graceful: bool = True) -> None:
        """Ends the processes: by a command, or else by SIGTERM and SIGKILL."""
        if self.block is None:
            return
        if graceful:
            self.send("stop")
            for process in self.processes:
                process.join(GRACE)
        else:
            self.stop_remaining({})
        for process in self.processes:
            if process.exitcode is None:
                process.terminate()
        for process in self.processes:
            process.join(1.0)
            if process.exitcode is None:
                process.kill()
                process.join()
            process.close()
        native.acknowledge(self.handle)
        self.block = None
        for each in (*self.queues, self.replies):
            each.close()


def send_stop(commands: Any) -> bool:
    """Sends "stop" if the queue is not full; returns whether it did."""
    try:
        commands.put(("stop",), False)
    except queue.Full:
        return False
    return True


def next_command(commands: Any) -> Any:
    """The next command; None if the parent has died."""
    while True:
        try:
            return commands.get(True, 0.5)
        except queue.Empty:
            parent = multiprocessing.parent_process()
            if parent is not None and not parent.is_alive():
                return None


def run_rank(
    rank: int, ranks: int, handle: bytes, setup: dict[str, Any], commands: Any, replies: Any
) -> None:
    """The main function of a rank: runs commands until "stop"."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    try:
        native.set_role(f"rank {rank}")
        set_threads(ranks)
        block = native.receive(handle, False)
        group = native.Group(block, rank, ranks)
        barrier = Barrier(group, setup["timeout"])
        barrier.barrier()
        board = ProgressBoard(setup["board"])
        replica, buffers = setup["make_replica"](rank, ranks, barrier, board, setup)
        replies.put((rank, "ready", None))
        while (command := next_command(commands)) is not None and command[0] != "stop":
            run_command(command, replica, buffers, setup["seed"])
            if command[0] == "end":
                _, inline, _ = group.statistics()
                replies.put((rank, "done", inline))
            elif command[0] == "state":
                replies.put((rank, "state", None if rank else state_of(replica)))
        if distributed.is_initialized():
            distributed.destroy_process_group()
        group.leave()
    except BaseException as error:
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        replies.put(
            (
                rank,
                "failed",
                {"type": type(error).__name__, "message": str(error), "traceback": text},
            )
        )
        # No code of the user's model may run any more; the parent has the traceback.
        replies.close()
        replies.join_thread()
        os._exit(1)


def make_replica(
    rank: int, ranks: int, barrier: Barrier, board: ProgressBoard, setup: dict[str, Any]
) -> tuple[Replica, Buffers]:
    """What a rank trains with: weights that all ranks share."""
    shards = Shards(setup["optimizer"], setup["gradients"], setup["shared"])
    shards.use_grad_buffers(rank)
    model, precision = setup["model"], setup["precision"]
    replica = Replica(model, setup["loss"], shards, board, barrier, rank, ranks, CPU, precision)
    return replica, Buffers(model, rank)


def state_of(replica: Replica) -> dict[str, Any]:
    """The state of a rank with its own copy of the weights, on the host."""
    optimizer: Any = replica.shards
    return {
        "model": on_host(dict(replica.model.state_dict())),
        "optimizer": on_host(optimizer.optimizer.state_dict()),
        "scaler": None if optimizer.scaler is None else optimizer.scaler.state_dict(),
    }


class Buffers:
    """Rank 0 has the model's buffers; the other ranks train with copies, and copy rank 0's before
    they evaluate.
    """

    def __init__(self, model: Any, rank: int) -> None:
        self.pairs: list[tuple[Any, Any]] = []
        if rank:
            for buffer in model.buffers():
                shared = buffer.array
                buffer.array = shared.copy()
                self.pairs.append((shared, buffer.array))

    def refresh(self) -> None:
        for shared, copy in self.pairs:
            copy[...] = shared


def run_command(command: Any, replica: Replica, buffers: Any, seed: int) -> None:
    kind = command[0]
    if kind == "train":
        replica.train(command[1])
    elif kind == "evaluate":
        replica.evaluate(command[1])
    elif kind == "options":
        set_options(replica.shards.optimizer, command[1])
    elif kind == "begin":
        _, training, epoch = command
        seed_rank(seed, epoch, replica.rank)
        replica.model.train(training)
        replica.wait_for_ranks()
        if not training:
            buffers.refresh()


def set_options(optimizer: Any, options: list[dict[str, Any]]) -> None:
    """Sets the hyperparameters of each group, which the parent's scheduler has changed."""
    for group, values in zip(optimizer.param_groups, options, strict=True):
        group.update(values)


def get_options(optimizer: Any) -> list[dict[str, Any]]:
    return [{k: v for k, v in group.items() if k != "params"} for group in optimizer.param_groups]


def seed_rank(seed: int, epoch: int, rank: int) -> None:
    """Seeds this rank's random numbers (dropout): different on each rank, the same in every run."""
    from ..random import manual_seed

    manual_seed((seed * 1_000_003 + epoch) * 1_009 + rank)
