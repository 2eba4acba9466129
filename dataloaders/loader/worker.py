"""The worker process: index lists come from a task queue, batches go to the result queue."""

from __future__ import annotations

import gc
import resource
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from queue import Empty
from time import monotonic
from typing import Any

from shmtensor import native
from shmtensor.multiprocessing.child_main import end_with_parent

from .batch_block import Place
from .fetch import Recipe, make_fetcher
from .resume_other_num_workers import Reader, are_own, open_streams
from .seeding import SampleSeeds, seed_everything
from .worker_exception import Failure
from .worker_info import WorkerInfo, set_worker_info
from .worker_progress import BLOCK, IDLE, PEAK, PLACE, SEND, SINCE, TASK, epoch_of, row_of

__all__ = ["Post", "run_worker"]

# Orders to a worker, one per epoch: (epoch, seed, recipe or None for the one it has, positions of
# streams or None). Tasks: (epoch, number, stream or None, indices, pinned block to write to or
# None), or None, which ends one worker.
# Results: (epoch, number, stream or worker, kind, payload, state of a stream), with kind:
BATCH, FAILURE, END = 0, 1, 2

PARENT_CHECK = 0.25  # seconds between looks at the parent while there is nothing to do


@dataclass(frozen=True)
class Post:
    """A worker's place in the crew: who it is, and what it reads from and writes to.

    Attributes:
        id: 0 .. num_workers - 1.
        num_workers: how many there are.
        orders: its own queue, one message per epoch.
        tasks: its task queue; that of a map-style data set is all workers'.
        results: all workers' result queue.
        board: see worker_progress.py.
        parent: the row and incarnation of the loading process.
        recipe: what a fork inherits; None: it comes with the first orders.
        seeds: what a fork inherits, too.
    """

    id: int
    num_workers: int
    orders: Any
    tasks: Any
    results: Any
    board: Any
    parent: tuple[int, int]
    recipe: Recipe | None
    seeds: SampleSeeds | None


def run_worker(post: Post) -> None:
    """The worker's main function."""
    # A collection writes to every object that it looks at: without this the first one would copy
    # all that was inherited, 8 MB of modules at least, for each worker.
    gc.freeze()
    try:
        end_with_parent(signal.SIGKILL)  # whatever a sample is doing
        native.set_role(f"loader worker {post.id}")
        native.set_num_threads(1)
        Worker(post).run()
    except KeyboardInterrupt:  # the consumer has got it, too, and shuts down
        return


class Worker:
    """The loop over tasks, and what it remembers between them."""

    def __init__(self, post: Post) -> None:
        self.post = post
        self.row = row_of(post.board, post.id)
        self.recipe = post.recipe
        self.is_prepared = False  # whether the user's worker_init_fn has seen this recipe
        self.epoch = 0
        self.readers: Mapping[Any, Reader] = {}  # by stream; None: of map-style data
        self.broken: Failure | None = None
        self.seeds = post.seeds or SampleSeeds()
        self.place = Place()

    def run(self) -> None:
        self.begin(None)  # at once, that all workers prepare side by side
        began = monotonic()
        while (task := self.get(self.post.tasks)) is not None:
            epoch, number, stream, indices, self.place.array = task
            del task  # it holds the block, which is the consumer's to lend again
            if epoch == epoch_of(self.post.board):
                # The place first: beside the new task, the last one's would name a wrong sample.
                self.row[PLACE] = 0
                self.row[TASK] = number + 1
                if epoch != self.epoch:
                    self.begin(epoch)
                else:
                    self.row[IDLE] += monotonic() - began
                self.work(epoch, number, stream, indices)
                self.row[SINCE] = self.row[TASK] = 0
            self.place.array = None
            began = monotonic()

    def get(self, queue: Any) -> Any:
        """The next message, or None when the parent is gone."""
        while True:
            try:
                return queue.get(timeout=PARENT_CHECK)
            except Empty:
                if native.liveness(*self.post.parent) != "alive":
                    return None

    def begin(self, epoch: int | None) -> None:
        """An epoch (None: that of the next orders): its orders, seeds, the user's own preparation,
        a fresh stream."""
        self.broken = None
        try:
            while self.epoch != epoch:  # orders of epochs in which it got no task are read, too
                orders = self.get(self.post.orders)
                if orders is None:  # nobody wants an epoch any more
                    return
                self.epoch, seed, recipe, positions = orders
                epoch = self.epoch if epoch is None else epoch
                if recipe is not None:
                    self.recipe, self.is_prepared = recipe, False
            self.prepare(seed, positions)
        except Exception as error:  # told to the consumer with each task
            self.epoch = self.epoch if epoch is None else epoch
            self.broken = Failure(error, f"{self.name()}, at its start")

    def prepare(self, seed: int, positions: Any) -> None:
        post, recipe = self.post, self.recipe
        assert recipe is not None
        if recipe.is_stream and not are_own(positions, post.num_workers):
            self.readers = open_streams(
                recipe, seed, self.seeds, self.row, positions, post.id, post.num_workers
            )
            self.watch()
            return
        info = WorkerInfo(post.id, post.num_workers, seed + post.id, recipe.dataset)
        set_worker_info(info)
        if recipe.is_stream or recipe.init_fn is not None:  # each batch is seeded anew anyway
            seed_everything(info.seed)
        if recipe.init_fn is not None and not self.is_prepared:
            recipe.init_fn(post.id)
        self.is_prepared = True
        position = positions[post.id] if positions else None
        fetcher = make_fetcher(recipe, seed, self.seeds, self.row, post.id, position)
        self.readers = {post.id if recipe.is_stream else None: Reader(fetcher, info)}
        self.watch()

    def watch(self) -> None:
        for reader in self.readers.values():
            reader.fetcher.is_watched = True

    def work(self, epoch: int, number: int, stream: int | None, indices: Any) -> None:
        """One task: makes the batch and sends it, or what went wrong."""
        results = self.post.results
        head = (epoch, number, self.post.id if stream is None else stream)
        if self.broken is not None:
            results.put((*head, FAILURE, self.broken, None))
            return
        reader = self.readers[stream]
        fetcher = reader.fetcher
        set_worker_info(reader.info)
        try:
            with self.place:
                batch = fetcher.fetch_shared(number, indices)
            state = fetcher.state()
        except StopIteration as error:
            if fetcher.recipe.is_stream:
                results.put((*head, END, None, None))
                return
            failure = Failure(error, f"{self.name()}, {fetcher.doing}")
        except Exception as error:
            failure = Failure(error, f"{self.name()}, {fetcher.doing}")
        else:
            try:
                self.send((*head, BATCH, batch, state))
                return
            except Exception as error:
                failure = Failure(error, f"{self.name()}, sending what came of {fetcher.doing}")
        results.put((*head, FAILURE, failure, None))

    def send(self, message: Any) -> None:
        row = self.row
        row[SINCE] = 0
        began = monotonic()
        self.post.results.put(message)
        row[SEND] += monotonic() - began
        row[BLOCK] = self.place.most
        row[PEAK] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def name(self) -> str:
        return f"DataLoader worker {self.post.id}"
