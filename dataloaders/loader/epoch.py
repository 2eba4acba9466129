"""One pass over the data set: batches from the workers of a crew, or made here.

At most `prefetch_factor * num_workers` batches are under way or waiting for their turn: the next
index list goes out when the consumer takes a batch, so a slow consumer makes workers wait, and
memory does not grow. Which worker takes a list is not decided before one is idle: a slow sample
holds up nothing but its own batch.
"""

from __future__ import annotations

import copy
import os
import warnings
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from time import monotonic
from typing import Any

from ..cuda.pinned_memory import Pinned, PinnedPool
from .batch_block import Place
from .epoch_progress import Progress
from .fetch import Fetcher, Recipe, make_fetcher
from .resume_other_num_workers import Reader, are_own, open_streams
from .seeding import SampleSeeds
from .statistics import EpochCounters
from .worker import BATCH, END
from .worker_death import describe_loss, where_at
from .worker_info import acting_as
from .worker_pool import WorkerPool, get
from .worker_progress import BLOCK, PLACE, SINCE, TASK, epoch_of, make_progress_board, row_of

__all__ = ["Epoch", "Here", "Limits", "Pass"]

LIFE_CHECK = 0.1  # seconds between looks at the workers


@dataclass(frozen=True)
class Limits:
    """What a loader's arguments say about waiting.

    Attributes:
        capacity: the most batches under way.
        in_order: whether batches come in the sampler's order.
        timeout: seconds to wait for a batch; 0: no limit.
        stall: seconds after which a sample is named; 0: never.
        restarts: how many dead workers an epoch may have replaced.
        pool: where batches are to lie, if that is pinned memory.
    """

    capacity: int
    in_order: bool
    timeout: float
    stall: float
    restarts: int
    pool: PinnedPool | None


class Pass(Iterator[Any]):
    """What both kinds of epoch have: progress, and the consumer's clock."""

    progress: Progress
    limits: Limits
    tally: EpochCounters

    def __iter__(self) -> Pass:
        return self


class Here(Pass):
    """The batches of an epoch, made in this process as they are asked for."""

    def __init__(self, recipe: Recipe, progress: Progress, limits: Limits) -> None:
        self.progress = progress
        self.limits = limits
        self.rows = [row_of(make_progress_board(1), 0)]
        self.seeds = SampleSeeds()
        self.readers: dict[int, Reader] = {}  # of streams that workers began with
        streams, row = progress.streams, self.rows[0]
        with self.seeds.borrowed():
            if streams and not are_own(streams, 0):
                self.readers = open_streams(recipe, progress.seed, self.seeds, row, streams)
                self.fetcher: Fetcher = next(iter(self.readers.values())).fetcher
            else:
                position = streams[0] if streams else None
                self.fetcher = make_fetcher(
                    recipe, progress.seed, self.seeds, row, position=position
                )
        self.tally = EpochCounters(self.rows, [os.getpid()], 0)
        self.place = Place()

    def __next__(self) -> Any:
        began = self.tally.ask()
        try:
            number, indices = next(self.progress)
            if self.limits.pool is not None:
                pinned = self.limits.pool.lend(self.place.most)
                self.place.array = None if pinned is None else pinned.received()
            with self.seeds.borrowed(), self.place:
                try:
                    stream, batch = self.make(number, indices)
                except StopIteration:
                    if not self.progress.streams:
                        raise RuntimeError(
                            f"DataLoader: the data set raised StopIteration: {self.fetcher.doing}"
                        ) from None
                    raise
                state = copy.deepcopy(self.fetcher.state())  # the data set may go on with it
        except StopIteration:
            self.progress.is_over = True
            raise
        self.tally.asked += 1
        self.progress.hand_over(number, stream, state)
        self.tally.leave(began)
        slow, self.fetcher.slow = self.fetcher.slow, []
        for took, at in slow:
            warn_stalled("DataLoader", at, took, self.limits.stall)
        return batch

    def make(self, number: int, indices: Any) -> tuple[int, Any]:
        """The next batch and its stream; StopIteration when all streams have ended."""
        self.fetcher.limit = self.limits.stall
        if not self.readers:
            return 0, self.fetcher.fetch(number, indices)
        n, turn = len(self.progress.streams), self.progress.turn
        while self.readers:
            stream = min(self.readers, key=lambda stream: (stream - turn) % n)
            self.fetcher = self.readers[stream].fetcher
            self.fetcher.limit = self.limits.stall
            try:
                with acting_as(self.readers[stream].info):
                    return stream, self.fetcher.fetch(number, indices)
            except StopIteration:
                del self.readers[stream]
        raise StopIteration


class Epoch(Pass):
    """The batches of an epoch, made by a crew, in the sampler's order unless told otherwise."""

    def __init__(
        self, crew: WorkerPool, progress: Progress, limits: Limits, owns_crew: bool
    ) -> None:
        self.crew = crew
        self.progress = progress
        self.limits = limits
        self.owns_crew = owns_crew
        self.is_stream = crew.recipe.is_stream
        self.rows = crew.rows
        self.number = crew.epoch
        self.expected = progress.batches if not self.is_stream else 0  # comes next, in order
        self.error: Exception | None = None  # of the sampler
        self.sent = 0  # the number after that of the latest task
        self.turn = progress.turn  # the worker whose stream is to get a task
        self.active = [True] * len(progress.streams)
        self.under_way: dict[int, tuple[int | None, Any]] = {}  # number -> stream, indices
        self.lent: dict[int, Pinned] = {}  # number -> where its batch is to lie
        self.ready: dict[int, tuple[int, int, Any, Any]] = {}  # number -> worker, kind, payload...
        self.order: deque[int] = deque()  # numbers in the order in which they became ready
        self.told: list[tuple[int, Any]] = [  # of each stream: batches received, latest state
            (place["batches"], place["state"]) for place in progress.streams
        ]
        self.checked = monotonic()
        self.stalled: set[tuple[int, float]] = set()
        self.tally = EpochCounters(
            self.rows, [], limits.capacity
        )  # before workers that stayed go on
        for _ in range(limits.capacity):
            self.hand_out()
        crew.launch()
        self.tally.pids += [process.pid for process in crew.processes]

    def __next__(self) -> Any:
        if self.progress.is_over:
            raise StopIteration
        if self.number != self.crew.epoch or not self.crew.is_usable:
            why = "another one was started on the same persistent workers"
            if not self.crew.is_usable:
                why = "its workers have ended, or are those of the process that forked this one"
            raise RuntimeError(f"DataLoader: this iterator is over: {why}")
        began = self.tally.ask()
        while self.receive(0.0):  # what has come meanwhile
            continue
        self.tally.filled += len(self.ready)
        while (number := self.next_ready()) is None:
            if not self.under_way:
                if (error := self.error) is not None:
                    self.error = None
                    raise error
                self.progress.is_over = True
                self.finish()
                raise StopIteration
            self.wait()
        worker, kind, payload, state = self.ready.pop(number)
        if self.limits.in_order:
            self.expected = max(self.expected, number + 1)
        self.hand_out(None if self.limits.in_order else worker)
        self.tally.leave(began)
        if kind != BATCH:
            payload.reraise()
        self.tally.asked += 1
        self.progress.hand_over(number, worker, state)
        return payload

    def __del__(self) -> None:
        if hasattr(self, "crew"):
            self.finish()

    def finish(self) -> None:
        while self.lent:
            self.lent.popitem()[1].is_lent = False
        if not self.crew.is_usable:
            return
        if self.owns_crew:
            self.crew.close()
        elif epoch_of(self.crew.board) == self.number:
            self.crew.rest()

    # ------------------------------------------------------------------ tasks
    def hand_out(self, stream: int | None = None) -> None:
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
        except Exception as error:  # the sampler's, which comes after the batches before it
            self.error = error
            return
        self.under_way[number] = stream, indices
        self.send(number, stream, indices, self.lend(number))
        self.sent = number + 1

    def send(self, number: int, stream: int | None, indices: Any, place: Any) -> None:
        """To all workers, or to the one that reads this stream."""
        tasks = self.crew.tasks[(stream or 0) % self.crew.n]
        tasks.put((self.number, number, stream, indices, place))

    def lend(self, number: int) -> Any:
        """Pinned memory for a batch, if that is wanted and there is some."""
        pool = self.limits.pool
        pinned = None if pool is None else pool.lend(int(max(row[BLOCK] for row in self.rows)))
        if pinned is None:
            return None
        self.lent[number] = pinned
        return pinned.array

    def next_ready(self) -> int | None:
        """The number of the batch that may be handed over now, or None."""
        if not self.limits.in_order:
            return self.order.popleft() if self.order else None
        while self.expected < self.sent:
            if self.expected in self.ready:
                return self.expected
            if self.expected in self.under_way:
                return None
            self.expected += 1  # a stream ended instead of giving a batch, or it is done already
        return None

    # ------------------------------------------------------------------ results
    def receive(self, seconds: float) -> bool:
        """Takes one result if there is one in time."""
        message = get(self.crew.results, seconds)
        if message is None:
            return False
        epoch, number, worker, kind, payload, state = message
        if epoch != self.number or number not in self.under_way:
            return True  # of an epoch that was left early, or made twice because a worker died
        del self.under_way[number]
        if (pinned := self.lent.pop(number, None)) is not None:
            pinned.is_lent = False
        if kind == END:
            self.active[worker] = False
            self.hand_out()
            return True
        if self.is_stream and kind == BATCH:
            done, last = self.told[worker]
            self.told[worker] = done + 1, state if state is not None else last
        self.ready[number] = worker, kind, payload, state
        if not self.limits.in_order:
            self.order.append(number)
        return True

    def wait(self) -> None:
        """Waits for one result; raises when a worker that owes one has died, or time is over."""
        crew, limits = self.crew, self.limits
        deadline = monotonic() + limits.timeout if limits.timeout else None
        while True:
            now = monotonic()
            dead: list[int] = []
            if now - self.checked > LIFE_CHECK:
                self.checked = now
                dead = crew.dead()
                if limits.stall:
                    self.warn_of_stalls(now)
            if self.receive(0.0 if dead else LIFE_CHECK):
                return
            if dead:
                self.lose(dead[0])
                continue
            if deadline is not None and monotonic() > deadline:
                self.give_up()

    # ------------------------------------------------------------------ faults
    def lose(self, worker: int) -> None:
        """A worker has died: replaces it if that is wanted, else raises the error that says so."""
        crew = self.crew
        lost = self.lost(worker)
        error = describe_loss(crew, worker, self.under_way, lost)
        if self.tally.restarts >= self.limits.restarts:
            crew.close()
            raise error
        positions: Any = None
        if self.is_stream:
            positions = [
                {**place, "batches": done, "state": state}
                for place, (done, state) in zip(self.progress.streams, self.told, strict=True)
            ]
        if self.limits.pool is not None:
            self.limits.pool.clear()  # a fork would hold its blocks
        crew.replace(worker, self.progress.seed, positions)
        for number in lost:
            self.send(number, *self.under_way[number], None)
        self.tally.restart(worker, crew.processes[worker].pid)
        warnings.warn(
            f"{error}; replaced, {self.tally.restarts} of {self.limits.restarts} times",
            RuntimeWarning,
            stacklevel=4,
        )

    def lost(self, worker: int) -> list[int]:
        """The tasks that nobody does any more: those of the dead worker.

        A living worker may have taken a task and not yet said so on the board: its task is then
        done twice, and one of the two results is thrown away.
        """
        crew = self.crew
        if self.is_stream:
            while get(crew.tasks[worker], 0) is not None:
                continue
            n = crew.n
            return sorted(k for k, (s, _) in self.under_way.items() if (s or 0) % n == worker)
        queued = []
        while (task := get(crew.tasks[0], 0)) is not None:
            queued.append(task)
        at = {int(row[TASK]) - 1 for w, row in enumerate(crew.rows) if w not in crew.dead()}
        at |= {number for epoch, number, *_ in queued if epoch == self.number}
        for task in queued:
            crew.tasks[0].put(task)
        return sorted(number for number in self.under_way if number not in at)

    def warn_of_stalls(self, now: float) -> None:
        """Warns of samples that take long, once each."""
        for worker, row in enumerate(self.rows):
            since, number = row[SINCE], int(row[TASK]) - 1
            if since and now - since > self.limits.stall and (worker, since) not in self.stalled:
                self.stalled.add((worker, since))
                indices = self.under_way.get(number, (None, None))[1]
                who = f"DataLoader: worker {worker} (pid {self.crew.processes[worker].pid})"
                at = where_at(indices, int(row[PLACE]))
                warn_stalled(who, at, now - since, self.limits.stall)

    def give_up(self) -> None:
        """Raises the error for a batch that did not come in time."""
        crew, timeout = self.crew, self.limits.timeout
        number = min(self.under_way)
        at = [w for w, row in enumerate(self.rows) if int(row[TASK]) - 1 == number]
        worker = at[0] if at else 0
        pid = crew.processes[worker].pid
        text = where_at(self.under_way[number][1], int(self.rows[worker][PLACE]) if at else None)
        crew.close()
        raise RuntimeError(
            f"DataLoader: no batch came within the timeout: {timeout} s, worker {worker} "
            f"(pid {pid}) is at {text}"
        )


def warn_stalled(who: str, at: str, seconds: float, limit: float) -> None:
    warnings.warn(
        f"{who}: a sample takes long: {seconds:.1f} s at {at}, stall_warning is {limit} s",
        RuntimeWarning,
        stacklevel=5,
    )
