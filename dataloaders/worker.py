"""The worker process: index lists come from its task queue, batches go to the result queue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from queue import Empty
from typing import Any

from shmtensor import native

from .dataset import Dataset
from .failure import Failure
from .fetch import Fetcher, make_fetcher
from .seed import seed_everything

__all__ = ["Plan", "WorkerInfo", "get_worker_info", "run_worker"]

# Messages to a worker: (BEGIN, epoch, seed) | (FETCH, epoch, number, indices) | None, which ends
# it. From a worker: (epoch, number, worker id, kind, payload), with kind:
BEGIN, FETCH = 0, 1
BATCH, FAILURE, END = 0, 1, 2

PARENT_CHECK = 0.25  # seconds between looks at the parent while there is nothing to do


@dataclass(frozen=True)
class WorkerInfo:
    """What a data set may know about the worker that runs it.

    Attributes:
        id: 0 .. num_workers - 1.
        num_workers: how many workers share the work.
        seed: of this worker in this epoch.
        dataset: this worker's copy of the data set.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Dataset[Any] = field(repr=False)


@dataclass(frozen=True)
class Plan:
    """What a worker needs to know, sent to it once, at its start."""

    id: int
    num_workers: int
    dataset: Dataset[Any]
    collate_fn: Callable[[Any], Any]
    is_batched: bool
    is_stream: bool
    drop_last: bool
    init_fn: Callable[[int], None] | None
    parent: tuple[int, int]  # the row and incarnation of the loading process

    def name(self) -> str:
        return f"DataLoader worker {self.id}"


_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """In a loader's worker: which one it is. In any other process: None."""
    return _info


def run_worker(plan: Plan, tasks: Any, results: Any) -> None:
    """The worker's main function."""
    try:
        native.set_role(f"loader worker {plan.id}")
        native.set_num_threads(1)
        Worker(plan, tasks, results).run()
    except KeyboardInterrupt:  # the consumer has got it, too, and shuts down
        return


class Worker:
    """The loop over tasks, and what it remembers between them."""

    def __init__(self, plan: Plan, tasks: Any, results: Any) -> None:
        self.plan = plan
        self.tasks = tasks
        self.results = results
        self.fetcher: Fetcher | None = None
        self.broken: Failure | None = None
        self.is_started = False

    def run(self) -> None:
        while (task := self.next_task()) is not None:
            if task[0] == BEGIN:
                self.begin(task[2])
            else:
                self.work(*task[1:])

    def next_task(self) -> Any:
        """The next message, or None when the parent is gone."""
        while True:
            try:
                return self.tasks.get(timeout=PARENT_CHECK)
            except Empty:
                if native.life(*self.plan.parent) != "alive":
                    return None

    def begin(self, seed: int) -> None:
        """An epoch: seeds, the user's own preparation, a fresh stream."""
        global _info
        plan = self.plan
        _info = WorkerInfo(plan.id, plan.num_workers, seed + plan.id, plan.dataset)
        self.broken = None
        try:
            seed_everything(_info.seed)
            if plan.init_fn is not None and not self.is_started:
                plan.init_fn(plan.id)
            self.is_started = True
            self.fetcher = make_fetcher(
                plan.dataset, plan.collate_fn, plan.is_batched, plan.is_stream, plan.drop_last
            )
        except Exception as error:  # told to the consumer with the first task
            self.broken = Failure(error, f"{plan.name()}, at its start")

    def work(self, epoch: int, number: int, indices: Any) -> None:
        """One task: makes the batch and sends it, or what went wrong."""
        fetcher, plan = self.fetcher, self.plan
        head = (epoch, number, plan.id)
        if self.broken is not None or fetcher is None:
            self.results.put((*head, FAILURE, self.broken))
            return
        try:
            batch = fetcher.fetch(indices)
        except StopIteration as error:
            if plan.is_stream:
                self.results.put((*head, END, None))
                return
            failure = Failure(error, f"{plan.name()}, {fetcher.doing}")
        except Exception as error:
            failure = Failure(error, f"{plan.name()}, {fetcher.doing}")
        else:
            try:
                self.results.put((*head, BATCH, batch))
                return
            except Exception as error:
                failure = Failure(error, f"{plan.name()}, sending what came of {fetcher.doing}")
        self.results.put((*head, FAILURE, failure))
