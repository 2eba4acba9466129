"""A loader's statistics, its bottleneck and its repr."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np
import pytest

from shmtensor.dataloaders import (
    DataLoader,
    Dataset,
    IterableDataset,
    LoaderStatistics,
    WorkerStatistics,
)


class Numbers(Dataset[Any]):
    def __init__(self, n: int = 24, seconds: float = 0.0) -> None:
        self.n = n
        self.seconds = seconds

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> Any:
        time.sleep(self.seconds)
        return np.full(3, index), index


class Endless(IterableDataset[int]):
    def __iter__(self) -> Any:
        return iter(range(7))


@pytest.mark.parametrize("workers", [0, 2])
def test_all_that_was_done_is_counted(workers: int) -> None:
    loader = DataLoader(Numbers(), 4, num_workers=workers)
    with pytest.raises(RuntimeError, match="nothing has been iterated over yet"):
        loader.statistics()
    for _ in range(2):  # of the latest epoch only
        assert len(list(loader)) == len(loader) == 6
        statistics = loader.statistics()
        assert isinstance(statistics, LoaderStatistics)
        assert all(isinstance(worker, WorkerStatistics) for worker in statistics.workers)
        assert (statistics.batches, statistics.restarts, statistics.capacity) == (6, 0, 2 * workers)
        assert sum(worker.batches for worker in statistics.workers) == 6
        assert sum(worker.samples for worker in statistics.workers) == 24
        assert len({worker.pid for worker in statistics.workers}) == max(workers, 1)
        assert (os.getpid() in {worker.pid for worker in statistics.workers}) == (workers == 0)
        assert all(w.fetch_seconds >= 0 and w.collate_seconds >= 0 for w in statistics.workers)
        assert statistics.shared_bytes > 0


def test_shared_memory_of_all_processes_is_counted() -> None:
    loader = DataLoader(np.ones((4, 1 << 20)), 4, num_workers=1)
    batches = list(loader)
    assert loader.statistics().shared_bytes >= batches[0].nbytes == 4 << 23


def test_slow_samples_are_the_bottleneck_and_said_to_be() -> None:
    loader = DataLoader(Numbers(8, 0.02), 2, num_workers=1)
    list(loader)
    statistics = loader.statistics()
    assert statistics.workers[0].fetch_seconds >= 0.16
    assert statistics.wait_seconds > statistics.use_seconds
    assert "Loading is the bottleneck" in statistics.bottleneck
    assert "the data set's samples" in statistics.bottleneck
    assert statistics.bottleneck in str(statistics)


def test_a_slow_consumer_is_the_bottleneck_and_said_to_be() -> None:
    loader = DataLoader(Numbers(40), 2, num_workers=1, persistent_workers=True)
    list(loader)
    for _ in loader:
        time.sleep(0.1)
    statistics = loader.statistics()
    assert statistics.use_seconds >= 2.0
    assert statistics.workers[0].idle_seconds > statistics.workers[0].busy_seconds
    assert statistics.mean_fill > 0
    assert "Training is the bottleneck" in statistics.bottleneck


def test_messages_name_the_remedy() -> None:
    worker = WorkerStatistics(0, 1, 5, 50, 1.0, 8.0, 0.5, 0.1, 0)
    busy = LoaderStatistics((worker,), 5, 9.0, 1.0, 0.0, 2, 0, 0)
    assert "more workers, or faster ones: most of their time goes to collate_fn" in busy.bottleneck
    idle = LoaderStatistics((WorkerStatistics(0, 1, 5, 50, 1, 1, 1, 6, 0),), 5, 9, 1, 0, 2, 0, 0)
    assert "a larger prefetch_factor or larger batches" in idle.bottleneck
    here = LoaderStatistics((worker,), 5, 9.0, 1.0, 0.0, 0, 0, 0)
    assert "workers would load while training runs" in here.bottleneck
    assert LoaderStatistics((worker,), 0, 0, 0, 0, 0, 0, 0).bottleneck == "Nothing was loaded yet."


def test_the_repr_shows_the_settings() -> None:
    loader = DataLoader(Numbers(), 4, shuffle=True, num_workers=2, multiprocessing_context="fork")
    assert repr(loader) == (
        "DataLoader(Numbers of 24 samples, batches of 4, order of RandomSampler, 2 workers (fork))"
    )
    stream = DataLoader(Endless(), None)
    assert repr(stream) == "DataLoader(Endless, no batches, 0 workers)"
    lists = DataLoader(Numbers(), batch_sampler=[[1]], num_workers=1, in_order=False)
    assert repr(lists) == (
        "DataLoader(Numbers of 24 samples, its own batches, order of list, 1 workers, out of order)"
    )
