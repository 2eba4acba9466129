"""A loader's iterators: at their end, after errors, closed, and in a forked process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from shmtensor.dataloaders import DataLoader, Dataset, IterableDataset, default_collate


class Numbers(Dataset[int]):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        return index


class Halting(Numbers):
    def __getitem__(self, index: int) -> int:
        if index == 3:
            raise StopIteration
        return index


class Counter(IterableDataset[int]):
    """A stream that continues after an error; each worker reads all of it."""

    def __init__(self, broken: int = -1) -> None:
        self.broken = broken

    def __len__(self) -> int:
        return 8

    def __iter__(self) -> Iterator[int]:
        self.at = -1
        return self

    def __next__(self) -> int:
        self.at += 1
        if self.at == 8:
            raise StopIteration
        if self.at == self.broken:
            raise KeyError(self.at)
        return self.at


def halting_collate(samples: list[int]) -> Any:
    if 3 in samples:
        raise StopIteration
    return default_collate(samples)


def faulty(indices: list[list[int]]) -> Iterator[list[int]]:
    yield from indices
    raise ValueError("the sampler is broken")


def outcome(iterator: Iterator[Any]) -> list[Any]:
    """All batches, with names of exceptions in place of failed ones."""
    results: list[Any] = []
    while len(results) < 20:
        try:
            results.append(next(iterator).tolist())
        except StopIteration:
            break
        except Exception as error:
            results.append(type(error).__name__)
    return results


workers = pytest.mark.parametrize("workers", [0, 1])


@workers
def test_a_sample_that_raises_stop_iteration_does_not_end_the_epoch(workers: int) -> None:
    results = outcome(iter(DataLoader(Halting(), 2, num_workers=workers)))
    assert results == [[0, 1], "RuntimeError", [4, 5], [6, 7]]


@workers
@pytest.mark.parametrize("dataset", [Numbers(), Counter()], ids=["indices", "stream"])
def test_a_collate_fn_that_raises_stop_iteration_does_not_end_it(
    workers: int, dataset: Dataset[int]
) -> None:
    loader = DataLoader(dataset, 2, num_workers=workers, collate_fn=halting_collate)
    assert outcome(iter(loader)) == [[0, 1], "RuntimeError", [4, 5], [6, 7]]


@workers
def test_a_stream_that_goes_on_after_an_error_is_read_to_its_end(workers: int) -> None:
    results = outcome(iter(DataLoader(Counter(3), 2, num_workers=workers)))
    assert results == [[0, 1], "KeyError", [4, 5], [6, 7]]


@workers
def test_an_error_of_the_sampler_comes_after_the_batches_before_it(workers: int) -> None:
    loader = DataLoader(Numbers(), batch_sampler=faulty([[0, 1], [5], [7]]), num_workers=workers)
    assert outcome(iter(loader)) == [[0, 1], [5], [7], "ValueError"]


@pytest.mark.parametrize("is_persistent", [False, True])
def test_an_exhausted_iterator_stays_exhausted(is_persistent: bool) -> None:
    loader = DataLoader(Numbers(), 4, num_workers=1, persistent_workers=is_persistent)
    first = iter(loader)
    assert len(list(first)) == 2
    second = iter(loader)
    next(second)
    assert next(first, None) is None
    loader.close()
    assert next(first, None) is None


def test_an_iterator_of_a_closed_loader_says_so() -> None:
    loader = DataLoader(Numbers(), 2, num_workers=1)
    iterator = iter(loader)
    next(iterator)
    loader.close()
    with pytest.raises(RuntimeError, match="this iterator is over: its workers have ended"):
        next(iterator)


def test_a_forked_child_takes_no_batch_of_its_parents() -> None:
    with DataLoader(Numbers(), 1, num_workers=1) as loader:
        iterator = iter(loader)
        assert next(iterator).tolist() == [0]
        child = os.fork()
        if not child:
            code = 1
            try:
                next(iterator)
            except RuntimeError as error:
                code = 0 if "forked" in str(error) else 2
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        assert status == 0
        assert outcome(iterator) == [[n] for n in range(1, 8)]


def test_another_number_of_workers_is_that_of_the_next_epoch() -> None:
    with DataLoader(Numbers(), 2, num_workers=1) as loader:
        list(loader)
        loader.num_workers = 2
        assert outcome(iter(loader)) == [[0, 1], [2, 3], [4, 5], [6, 7]]
        assert len(loader.statistics().workers) == 2
