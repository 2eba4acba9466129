"""The workers of a loader, and one epoch of batches that come from them.

    indices --> task queue of worker 0 --> worker 0 --\
            --> task queue of worker 1 --> worker 1 ----> one result queue --> reorder --> consumer

At most `prefetch_factor * num_workers` batches are under way or waiting for their turn: the next
index list goes out when the consumer takes a batch, so a slow consumer makes workers wait, and
memory does not grow.
"""

from __future__ import annotations

import os
import signal
import time
import weakref
from collections import deque
from collections.abc import Iterator
from queue import Empty
from typing import TYPE_CHECKING, Any

from shmtensor import memory, multiprocessing, native
from shmtensor.errors import PeerLostError

from .fetch import shorten
from .worker import BATCH, BEGIN, END, FETCH, Plan, run_worker

if TYPE_CHECKING:
    from .loader import DataLoader

__all__ = ["Crew", "Epoch"]

LIFE_CHECK = 0.1  # seconds between looks at the workers
GRACE = 2.0  # seconds a worker has to finish its sample before it is terminated


class Crew:
    """Running worker processes with their queues; closed when dropped, at the latest at exit."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        context = context_of(loader.multiprocessing_context)
        self.n = loader.num_workers
        self.timeout = loader.timeout
        self.in_order = loader.in_order
        self.prefetch = (loader.prefetch_factor or 2) * self.n
        self.epoch = 0
        self.owner = os.getpid()
        self.results = context.Queue()
        self.tasks = [context.Queue() for _ in range(self.n)]
        self.processes: list[Any] = []
        self._finalizer = weakref.finalize(
            self, shut_down, self.owner, self.processes, self.tasks, self.results
        )
        try:
            for worker in range(self.n):
                plan = Plan(
                    id=worker,
                    num_workers=self.n,
                    dataset=loader.dataset,
                    collate_fn=loader.collate_fn,
                    is_batched=loader.is_batched,
                    is_stream=loader.is_stream,
                    drop_last=loader.drop_last,
                    init_fn=loader.worker_init_fn,
                    parent=native.row(),
                )
                process = context.Process(
                    target=run_worker,
                    args=(plan, self.tasks[worker], self.results),
                    name=f"loader worker {worker}",
                    daemon=True,
                )
                process.start()
                self.processes.append(process)
        except BaseException:
            self.close()
            raise

    @property
    def is_usable(self) -> bool:
        return self._finalizer.alive and self.owner == os.getpid()

    def close(self) -> None:
        """Ends the workers; returns when they are gone."""
        self._finalizer()

    def dead(self) -> list[int]:
        """The workers that have ended."""
        return [w for w, process in enumerate(self.processes) if process.exitcode is not None]


class Epoch(Iterator[Any]):
    """The batches of one pass over the data set, in the sampler's order unless told otherwise."""

    def __init__(self, crew: Crew, indices: Iterator[Any], seed: int, owns_crew: bool) -> None:
        self.crew = crew
        self.indices = indices
        self.owns_crew = owns_crew
        self.sent = 0  # tasks handed out
        self.expected = 0  # the task whose batch comes next, in order
        self.turn = 0  # the worker whose turn it is to get a task
        self.active = [True] * crew.n
        self.under_way: dict[int, tuple[int, Any]] = {}  # task -> worker, indices
        self.ready: dict[int, tuple[int, int, Any]] = {}  # task -> worker, kind, payload
        self.order: deque[int] = deque()  # tasks in the order in which they became ready
        self.checked = time.monotonic()
        crew.epoch += 1
        self.number = crew.epoch
        for tasks in crew.tasks:
            tasks.put((BEGIN, self.number, seed))
        for _ in range(crew.prefetch):
            self.hand_out()

    def __iter__(self) -> Epoch:
        return self

    def __next__(self) -> Any:
        if self.number != self.crew.epoch:
            raise RuntimeError(
                "DataLoader: this iterator is over: another one was started on the same persistent "
                "workers"
            )
        while (task := self.next_ready()) is None:
            if not self.under_way:
                self.finish()
                raise StopIteration
            self.receive()
        worker, kind, payload = self.ready.pop(task)
        self.expected = max(self.expected, task + 1) if self.crew.in_order else self.expected
        self.hand_out(None if self.crew.in_order else worker)
        if kind != BATCH:
            payload.reraise()
        return payload

    def __del__(self) -> None:
        if hasattr(self, "crew"):
            self.finish()

    def finish(self) -> None:
        if self.owns_crew:
            self.crew.close()

    def hand_out(self, worker: int | None = None) -> None:
        """Sends the next index list to `worker`, or to the one whose turn it is."""
        if worker is None or not self.active[worker]:
            for _ in range(self.crew.n):
                worker = self.turn
                self.turn = (worker + 1) % self.crew.n
                if self.active[worker]:
                    break
            else:
                return  # every worker's stream has ended
        try:
            indices = next(self.indices)
        except StopIteration:
            return
        self.under_way[self.sent] = worker, indices
        self.crew.tasks[worker].put((FETCH, self.number, self.sent, indices))
        self.sent += 1

    def next_ready(self) -> int | None:
        """The task whose batch may be handed over now, or None."""
        if not self.crew.in_order:
            return self.order.popleft() if self.order else None
        while self.expected < self.sent:
            if self.expected in self.ready:
                return self.expected
            if self.expected in self.under_way:
                return None
            self.expected += 1  # a stream ended instead of giving a batch
        return None

    def receive(self) -> None:
        """Waits for one result; raises when a worker that owes one has died, or time is over."""
        crew = self.crew
        deadline = time.monotonic() + crew.timeout if crew.timeout else None
        while True:
            now = time.monotonic()
            if now - self.checked > LIFE_CHECK:
                self.checked = now
                dead = crew.dead()
            else:
                dead = []
            message = get(crew.results, 0 if dead else LIFE_CHECK)
            if message is not None:
                epoch, task, worker, kind, payload = message
                if epoch != self.number:
                    continue  # of an epoch that was left early
                del self.under_way[task]
                if kind == END:
                    self.active[worker] = False
                    self.hand_out()
                else:
                    self.ready[task] = worker, kind, payload
                    if not crew.in_order:
                        self.order.append(task)
                return
            if dead:
                self.lose(dead[0])
            if deadline is not None and time.monotonic() > deadline:
                self.give_up()

    def lose(self, worker: int) -> None:
        """Raises the error for a worker that has died."""
        process = self.crew.processes[worker]
        pid, code = process.pid, process.exitcode
        lists = [indices for owner, indices in self.under_way.values() if owner == worker]
        work = f"it worked on indices {shorten(lists[0])}" if lists else "it had nothing to do"
        if len(lists) > 1:
            work += f", {len(lists) - 1} more batches waited"
        self.crew.close()
        raise PeerLostError(
            f"DataLoader: worker {worker} (pid {pid}) {how_it_ended(code)}: {work}{hint(code)}",
            f"loader worker {worker}",
            pid,
            code,
        )

    def give_up(self) -> None:
        """Raises the error for a batch that did not come in time."""
        task = min(self.under_way)
        worker, indices = self.under_way[task]
        timeout, pid = self.crew.timeout, self.crew.processes[worker].pid
        self.crew.close()
        raise RuntimeError(
            f"DataLoader: no batch came within the timeout: {timeout} s, worker {worker} "
            f"(pid {pid}) has indices {shorten(indices)}"
        )


def context_of(wanted: Any) -> Any:
    """Our own context of the start method that the caller names, by a string or a context."""
    if wanted is None or isinstance(wanted, str):
        return multiprocessing.get_context(wanted)
    return multiprocessing.get_context(wanted.get_start_method())


def shut_down(owner: int, processes: list[Any], tasks: list[Any], results: Any) -> None:
    """Tells the workers to end; terminates, and at last kills, those that do not."""
    if os.getpid() != owner:
        return  # a forked child's copy of the crew: the workers are not its own
    for queue, process in zip(tasks, processes, strict=False):
        if process.exitcode is None:
            queue.put(None)
    for deed, seconds in (("", GRACE), ("terminate", 1.0), ("kill", 5.0)):
        alive = [process for process in processes if process.exitcode is None]
        for process in alive if deed else ():
            getattr(process, deed)()
        deadline = time.monotonic() + seconds
        for process in alive:
            while process.exitcode is None and time.monotonic() < deadline:
                while get(results, 0) is not None:  # a worker may wait for room
                    continue
                process.join(0.02)
    for process in processes:
        process.join()
        process.close()
    processes.clear()
    for queue in (*tasks, results):
        queue.close()


def how_it_ended(code: int) -> str:
    if code < 0:
        return f"was killed by {signal.Signals(-code).name} ({code})"
    return f"ended with exit code {code}"


def hint(code: int) -> str:
    """A likely cause."""
    if -code == signal.SIGKILL:
        held = memory.statistics().committed_bytes >> 20
        return (
            ", the kernel kills when memory runs out "
            f"(shared memory here: {held} MiB): fewer workers or smaller batches need less"
        )
    if code >= 0:
        return ", something in the data set or collate_fn ended the process"
    return ""


def get(queue: Any, timeout: float) -> Any:
    """The next message, or None when none came in time."""
    try:
        return queue.get(timeout=timeout)
    except Empty:
        return None
