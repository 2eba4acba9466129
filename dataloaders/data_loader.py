"""DataLoader: batches of a data set, made in this process or by workers."""

from __future__ import annotations

import copy
import math
import os
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

from shmtensor.html_table import attribute_table

from .collate import default_collate, default_convert, is_default_of_torch
from .dataset import Dataset, is_stream
from .foreign_datasets import as_dataset
from .loader.check_arguments import (
    FIXED,
    check_dataset,
    check_extras,
    check_functions,
    check_numbers,
    check_order,
    check_output,
    check_stream,
    context_of,
)
from .loader.fetch import Recipe
from .loader.memory_growth_warning import warn_of_growth
from .loader.progress import VERSION, Progress, check_state, fresh_streams, is_stateful
from .loader.seeding import GeneratorLike
from .loader.statistics import LoaderStatistics
from .loader.worker_warning import WRITE
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from shmtensor.tensor import Tensor

    from .cuda.pinned_memory import PinnedPool
    from .loader.batch_types import (
        AnySample,
        Batch_co,
        DictT,
        NumberT,
        Options,
        SamplesByIndex,
        TupleT,
    )
    from .loader.epoch import BaseEpoch, Limits
    from .loader.worker_pool import WorkerPool
else:
    Batch_co = TypeVar("Batch_co", covariant=True)

__all__ = ["DataLoader", "StatefulDataLoader"]

T_co = TypeVar("T_co", covariant=True)


class Endless(Sampler[None]):
    """The indices of a stream: None, without end."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


class DataLoader(Generic[T_co, Batch_co]):
    """Iterates over a data set in batches, with workers that write them into shared memory.

    A worker collates straight into one block per batch and sends a handle; the consumer's tensors
    are that block. Nothing is copied between processes, and the block goes back to the worker's
    heap when the last tensor over it dies.

    Workers stay between epochs; they get the data set anew each epoch, so they see its changes.
    (With fork, new workers are forked instead if the data set cannot be pickled or takes more than
    4 MiB beyond its shared arrays.) `close`, the end of a `with`, or dropping the loader ends them.

    Data sets, samplers, generators and `collate_fn`s may be PyTorch's. A batch holds what the
    samples were made of: tensors of PyTorch, arrays of JAX, else tensors of shmtensor (see
    `default_collate`), all of them views of the block.

    Parameters
    ----------
    dataset : Dataset or other
        A `Dataset` or `IterableDataset`, of this package or PyTorch; any object with `__getitem__`
        and `__len__`, or with `__iter__` alone (a stream); a DataFrame of pandas or polars or an
        Arrow table (its rows, as dicts) or a column of these, copied into shared memory here.
    batch_size : int, optional
        Samples per batch; None turns batching off (samples come as they are).
    shuffle : bool, optional
        Whether the order is random, another one each epoch.
    sampler : Sampler or iterable, optional
        The order of indices; excludes `shuffle`.
    batch_sampler : Sampler or iterable, optional
        Lists of indices; excludes `batch_size`, `shuffle`, `sampler`, `drop_last`.
    num_workers : int, optional
        Worker processes; 0 loads in this one.
    collate_fn : callable, optional
        Samples -> batch; `default_collate` if None (`default_convert` without batching). Arrays
        that it makes with NumPy are allocated in shared memory. PyTorch's `default_collate` is
        replaced by ours, with `output="torch"` unless that is given.
    pin_memory : bool, optional
        Whether batches of `default_collate` (and of `allocate_parts`) are written to memory that
        CuPy, or PyTorch, registered once with the GPU's driver, so that copies to the GPU are
        asynchronous (`DevicePrefetcher`). Warns once if there is no GPU. The first batches, and
        those that do not fit the pool, use ordinary memory.
    drop_last : bool, optional
        Whether the last batch is left out if it is shorter.
    timeout : float, optional
        Seconds to wait for a batch of the workers; 0 waits for ever (a dead worker raises in any
        case).
    worker_init_fn : callable, optional
        Called with the worker's id in each worker, each time that it gets a data set. Seeds that it
        sets are overwritten: samples are seeded from `generator`.
    multiprocessing_context : str or context, optional
        "fork", "forkserver", "spawn" or a context; the default one if None.
    generator : Generator, optional
        Where samplers and samples get their seeds from; the default one if None.
    prefetch_factor : int, optional
        Batches in flight or ready per worker; 2 if None.
    persistent_workers : bool, optional
        Whether the workers keep their copy of the data set between epochs.
    pin_memory_device : str, optional
        Accepted: memory is pinned for all GPUs.
    in_order : bool, optional
        Whether batches come in the order of the sampler, or as they are finished.
    restart_workers : int, optional
        How many dead workers an epoch may replace; their batches are made again.
    stall_warning : float, optional
        Seconds after which a warning names a sample that is not finished.
    snapshot_every_n_steps : int, optional
        After how many batches the state of a sampler or stream that has `state_dict` is taken;
        resuming in between draws the batches since then and drops them.
    output : str, optional
        "shmtensor", "numpy", "torch" or "jax": whose arrays the batches hold; what is converted has
        no history. None: those of the samples, or what `collate_fn` returned.
    write_warning : bool, optional
        Whether it warns once of the first in-place write of a worker to a tensor of the data set,
        which all processes share; False: such writes are meant (a cache).

    Raises
    ------
    ValueError
        Arguments that exclude each other, or an unknown `output`.
    TypeError
        `dataset` has no samples, or no length where `sampler` does not say which there are.
    ModuleNotFoundError
        The library `output` is not installed.
    PeerLostError
        A RuntimeError, while iterating: a worker died; names it, its pid, the exit code or signal,
        the sample that it was at, and likely causes.
    RuntimeError
        No batch came within `timeout`.

    See Also
    --------
    Dataset, DistributedSampler, DevicePrefetcher

    Notes
    -----
    Python's, NumPy's and shmtensor's generators are seeded for each sample by the epoch and the
    sample's position, PyTorch's (of the CPU, where PyTorch is imported) for each batch, so the same
    seed gives the same batches for any number of workers, or none.

    To a type checker it is `DataLoader[sample, batch]`, or `DataLoader[sample]` with batches of any
    type.

    Copies: one (each sample into its batch's block, in the worker); one more of a tensor of PyTorch
    or array of JAX that a `collate_fn` made in other memory, and of what `output` cannot view
    (read-only arrays for PyTorch; what JAX converts or finds unaligned).

    Examples
    --------
    >>> from shmtensor.dataloaders import DataLoader, TensorDataset
    >>> dataset = TensorDataset(st.arange(10.).reshape(5, 2), st.arange(5))
    >>> for x, y in DataLoader(dataset, batch_size=2):
    ...     print(x.shape, y)
    Size([2, 2]) tensor([0, 1])
    Size([2, 2]) tensor([2, 3])
    Size([1, 2]) tensor([4])
    >>> with DataLoader(dataset, batch_size=2, shuffle=True, num_workers=1) as loader:
    ...     sorted(y.item() for x, labels in loader for y in labels)
    [0, 1, 2, 3, 4]
    """

    dataset: Dataset[Any]
    batch_size: int | None
    num_workers: int
    collate_fn: Callable[[Any], Any]

    if not TYPE_CHECKING:  # for checkers, the second one has a default

        def __class_getitem__(cls, types: Any) -> Any:
            if len(cls.__parameters__) == 2 and not isinstance(types, tuple):
                types = (types, Any)
            return super().__class_getitem__(types)

    # The batches of `default_collate`, where the samples' type decides them; and of others.
    @overload
    def __init__(
        self: DataLoader[Any, Any],
        dataset: AnySample,
        batch_size: int | None = ...,
        shuffle: bool | None = ...,
        *,
        collate_fn: None = ...,
        output: str | None = ...,
        **options: Unpack[Options],
    ) -> None: ...
    @overload
    def __init__(
        self: DataLoader[NumberT, Tensor],
        dataset: Dataset[NumberT],
        batch_size: int = ...,
        shuffle: bool | None = ...,
        *,
        collate_fn: None = ...,
        output: None = ...,
        **options: Unpack[Options],
    ) -> None: ...
    @overload
    def __init__(
        self: DataLoader[TupleT, list[Tensor]],
        dataset: Dataset[TupleT],
        batch_size: int = ...,
        shuffle: bool | None = ...,
        *,
        collate_fn: None = ...,
        output: None = ...,
        **options: Unpack[Options],
    ) -> None: ...
    @overload
    def __init__(
        self: DataLoader[DictT, dict[str, Tensor]],
        dataset: Dataset[DictT],
        batch_size: int = ...,
        shuffle: bool | None = ...,
        *,
        collate_fn: None = ...,
        output: None = ...,
        **options: Unpack[Options],
    ) -> None: ...
    @overload
    def __init__(
        self,
        dataset: Dataset[T_co] | SamplesByIndex[T_co] | Iterable[T_co],
        batch_size: int | None = ...,
        shuffle: bool | None = ...,
        sampler: Sampler[Any] | Iterable[Any] | None = ...,
        batch_sampler: Sampler[list[Any]] | Iterable[list[Any]] | None = ...,
        num_workers: int = ...,
        collate_fn: Callable[[list[Any]], Batch_co] | None = ...,
        pin_memory: bool = ...,
        drop_last: bool = ...,
        timeout: float = ...,
        worker_init_fn: Callable[[int], None] | None = ...,
        multiprocessing_context: Any = ...,
        generator: GeneratorLike = ...,
        *,
        prefetch_factor: int | None = ...,
        persistent_workers: bool = ...,
        pin_memory_device: str = ...,
        in_order: bool = ...,
        restart_workers: int = ...,
        stall_warning: float | None = ...,
        snapshot_every_n_steps: int = ...,
        output: str | None = ...,
        write_warning: bool = ...,
    ) -> None: ...
    def __init__(
        self,
        dataset: Any,
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
        restart_workers: int = 0,
        stall_warning: float | None = None,
        snapshot_every_n_steps: int = 1,
        output: str | None = None,
        write_warning: bool = True,
    ) -> None:
        check_numbers(num_workers, timeout, prefetch_factor, persistent_workers)
        check_extras(num_workers, restart_workers, stall_warning, snapshot_every_n_steps)
        check_output(output)
        check_functions(collate_fn=collate_fn, worker_init_fn=worker_init_fn)
        check_order(sampler, batch_sampler, generator)
        self.is_stream = is_stream(dataset)
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
        has_order = self.is_stream or sampler is not None or batch_sampler is not None
        check_dataset(dataset, needs_length=not has_order)
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
        self._source = as_dataset(dataset)
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
        self.multiprocessing_context = context_of(multiprocessing_context, num_workers)
        self.generator = generator
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.persistent_workers = persistent_workers
        self.in_order = in_order
        self.restart_workers = restart_workers
        self.stall_warning = stall_warning
        self.snapshot_every_n_steps = snapshot_every_n_steps
        self.output = output
        self.write_warning = write_warning
        self._shown: set[str] = set()  # kinds of the workers' warnings
        self._workers: WorkerPool | None = None
        self._pool: PinnedPool | None = None
        self._has_no_gpu = False
        self._progress: Progress | None = None
        self._resumed: dict[str, Any] | None = None
        cores = len(os.sched_getaffinity(0))
        if num_workers > 2 * cores:
            warnings.warn(
                f"DataLoader: more workers than cores slow each other down: {num_workers} workers, "
                f"{cores} cores",
                stacklevel=2,
            )
        self._is_made = True

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "output":
            check_output(value)
        if name in FIXED and self.__dict__.get("_is_made"):
            raise ValueError(
                f"DataLoader: {name} cannot be set once the loader is made: {value!r}, make another"
            )
        super().__setattr__(name, value)

    def __iter__(self) -> Iterator[Batch_co]:
        from .loader.epoch import SingleProcessEpoch

        resumed, self._resumed = self._resumed, None
        progress = Progress(
            self._lists(), self.generator, self._streams(), self.snapshot_every_n_steps, resumed
        )
        recipe = Recipe(
            self._source,
            default_collate if is_default_of_torch(self.collate_fn) else self.collate_fn,
            self.is_batched,
            self.is_stream,
            self.drop_last,
            self.worker_init_fn,
            self.snapshot_every_n_steps,
            self.write_warning and WRITE not in self._shown,
        )
        if self.is_stream:
            with suppress(TypeError, NotImplementedError):  # it need not know its length
                progress.promised = len(self)
        limits = self._limits()
        if self.num_workers:
            batches: BaseEpoch = self._by_workers(recipe, progress, limits)
        else:
            if resumed and resumed["dataset"] is not None:
                self.dataset.load_state_dict(resumed["dataset"])  # type: ignore[attr-defined]
            batches = SingleProcessEpoch(recipe, progress, limits)
        self._progress = progress
        return batches

    def __len__(self) -> int:
        """The number of batches; for a stream, computed from its length (rounded up)."""
        if not self.is_stream:
            return len(cast(Sized, self.batch_sampler if self.is_batched else self.sampler))
        n = len(cast(Sized, self.dataset))
        if self.batch_size is None:
            return n
        return n // self.batch_size if self.drop_last else math.ceil(n / self.batch_size)

    def __repr__(self) -> str:
        try:
            n = f" of {len(cast(Sized, self.dataset))} samples"
        except (TypeError, NotImplementedError):
            n = ""
        order = type(self.batch_sampler if self.batch_size is None else self.sampler).__name__
        size = f"batches of {self.batch_size}" if self.batch_size else "its own batches"
        parts = [
            f"{type(self.dataset).__name__}{n}",
            size if self.is_batched else "no batches",
            *([] if self.is_stream else [f"order of {order}"]),
            f"{self.num_workers} {'persistent ' * self.persistent_workers}workers"
            + (f" ({self.multiprocessing_context})" if self.multiprocessing_context else ""),
            *(["drop_last"] if self.drop_last else []),
            *([] if self.in_order else ["out of order"]),
        ]
        return f"DataLoader({', '.join(parts)})"

    def _repr_html_(self) -> str:
        return attribute_table(self)

    # ------------------------------------------------------------------ resources
    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the workers, if there are any, and unpins memory. The loader can be iterated over
        again."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None
        if self._workers is not None:
            self._workers.close()
            self._workers = None

    def statistics(self) -> LoaderStatistics:
        """Where the latest epoch spent its time; its `bottleneck` says who waits for whom.

        Returns
        -------
        LoaderStatistics

        Raises
        ------
        RuntimeError
            Nothing has been iterated over yet.
        """
        if self._progress is None:
            raise RuntimeError("DataLoader.statistics: nothing has been iterated over yet")
        return self._progress.statistics()

    # ------------------------------------------------------------------ resuming
    def state_dict(self) -> dict[str, Any]:
        """How far the latest epoch is: plain numbers, bytes and lists, to be saved with the model.

        `load_state_dict` of a loader made in the same way goes on from it, in any process, with any
        number of workers (see resume_other_num_workers.py). The state of a data set with
        `state_dict` is included where that is well defined: in a stream, and without workers.
        """
        state: dict[str, Any]
        if self._resumed is not None:
            return copy.deepcopy(self._resumed)
        if self._progress is None or self._progress.is_over:
            state = Progress.between(self._lists(), self.generator, self._streams())
        else:
            state = self._progress.state()
        saves_dataset = not self.is_stream and not self.num_workers and is_stateful(self.dataset)
        state["dataset"] = copy.deepcopy(self.dataset.state_dict()) if saves_dataset else None  # type: ignore[attr-defined]
        # Resuming an epoch that has begun draws its order again, for the same number of samples.
        state["samples"] = None if state["seed"] is None else self._samples()
        return {"version": VERSION, **self._promises(), **state}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Makes the next iteration go on where a `state_dict` was taken.

        It gives exactly the batches that had not been handed over, with the same random numbers.
        Later epochs are the same, too, if the loader has its own `generator`. The default generator
        belongs to the whole program: save its state separately (`st.get_rng_state`).

        Parameters
        ----------
        state_dict : dict
            What `state_dict` returned.

        Raises
        ------
        ValueError
            The loader differs in what the state depends on.

        Examples
        --------
        >>> from shmtensor.dataloaders import DataLoader
        >>> loader = DataLoader(range(6), batch_size=2)
        >>> batches = iter(loader)
        >>> first = next(batches)
        >>> state = loader.state_dict()
        >>> other = DataLoader(range(6), batch_size=2)
        >>> other.load_state_dict(state)
        >>> list(other)
        [tensor([2, 3]), tensor([4, 5])]
        """
        check_state(state_dict, self._promises())
        if state_dict.get("samples") not in (None, samples := self._samples()):
            raise ValueError(
                "DataLoader.load_state_dict: the data set differs: "
                f"{state_dict['samples']} samples when the state was taken, {samples} here"
            )
        self._resumed = copy.deepcopy(state_dict)

    def _samples(self) -> int | None:
        """The number of samples; None for a stream or a data set without length."""
        is_counted = not self.is_stream and hasattr(self.dataset, "__len__")
        return len(self.dataset) if is_counted else None  # type: ignore[arg-type]

    def _promises(self) -> dict[str, Any]:
        """The values that a state and this loader must share."""
        return {"batch_size": self.batch_size, "is_stream": self.is_stream}

    # ------------------------------------------------------------------ epochs
    def _lists(self) -> Iterable[Any]:
        return cast("Iterable[Any]", self.batch_sampler if self.is_batched else self.sampler)

    def _streams(self) -> list[dict[str, Any]]:
        """The streams of a new epoch: one of each worker; without workers, one."""
        workers = (range(self.num_workers) or [-1]) if self.is_stream else []
        return fresh_streams(workers, self.batch_size or 1)

    def _limits(self) -> Limits:
        from .loader.epoch import Limits

        capacity = (self.prefetch_factor or 0) * self.num_workers
        if self.pin_memory and self._pool is None and not self._has_no_gpu:
            from .cuda.pinned_memory import make_pool

            self._pool = make_pool(capacity)
            self._has_no_gpu = self._pool is None  # which was said, once
        return Limits(
            capacity,
            self.in_order,
            self.timeout,
            self.stall_warning or 0.0,
            self.restart_workers,
            self._pool,
            self.output or ("torch" if is_default_of_torch(self.collate_fn) else None),
            self._shown,
        )

    def _by_workers(self, recipe: Recipe, progress: Progress, limits: Limits) -> BaseEpoch:
        from .loader.epoch import MultiProcessEpoch
        from .loader.worker_pool import WorkerPool

        workers, new_recipe = self._workers, None if self.persistent_workers else recipe
        if workers is not None and not workers.is_usable:
            workers = None  # a worker has died, or this is a fork and they belong to the parent
        if workers is not None and workers.n != self.num_workers and not workers.is_busy:
            workers.close()
            workers = None
        loader_keeps = workers is None or self.persistent_workers or not workers.is_busy
        if not loader_keeps:
            workers = None  # another iterator uses them: this one gets workers of its own
        if workers is not None and not self.persistent_workers and workers.dead():
            workers.close()
            workers = None
        positions = progress.streams or None
        if workers is None or not workers.begin(progress.seed, positions, new_recipe):
            if workers is not None:
                workers.close()
            if limits.pool is not None:
                limits.pool.clear()  # a fork would hold its blocks
            warn_of_growth(self)
            workers = WorkerPool(recipe, self.num_workers, self.multiprocessing_context)
            workers.begin(progress.seed, positions, None)
        if loader_keeps:
            self._workers = workers
        epoch = MultiProcessEpoch(workers, progress, limits, owns_workers=not loader_keeps)
        workers.user = weakref.ref(epoch)
        return epoch

    def __getstate__(self) -> dict[str, Any]:
        # An epoch and its workers belong to this process.
        return {**self.__dict__, **dict.fromkeys(("_workers", "_pool", "_progress"))}


StatefulDataLoader = DataLoader  # torchdata's name for a loader that can be resumed
