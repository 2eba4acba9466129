"""How far an epoch is: what was handed over, what each worker does, where the time went; and how
to resume it in another process.

    generator's state ──> seed of the epoch, and order of its samples ──> numbered index lists
    batches handed over:  0 1 2 3 4 . 6 . .        batches = 5, ahead = [6]

The order is not stored: resuming draws it again from the generator's state at the start of the
epoch, and skips the batches that were handed over. A batch's content depends on the seed and its
number only (Note [Seeds of samples]), so map-style data needs nothing else. The state of a sampler
with `state_dict` is taken at each batch instead, and a stream sends its state with each batch.

The board is in shared memory:

    row 0          | current epoch | 0 ...                                                 |
    row 1 + worker | task + 1 | position | since | samples | batches | fetch | collate | ...|

Each row is two cache lines, written by one process and read by the consumer at any time: to name
the sample of a dead worker, to warn of a slow one, and for `statistics()`. All numbers are float64,
eight aligned bytes each, so no reader sees a half-written one.
"""

from __future__ import annotations

import copy
import random
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any

import numpy as np

from shmtensor.errors import printable
from shmtensor.profiler import profiling
from shmtensor.random import Generator, default_generator

from ..sampler import BatchSampler, Sampler
from .batch_block import Array, allocate_parts
from .seeding import GeneratorLike, generator_of_torch, is_of_torch, new_seed
from .statistics import LoaderStatistics, WorkerStatistics, shared_bytes

PACKAGE = "shmtensor.dataloaders."

State = dict[str, Any]
VERSION = 2
TWISTER_WORDS = 624  # of NumPy's MT19937
PHILOX_WORDS = 4

EPOCH = 0, 0  # where the board has the current epoch; tasks of others are stale
COLUMNS = 16  # of the board
TASK = 0  # the number of its current batch, plus 1; 0: none
POSITION = 1  # the current sample's index in the batch
SINCE = 2  # the monotonic time when it began that sample; 0: none
SAMPLES, BATCHES = 3, 4  # made so far
FETCH, COLLATE, SEND, IDLE = 5, 6, 7, 8  # seconds
PEAK = 9  # its largest resident size in KiB
BLOCK = 10  # bytes of its largest block


class Progress:
    """One epoch: its seed, its numbered index lists, which batches have been handed over, and where
    its processes spend their time.

    Args:
        source: the index lists (or indices) of an epoch.
        generator: draws seed and order.
        streams: the positions of its streams, see `fresh_streams`; [] for map-style data.
        every: after how many batches a sampler's state is taken.
        resumed: the state of a `Progress` to go on from.
    """

    def __init__(
        self,
        source: Iterable[Any],
        generator: GeneratorLike,
        streams: list[State],
        every: int,
        resumed: State | None,
    ) -> None:
        self.every = every
        self.batches = resumed["batches"] if resumed else 0
        self.ahead: set[int] = set(resumed["ahead"]) if resumed else set()
        self.is_over = False
        self.streams = streams
        self.turn = 0  # the stream whose batch comes next
        if resumed and streams and resumed["seed"] is not None:
            self.streams, self.turn = copy.deepcopy(resumed["streams"]), resumed["turn"]
        samplers = chain_of(source)
        self.stateful_sampler: Any = next((s for s in samplers if is_stateful(s)), None)
        # number of batches, and the sampler's state after them
        self.sampler_state: tuple[int, Any] | None = None
        self.pending_states: dict[int, Any] = {}  # the sampler's states after batches in flight
        self.number = 0  # of the next index list
        self.wait_seconds = self.use_seconds = 0.0
        self.recorded = 0  # when the consumer's wait began, if it is recorded in a profile
        self.ready_total = self.handed_over = self.restarts = 0
        self.promised: int | None = None  # batches that the length of a stream's data set makes
        with self.restored_generators(generator, samplers, resumed):
            self.origin = resumed["origin"] if resumed else capture(generator, samplers)
            seed = new_seed(generator)
            self.seed = seed if resumed is None or resumed["seed"] is None else resumed["seed"]
            if resumed:
                self.restore(resumed, samplers)
            elif self.stateful_sampler is not None:
                self.sampler_state = 0, copy.deepcopy(self.stateful_sampler.state_dict())
            self.lists = iter(source)
            self.first = self.next_indices()

    # ------------------------------------------------------------------ the order
    def next_indices(self) -> tuple[int, Any] | None:
        """The next index list that has not been handed over, with its number; None at the end."""
        while True:
            try:
                indices = next(self.lists)
            except StopIteration:
                return None
            number, self.number = self.number, self.number + 1
            if self.stateful_sampler is not None and self.number % self.every == 0:
                self.pending_states[number] = copy.deepcopy(self.stateful_sampler.state_dict())
            if not self.streams and (number < self.batches or number in self.ahead):
                self.commit_sampler_state(number)
                continue
            return number, indices

    def __next__(self) -> tuple[int, Any]:
        item, self.first = self.first, None
        if item is None and (item := self.next_indices()) is None:
            raise StopIteration
        return item

    # ------------------------------------------------------------------ consumed batches
    def mark_consumed(self, number: int, stream: int = 0, state: Any = None) -> None:
        """Records that the consumer has batch `number`."""
        self.handed_over += 1
        if self.streams:
            position = self.streams[stream]
            position["batches"] += 1
            if state is not None:
                position["state"] = state
            self.turn = (stream + 1) % len(self.streams)
            self.batches += 1
            # Each stream may end with a short batch.
            if self.promised is not None and self.handed_over == self.promised + len(self.streams):
                warnings.warn(
                    "DataLoader: more batches than the data set's length promised: "
                    f"{self.promised}, with several workers each must take its own part "
                    "(get_worker_info)",
                    stacklevel=3,
                )
        elif number != self.batches:
            self.ahead.add(number)
        else:
            self.commit_sampler_state(number)
            self.batches += 1
            while self.batches in self.ahead:
                self.ahead.remove(self.batches)
                self.commit_sampler_state(self.batches)
                self.batches += 1

    def commit_sampler_state(self, number: int) -> None:
        """Keeps the sampler's state after batch `number`: all batches before it are consumed."""
        state = self.pending_states.pop(number, None)
        if state is not None and number <= self.batches:
            self.sampler_state = number + 1, state

    def state(self) -> State:
        """The state from which another `Progress` resumes."""
        return {
            "seed": self.seed,
            "origin": self.origin,
            "batches": self.batches,
            "ahead": sorted(self.ahead),
            "sampler": copy.deepcopy(self.sampler_state),
            "streams": copy.deepcopy(self.streams),
            "turn": self.turn,
        }

    @staticmethod
    def between(source: Any, generator: GeneratorLike, streams: list[State]) -> State:
        """The state of an epoch that has not begun yet."""
        samplers = chain_of(source)
        stateful = next((s for s in samplers if is_stateful(s)), None)
        return {
            "seed": None,
            "origin": capture(generator, samplers),
            "batches": 0,
            "ahead": [],
            "sampler": None if stateful is None else (0, copy.deepcopy(stateful.state_dict())),
            "streams": streams,
            "turn": 0,
        }

    # ------------------------------------------------------------------ time
    def begin(self, rows: list[Any], capacity: int) -> None:
        """From now on the time is counted, and that of the processes which write these rows."""
        self.rows = rows
        self.capacity = capacity  # the most batches in flight or ready
        self.pids: list[int] = []
        self.before = [list(row) for row in rows]
        self.last_batch_time = monotonic()  # when the consumer last got a batch

    def begin_wait(self) -> float:
        """The consumer requests a batch; returns the time."""
        now = monotonic()
        self.use_seconds += now - self.last_batch_time
        self.recorded = profiling.begin() if profiling.on else 0
        return now

    def end_wait(self, began: float) -> None:
        """The consumer gets a batch."""
        self.last_batch_time = monotonic()
        self.wait_seconds += self.last_batch_time - began
        if self.recorded:
            profiling.end(self.recorded, "DataLoader.__next__", profiling.LOADER_WAIT)

    def statistics(self) -> LoaderStatistics:
        workers = []
        for worker, (row, before) in enumerate(zip(self.rows, self.before, strict=True)):
            delta = [now - start for now, start in zip(row, before, strict=True)]
            workers.append(
                WorkerStatistics(
                    worker, self.pids[worker], int(delta[BATCHES]), int(delta[SAMPLES]),
                    delta[FETCH], delta[COLLATE], delta[SEND], delta[IDLE], int(row[PEAK]) << 10,
                )
            )  # fmt: skip
        return LoaderStatistics(
            workers=tuple(workers),
            batches=self.handed_over,
            wait_seconds=self.wait_seconds,
            use_seconds=self.use_seconds,
            mean_fill=self.ready_total / self.handed_over if self.handed_over else 0.0,
            capacity=self.capacity,
            restarts=self.restarts,
            shared_bytes=shared_bytes(),
        )

    # ------------------------------------------------------------------ resuming
    def restore(self, resumed: State, samplers: list[Any]) -> None:
        """Restores the samplers' epochs and state."""
        for sampler, epoch in zip(samplers, self.origin["epochs"], strict=False):
            is_begun = resumed["seed"] is not None
            if is_begun and epoch is not None and hasattr(sampler, "set_epoch"):
                sampler.set_epoch(epoch)
        if resumed["sampler"] is not None and self.stateful_sampler is not None:
            self.stateful_sampler.load_state_dict(copy.deepcopy(resumed["sampler"][1]))
        if resumed["sampler"] is not None:
            self.sampler_state = resumed["sampler"]
            self.number = resumed["sampler"][0]

    @contextmanager
    def restored_generators(
        self, generator: GeneratorLike, samplers: list[Any], resumed: State | None
    ) -> Iterator[None]:
        """Inside, the generators have the state that they had when the epoch began.

        The caller's own generators stay as the epoch leaves them; the default ones, which belong to
        the whole program, are reset at the end.
        """
        if resumed is None:
            yield
            return
        origin = resumed["origin"]
        before = read_shared()
        write_shared(origin)
        write(generator, origin["generator"])
        for sampler, state in zip(samplers, origin.get("samplers", ()), strict=False):
            if state is not None:
                write(sampler.generator, state)
        try:
            yield
        finally:
            write_shared(before)


# ---------------------------------------------------------------------- the board
def make_board(workers: int) -> Array:
    """The rows of all workers, in shared memory."""
    (rows,) = allocate_parts([((workers + 1, COLUMNS), np.dtype(np.float64))])
    rows[...] = 0
    return rows


def row_of(board: Array, worker: int) -> Any:
    """A worker's row: indexing a memoryview takes a third of the time of an array's."""
    return memoryview(board[worker + 1])


def note_each(row: Any, indices: Iterable[Any]) -> Iterator[Any]:
    """The same indices of a batch; notes on a row which sample begins, and when."""
    position = 0.0
    for index in indices:
        row[POSITION] = position
        row[SINCE] = monotonic()
        yield index
        position += 1.0


# ---------------------------------------------------------------------- states
def is_stateful(obj: Any) -> bool:
    """Whether it can save and restore its state."""
    return hasattr(obj, "state_dict") and hasattr(obj, "load_state_dict")


def fresh_streams(workers: Sequence[int], size: int) -> list[State]:
    """The positions of new streams: the worker, batches handed over, samples per batch, and the
    stream's latest state with the number of batches before it."""
    return [{"worker": w, "batches": 0, "size": size, "state": None} for w in workers]


def capture(generator: GeneratorLike, samplers: list[Any]) -> State:
    """The generators' state, from which the seed and order of a new epoch can be drawn again."""
    is_ours = all(type(s).__module__.startswith(PACKAGE) for s in samplers)
    return {
        "generator": read(generator),
        "samplers": [read(s.generator) if has_generator(s) else None for s in samplers],
        "epochs": [getattr(s, "epoch", None) for s in samplers],
        **({"default": read(None)} if is_ours else read_shared()),
    }


def read_shared() -> State:
    """The states of the generators that belong to the whole program."""
    state = {"default": read(None), "python": random.getstate(), "numpy": np.random.get_state()}
    if (of_torch := generator_of_torch()) is not None:
        state["torch"] = read(of_torch)
    return state


def write_shared(state: State) -> None:
    """Sets those of these generators that have a state in `state`."""
    if "default" in state:
        write(None, state["default"])
    if "python" in state:
        check_position(state["numpy"])
        random.setstate(state["python"])
        np.random.set_state(state["numpy"])
    if state.get("torch") is not None and (of_torch := generator_of_torch()) is not None:
        write(of_torch, state["torch"])


def has_generator(sampler: Any) -> bool:
    """Whether it draws from its own generator, whose state can be read."""
    generator = getattr(sampler, "generator", None)
    return isinstance(generator, (np.random.Generator, Generator)) or is_of_torch(generator)


def chain_of(source: Any) -> list[Any]:
    """A batch sampler, its sampler, and so on."""
    samplers = []
    while isinstance(source, Sampler) or hasattr(source, "__iter__"):
        samplers.append(source)
        source = getattr(source, "sampler", None)
    # A list draws nothing; our batch sampler has no state beyond that of its sampler.
    return [s for s in samplers if not isinstance(s, (list, tuple, range, BatchSampler))]


def read(generator: GeneratorLike) -> Any:
    """A generator's state, in plain numbers."""
    if isinstance(generator, np.random.Generator):
        return copy.deepcopy(generator.bit_generator.state)
    if is_of_torch(generator):
        state: Any = generator
        return {"torch": state.get_state().numpy().tobytes()}
    return (default_generator if generator is None else generator).read().tobytes()


def write(generator: GeneratorLike, state: Any) -> None:
    """Sets a generator's state to one returned by `read`."""
    kind = library_of_generator(generator)
    if kind != library_of_state(state):
        raise ValueError(
            "DataLoader.load_state_dict: the state is of a loader with another kind of generator: "
            f"this one has {type(generator).__name__}"
        )
    if isinstance(generator, np.random.Generator):
        check_position(state)
        generator.bit_generator.state = state
    elif kind == "torch":
        torch: Any = sys.modules["torch"]
        state_of_torch: Any = generator
        words = np.frombuffer(state["torch"], np.uint8).copy()
        state_of_torch.set_state(torch.from_numpy(words))
    else:
        target: Any = default_generator if generator is None else generator
        target.write(np.frombuffer(state, np.uint8))


def check_position(state: Any) -> None:
    """Checks the positions in a state of NumPy's, which reads its words there without a look.

    Raises:
        ValueError: one is outside.
    """
    if isinstance(state, dict):
        words = state.get("state")
        position = words.get("pos", 0) if isinstance(words, dict) else 0
        positions = [(position, TWISTER_WORDS), (state.get("buffer_pos", 0), PHILOX_WORDS)]
    else:
        positions = [(state[2], TWISTER_WORDS)]
    for position, size in positions:
        if not isinstance(position, (int, np.integer)) or not 0 <= position <= size:
            raise ValueError(
                "DataLoader.load_state_dict: a generator's position is outside of its words: "
                f"{position!r:.80} of {size}"
            )


def library_of_generator(generator: GeneratorLike) -> str:
    if isinstance(generator, np.random.Generator):
        return "numpy"
    return "torch" if is_of_torch(generator) else "shmtensor"


def library_of_state(state: Any) -> str:
    """The library of the generator whose state `read` returned."""
    if not isinstance(state, dict):
        return "shmtensor"
    return "torch" if "torch" in state else "numpy"


def check_state(state: State, promised: State) -> None:
    """Raises ValueError if a state does not fit a loader with the values `promised`."""
    if not isinstance(state, dict) or state.get("version") != VERSION:
        version = state.get("version") if isinstance(state, dict) else type(state).__name__
        raise ValueError(
            f"DataLoader.load_state_dict: not a state of this version: {printable(version)}, "
            f"not {VERSION}"
        )
    for name, value in promised.items():
        if state[name] != value:
            raise ValueError(
                f"DataLoader.load_state_dict: {name} differs: {printable(state[name])} when the "
                f"state was taken, {value} here"
            )
