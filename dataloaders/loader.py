"""DataLoader: batches of a data set, made here or by worker processes."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from .collate import default_collate, default_convert
from .dataset import Dataset, IterableDataset
from .fetch import make_fetcher
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler
from .seed import GeneratorLike, draw_seed

if TYPE_CHECKING:
    from .crew import Crew

__all__ = ["DataLoader"]

T_co = TypeVar("T_co", covariant=True)


class Endless(Sampler[None]):
    """The indices of a stream: there are none, and no end of them."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


class DataLoader(Generic[T_co]):
    """Iterates over a data set in batches, with workers that write them into shared memory.

    A worker collates straight into one block per batch and sends a handle; the consumer's tensors
    are that block. Nothing is copied between processes, and the block goes back to the worker's
    heap when the last tensor over it dies.

    Args:
        dataset: a `Dataset` or `IterableDataset`.
        batch_size: samples per batch; None turns batching off (samples come as they are).
        shuffle: a random order, another one each epoch.
        sampler: the order of indices; excludes `shuffle`.
        batch_sampler: lists of indices; excludes `batch_size`, `shuffle`, `sampler`, `drop_last`.
        num_workers: worker processes; 0 loads in this one.
        collate_fn: samples -> batch; `default_collate` if None (`default_convert` without
        batching). pin_memory: accepted; memory of the CPU needs no pinning for the CPU.
        drop_last: leave out the last batch if it is shorter.
        timeout: seconds to wait for a batch of the workers; 0 waits for ever (but not for the
        dead). worker_init_fn: called with the worker's id in each worker, after seeding.
        multiprocessing_context: "fork", "forkserver", "spawn" or a context; the default one if
        None. generator: where samplers and workers get their seeds from.
        prefetch_factor: batches under way per worker; 2 if None.
        persistent_workers: keep the workers, and their copy of the data set, between epochs.
        pin_memory_device: accepted, as `pin_memory`.
        in_order: batches come in the order of the sampler; False: as they are finished.

    Raises:
        PeerLostError: (a RuntimeError) while iterating: a worker died; names it, its pid, the
            exit code or signal and the indices that it worked on.
        RuntimeError: no batch came within `timeout`.

    Copies: one (each sample into its batch's block, in the worker).
    """

    dataset: Dataset[Any]
    batch_size: int | None
    num_workers: int
    collate_fn: Callable[[Any], Any]

    def __init__(
        self,
        dataset: Dataset[T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler[Any] | Iterable[Any] | None = None,
        batch_sampler: Sampler[list[Any]] | Iterable[list[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: GeneratorLike = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        check_numbers(num_workers, timeout, prefetch_factor, persistent_workers)
        self.is_stream = isinstance(dataset, IterableDataset)
        if self.is_stream:
            check_stream(shuffle, sampler, batch_sampler)
        if sampler is not None and shuffle:
            raise ValueError("DataLoader: sampler and shuffle=True exclude each other")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "DataLoader: batch_sampler excludes batch_size, shuffle, sampler, drop_last: "
                    f"{batch_size=}, {shuffle=}, {sampler=}, {drop_last=}"
                )
            batch_size, drop_last = None, False
        elif batch_size is None and drop_last:
            raise ValueError("DataLoader: drop_last needs batches: batch_size is None")
        if sampler is None:
            if self.is_stream:
                sampler = Endless()
            elif shuffle:
                sampler = RandomSampler(cast(Sized, dataset), generator=generator)
            else:
                sampler = SequentialSampler(cast(Sized, dataset))
        if batch_size is not None:
            batch_sampler = BatchSampler(cast("Iterable[int]", sampler), batch_size, drop_last)
        self.dataset = dataset
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.is_batched = batch_sampler is not None
        if collate_fn is None:
            collate_fn = default_collate if self.is_batched else default_convert
        self.collate_fn = collate_fn
        self.num_workers = num_workers
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.generator = generator
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.persistent_workers = persistent_workers
        self.in_order = in_order
        self._crew: Crew | None = None
        cores = len(os.sched_getaffinity(0))
        if num_workers > 2 * cores:
            warnings.warn(
                f"DataLoader: more workers than cores slow each other down: {num_workers} workers, "
                f"{cores} cores",
                stacklevel=2,
            )

    def __iter__(self) -> Iterator[Any]:
        seed = draw_seed(self.generator)  # in every mode, so that orders do not depend on workers
        batches = self._local() if not self.num_workers else self._by_workers(seed)
        return self._counted(batches) if self.is_stream else batches

    def __len__(self) -> int:
        """The number of batches; of a stream, what its length promises (per worker, rounded up)."""
        if not self.is_stream:
            return len(cast(Sized, self.batch_sampler if self.is_batched else self.sampler))
        n = len(cast(Sized, self.dataset))
        if self.batch_size is None:
            return n
        return n // self.batch_size if self.drop_last else math.ceil(n / self.batch_size)

    def _indices(self) -> Iterator[Any]:
        return iter(cast("Iterable[Any]", self.batch_sampler if self.is_batched else self.sampler))

    def _local(self) -> Iterator[Any]:
        """Batches made in this process."""
        fetcher = make_fetcher(
            self.dataset, self.collate_fn, self.is_batched, self.is_stream, self.drop_last
        )
        for indices in self._indices():
            try:
                batch = fetcher.fetch(indices)
            except StopIteration:
                if not self.is_stream:
                    raise
                return
            yield batch
            del batch  # or the consumer's block would live until the next one is made

    def _by_workers(self, seed: int) -> Iterator[Any]:
        from .crew import Crew, Epoch

        if self._crew is not None and not self._crew.is_usable:
            self._crew = None  # a worker has died, or a fork left them to the parent
        crew = self._crew or Crew(self)
        if self.persistent_workers:
            self._crew = crew
        return Epoch(crew, self._indices(), seed, owns_crew=not self.persistent_workers)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_crew": None}  # running workers belong to this process

    def _counted(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Passes batches of a stream on, and warns when there are more than its length says."""
        try:
            promised = len(self)
        except (TypeError, NotImplementedError):  # a stream need not know its length
            yield from batches
            return
        slack = max(self.num_workers - 1, 0)  # each worker may end with a short batch
        for count, batch in enumerate(batches, 1):
            if count == promised + slack + 1:
                warnings.warn(
                    f"DataLoader: more batches than the data set's length promised: {promised}, "
                    "with several workers each must take its own part (get_worker_info)",
                    stacklevel=2,
                )
            yield batch
            del batch


def check_numbers(
    num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool
) -> None:
    if num_workers < 0:
        raise ValueError(f"DataLoader: num_workers is negative: {num_workers}")
    if timeout < 0:
        raise ValueError(f"DataLoader: timeout is negative: {timeout}")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            f"DataLoader: prefetch_factor needs workers: {prefetch_factor} with num_workers=0"
        )
    if prefetch_factor is not None and prefetch_factor <= 0:
        raise ValueError(f"DataLoader: prefetch_factor is not positive: {prefetch_factor}")
    if num_workers == 0 and persistent_workers:
        raise ValueError("DataLoader: persistent_workers needs workers: num_workers is 0")


def check_stream(shuffle: object, sampler: object, batch_sampler: object) -> None:
    for name, value in (("sampler", sampler), ("batch_sampler", batch_sampler)):
        if value is not None:
            raise ValueError(f"DataLoader: an IterableDataset has its own order: {name}={value!r}")
    if shuffle:
        raise ValueError("DataLoader: an IterableDataset has its own order: shuffle=True")
