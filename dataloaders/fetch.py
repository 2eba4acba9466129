"""From indices to a batch, the same in the main process and in workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from .combination import fetch_samples
from .dataset import Dataset

__all__ = ["Fetcher", "MapFetcher", "StreamFetcher", "make_fetcher"]


class Fetcher:
    """Makes one batch after another; `doing` says what it was at when something goes wrong."""

    dataset: Dataset[Any]
    collate_fn: Callable[[Any], Any]
    is_batched: bool
    doing: str = ""

    def __init__(
        self, dataset: Dataset[Any], collate_fn: Callable[[Any], Any], is_batched: bool
    ) -> None:
        self.dataset = dataset
        self.collate_fn = collate_fn
        self.is_batched = is_batched

    def fetch(self, indices: Any) -> Any:
        """The batch of `indices` (of a stream: of that many samples)."""
        raise NotImplementedError


class MapFetcher(Fetcher):
    """Batches of a map-style dataset."""

    def fetch(self, indices: Any) -> Any:
        if not self.is_batched:
            self.doing = f"index {indices!r}"
            return self.collate_fn(self.dataset[indices])
        samples = self.samples(indices)
        self.doing = f"collating indices {shorten(indices)}"
        return self.collate_fn(samples)

    def samples(self, indices: Sequence[int]) -> Sequence[Any]:
        if getattr(self.dataset, "__getitems__", None) is not None:
            self.doing = f"indices {shorten(indices)}"
            return fetch_samples(self.dataset, indices)
        dataset, index = self.dataset, None
        samples = []
        try:
            for index in indices:
                samples.append(dataset[index])
        except BaseException:
            self.doing = f"index {index!r}"
            raise
        return samples


class StreamFetcher(Fetcher):
    """Batches of an iterable dataset; raises StopIteration at its end."""

    def __init__(
        self,
        dataset: Dataset[Any],
        collate_fn: Callable[[Any], Any],
        is_batched: bool,
        drop_last: bool,
    ) -> None:
        super().__init__(dataset, collate_fn, is_batched)
        self.drop_last = drop_last
        self.stream: Iterator[Any] = iter(dataset)
        self.count = 0

    def fetch(self, indices: Any) -> Any:
        self.doing = f"sample {self.count} of this worker's stream, or one soon after it"
        if not self.is_batched:
            sample = next(self.stream)
            self.count += 1
            return self.collate_fn(sample)
        samples = list(islice(self.stream, len(indices)))
        self.count += len(samples)
        if not samples or (self.drop_last and len(samples) < len(indices)):
            raise StopIteration
        return self.collate_fn(samples)


def make_fetcher(
    dataset: Dataset[Any],
    collate_fn: Callable[[Any], Any],
    is_batched: bool,
    is_stream: bool,
    drop_last: bool,
) -> Fetcher:
    if is_stream:
        return StreamFetcher(dataset, collate_fn, is_batched, drop_last)
    return MapFetcher(dataset, collate_fn, is_batched)


def shorten(indices: Any) -> str:
    """Indices for a message: all of a few, both ends of many."""
    if isinstance(indices, Sequence) and len(indices) > 12:
        first, last = (", ".join(map(str, part)) for part in (indices[:6], indices[-3:]))
        return f"[{first}, ..., {last}] ({len(indices)} of them)"
    return repr(indices)
