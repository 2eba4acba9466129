"""What a loader reads from: samples by index (`Dataset`) or as a stream (`IterableDataset`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from .concat_subset import ChainDataset, ConcatDataset

__all__ = ["Dataset", "IterableDataset"]

T_co = TypeVar("T_co", covariant=True)


class Dataset(Generic[T_co]):
    """Samples by index: implement `__getitem__`, and `__len__` for the samplers.

    A dataset may also have `__getitems__(indices)`, which returns the samples of a whole batch; a
    loader then makes one call per batch instead of one per sample.
    """

    def __getitem__(self, index: int) -> T_co:
        raise NotImplementedError(f"{type(self).__name__}: __getitem__ is not implemented")

    def __add__(self, other: Dataset[T_co]) -> ConcatDataset[T_co]:
        from .concat_subset import ConcatDataset

        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co], Iterable[T_co]):
    """Samples as a stream: implement `__iter__`.

    Each worker iterates over its own copy, so `__iter__` must share the work out by
    `get_worker_info()`, or every sample comes once per worker.
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__}: __iter__ is not implemented")

    def __add__(self, other: Dataset[T_co]) -> ChainDataset[T_co]:  # type: ignore[override]
        from .concat_subset import ChainDataset

        return ChainDataset([self, other])
