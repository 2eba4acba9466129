"""The worker processes that train for a supervising parent.

```
parent   iterates the loader, puts each batch (handles) into every rank's queue,
  |      reads the progress board, has the user's model
  |         commands: ("begin", ...), ("train" | "evaluate", batch), ("end",), ("stop",)
  +--> queue 0 --> rank 0
  +--> queue 1 --> rank 1       each takes its part of every batch; a group connects the ranks
  ^                  |
  +---- replies -----+          (rank, "done", ...) at the end of a pass
```

The parent is not a rank. So when a rank dies, the process with the user's model lives, knows the
exit code of its child, and can tell whether the weights are complete.
"""

from __future__ import annotations

import os
import queue
import time
from collections.abc import Callable
from typing import Any

from .. import distributed, multiprocessing, native
from ..device import CPU
from ..errors import PeerLostError
from ..multiprocessing import child_report
from ..multiprocessing.children import Children
from .progress_board import ProgressBoard
from .rank_step import Replica, set_threads
from .sharded_optimizer import Shards
from .split_batch import on_host

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
        self.children = Children()
        self.has_failed = False
        try:
            for rank in range(ranks):
                process = context.Process(
                    target=run_rank,
                    name=f"rank {rank}",
                    args=(rank, ranks, self.handle, setup, self.queues[rank], self.replies),
                    daemon=True,
                )
                self.children.start(process)
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
            while not put(each, command):
                self.check()

    def collect(self, expected: str, progress: Callable[[], None]) -> list[Any]:
        """Waits for a reply of the expected kind from every rank; returns them in rank order."""
        values: dict[int, Any] = {}
        while len(values) < self.ranks:
            reply = next_message(self.replies, POLL_INTERVAL)
            if reply is None:
                progress()
                self.check()
                continue
            rank, kind, value = reply
            assert kind == expected, f"trainer: rank {rank} replied {kind}, not {expected}"
            values[rank] = value
        progress()
        return [values[rank] for rank in range(self.ranks)]

    # ---------------------------------------------------------------- failures
    def check(self) -> None:
        """Raises the error of the first rank that failed, once one has ended. The others end by
        themselves: killing them might leave a shard torn. One that waits for the dead one notices
        within a second, one that waits for a command gets "stop".
        """
        children = self.children
        children.wait(0.0)
        ended = [child for child in children.all if child.exitcode is not None]
        if not ended:
            return
        self.has_failed = True
        children.end(self.stop, patience=GRACE)
        first = children.failure() or ended[0]
        self.close(graceful=False)
        if first.raised is not None:
            raise children.error("Trainer", first, raised=f"Trainer: {first.line()}:\n")
        text = children.explain(f"Trainer: {first.line()}", first.line(), first)
        raise PeerLostError(text, first.name, first.pid, first.exitcode)

    def stop(self) -> None:
        """Sends "stop" to the ranks that run; waits for room in their queues, at most GRACE."""
        deadline = time.monotonic() + GRACE
        for child in self.children.running:
            while child.exitcode is None and time.monotonic() < deadline:
                if put(self.queues[child.index], ("stop",)):
                    break
                self.children.wait(0.0)

    def close(self, graceful: bool = True) -> None:
        """Ends the processes: by a command, or else by SIGTERM and SIGKILL."""
        if self.block is None:
            return
        if graceful:
            self.send("stop")
        self.children.end(None if graceful else self.stop, patience=GRACE)
        self.children.close()
        native.acknowledge(self.handle)
        self.block = None
        for each in (*self.queues, self.replies):
            each.close()


def put(commands: Any, command: Any) -> bool:
    """Puts a command into a rank's queue; False: there was no room for a while."""
    try:
        commands.put(command, True, POLL_INTERVAL)
    except queue.Full:
        return False
    return True


def next_message(messages: Any, seconds: float) -> Any:
    """The next message; None: none came in time."""
    try:
        return messages.get(True, seconds)
    except queue.Empty:
        return None


def next_command(commands: Any) -> Any:
    """The next command; None if the parent has died."""
    while (command := next_message(commands, 0.5)) is None:
        parent = multiprocessing.parent_process()
        if parent is not None and not parent.is_alive():
            return None
    return command


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
        child_report.fail(error)
        code = error.code if isinstance(error, SystemExit) else 1
        os._exit(code if isinstance(code, int) else 1)  # the user's model may run no more


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
