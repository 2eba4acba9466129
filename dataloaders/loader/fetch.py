"""From indices to a batch, the same in the main process and in workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from shmtensor.memory import shared_numpy
from shmtensor.native import copy_to_rows

from ..collate import default_collate
from ..dataset import Dataset, fetch_samples
from ..foreign_datasets import in_batches
from ..tensor_dataset import Rows
from .batch_block import BlockAllocator
from .sample_rows import SampleRows
from .seeding import WORDS, SampleSeeds
from .worker_progress import BATCHES, COLLATE, FETCH, POSITION, SAMPLES, SINCE

__all__ = ["Fetcher", "MapFetcher", "Recipe", "StreamFetcher", "is_stateful", "make_fetcher"]

OPENING = 2**40  # the number under which `iter(dataset)` is seeded; no batch has it


@dataclass(frozen=True)
class Recipe:
    """How batches are made: sent to the workers for each epoch.

    Attributes:
        dataset: the source of samples.
        collate_fn: samples -> batch.
        is_batched: whether samples are collated.
        is_stream: whether the data set is iterated over.
        drop_last: of a stream: leave out the last batch if it is shorter.
        init_fn: called with the worker's id.
        snapshot_every: of a stream: after how many batches its state is taken.
        write_warning: whether a worker warns of a write to a tensor of the data set.
    """

    dataset: Dataset[Any]
    collate_fn: Callable[[Any], Any]
    is_batched: bool
    is_stream: bool
    drop_last: bool
    init_fn: Callable[[int], None] | None = field(metadata={"name": "worker_init_fn"})
    snapshot_every: int = 1
    write_warning: bool = False


class Doing:
    """What a fetcher does, as text once it is asked for: few batches fail."""

    __slots__ = ("indices", "what")

    def __init__(self, what: str, indices: Any) -> None:
        self.what = what
        self.indices = indices

    def __str__(self) -> str:
        return f"{self.what} {shorten(self.indices)}"


class Fetcher:
    """Makes one batch after another; `doing` describes the current work, for error messages."""

    doing: str | Doing = ""
    is_watched = False  # whether the consumer reads the row while a batch is made
    limit = 0.0  # seconds after which a sample is slow, if not watched; 0: no limit

    def __init__(self, recipe: Recipe, seed: int, seeds: SampleSeeds, row: Any) -> None:
        self.recipe = recipe
        self.collate_fn = recipe.collate_fn
        self.seed = seed
        self.seeds = seeds
        self.row = row
        self.is_batched = recipe.is_batched
        self.is_default = recipe.is_batched and recipe.collate_fn is default_collate
        dataset = recipe.dataset
        self.dataset: Dataset[Any] = in_batches(dataset) if self.is_default else dataset
        self.rows = SampleRows()  # used if only `default_collate` sees the samples
        self.slow: list[tuple[float, str]] = []  # seconds, and which sample that was

    def note_slow(self, began: float, sample: str | Doing) -> None:
        """Records a sample that took longer than the limit."""
        seconds = monotonic() - began
        if 0 < self.limit < seconds:
            self.slow.append((seconds, str(sample)))

    def fetch(self, number: int, indices: Any) -> Any:
        """Batch `number`, of `indices` (of a stream: of that many samples)."""
        row = self.row
        row[POSITION] = 0
        row[SINCE] = began = monotonic()
        try:
            samples = self.samples(number, indices)
        except BaseException:
            self.rows.drop()
            raise
        fetched = monotonic()
        try:
            batch = self.collate_fn(samples)
        except StopIteration as error:  # not the end of a stream
            raise RuntimeError("DataLoader: collate_fn raised StopIteration") from error
        row[FETCH] += fetched - began
        row[COLLATE] += monotonic() - fetched
        row[SAMPLES] += len(samples) if self.is_batched else 1
        row[BATCHES] += 1
        return batch

    def fetch_shared(self, number: int, indices: Any) -> Any:
        """As `fetch`, with NumPy's arrays allocated in shared memory, so that they are sent without
        a copy. Not for `default_collate`, which writes into the batch's block anyway."""
        if self.is_default:
            return self.fetch(number, indices)
        with shared_numpy():
            return self.fetch(number, indices)

    def samples(self, number: int, indices: Any) -> Any:
        """The samples of a batch, or the one sample."""
        raise NotImplementedError

    def state(self) -> tuple[int, Any] | None:
        """The stream's state, to resume from; None if it has none, or no snapshot is due."""
        return None


class MapFetcher(Fetcher):
    """Batches of a map-style dataset."""

    def samples(self, number: int, indices: Any) -> Any:
        self.seeds.start(self.seed, number)
        if not self.is_batched:
            self.doing = f"index {indices!r}"
            began = monotonic()
            sample = self.dataset[indices]
            self.note_slow(began, self.doing)
            self.doing = f"converting index {indices!r}"
            return sample
        if getattr(self.dataset, "__getitems__", None) is not None:
            self.doing = Doing("indices", indices)
            began = monotonic()
            if self.is_default:
                samples = fetch_samples(self.dataset, indices)
            else:
                with BlockAllocator():  # the batch's block is for what `collate_fn` makes
                    samples = fetch_samples(self.dataset, indices)
                samples = list(samples) if type(samples) is Rows else samples
            self.note_slow(began, self.doing)
        else:
            samples = self.one_by_one(indices)
        self.doing = Doing("collating indices", indices)
        return samples

    def one_by_one(self, indices: Sequence[int]) -> list[Any]:
        dataset, seeds, row = self.dataset, self.seeds, self.row
        python, numpy, ours = seeds.python_position, seeds.numpy_position, seeds.ours
        is_watched, always, is_timed = self.is_watched, not seeds.is_direct, self.limit > 0
        index, position, began = None, 0, 0.0
        samples: list[Any] = []
        rows, is_early, tensor_class = self.rows, False, None
        is_first = self.is_default and rows.tries > 0
        try:
            for index in indices:
                # `seeds.refresh()`, without a call for each of many quick samples
                if python[0] != WORDS or numpy[0] != WORDS or ours._offset or always:
                    seeds.refresh()
                if is_watched:
                    row[POSITION] = position
                    row[SINCE] = monotonic()
                    position += 1
                if is_timed:
                    began = monotonic()
                sample = dataset[index]
                if is_timed:
                    self.note_slow(began, f"index {index!r}")
                if is_early:
                    sample = copy_to_rows(sample, rows.fields, len(samples), tensor_class)
                elif is_first:
                    is_first = False
                    if rows.begin(sample, len(indices)):
                        tensor_class = rows.tensor_class
                        early = copy_to_rows(sample, rows.fields, 0, tensor_class)
                        sample, is_early = rows.first(sample, early)
                samples.append(sample)
        except BaseException:
            self.doing = f"index {index!r}"
            raise
        if is_early:
            rows.end()
        return samples


class StreamFetcher(Fetcher):
    """Batches of an iterable dataset; raises StopIteration at its end.

    Args:
        worker: the worker that reads the stream; -1 without workers.
        size: samples per batch, 1 without batching.
        batches: how many batches of the stream the consumer already has: they are skipped.
        state: number of batches, and the state of the data set or its iterator after them; the
            batches to skip after these are made once more and dropped. None: all of them are.
    """

    def __init__(
        self,
        recipe: Recipe,
        seed: int,
        seeds: SampleSeeds,
        row: Any,
        worker: int,
        size: int,
        batches: int = 0,
        state: tuple[int, Any] | None = None,
    ) -> None:
        super().__init__(recipe, seed, seeds, row)
        self.worker = worker
        self.batches = self.count = 0
        self.is_over = False
        # Whether the batch before had as many samples as were asked for: the block of a batch is
        # not allocated before its samples exist for a stream that is shorter than one batch.
        self.is_full = False
        stateful_dataset = is_stateful(self.dataset)
        if state is not None:
            self.batches, self.count = state[0], state[0] * size
            if stateful_dataset:
                self.dataset.load_state_dict(state[1])  # type: ignore[attr-defined]
        seeds.start(seed, OPENING, worker)
        self.stream: Iterator[Any] = iter(self.dataset)
        stateful: Any = self.dataset if stateful_dataset else self.stream
        if state is not None and not stateful_dataset:
            stateful.load_state_dict(state[1])
        self.stateful = stateful
        while self.batches < batches:
            self.skip(size)

    def skip(self, size: int) -> None:
        """Draws and drops a batch that the consumer already has."""
        try:
            self.samples(0, range(size))
        except StopIteration:
            self.batches += 1  # this time the stream ends earlier

    def samples(self, number: int, indices: Any) -> Any:
        self.doing = f"sample {self.count} of this worker's stream, or one soon after it"
        if self.is_over:
            raise StopIteration
        self.seeds.start(self.seed, self.batches, self.worker)
        self.batches += 1
        if not self.is_batched:
            sample = self.next_one()
            self.count += 1
            return sample
        samples: list[Any] = []
        row, rows, is_early, tensor_class = self.row, self.rows, False, None
        is_first = self.is_full and self.is_default and rows.tries > 0
        try:
            for position in range(len(indices)):
                if position:
                    self.seeds.refresh()
                    row[POSITION] = position
                    row[SINCE] = monotonic()
                sample = self.next_one(position)
                if is_early:
                    sample = copy_to_rows(sample, rows.fields, position, tensor_class)
                elif is_first:
                    is_first = False
                    if rows.begin(sample, len(indices)):
                        tensor_class = rows.tensor_class
                        early = copy_to_rows(sample, rows.fields, 0, tensor_class)
                        sample, is_early = rows.first(sample, early)
                samples.append(sample)
        except StopIteration:
            if not samples or self.recipe.drop_last:
                raise
        self.count += len(samples)
        self.is_full = len(samples) == len(indices)
        if is_early:
            rows.end()  # of a shorter last batch collation asks for other arrays
        return samples

    def next_one(self, position: int = 0) -> Any:
        """The next sample, at `position` of its batch."""
        began = monotonic()
        try:
            sample = next(self.stream)
        except StopIteration:
            self.is_over = True
            raise
        if self.limit:
            self.note_slow(began, f"sample {self.count + position} of the stream")
        return sample

    def state(self) -> tuple[int, Any] | None:
        if self.batches % self.recipe.snapshot_every or not is_stateful(self.stateful):
            return None
        return self.batches, self.stateful.state_dict()


def is_stateful(obj: Any) -> bool:
    """Whether it can save and restore its state."""
    return hasattr(obj, "state_dict") and hasattr(obj, "load_state_dict")


def make_fetcher(
    recipe: Recipe,
    seed: int,
    seeds: SampleSeeds,
    row: Any,
    worker: int = -1,
    position: dict[str, Any] | None = None,
) -> Fetcher:
    """The fetcher of an epoch; a stream resumes at `position` (see `Progress`)."""
    if not recipe.is_stream:
        return MapFetcher(recipe, seed, seeds, row)
    p = position or {"batches": 0, "size": 1, "state": None}
    return StreamFetcher(recipe, seed, seeds, row, worker, p["size"], p["batches"], p["state"])


def shorten(indices: Any) -> str:
    """Indices for a message: all of a few, both ends of many."""
    if isinstance(indices, Sequence) and len(indices) > 12:
        first, last = (", ".join(map(str, part)) for part in (indices[:6], indices[-3:]))
        return f"[{first}, ..., {last}] ({len(indices)} of them)"
    return repr(indices)
