"""Batches: the part of each rank, and how it gets there.

| data | a rank's part |
|---|---|
| DataLoader of a map-style data set, default collation | is loaded by the rank (`Samples`) |
| list or tuple of batches | is a view of the batch, which all ranks have from the beginning |
| anything else | is a view of the batch, which rank 0 gets and hands over |

Where ranks load their samples, rank 0 draws the order of an epoch, and each rank loads its indices,
with its share of the workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import accumulate, count, islice, pairwise
from operator import is_
from typing import Any, NamedTuple

import numpy as np

from .. import native
from ..dataloaders import DataLoader
from ..dataloaders.collate import default_collate
from ..dataloaders.loader.seeding import mix, new_seed
from ..dataloaders.loader.worker_pool import MAX_RECIPE_BYTES, as_message
from ..device import Device
from ..functions import cat, stack
from ..memory.layout import empty_shared
from ..other_names import foreign_module
from ..random import manual_seed
from ..tensor import Tensor
from ..tensor.dlpack import from_dlpack
from ..tensor.from_data import from_numpy

TENSORS = frozenset([Tensor])
MOST = 20_000_000  # samples whose order is drawn at once


def apply(function: Callable[[Any], Any], batch: Any, types: Any = Tensor) -> Any:
    """The same nested tuples, lists and dictionaries, with `function(x)` for each x of `types`."""
    if batch.__class__ is tuple:  # the usual one: a tenth of a small model's step
        return tuple([apply(function, value, types) for value in batch])
    if isinstance(batch, types):
        return function(batch)
    if isinstance(batch, Mapping):
        return {key: apply(function, value, types) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(apply(function, value, types) for value in batch))
    if isinstance(batch, (tuple, list)):
        return type(batch)(apply(function, value, types) for value in batch)
    return batch


def samples_in(batch: Any) -> int:
    """The size of the first dimension of the first tensor that is not 0-d."""
    size = first_size(batch)
    if size is None:
        raise TypeError(
            f"Trainer: the batch has no tensor with a dimension: {type(batch).__name__}"
        )
    return size


def first_size(batch: Any) -> int | None:
    """`samples_in`; None: there is no such tensor."""
    if isinstance(batch, Tensor):
        shape = batch.array.shape
        return shape[0] if shape else None
    if isinstance(batch, dict):
        batch = batch.values()
    elif not isinstance(batch, (tuple, list)):
        return None
    for value in batch:
        size = first_size(value)
        if size is not None:
            return size
    return None


@lru_cache(1024)
def split_range(total: int, rank: int, ranks: int, least: int = 2) -> tuple[int, int]:
    """The samples of a rank, from and to. With `least` 2 no rank has a single one, which batch
    statistics could not be taken of, unless the batch has: some have none instead.
    """
    n = min(ranks, max(total // least, 1))
    return total * min(rank, n) // n, total * min(rank + 1, n) // n


def part_of(batch: Any, rank: int, ranks: int, least: int = 2) -> tuple[Any, int, int]:
    """The rank's samples (views of the batch), their number, and the number of all ranks' samples.
    With `least` 1, for `sync_batchnorm`, a rank without samples gets the batch's last.

    Tensors are split along their first dimension, and what has a member for each sample: lists of
    texts, of numbers, of tensors of any shapes. Other members go to all ranks.

    Raises:
        ValueError: there are several ranks, and a tensor has another first dimension than the
            first one.

    Copies: none.
    """
    total = samples_in(batch)
    if ranks == 1:
        return batch, total, total
    begin, end = split_range(total, rank, ranks, least)
    n = end - begin
    if least == 1 and not n:  # begin is the end of the batch
        begin -= 1

    if is_usual(batch):
        parts = [x[begin:end] for x in batch if x.array.shape[:1] == (total,)]
        if len(parts) == len(batch):
            return tuple(parts), n, total

    def part(x: Any, is_member: bool = True) -> Any:
        if (is_member or isinstance(x, Tensor)) and is_by_sample(x, total):
            return x[begin:end]
        if isinstance(x, Tensor) and x.ndim:
            raise ValueError(
                f"Trainer: a batch of {total} samples has a tensor of shape {tuple(x.shape)}, "
                "which several ranks cannot split: use nprocs=1"
            )
        if isinstance(x, dict):
            return {key: part(value) for key, value in x.items()}
        if isinstance(x, (tuple, list)):
            parts = [part(value) for value in x]
            return type(x)(*parts) if hasattr(x, "_fields") else type(x)(parts)
        return x

    return part(batch, is_member=False), n, total


def is_usual(batch: Any) -> bool:
    """Whether a batch is a tuple of tensors."""
    return batch.__class__ is tuple and TENSORS.issuperset(map(type, batch))


def is_by_sample(x: Any, total: int) -> bool:
    """Whether a member of a batch has a part for each sample."""
    if isinstance(x, (Tensor, np.ndarray)):
        return tuple(x.shape[:1]) == (total,)
    if not isinstance(x, (tuple, list)) or hasattr(x, "_fields") or len(x) != total:
        return False
    sizes: list[Any] = []
    apply(lambda each: sizes.append(tuple(each.shape[:1])), x)
    return not sizes or any(size != (total,) for size in sizes)


def in_groups(parts: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Lists of `size` parts; the last may be shorter."""
    if size == 1:
        return ([part] for part in parts)
    parts = iter(parts)
    return iter(lambda: list(islice(parts, size)), [])


def seeded(data: Iterable[Any], seed: int) -> Iterator[Any]:
    """The batches: what one draws from this library's generator does not depend on the steps before
    it, so that a resumed run gets the same ones.

    Args:
        seed: of the program and the epoch.
    """
    first, batches = mix(seed), iter(data)
    for number in count(1):
        try:
            yield next(batches)
        except StopIteration:
            return
        manual_seed(mix((first + number) % 2**63) >> 1)


def on_device(batch: Any, device: Device) -> Any:
    """The batch with its tensors on a device. Copies: one of those that are elsewhere."""
    return apply(lambda x: x.to(device, non_blocking=True), batch)


def on_host(state: Any) -> Any:
    """A state with its tensors on the host. Copies: one of those on a GPU."""
    return apply(lambda x: x.detach().cpu(), state)


def concatenate(batches: list[Any]) -> Any:
    """One batch of all, along the first dimension. Copies: one."""
    first = batches[0]
    if isinstance(first, Tensor):
        return cat(batches) if first.ndim else stack(batches)
    if isinstance(first, dict):
        return {key: concatenate([batch[key] for batch in batches]) for key in first}
    if isinstance(first, (tuple, list)):
        columns = [concatenate(list(column)) for column in zip(*batches, strict=True)]
        return type(first)(*columns) if hasattr(first, "_fields") else type(first)(columns)
    return first if all(batch is first for batch in batches) else batches


class Counter:
    """Counts tensor bytes that were copied for another process."""

    def __init__(self) -> None:
        self.nbytes = 0


def share(batch: Any, counter: Counter) -> Any:
    """The batch with arrays as tensors, all in shared memory. Copies: one of each tensor that is
    not there already.
    """

    def move(x: Tensor) -> Tensor:
        if x.is_cuda:
            counter.nbytes += x.array.nbytes
            return x.detach().cpu()
        if native.is_shared(x.array) or not x.array.nbytes:
            return x
        counter.nbytes += x.array.nbytes
        return x.detach().clone()

    return apply(move, as_tensors(batch))


def as_tensors(batch: Any) -> Any:
    """The batch with NumPy's arrays of numbers and PyTorch's tensors as tensors of the same memory,
    and mappings as dictionaries."""
    if is_usual(batch):
        return batch
    of_torch = getattr(foreign_module("torch"), "Tensor", ())

    def convert(x: Any) -> Any:
        if isinstance(x, Tensor):
            return x
        if isinstance(x, np.ndarray):
            return x if x.dtype.kind in "OSUMm" else from_numpy(x)
        return from_dlpack(x.detach())

    return apply(convert, batch, (Tensor, np.ndarray, of_torch))


def memory_of(batches: list[Any]) -> list[Any] | None:
    """The arrays of batches that are tuples of tensors, or None if some are not."""
    arrays: list[Any] = []
    for batch in batches:
        if not is_usual(batch):
            return None
        arrays += [None, *(x.array for x in batch)]
    return arrays


def is_same(arrays: list[Any], others: list[Any] | None) -> bool:
    """Whether two lists have the same objects."""
    return others is not None and len(arrays) == len(others) and all(map(is_, arrays, others))


# ---------------------------------------------------------------- each rank loads its samples
class Samples(NamedTuple):
    """A loader's data set and options, with which each rank makes a loader of its own."""

    dataset: Any
    num_workers: int  # of all ranks
    is_persistent: bool  # the data set does not change between epochs
    options: dict[str, Any]
    worker_options: dict[str, Any]

    @classmethod
    def of(cls, data: Iterable[Any]) -> Samples | None:
        """None: the loader's batches are not known to be the ranks' samples, put together."""
        loads_apart = (
            type(data) is DataLoader
            and not data.is_stream
            and data.is_batched
            and data.collate_fn is default_collate
            and data._resumed is None
            and hasattr(data.dataset, "__len__")
            and len(data.dataset) <= MOST
        )
        if not loads_apart:
            return None
        loader: Any = data
        names = ("pin_memory", "worker_init_fn", "stall_warning", "output", "write_warning")
        of_workers = ("timeout", "multiprocessing_context", "prefetch_factor", "restart_workers")
        return cls(
            loader.dataset,
            loader.num_workers,
            loader.persistent_workers,
            {name: getattr(loader, name) for name in names},
            {name: getattr(loader, name) for name in of_workers},
        )

    def can_be_sent(self) -> bool:
        """Whether sending the data set takes less than starting a process."""
        try:
            as_message(self.dataset, MAX_RECIPE_BYTES)
        except Exception:  # too long, or of any kind: pickling calls methods of the data set
            return False
        return True

    def loader(self, rank: int, ranks: int) -> tuple[Any, Lists]:
        """The rank's loader, with its share of the workers, and the lists of its indices."""
        first, after = (self.num_workers * r // ranks for r in (rank, rank + 1))
        options: dict[str, Any] = dict(self.options)
        if after > first:
            options.update(self.worker_options, num_workers=after - first)
            options["persistent_workers"] = self.is_persistent
        lists = Lists()
        return DataLoader(self.dataset, batch_sampler=lists, **options), lists


class Lists:
    """The index lists of a rank's loader, set for each epoch."""

    def __init__(self) -> None:
        self.lists: list[list[int]] = []

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self.lists)

    def __len__(self) -> int:
        return len(self.lists)


class Order(NamedTuple):
    """The order of samples in an epoch, in shared memory."""

    indices: Any  # (samples,) int64
    sizes: list[int]  # of the batches

    @classmethod
    def draw(cls, loader: Any) -> Order | None:
        """Draws the order of the next epoch, as the loader itself would; None: the samples have
        other keys than integers."""
        new_seed(loader.generator)  # of the samples: the loader draws it before the order
        batches = list(loader.batch_sampler)
        flat = [index for batch in batches for index in batch]
        if not all(isinstance(index, (int, np.integer)) for index in flat):
            return None
        indices = empty_shared((len(flat),), np.dtype(np.int64))
        indices[:] = flat
        return cls(indices, [len(batch) for batch in batches])

    def first(self, batches: int) -> Order:
        """The first batches."""
        sizes = self.sizes[:batches]
        return Order(self.indices[: sum(sizes)], sizes)

    def ranges(self, rank: int, ranks: int, least: int = 2) -> list[tuple[int, int, int]]:
        """Of each batch the range of the rank's indices, and the batch's size."""
        out = []
        for first, after in pairwise(accumulate(self.sizes, initial=0)):
            begin, end = split_range(after - first, rank, ranks, least)
            out.append((first + begin, first + end, after - first))
        return out


def own_samples(
    own: tuple[Any, Lists], order: Order, rank: int, ranks: int, start: int, least: int = 2
) -> Iterator[tuple[Any, int, int]]:
    """From batch `start` on the rank's part, the number of its samples and of the batch's. With
    `least` 1, for `sync_batchnorm`, a rank without samples has the batch's last."""
    loader, lists = own
    ranges = order.ranges(rank, ranks, least)
    # Without samples begin is the end of the batch.
    indices = [(begin - (least == 1 and begin == end), end) for begin, end, _ in ranges]
    lists.lists = [order.indices[begin:end].tolist() for begin, end in indices if begin < end]
    skipped = sum(begin < end for begin, end in indices[:start])
    if skipped:  # the loader's random numbers depend on a batch's number in the epoch
        loader.load_state_dict({**loader.state_dict(), "batches": skipped})
    batches = iter(loader)
    for (first, _), (begin, end, total) in list(zip(indices, ranges, strict=True))[start:]:
        part = as_tensors(next(batches)) if first < end else None
        yield part, end - begin, total
    for _ in batches:  # ends the epoch
        pass
