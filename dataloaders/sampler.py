"""The order in which a loader asks for samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from itertools import islice
from typing import Any, Generic, TypeVar

import numpy as np

from shmtensor.html_table import attribute_table

from .loader.seeding import GeneratorLike, numpy_generator

__all__ = [
    "BatchSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
]

T_co = TypeVar("T_co", covariant=True)


class Sampler(Generic[T_co]):
    """An order of indices: implement `__iter__`, and `__len__` if the number is known.

    See Also
    --------
    RandomSampler, BatchSampler

    Examples
    --------
    >>> from shmtensor.dataloaders import DataLoader, Sampler
    >>> class Backwards(Sampler):
    ...     def __init__(self, n):
    ...         self.n = n
    ...
    ...     def __iter__(self):
    ...         return iter(range(self.n - 1, -1, -1))
    ...
    ...     def __len__(self):
    ...         return self.n
    >>> list(DataLoader(range(4), batch_size=2, sampler=Backwards(4)))
    [tensor([3, 2]), tensor([1, 0])]
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__}: __iter__ is not implemented")

    def __repr__(self) -> str:
        shown = (bool, int, float, str, Sampler)
        options = [f"{name}={v!r}" for name, v in vars(self).items() if isinstance(v, shown)]
        if isinstance(self, Sized):
            options.insert(
                0, f"{len(self)} {'batches' if 'batch_size' in vars(self) else 'indices'}"
            )
        return f"{type(self).__name__}({', '.join(o for o in options if o[0] != '_')})"

    def _repr_html_(self) -> str:
        return attribute_table(self, *([("length", len(self))] if isinstance(self, Sized) else []))


class SequentialSampler(Sampler[int]):
    """The order of the data: 0, 1, 2, ...

    Parameters
    ----------
    data_source : sized
        What is sampled.

    Examples
    --------
    >>> from shmtensor.dataloaders import SequentialSampler
    >>> list(SequentialSampler("abc"))
    [0, 1, 2]
    """

    data_source: Sized

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """A random order of the indices, another one in each epoch.

    Parameters
    ----------
    data_source : sized
        What is sampled.
    replacement : bool, optional
        Whether each index is drawn independently, so that samples may repeat.
    num_samples : int, optional
        How many to draw; the length of `data_source` if None. Without replacement, more than that
        starts another permutation.
    generator : Generator, optional
        Where the randomness comes from; the default one if None.

    See Also
    --------
    SubsetRandomSampler, WeightedRandomSampler

    Examples
    --------
    >>> from shmtensor.dataloaders import RandomSampler
    >>> sorted(RandomSampler("abc"))
    [0, 1, 2]
    """

    data_source: Sized

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: GeneratorLike = None,
    ) -> None:
        if not isinstance(replacement, bool):
            raise TypeError(f"RandomSampler: replacement is not a bool: {replacement!r}")
        if num_samples is not None:
            check_count("RandomSampler", "num_samples", num_samples)
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator

    @property
    def num_samples(self) -> int:
        """How many indices an epoch has; follows a dataset that grows."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        n, remaining = len(self.data_source), self.num_samples
        if remaining and not n:
            raise ValueError(f"RandomSampler: cannot draw {remaining} samples: the data is empty")
        random = numpy_generator(self.generator)
        while remaining:
            count = min(n, remaining)
            if self.replacement:
                yield from random.integers(n, size=count).tolist()
            else:
                yield from random.permutation(n)[:count].tolist()
            remaining -= count

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """A random order of given indices.

    Parameters
    ----------
    indices : sequence of int
        What to permute.
    generator : Generator, optional
        Where the randomness comes from; the default one if None.

    See Also
    --------
    RandomSampler

    Examples
    --------
    >>> from shmtensor.dataloaders import SubsetRandomSampler
    >>> sorted(SubsetRandomSampler([5, 7, 9]))
    [5, 7, 9]
    """

    indices: Sequence[int]

    def __init__(self, indices: Sequence[int], generator: GeneratorLike = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in numpy_generator(self.generator).permutation(len(self.indices)).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices drawn with probabilities in proportion to weights.

    Parameters
    ----------
    weights : sequence of float
        One non-negative weight per index; they need not sum to 1.
    num_samples : int
        How many to draw.
    replacement : bool, optional
        Whether an index may come more than once.
    generator : Generator, optional
        Where the randomness comes from; the default one if None.

    See Also
    --------
    DistributedWeightedSampler

    Examples
    --------
    >>> from shmtensor.dataloaders import WeightedRandomSampler
    >>> list(WeightedRandomSampler([0.0, 1.0, 0.0], num_samples=3))
    [1, 1, 1]
    """

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: GeneratorLike = None,
    ) -> None:
        where = "WeightedRandomSampler"
        check_count(where, "num_samples", num_samples)
        if not isinstance(replacement, bool):
            raise ValueError(f"{where}: replacement is not a bool: {replacement!r}")
        values: np.ndarray[Any, np.dtype[np.float64]] = np.asarray(weights, dtype=np.float64)
        if values.ndim != 1:
            raise ValueError(f"{where}: weights are not a 1-d sequence: shape {values.shape}")
        if not np.isfinite(values).all() or (values < 0).any() or values.sum() <= 0:
            raise ValueError(
                f"{where}: weights are finite, not negative, and not all 0: "
                f"min {values.min(initial=0)}, max {values.max(initial=0)}, sum {values.sum()}"
            )
        positive = int((values > 0).sum())
        if not replacement and num_samples > positive:
            raise ValueError(
                f"{where}: cannot draw {num_samples} samples without replacement from "
                f"{positive} positive weights"
            )
        self.weights = values
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        random = numpy_generator(self.generator)
        p = self.weights / self.weights.sum()
        indices = random.choice(len(p), self.num_samples, self.replacement, p)
        return iter(indices.tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of `batch_size` indices of another sampler.

    Parameters
    ----------
    sampler : iterable of int
        The indices.
    batch_size : int
        How many a batch has.
    drop_last : bool, optional
        Whether the last batch is left out if it is shorter.

    See Also
    --------
    BucketBatchSampler

    Examples
    --------
    >>> from shmtensor.dataloaders import BatchSampler
    >>> list(BatchSampler(range(5), batch_size=2))
    [[0, 1], [2, 3], [4]]
    >>> list(BatchSampler(range(5), batch_size=2, drop_last=True))
    [[0, 1], [2, 3]]
    """

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool = False) -> None:
        check_count("BatchSampler", "batch_size", batch_size)
        if not isinstance(drop_last, bool):
            raise ValueError(f"BatchSampler: drop_last is not a bool: {drop_last!r}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        n = len(self.sampler)  # type: ignore[arg-type]
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)


def check_count(where: str, name: str, value: object) -> None:
    """Raises ValueError unless `value` is a whole number above 0."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value <= 0:
        raise ValueError(f"{where}: {name} is not a positive whole number: {value!r}")
