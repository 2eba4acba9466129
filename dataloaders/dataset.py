"""What a loader reads from: samples by index (`Dataset`) or as a stream (`IterableDataset`), and
datasets made of datasets: one after another, side by side, or a part.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from itertools import accumulate
from typing import Any, Generic, TypeVar, cast

import numpy as np

from shmtensor.html_table import attribute_table
from shmtensor.other_names import foreign_module

from .loader.seeding import GeneratorLike, numpy_generator

__all__ = [
    "ChainDataset",
    "ConcatDataset",
    "Dataset",
    "IterableDataset",
    "StackDataset",
    "Subset",
    "fetch_samples",
    "is_stream",
    "random_split",
]

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class Dataset(Generic[T_co]):
    """Samples by index: implement `__getitem__`, and `__len__` for the samplers.

    A dataset may also have `__getitems__(indices)`, which returns the samples of a whole batch; a
    loader then makes one call per batch instead of one per sample.

    See Also
    --------
    IterableDataset, TensorDataset, DataLoader

    Examples
    --------
    >>> from shmtensor.dataloaders import DataLoader, Dataset
    >>> class Squares(Dataset):
    ...     def __len__(self):
    ...         return 6
    ...
    ...     def __getitem__(self, i):
    ...         return i, i * i
    >>> for x, y in DataLoader(Squares(), batch_size=4):
    ...     print(x, y)
    tensor([0, 1, 2, 3]) tensor([0, 1, 4, 9])
    tensor([4, 5]) tensor([16, 25])
    """

    def __getitem__(self, index: int) -> T_co:
        raise NotImplementedError(f"{type(self).__name__}: __getitem__ is not implemented")

    def __add__(self, other: Dataset[T_co]) -> ConcatDataset[T_co]:
        return ConcatDataset([self, other])

    def __repr__(self) -> str:
        try:
            return f"{type(self).__name__}({length_of(self)} samples)"
        except (TypeError, NotImplementedError):
            return f"{type(self).__name__}()"

    def _repr_html_(self) -> str:
        try:
            return attribute_table(self, ("samples", length_of(self)))
        except (TypeError, NotImplementedError):
            return attribute_table(self)


class IterableDataset(Dataset[T_co], Iterable[T_co]):
    """Samples as a stream: implement `__iter__`.

    Each worker iterates over its own copy, so `__iter__` must share the work out by
    `get_worker_info()`, or every sample comes once per worker.

    See Also
    --------
    Dataset, get_worker_info

    Examples
    --------
    >>> from shmtensor.dataloaders import DataLoader, IterableDataset, get_worker_info
    >>> class Count(IterableDataset):
    ...     def __iter__(self):
    ...         info = get_worker_info()
    ...         first, step = (0, 1) if info is None else (info.id, info.num_workers)
    ...         return iter(range(first, 5, step))
    >>> list(DataLoader(Count(), batch_size=2))
    [tensor([0, 1]), tensor([2, 3]), tensor([4])]
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__}: __iter__ is not implemented")

    def __add__(self, other: Dataset[T_co]) -> ChainDataset[T_co]:  # type: ignore[override]
        return ChainDataset([self, other])


def fetch_samples(dataset: Dataset[T], indices: Sequence[int]) -> Sequence[T]:
    """The samples of `indices`: one call where the dataset has `__getitems__`, else one each."""
    getitems = cast(
        "Callable[[Sequence[int]], Sequence[T]] | None", getattr(dataset, "__getitems__", None)
    )
    if getitems is None:
        return [dataset[index] for index in indices]
    samples = getitems(indices)
    if len(samples) != len(indices):
        raise ValueError(
            f"{type(dataset).__name__}.__getitems__: one sample per index is needed: "
            f"{len(indices)} indices, {len(samples)} samples"
        )
    return samples


def is_stream(dataset: object) -> bool:
    """Whether samples come by iterating over the dataset: an `IterableDataset`, of this package or
    of PyTorch, or an object that has `__iter__` and no `__getitem__`."""
    if isinstance(dataset, IterableDataset):
        return True
    of_torch = getattr(foreign_module("torch.utils.data"), "IterableDataset", None)
    if of_torch is not None and isinstance(dataset, of_torch):
        return True
    return hasattr(dataset, "__iter__") and not hasattr(dataset, "__getitem__")


def length_of(dataset: object) -> int:
    """`len(dataset)`, for datasets whose type does not promise one."""
    return len(cast(Sized, dataset))


class ConcatDataset(Dataset[T_co]):
    """Several datasets one after another.

    Parameters
    ----------
    datasets : iterable of Dataset
        Map-style datasets; the first's samples come first.

    See Also
    --------
    ChainDataset, StackDataset

    Examples
    --------
    >>> from shmtensor.dataloaders import ConcatDataset
    >>> both = ConcatDataset([["a", "b"], ["c"]])
    >>> both[2], len(both)
    ('c', 3)
    """

    datasets: list[Dataset[T_co]]
    cumulative_sizes: list[int]

    def __init__(self, datasets: Iterable[Dataset[T_co]]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise ValueError("ConcatDataset: at least one dataset is needed: got none")
        for i, dataset in enumerate(self.datasets):
            if is_stream(dataset):
                raise TypeError(
                    f"ConcatDataset: dataset {i} is iterable: {type(dataset).__name__}, "
                    "use ChainDataset"
                )
        self.cumulative_sizes = list(accumulate(length_of(d) for d in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __repr__(self) -> str:
        return f"ConcatDataset({', '.join(map(repr, self.datasets))})"

    def locate(self, index: int) -> tuple[int, int]:
        """The dataset that holds sample `index`, and the sample's index there."""
        n = self.cumulative_sizes[-1]
        if not -n <= index < n:
            raise IndexError(f"ConcatDataset: index is out of range: {index} of {n} samples")
        if index < 0:
            index += n
        i = bisect.bisect_right(self.cumulative_sizes, index)
        return i, index - (self.cumulative_sizes[i - 1] if i else 0)

    def __getitem__(self, index: int) -> T_co:
        i, offset = self.locate(index)
        return self.datasets[i][offset]

    @property
    def __getitems__(self) -> Callable[[Sequence[int]], list[T_co]] | None:
        """Fetches a batch with one call per dataset. None if no dataset has `__getitems__`: then a
        loader fetches one sample at a time and can name the one that fails."""
        is_batched = any(getattr(d, "__getitems__", None) is not None for d in self.datasets)
        return self.gather if is_batched else None

    def gather(self, indices: Sequence[int]) -> list[T_co]:
        locations = [self.locate(index) for index in indices]
        results: dict[int, T_co] = {}
        for i in sorted({owner for owner, _ in locations}):
            positions = [k for k, (owner, _) in enumerate(locations) if owner == i]
            samples = fetch_samples(self.datasets[i], [locations[k][1] for k in positions])
            results.update(zip(positions, samples, strict=True))
        return [results[k] for k in range(len(locations))]


class StackDataset(Dataset[Any]):
    """Several datasets side by side: a sample is the tuple (or dict) of theirs.

    Parameters
    ----------
    *args : Dataset
        Of one length, for tuples.
    **kwargs : Dataset
        Of one length, for dicts.

    See Also
    --------
    TensorDataset

    Examples
    --------
    >>> from shmtensor.dataloaders import StackDataset
    >>> StackDataset(x=[1, 2], y=["a", "b"])[1]
    {'x': 2, 'y': 'b'}
    """

    datasets: tuple[Dataset[Any], ...] | dict[str, Dataset[Any]]

    def __init__(self, *args: Dataset[Any], **kwargs: Dataset[Any]) -> None:
        if bool(args) == bool(kwargs):
            raise ValueError(
                "StackDataset: datasets are either all positional (tuples) or all named (dicts): "
                f"{len(args)} positional, {len(kwargs)} named"
            )
        self.datasets = args or kwargs
        lengths = [length_of(d) for d in args or kwargs.values()]
        if len(set(lengths)) != 1:
            raise ValueError(f"StackDataset: lengths differ: {lengths}")
        self._length = lengths[0]

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Any:
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """The samples of `indices`: one call to each dataset that has `__getitems__`."""
        if isinstance(self.datasets, dict):
            names = list(self.datasets)
            columns = [fetch_samples(self.datasets[name], indices) for name in names]
            return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        columns = [fetch_samples(dataset, indices) for dataset in self.datasets]
        return list(zip(*columns, strict=True))


class ChainDataset(IterableDataset[T_co]):
    """Several streams one after another.

    Parameters
    ----------
    datasets : iterable of IterableDataset
        The streams.

    See Also
    --------
    ConcatDataset

    Examples
    --------
    >>> from shmtensor.dataloaders import ChainDataset, IterableDataset
    >>> class Count(IterableDataset):
    ...     def __init__(self, n):
    ...         self.n = n
    ...
    ...     def __iter__(self):
    ...         return iter(range(self.n))
    >>> list(ChainDataset([Count(2), Count(3)]))
    [0, 1, 0, 1, 2]
    """

    def __init__(self, datasets: Iterable[Dataset[T_co]]) -> None:
        self.datasets = list(datasets)
        for i, dataset in enumerate(self.datasets):
            if not is_stream(dataset):
                raise TypeError(
                    f"ChainDataset: dataset {i} is not iterable: {type(dataset).__name__}, "
                    "use ConcatDataset"
                )

    def __iter__(self) -> Iterator[T_co]:
        for dataset in self.datasets:
            yield from cast("IterableDataset[T_co]", dataset)

    def __len__(self) -> int:
        return sum(length_of(dataset) for dataset in self.datasets)


class Subset(Dataset[T_co]):
    """The samples of a dataset at some indices, in that order.

    Parameters
    ----------
    dataset : Dataset
        A map-style dataset.
    indices : sequence of int
        Which ones.

    See Also
    --------
    random_split

    Examples
    --------
    >>> from shmtensor.dataloaders import Subset
    >>> list(Subset(["a", "b", "c"], [2, 0]))
    ['c', 'a']
    """

    dataset: Dataset[T_co]
    indices: Sequence[int]

    def __init__(self, dataset: Dataset[T_co], indices: Sequence[int]) -> None:
        if not hasattr(indices, "__getitem__"):
            raise TypeError(f"Subset: indices are not a list: {indices!r:.80}")
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> T_co:
        """Sample `index`; what the dataset gives for a list of indices if it is a list."""
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]  # type: ignore[index]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: Sequence[int]) -> Sequence[T_co]:
        """The samples of `indices`: one call to the dataset below if it has `__getitems__`."""
        return fetch_samples(self.dataset, [self.indices[index] for index in indices])

    def __len__(self) -> int:
        return len(self.indices)

    def __repr__(self) -> str:
        return f"Subset({len(self)} of {self.dataset!r})"


def random_split(
    dataset: Dataset[T], lengths: Sequence[int | float], generator: GeneratorLike = None
) -> list[Subset[T]]:
    """Splits a dataset at random into parts that do not overlap.

    Parameters
    ----------
    dataset : Dataset
        A map-style dataset.
    lengths : sequence of int or float
        The parts' lengths, or fractions that sum to 1 (lengths are rounded down, and the remaining
        samples go to the parts in turn, as in PyTorch).
    generator : Generator, optional
        Where the permutation's seed comes from; the default one if None.

    Returns
    -------
    list of Subset
        One for each length.

    Raises
    ------
    ValueError
        The lengths do not sum to the dataset's, or a fraction is outside [0, 1].

    See Also
    --------
    Subset

    Examples
    --------
    >>> from shmtensor.dataloaders import random_split
    >>> train, test = random_split(range(10), [0.8, 0.2], st.Generator().manual_seed(0))
    >>> len(train), len(test), sorted([*train, *test]) == list(range(10))
    (8, 2, True)
    """
    if not isinstance(lengths, Iterable):
        raise TypeError(
            f"random_split: lengths are not a list of lengths or fractions: {lengths!r:.80}"
        )
    n = length_of(dataset)
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1 + 1e-9:
        for i, fraction in enumerate(lengths):
            if not 0 <= fraction <= 1:
                raise ValueError(f"random_split: fraction {i} is not between 0 and 1: {fraction}")
        counts = [math.floor(n * fraction) for fraction in lengths]
        for i in range(n - sum(counts)):
            counts[i % len(counts)] += 1
    else:
        counts = [int(length) for length in lengths]
        if counts != list(lengths):
            raise ValueError(f"random_split: lengths are whole numbers or sum to 1: {lengths}")
    if sum(counts) != n:
        raise ValueError(
            f"random_split: lengths do not sum to the dataset's: {counts} is {sum(counts)}, not {n}"
        )
    order: list[int] = numpy_generator(generator).permutation(n).tolist()
    ends = np.cumsum(counts).tolist()
    return [
        Subset(dataset, order[end - count : end]) for end, count in zip(ends, counts, strict=True)
    ]
