"""The crew: the processes that train for a supervising parent.

```
parent   iterates the loader, puts whole batches (handles) into every rank's queue,
  |      reads the board, keeps the model
  |         commands: ("begin", ...), ("train" | "evaluate", batch), ("end",), ("stop",)
  +--> queue 0 --> rank 0
  +--> queue 1 --> rank 1       each takes its part of every batch, and meets the others in a group
  ^                  |
  +---- answers -----+          (rank, "done", ...) at the end of a pass, (rank, "failed", report)
```

The parent is no rank: whichever rank dies, the process that holds the user's model lives, knows
the exit code because it reaps, and can say whether the weights are whole.
"""

from __future__ import annotations

import os
import queue
import time
import traceback
from collections.abc import Callable
from typing import Any

from .. import multiprocessing, native
from ..errors import ProcessRaisedException
from ..multiprocessing.queue import peer_lost_error
from .progress_board import ProgressBoard
from .rank_step import Replica, set_threads
from .sharded_optimizer import Shards

__all__ = ["WorkerPool"]

AHEAD = 4  # batches that wait in a rank's queue
LOOK = 0.05  # seconds between two looks at the processes
GRACE = 10.0  # seconds that surviving ranks get to notice a death and end by themselves


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
        setup: what each rank gets: model, optimizer, loss function, gradients, board, timeout.
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
        self.answers = context.Queue()
        self.queues = [context.Queue(AHEAD) for _ in range(ranks)]
        self.processes: list[Any] = []
        self.has_failed = False
        try:
            for rank in range(ranks):
                process = context.Process(
                    target=work,
                    name=f"rank {rank}",
                    args=(rank, ranks, self.handle, setup, self.queues[rank], self.answers),
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
        """Gives a command to every rank; waits while they are AHEAD batches behind."""
        for each in self.queues:
            while True:
                try:
                    each.put(command, True, LOOK)
                    break
                except queue.Full:
                    self.check()

    def collect(self, wanted: str, progress: Callable[[], None]) -> list[Any]:
        """Waits for everybody's answer of one kind, in rank order."""
        found: dict[int, Any] = {}
        while len(found) < self.ranks:
            try:
                rank, kind, value = self.answers.get(True, LOOK)
            except queue.Empty:
                progress()
                self.check()
                continue
            if kind == "failed":
                self.fail(rank, value)
            assert kind == wanted, f"trainer: rank {rank} answered {kind}, not {wanted}"
            found[rank] = value
        progress()
        return [found[rank] for rank in range(self.ranks)]

    # ---------------------------------------------------------------- failures
    def check(self) -> None:
        """Raises if a rank has died or failed."""
        if any(p.exitcode is not None for p in self.processes):
            self.fail(None, None)

    def fail(self, rank: int | None, report: dict[str, Any] | None) -> None:
        """Lets the ranks end, and raises for the one that was first."""
        self.has_failed = True
        reports = {} if rank is None or report is None else {rank: report}
        first = next((p for p in self.processes if p.exitcode), None)
        self.shut_down_others(reports)
        failed = next((r for r, each in reports.items() if each["type"] != "PeerLostError"), None)
        if first is None:
            silent = (p for r, p in enumerate(self.processes) if r not in reports and p.exitcode)
            first = next(silent, self.processes[rank or 0])
        error = peer_lost_error("Trainer", first)
        pids = [p.pid or 0 for p in self.processes]
        self.close(graceful=False)
        if failed is not None:
            text = f"Trainer: rank {failed} (pid {pids[failed]}) failed:\n\n"
            raise ProcessRaisedException(text + reports[failed]["traceback"], failed, pids[failed])
        raise error

    def shut_down_others(self, reports: dict[int, dict[str, Any]]) -> None:
        """Waits for the others: ended from outside they might leave a shard torn.

        Who waits for the dead one notices within a second; who waits for a command gets the last.
        """
        untold = list(self.queues)
        until = time.monotonic() + GRACE
        while any(p.exitcode is None for p in self.processes) and time.monotonic() < until:
            untold = [each for each in untold if not told(each)]
            self.drain(reports)
            time.sleep(0.01)
        self.drain(reports)

    def drain(self, reports: dict[int, dict[str, Any]]) -> None:
        while True:
            try:
                rank, kind, value = self.answers.get(False)
            except queue.Empty:
                return
            if kind == "failed":
                reports[rank] = value

    def close(self, graceful: bool = True) -> None:
        """Ends the processes: by a command, else by SIGTERM and SIGKILL."""
        if self.block is None:
            return
        if graceful:
            self.send("stop")
            for process in self.processes:
                process.join(GRACE)
        else:
            self.shut_down_others({})
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
        for each in (*self.queues, self.answers):
            each.close()


def told(commands: Any) -> bool:
    """Whether the last command could be given: a rank with a full queue has batches to do first."""
    try:
        commands.put(("stop",), False)
    except queue.Full:
        return False
    return True


def next_command(commands: Any) -> Any:
    """The next command; None when the parent is gone."""
    while True:
        try:
            return commands.get(True, 0.5)
        except queue.Empty:
            parent = multiprocessing.parent_process()
            if parent is not None and not parent.is_alive():
                return None


def work(
    rank: int, ranks: int, handle: bytes, setup: dict[str, Any], commands: Any, answers: Any
) -> None:
    """A rank's life."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's
    try:
        native.set_role(f"rank {rank}")
        set_threads(ranks)
        block = native.receive(handle, False)
        group = native.Group(block, rank, ranks)
        barrier = Barrier(group, setup["timeout"])
        barrier.barrier()
        board = ProgressBoard(setup["board"])
        shards = Shards(setup["optimizer"], setup["gradients"], setup["shared"])
        shards.use_grad_buffers(rank)
        model = setup["model"]
        buffers = Buffers(model, rank)
        replica = Replica(model, setup["loss"], shards, board, barrier, rank, ranks)
        answers.put((rank, "ready", None))
        while (command := next_command(commands)) is not None and command[0] != "stop":
            obey(command, replica, buffers, setup["seed"])
            if command[0] == "end":
                _, inline, _ = group.statistics()
                answers.put((rank, "done", inline))
        group.leave()
    except BaseException as error:
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        answers.put(
            (
                rank,
                "failed",
                {"type": type(error).__name__, "message": str(error), "traceback": text},
            )
        )
        # Nothing of the user's model may run any more; the parent has the traceback.
        answers.close()
        answers.join_thread()
        os._exit(1)


class Buffers:
    """Rank 0 keeps the model's buffers, the others train with copies and take rank 0's before they
    evaluate.
    """

    def __init__(self, model: Any, rank: int) -> None:
        self.pairs: list[tuple[Any, Any]] = []
        if rank:
            for buffer in model.buffers():
                shared = buffer.array
                buffer.array = shared.copy()
                self.pairs.append((shared, buffer.array))

    def refresh(self) -> None:
        for shared, own in self.pairs:
            own[...] = shared


def obey(command: Any, replica: Replica, buffers: Buffers, seed: int) -> None:
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
        replica.meet()
        if not training:
            buffers.refresh()


def set_options(optimizer: Any, options: list[dict[str, Any]]) -> None:
    """The hyperparameters of each group, which the parent's scheduler has changed."""
    for group, values in zip(optimizer.param_groups, options, strict=True):
        group.update(values)


def options_of(optimizer: Any) -> list[dict[str, Any]]:
    return [{k: v for k, v in group.items() if k != "params"} for group in optimizer.param_groups]


def seed_rank(seed: int, epoch: int, rank: int) -> None:
    """Every rank draws its own numbers (dropout), the same in every run."""
    from ..random import manual_seed

    manual_seed((seed * 1_000_003 + epoch) * 1_009 + rank)
