"""The worker process: index lists come from a task queue, batches go to the result queue."""

from __future__ import annotations

import gc
import resource
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from queue import Empty
from time import monotonic
from typing import Any

from shmtensor import native
from shmtensor.multiprocessing.child_main import end_with_parent
from shmtensor.multiprocessing.reduction import sending_values
from shmtensor.profiler import profiling

from .batch_block import BlockAllocator
from .fetch import Recipe, make_fetcher
from .file_positions import OpenFile, open_again
from .progress import BLOCK, EPOCH, IDLE, PEAK, POSITION, SEND, SINCE, TASK, row_of
from .resume_other_num_workers import Reader, open_streams, same_workers
from .seeding import inherited_seeds, seed_everything
from .torch_in_worker import prepare_torch
from .worker_exception import Failure
from .worker_info import WorkerInfo, set_worker_info
from .worker_memory import WorkerMemory
from .worker_warning import WorkerWarning, watch_writes

# Orders to a worker, one per epoch: (epoch, seed, recipe or None for the one it has, positions of
# streams or None).
# Tasks: (epoch, number, stream or None, indices, pinned block to write to or None), or None, which
# ends one worker.
# Results: (epoch, number, stream or worker, kind, payload, state of a stream); the payload of a
# batch is the batch, and whether the worker has imported JAX; with kind:
BATCH, FAILURE, END, WARNING = 0, 1, 2, 3

PARENT_CHECK = 0.25  # seconds between checks of the parent while idle


@dataclass(frozen=True)
class WorkerConfig:
    """The arguments of a worker process.

    Attributes:
        id: 0 .. num_workers - 1.
        num_workers: how many workers there are.
        orders: its own queue, one message per epoch.
        tasks: its task queue; all workers share one for a map-style data set.
        results: the result queue of all workers.
        board: see progress.py.
        parent: the row and incarnation of the loading process.
        recipe: inherited by a fork; None: it comes with the first orders.
        files: the open files whose position a fork shares with its parent.
    """

    id: int
    num_workers: int
    orders: Any
    tasks: Any
    results: Any
    board: Any
    parent: tuple[int, int]
    recipe: Recipe | None
    files: Mapping[int, OpenFile]


def run_worker(config: WorkerConfig) -> None:
    """The worker's main function."""
    # A collection writes to every object that it visits: without this the first one would copy all
    # inherited objects (8 MB of modules at least) for each worker.
    gc.freeze()
    try:
        end_with_parent(signal.SIGKILL)  # even in the middle of a sample
        native.set_role(f"loader worker {config.id}")
        native.set_num_threads(1)
        prepare_torch()
        Worker(config).run()
    except KeyboardInterrupt:  # the consumer gets it, too, and shuts the workers down
        return


class Worker:
    """The loop over tasks, and its state."""

    def __init__(self, config: WorkerConfig) -> None:
        self.config = config
        self.row = row_of(config.board, config.id)
        self.recipe = config.recipe
        self.is_prepared = False  # whether `worker_init_fn` was called for this recipe
        self.epoch = 0
        self.readers: Mapping[Any, Reader] = {}  # by stream; None: of map-style data
        self.failure: Failure | None = None
        self.seeds = inherited_seeds()
        self.allocator = BlockAllocator()
        self.memory = WorkerMemory()
        self.warnings: list[WorkerWarning] = open_again(config.files)  # not yet sent

    def run(self) -> None:
        self.begin(None)  # before the first task, so that all workers prepare in parallel
        began = monotonic()
        while (task := self.get(self.config.tasks)) is not None:
            epoch, number, stream, indices, block = task
            profiling.poll()
            self.allocator.lend(block)
            del task, block  # it holds the pinned block, which the consumer reuses
            if epoch == self.config.board[EPOCH]:
                # Reset the position first: with the new task the old one would name a wrong sample.
                self.row[POSITION] = 0
                self.row[TASK] = number + 1
                if epoch != self.epoch:
                    self.begin(epoch)
                else:
                    self.row[IDLE] += monotonic() - began
                self.work(epoch, number, stream, indices)
                self.row[SINCE] = self.row[TASK] = 0
                self.memory.after_batch()
            self.allocator.lend(None)
            began = monotonic()

    def get(self, queue: Any) -> Any:
        """The next message, or None when the parent is gone."""
        began = monotonic()
        while True:
            try:
                return queue.get(timeout=PARENT_CHECK)
            except Empty:
                self.memory.when_idle(monotonic() - began)
                if native.liveness(*self.config.parent) != "alive":
                    return None

    def begin(self, epoch: int | None) -> None:
        """Begins an epoch (None: that of the next orders): reads its orders, then prepares."""
        self.failure = None
        try:
            while self.epoch != epoch:  # orders of epochs in which it got no task are read, too
                orders = self.get(self.config.orders)
                if orders is None:  # the pool is closing
                    return
                self.epoch, seed, recipe, positions = orders
                epoch = self.epoch if epoch is None else epoch
                if recipe is not None:
                    self.recipe, self.is_prepared = recipe, False
            self.prepare(seed, positions)
        except Exception as error:  # sent to the consumer as the result of each task
            self.epoch = self.epoch if epoch is None else epoch
            self.failure = Failure(error, f"{self.name()}, at its start")

    def prepare(self, seed: int, positions: Any) -> None:
        config, recipe = self.config, self.recipe
        assert recipe is not None
        if recipe.write_warning:
            watch_writes(config.id, recipe.dataset, self.allocator, self.warnings)
        else:
            native.watch_writes(None)
        if recipe.is_stream and not same_workers(positions, config.num_workers):
            self.readers = open_streams(
                recipe, seed, self.seeds, self.row, positions, config.id, config.num_workers
            )
            self.watch()
            return
        prepare_torch()
        info = WorkerInfo(config.id, config.num_workers, seed + config.id, recipe.dataset)
        set_worker_info(info)
        if recipe.is_stream or recipe.init_fn is not None:  # each batch is seeded anew anyway
            seed_everything(info.seed)
        if recipe.init_fn is not None and not self.is_prepared:
            recipe.init_fn(config.id)
        self.is_prepared = True
        position = positions[config.id] if positions else None
        fetcher = make_fetcher(recipe, seed, self.seeds, self.row, position)
        self.readers = {config.id if recipe.is_stream else None: Reader(fetcher, info)}
        self.watch()

    def watch(self) -> None:
        for reader in self.readers.values():
            reader.fetcher.is_watched = True

    def work(self, epoch: int, number: int, stream: int | None, indices: Any) -> None:
        """Makes the batch of a task and sends it, or the failure."""
        head = (epoch, number, self.config.id if stream is None else stream)
        if self.failure is not None:
            self.put((*head, FAILURE, self.failure, None))
            return
        reader = self.readers[stream]
        fetcher = reader.fetcher
        set_worker_info(reader.info)
        prepare_torch()
        recorded = profiling.begin() if profiling.on else 0
        try:
            with self.allocator:
                batch = fetcher.fetch_shared(number, indices), "jax" in sys.modules
            state = fetcher.state()
        except StopIteration as error:
            if fetcher.recipe.is_stream:
                self.put((*head, END, None, None))
                return
            failure = Failure(error, f"{self.name()}, {fetcher}")
        except Exception as error:
            failure = Failure(error, f"{self.name()}, {fetcher}")
        else:
            if recorded:
                profiling.end(recorded, "load batch", profiling.LOAD)
            try:
                self.send((*head, BATCH, batch, state))
                return
            except Exception as error:
                failure = Failure(error, f"{self.name()}, sending the result of {fetcher}")
        self.put((*head, FAILURE, failure, None))

    def send(self, message: Any) -> None:
        row = self.row
        row[SINCE] = 0
        began = monotonic()
        with sending_values():
            self.put(message)
        row[SEND] += monotonic() - began
        row[BLOCK] = self.allocator.most
        row[PEAK] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def put(self, message: Any) -> None:
        """Puts a result into the queue of results, after the warnings that came up meanwhile."""
        while self.warnings:
            self.config.results.put((*message[:3], WARNING, self.warnings.pop(0), None))
        self.config.results.put(message)

    def name(self) -> str:
        return f"DataLoader worker {self.config.id}"
