"""From indices to a batch, the same in the main process and in workers.

Large arrays of a sample are copied to the batch's block as soon as the sample exists.

    sample 0 ──copy──> row 0 of the block; its array is freed
    sample 1 ──copy──> row 1; malloc gave it the memory of sample 0, which is still in the cache
    ...                                                   collation finds the rows in their places

Note [Warm samples]: otherwise all samples of a batch exist until they are collated. Their memory
comes from the system for each batch and returns to it afterwards (glibc trims the top of its heap,
and maps large arrays one by one), so every page is faulted in again, which takes several times as
long as the samples' own work. With one sample at a time, the process needs one sample's memory.

Only arrays that nothing else refers to are copied early. A view of the data set's memory costs no
allocation, and an array that the data set keeps may be changed by a later sample. What a tensor of
PyTorch does not tell is not seen: that it is `detach()` of a kept tensor, or made by
`torch.from_numpy` over a kept array.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import numpy as np

from shmtensor.memory import shared_numpy
from shmtensor.native import copy_to_rows
from shmtensor.other_names import foreign_module
from shmtensor.tensor.foreign_arrays import as_library

from ..collate import DESCRIBE, Leaf, default_collate, default_collate_fn_map, flatten
from ..dataset import Dataset, fetch_samples
from ..foreign_datasets import in_batches
from ..tensor_dataset import Rows
from .batch_block import Array, BlockAllocator, Parts, arrays_in_block
from .progress import BATCHES, COLLATE, FETCH, POSITION, SAMPLES, SINCE, is_stateful, note_each
from .seeding import SampleSeeds

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


LARGE = 16 << 10  # bytes from which an early copy saves time
Fields = list[tuple[Any, Any]]


def counts_references() -> bool:
    """Whether `copy_to_rows` tells a sample that something else refers to from one that only a
    variable refers to. It counts references, and how many a call adds differs between versions of
    Python (3.14 lends those of local variables)."""
    part = np.zeros((1, 1))
    keep: list[Any] = [(np.ones(1),)]
    sample: Any = keep[0]
    sample = copy_to_rows(sample, [(0, part)], 0, None)
    is_kept = sample is keep[0]
    sample = (np.ones(1),)
    sample = copy_to_rows(sample, [(0, part)], 0, None)
    return is_kept and type(sample) is list


# Batches without an array to copy early, after which none is looked for.
TRIES = 3 if counts_references() else 0


class SampleRows:
    """Copies samples of one fetcher early.

    Attributes:
        tries: batches until it stops to look for large new arrays.
        fields: of the current batch: key of each large array in a sample (None: it is the sample),
            and the batch's array.
        parts: shape and dtype of each array of the batch.
        arrays: these arrays, in one block.
        tensors: the keys of tensors of PyTorch.
    """

    __slots__ = ("arrays", "fields", "parts", "tensors", "tries")
    arrays: list[Array]
    fields: Fields
    parts: Parts
    tensors: list[Any]

    def __init__(self) -> None:
        self.tries = TRIES
        self.drop()

    def begin(self, sample: Any, n: int) -> bool:
        """Allocates the block of a batch of `n` samples, of which this is the first; its layout is
        that of `default_collate`.

        Returns:
            Whether there are large arrays, and memory for the block. Then `copy_to_rows(sample,
            self.fields, position, self.tensor_class)` gives samples with rows in their place.
            `first` drops the fields if that does not suit the data set.
        """
        kind = type(sample)
        allocator = BlockAllocator.current
        items: list[tuple[Any, Any]] = [(None, sample)]
        if kind is tuple or kind is list:
            items = list(enumerate(sample))
        elif kind is dict:
            items = list(sample.items())
        self.tries -= 1
        if allocator is None or n < 2 or not any(is_large(x) for _, x in items):
            return False
        if not all(fn in DESCRIBE for fn in default_collate_fn_map.values()):
            return False  # a function of the user's would be called with this sample alone
        parts: Parts = []
        keys = []
        for key, x in items:
            nodes: list[Any] = []
            try:
                flatten([x], default_collate_fn_map, nodes, "")
            except (TypeError, RuntimeError):  # collation raises it again, and names the samples
                return False
            leaves = [node for node in nodes if type(node) is Leaf]
            if is_large(x) and len(leaves) == 1:
                keys.append((key, len(parts), type(x) is np.ndarray))
            parts += [((n, *leaf.shape[1:]), leaf.dtype) for leaf in leaves]
        if not keys:
            return False
        try:
            self.arrays = arrays_in_block(parts, allocator.allocate)
        except MemoryError:  # collation raises it again, if all samples exist and it needs as much
            return False
        self.parts = parts
        self.fields = [(key, self.arrays[number]) for key, number, _ in keys]
        self.tensors = [key for key, _, is_numpy in keys if not is_numpy]
        return True

    @property
    def tensor_class(self) -> Any:
        """PyTorch's, if the samples have tensors of it, else None."""
        return sys.modules["torch"].Tensor if self.tensors else None

    def first(self, sample: Any, early: Any) -> Any:
        """The first sample, which `copy_to_rows` returned as `early`. Its rows become tensors of
        PyTorch where it had such: collation looks there for what the batch is made of.
        """
        if early is sample:  # the data set keeps its arrays
            self.drop()
            return sample
        for key in self.tensors:
            row = early if key is None else early[key]
            if type(row) is np.ndarray:
                row = as_library(row, "torch")
                if key is None:
                    return row
                early[key] = row
        return early

    def end(self) -> None:
        """Hands the block to collation, which comes next."""
        self.tries = TRIES
        allocator = BlockAllocator.current
        if allocator is not None:
            allocator.early = self.parts, self.arrays
        self.drop()

    def drop(self) -> None:
        """Forgets the block."""
        self.parts, self.arrays, self.fields, self.tensors = [], [], [], []


def is_large(x: Any) -> bool:
    if type(x) is np.ndarray:
        return x.nbytes >= LARGE and x.dtype.isnative
    torch = foreign_module("torch")
    is_tensor = torch is not None and type(x) is getattr(torch, "Tensor", None)
    return is_tensor and x.numel() * x.element_size() >= LARGE


class Fetcher:
    """Makes one batch after another; `str(fetcher)` is what it does, for error messages."""

    doing = ""
    indices: Any = None  # those that `doing` is about; their text is made if it is asked for
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

    def __str__(self) -> str:
        return self.doing if self.indices is None else f"{self.doing} {shorten(self.indices)}"

    def fetch(self, number: int, indices: Any) -> Any:
        """Batch `number`, of `indices` (of a stream: of that many samples)."""
        row = self.row
        row[POSITION] = 0
        row[SINCE] = began = monotonic()
        samples = self.samples(number, indices)
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

    def where(self, index: Any) -> str:
        """A sample, for messages."""
        raise NotImplementedError

    def one_by_one(
        self, draw: Callable[[Any], Any], indices: Any, samples: list[Any], copies_early: bool
    ) -> None:
        """Appends `draw(index)` to `samples` for each index, with seeded generators.

        Args:
            copies_early: large arrays of the samples are copied to the batch's block at once.
        """
        each, rows, index = self.seeds.before_each(indices), self.rows, None
        if self.is_watched:
            each = note_each(self.row, each)
        elif self.limit:
            each = self.time_each(each)
        try:
            if copies_early and rows.tries > 0:
                for index in each:
                    sample = draw(index)
                    if rows.begin(sample, len(indices)):
                        early = copy_to_rows(sample, rows.fields, 0, rows.tensor_class)
                        sample = rows.first(sample, early)
                    samples.append(sample)
                    break
            if rows.fields:
                fields, tensor_class = rows.fields, rows.tensor_class
                for index in each:
                    sample = draw(index)
                    sample = copy_to_rows(sample, fields, len(samples), tensor_class)
                    samples.append(sample)
            else:
                for index in each:
                    samples.append(draw(index))
        except BaseException:
            self.doing, self.indices = self.where(index), None
            raise
        finally:
            if rows.fields:
                rows.end()

    def time_each(self, indices: Iterator[Any]) -> Iterator[Any]:
        """The same indices; notes the samples that take longer than the limit."""
        for index in indices:
            began = monotonic()
            yield index
            self.note_slow(began, self.where(index))

    def note_slow(self, began: float, sample: object) -> None:
        """Records a sample, or what this fetcher does, that took longer than the limit."""
        seconds = monotonic() - began
        if 0 < self.limit < seconds:
            self.slow.append((seconds, str(sample)))

    def state(self) -> tuple[int, Any] | None:
        """The stream's state, to resume from; None if it has none, or no snapshot is due."""
        return None


class MapFetcher(Fetcher):
    """Batches of a map-style dataset."""

    def samples(self, number: int, indices: Any) -> Any:
        self.seeds.start(self.seed, number)
        samples: Any = []
        dataset = self.dataset
        if not self.is_batched:
            self.one_by_one(dataset.__getitem__, (indices,), samples, copies_early=False)
            self.doing, self.indices = f"converting {self.where(indices)}", None
            return samples[0]
        if getattr(dataset, "__getitems__", None) is None:
            self.one_by_one(dataset.__getitem__, indices, samples, self.is_default)
        else:
            self.doing, self.indices = "indices", indices
            began = monotonic()
            if self.is_default:
                samples = fetch_samples(dataset, indices)
            else:
                with BlockAllocator():  # the batch's block is for what `collate_fn` makes
                    samples = fetch_samples(dataset, indices)
                samples = list(samples) if type(samples) is Rows else samples
            self.note_slow(began, self)
        self.doing, self.indices = "collating indices", indices
        return samples

    def where(self, index: Any) -> str:
        return f"index {index!r}"


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
        batches: int,
        state: tuple[int, Any] | None,
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
        stream = iter(self.dataset)
        self.draw = lambda _: next(stream)
        stateful: Any = self.dataset if stateful_dataset else stream
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
        n = len(indices) if self.is_batched else 1
        samples: list[Any] = []
        numbers = range(self.count, self.count + n)
        try:
            self.one_by_one(self.draw, numbers, samples, self.is_full and self.is_default)
        except StopIteration:
            self.is_over = True
            if not samples or self.recipe.drop_last:
                raise
        self.count += len(samples)
        self.is_full = len(samples) == n
        return samples if self.is_batched else samples[0]

    def where(self, index: Any) -> str:
        return f"sample {index} of the stream"

    def state(self) -> tuple[int, Any] | None:
        if self.batches % self.recipe.snapshot_every or not is_stateful(self.stateful):
            return None
        return self.batches, self.stateful.state_dict()


def make_fetcher(
    recipe: Recipe, seed: int, seeds: SampleSeeds, row: Any, position: dict[str, Any] | None
) -> Fetcher:
    """The fetcher of an epoch; a stream goes on at `position` (see `Progress`)."""
    if position is None:
        return MapFetcher(recipe, seed, seeds, row)
    return StreamFetcher(recipe, seed, seeds, row, **position)


def shorten(indices: Any) -> str:
    """Indices for a message: all of a few, both ends of many."""
    if isinstance(indices, Sequence) and len(indices) > 12:
        first, last = (", ".join(map(str, part)) for part in (indices[:6], indices[-3:]))
        return f"[{first}, ..., {last}] ({len(indices)} of them)"
    return repr(indices)
