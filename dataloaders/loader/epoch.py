"""One epoch: batches from the worker processes, or made in this process.

At most `prefetch_factor * num_workers` batches are in flight or ready: the next index list is sent
when the consumer takes a batch, so a slow consumer makes workers wait, and memory does not grow.
The first idle worker takes the next list, so a slow sample delays only its own batch.
"""

from __future__ import annotations

import copy
import os
import warnings
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from queue import Empty
from time import monotonic
from typing import Any

from shmtensor.errors import PeerLostError

from ..cuda.pinned_memory import Pinned, PinnedPool
from .batch_block import BlockAllocator
from .fetch import Fetcher, Recipe, make_fetcher
from .output import convert
from .progress import BLOCK, EPOCH, POSITION, SINCE, TASK, Progress, make_board, row_of
from .resume_other_num_workers import Reader, open_streams, same_workers
from .seeding import SampleSeeds
from .worker import BATCH, END, WARNING
from .worker_death import describe_loss, where_at
from .worker_info import acting_as
from .worker_pool import WorkerPool, take_all
from .worker_warning import show_once

LIFE_CHECK = 0.1  # seconds between checks of the workers
DEATH_SEEN = 1.0  # seconds in which a death is seen whose consequence has come


@dataclass(frozen=True)
class Limits:
    """A loader's arguments about waiting and failures.

    Attributes:
        capacity: the most batches in flight or ready.
        in_order: whether batches come in the sampler's order.
        timeout: seconds to wait for a batch; 0: no limit.
        stall: seconds after which a warning names a slow sample; 0: never.
        restarts: how many dead workers an epoch may replace.
        pool: pinned memory for batches, or None.
        output: whose arrays the batches hold, see output.py.
        shown: kinds of the workers' warnings that the loader has shown.
    """

    capacity: int
    in_order: bool
    timeout: float
    stall: float
    restarts: int
    pool: PinnedPool | None
    output: str | None = None
    shown: set[str] = field(default_factory=set)


class BaseEpoch(Iterator[Any]):
    """The attributes of both kinds of epoch."""

    progress: Progress
    limits: Limits

    def __iter__(self) -> BaseEpoch:
        return self


class SingleProcessEpoch(BaseEpoch):
    """The batches of an epoch, each made in this process on request."""

    def __init__(self, recipe: Recipe, progress: Progress, limits: Limits) -> None:
        self.progress = progress
        self.limits = limits
        row = row_of(make_board(1), 0)
        self.seeds = SampleSeeds()
        streams = progress.streams
        with self.seeds.fork_rng():
            if streams and not same_workers(streams, 0):  # workers began them
                self.readers = open_streams(recipe, progress.seed, self.seeds, row, streams)
            else:
                position = streams[0] if streams else None
                fetcher = make_fetcher(recipe, progress.seed, self.seeds, row, position)
                self.readers = {0: Reader(fetcher, None)}
        progress.begin([row], 0)
        progress.pids.append(os.getpid())
        self.allocator = BlockAllocator()

    def __next__(self) -> Any:
        start = self.progress.begin_wait()
        try:
            number, indices = next(self.progress)
            if self.limits.pool is not None:
                pinned = self.limits.pool.reserve(self.allocator.most)
                self.allocator.array = None if pinned is None else pinned.received()
            with self.seeds.fork_rng(), self.allocator:
                stream, fetcher, batch = self.make(number, indices)
                state = copy.deepcopy(fetcher.state())  # the data set may change it later
        except StopIteration:
            self.progress.is_over = True
            raise
        self.progress.mark_consumed(number, stream, state)
        self.progress.end_wait(start)
        slow, fetcher.slow = fetcher.slow, []
        for seconds, sample in slow:
            warn_stalled("DataLoader", sample, seconds, self.limits.stall)
        return convert(batch, self.limits.output)

    def make(self, number: int, indices: Any) -> tuple[int, Fetcher, Any]:
        """The stream whose turn it is, its fetcher and its next batch; StopIteration when all
        streams have ended."""
        n, turn = len(self.progress.streams), self.progress.turn
        while self.readers:
            stream = min(self.readers, key=lambda stream: (stream - turn) % n) if n else 0
            reader = self.readers[stream]
            fetcher = reader.fetcher
            fetcher.limit = self.limits.stall
            try:
                if reader.info is None:
                    return stream, fetcher, fetcher.fetch(number, indices)
                with acting_as(reader.info):
                    return stream, fetcher, fetcher.fetch(number, indices)
            except StopIteration:
                if not n:
                    raise RuntimeError(
                        f"DataLoader: the data set raised StopIteration: {fetcher}"
                    ) from None
                del self.readers[stream]
        raise StopIteration


class MultiProcessEpoch(BaseEpoch):
    """The batches of an epoch, made by worker processes, in the sampler's order if `in_order`."""

    def __init__(
        self, workers: WorkerPool, progress: Progress, limits: Limits, owns_workers: bool
    ) -> None:
        self.workers = workers
        self.progress = progress
        self.limits = limits
        self.owns_workers = owns_workers
        self.is_stream = workers.recipe.is_stream
        self.rows = workers.rows
        self.number = workers.epoch
        self.expected = progress.batches if not self.is_stream else 0  # the next number, in order
        self.error: Exception | None = None  # of the sampler
        self.next_number = 0  # the number after that of the latest task
        self.turn = progress.turn  # the stream that gets the next task
        self.active = [True] * len(progress.streams)
        self.in_flight: dict[int, tuple[int | None, Any]] = {}  # number -> stream, indices
        self.pinned_blocks: dict[int, Pinned] = {}  # by number
        # number -> stream or worker, kind, payload, state of the stream
        self.ready: dict[int, tuple[int, int, Any, Any]] = {}
        self.order: deque[int] = deque()  # numbers in the order in which they became ready
        # Of each stream: batches received, and its latest state.
        self.stream_states: list[tuple[int, Any]] = [
            (position["batches"], position["state"]) for position in progress.streams
        ]
        self.last_check = monotonic()
        self.stalled: set[tuple[int, float]] = set()
        # Before `send_next`: workers of an earlier epoch start at once and count in their rows.
        progress.begin(self.rows, limits.capacity)
        for _ in range(limits.capacity):
            self.send_next()
        workers.launch()
        progress.pids += [child.pid for child in workers.children.all]

    def __next__(self) -> Any:
        if self.progress.is_over:
            raise StopIteration
        if self.number != self.workers.epoch or not self.workers.is_usable:
            why = "another one was started on the same persistent workers"
            if not self.workers.is_usable:
                why = "its workers have ended, or are those of the process that forked this one"
            raise RuntimeError(f"DataLoader: this iterator is over: {why}")
        progress = self.progress
        start = progress.begin_wait()
        while self.receive_result(0.0):  # results that are already there
            continue
        progress.ready_total += len(self.ready)
        while (number := self.next_ready()) is None:
            if not self.in_flight:
                if (error := self.error) is not None:
                    self.error = None
                    raise error
                progress.is_over = True
                self.finish()
                raise StopIteration
            self.wait()
        worker, kind, payload, state = self.ready.pop(number)
        if self.limits.in_order:
            self.expected = max(self.expected, number + 1)
        self.send_next(None if self.limits.in_order else worker)
        progress.end_wait(start)
        if kind != BATCH:
            if payload.is_consequence and (first := self.workers.children.join(DEATH_SEEN)):
                self.handle_death(first.index, payload.line)
            payload.reraise()
        progress.mark_consumed(number, worker, state)
        batch, has_jax = payload
        return convert(batch, self.limits.output, has_jax)

    def __del__(self) -> None:
        if hasattr(self, "workers"):
            self.finish()

    def finish(self) -> None:
        while self.pinned_blocks:
            self.pinned_blocks.popitem()[1].is_reserved = False
        if not self.workers.is_usable:
            return
        if self.owns_workers:
            self.workers.close()
        elif self.workers.board[EPOCH] == self.number:
            self.workers.drain()

    # ------------------------------------------------------------------ tasks
    def send_next(self, stream: int | None = None) -> None:
        """Sends the next index list; to `stream`, or to the one whose turn it is."""
        if self.is_stream:
            if stream is None or not self.active[stream]:
                for _ in self.active:
                    stream = self.turn
                    self.turn = (stream + 1) % len(self.active)
                    if self.active[stream]:
                        break
                else:
                    return  # every stream has ended
        else:
            stream = None
        try:
            number, indices = next(self.progress)
        except StopIteration:
            return
        except Exception as error:  # of the sampler: raised after the batches before it
            self.error = error
            return
        self.in_flight[number] = stream, indices
        self.send(number, stream, indices, self.reserve_pinned(number))
        self.next_number = number + 1

    def send(self, number: int, stream: int | None, indices: Any, block: Any) -> None:
        """Puts a task into the queue of the worker that reads this stream; if there are no streams,
        into the queue that all workers share.
        """
        tasks = self.workers.tasks[(stream or 0) % self.workers.n]
        tasks.put((self.number, number, stream, indices, block))

    def reserve_pinned(self, number: int) -> Any:
        """Pinned memory for a batch, or None."""
        pool = self.limits.pool
        pinned = None if pool is None else pool.reserve(int(max(row[BLOCK] for row in self.rows)))
        if pinned is None:
            return None
        self.pinned_blocks[number] = pinned
        return pinned.array

    def next_ready(self) -> int | None:
        """The number of the batch that may be handed over now, or None."""
        if not self.limits.in_order:
            return self.order.popleft() if self.order else None
        while self.expected < self.next_number:
            if self.expected in self.ready:
                return self.expected
            if self.expected in self.in_flight:
                return None
            self.expected += 1  # the stream ended without a batch, or it was already handed over
        return None

    # ------------------------------------------------------------------ results
    def receive_result(self, seconds: float) -> bool:
        """Receives one result within so many seconds; returns whether one came."""
        try:
            message = self.workers.results.get(timeout=seconds)
        except Empty:
            return False
        epoch, number, worker, kind, payload, state = message
        if epoch != self.number or number not in self.in_flight:
            return True  # of an abandoned epoch, or a batch made twice because a worker died
        if kind == WARNING:
            show_once(payload, self.limits.shown)
            return True
        del self.in_flight[number]
        if (pinned := self.pinned_blocks.pop(number, None)) is not None:
            pinned.is_reserved = False
        if kind == END:
            self.active[worker] = False
            self.send_next()
            return True
        if self.is_stream and kind == BATCH:
            count, last_state = self.stream_states[worker]
            self.stream_states[worker] = count + 1, state if state is not None else last_state
        self.ready[number] = worker, kind, payload, state
        if not self.limits.in_order:
            self.order.append(number)
        return True

    def wait(self) -> None:
        """Waits for one result. Handles deaths of workers meanwhile; raises at the timeout."""
        workers, limits = self.workers, self.limits
        deadline = monotonic() + limits.timeout if limits.timeout else None
        while True:
            now = monotonic()
            dead: list[int] = []
            if now - self.last_check > LIFE_CHECK:
                self.last_check = now
                dead = workers.dead()
                if limits.stall:
                    self.warn_of_stalls(now)
            if self.receive_result(0.0 if dead else LIFE_CHECK):
                return
            if dead:
                self.handle_death(dead[0])
                continue
            if deadline is not None and monotonic() > deadline:
                self.raise_timeout()

    # ------------------------------------------------------------------ faults
    def handle_death(self, worker: int, consequence: str = "") -> None:
        """Replaces a dead worker, or raises the error that describes its death."""
        workers = self.workers
        numbers = self.lost_tasks(worker)
        error = describe_loss(workers, worker, self.in_flight, numbers, consequence)
        is_hopeless = not isinstance(error, PeerLostError)  # each worker will fail in this way
        progress = self.progress
        if is_hopeless or progress.restarts >= self.limits.restarts:
            workers.close()
            raise error
        positions: Any = None
        if self.is_stream:
            streams = zip(progress.streams, self.stream_states, strict=True)
            positions = [
                {**position, "batches": count, "state": state}
                for position, (count, state) in streams
            ]
        if self.limits.pool is not None:
            self.limits.pool.clear()  # a fork would hold its blocks
        workers.replace(worker, progress.seed, positions)
        for number in numbers:
            self.send(number, *self.in_flight[number], None)
        progress.pids[worker] = workers.children.all[worker].pid
        progress.restarts += 1
        warnings.warn(
            f"{error}; replaced, {progress.restarts} of {self.limits.restarts} times",
            RuntimeWarning,
            stacklevel=4,
        )

    def lost_tasks(self, worker: int) -> list[int]:
        """The tasks of the dead worker, which must be sent again.

        A live worker may have taken a task and not yet written it to the progress board: its task
        is then done twice, and one of the two results is dropped.
        """
        workers = self.workers
        if self.is_stream:
            take_all(workers.tasks[worker])
            n = workers.n
            return sorted(k for k, (s, _) in self.in_flight.items() if (s or 0) % n == worker)
        queued = take_all(workers.tasks[0])
        dead = workers.dead()
        assigned = {int(row[TASK]) - 1 for w, row in enumerate(workers.rows) if w not in dead}
        assigned |= {number for epoch, number, *_ in queued if epoch == self.number}
        for task in queued:
            workers.tasks[0].put(task)
        return sorted(number for number in self.in_flight if number not in assigned)

    def warn_of_stalls(self, now: float) -> None:
        """Warns of samples that take long, once each."""
        for worker, row in enumerate(self.rows):
            since, number = row[SINCE], int(row[TASK]) - 1
            if since and now - since > self.limits.stall and (worker, since) not in self.stalled:
                self.stalled.add((worker, since))
                indices = self.in_flight.get(number, (None, None))[1]
                who = f"DataLoader: worker {worker} (pid {self.workers.children.all[worker].pid})"
                at = where_at(indices, int(row[POSITION]))
                warn_stalled(who, at, now - since, self.limits.stall)

    def raise_timeout(self) -> None:
        """Raises the error for a batch that missed the timeout."""
        workers, timeout = self.workers, self.limits.timeout
        number = min(self.in_flight)
        busy = [w for w, row in enumerate(self.rows) if int(row[TASK]) - 1 == number]
        worker = busy[0] if busy else 0
        pid = workers.children.all[worker].pid
        position = int(self.rows[worker][POSITION]) if busy else None
        sample = where_at(self.in_flight[number][1], position)
        workers.close()
        raise RuntimeError(
            f"DataLoader: no batch came within the timeout: {timeout} s, worker {worker} "
            f"(pid {pid}) is at {sample}"
        )


def warn_stalled(who: str, sample: str, seconds: float, limit: float) -> None:
    warnings.warn(
        f"{who}: a sample takes long: {seconds:.1f} s at {sample}, stall_warning is {limit} s",
        RuntimeWarning,
        stacklevel=5,
    )
