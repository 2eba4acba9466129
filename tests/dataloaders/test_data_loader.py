"""DataLoader without workers: arguments, orders, lengths, seeds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import chain
from typing import Any, TypeVar, get_args

import numpy as np
import pytest

import shmtensor as st
from shmtensor.dataloaders import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    SequentialSampler,
    TensorDataset,
    default_collate,
    get_worker_info,
)


class Numbers(Dataset[Any]):
    def __init__(self, n: int = 10) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> Any:
        return np.full(3, index, np.float32), index


class Stream(IterableDataset[int]):
    def __init__(self, n: int, promised: int | None = None) -> None:
        self.n, self.promised = n, promised

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.n))

    def __len__(self) -> int:
        if self.promised is None:
            raise TypeError("a stream without a length")
        return self.promised


def labels(loader: Any) -> list[list[int]]:
    return [batch[1].tolist() for batch in loader]


def test_batches_come_in_order() -> None:
    loader = DataLoader(Numbers(), batch_size=4)
    assert labels(loader) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert len(loader) == 3
    x, y = next(iter(loader))
    assert x.shape == (4, 3)
    assert isinstance(y, st.Tensor)


def test_drop_last_drops_the_remainder() -> None:
    loader = DataLoader(Numbers(), batch_size=4, drop_last=True)
    assert labels(loader) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert len(loader) == 2


def test_shuffle_follows_the_generator() -> None:
    def epochs(seed: int) -> list[list[list[int]]]:
        generator = np.random.default_rng(seed)
        loader = DataLoader(Numbers(), 4, shuffle=True, generator=generator)
        return [labels(loader), labels(loader)]

    first = epochs(0)
    assert first == epochs(0)
    assert first[0] != first[1]
    assert first != epochs(1)
    assert sorted(chain(*first[0])) == list(range(10))


def test_shuffle_follows_manual_seed() -> None:
    def order() -> list[list[int]]:
        st.manual_seed(7)
        return labels(DataLoader(Numbers(100), 10, shuffle=True))

    assert order() == order()


def test_without_batching_samples_come_converted() -> None:
    first = next(iter(DataLoader(Numbers(), batch_size=None)))
    assert isinstance(first[0], st.Tensor)
    assert first[1] == 0
    assert len(DataLoader(Numbers(), batch_size=None)) == 10


def test_a_batch_sampler_decides() -> None:
    loader = DataLoader(Numbers(), batch_sampler=[[3, 1], [2]])
    assert labels(loader) == [[3, 1], [2]]
    assert len(loader) == 2
    assert loader.batch_size is None
    sampler = BatchSampler(SequentialSampler(range(4)), 2)
    assert labels(DataLoader(Numbers(), batch_sampler=sampler)) == [[0, 1], [2, 3]]


def test_a_sampler_decides() -> None:
    assert labels(DataLoader(Numbers(), 2, sampler=[5, 3, 1])) == [[5, 3], [1]]


def test_collate_fn_gets_the_samples() -> None:
    loader = DataLoader(Numbers(), 5, collate_fn=lambda samples: [y for _, y in samples])
    assert list(loader) == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]


def test_columns_are_gathered_and_still_samples_for_a_collate_fn() -> None:
    dataset = TensorDataset(st.arange(6), st.arange(6))
    assert [x.tolist() for x, _ in DataLoader(dataset, 4)] == [[0, 1, 2, 3], [4, 5]]
    custom = DataLoader(dataset, 4, collate_fn=lambda rows: default_collate(rows + rows[:0]))
    assert [y.tolist() for _, y in custom] == [[0, 1, 2, 3], [4, 5]]


def test_streams_are_batched() -> None:
    assert [batch.tolist() for batch in DataLoader(Stream(5), 2)] == [[0, 1], [2, 3], [4]]
    loader = DataLoader(Stream(5, 5), 2, drop_last=True)
    assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3]]
    assert len(loader) == 2
    assert list(DataLoader(Stream(3), batch_size=None)) == [0, 1, 2]


def test_a_stream_longer_than_promised_is_warned_about() -> None:
    with pytest.warns(UserWarning, match="more batches than the data set's length promised: 2"):
        assert len(list(DataLoader(Stream(6, 4), 2))) == 3


def test_there_is_no_worker_here() -> None:
    assert get_worker_info() is None


def test_an_error_of_the_dataset_comes_as_it_is() -> None:
    class Broken(Numbers):
        def __getitem__(self, index: int) -> Any:
            raise LookupError(f"no sample {index}")

    with pytest.raises(LookupError, match=r"^'?no sample 0'?$"):
        next(iter(DataLoader(Broken())))


def test_block_of_a_batch_is_given_back() -> None:
    from shmtensor import memory

    before = memory.statistics().live_blocks
    nblocks = [memory.statistics().live_blocks for _ in DataLoader(Numbers(100), 2)]
    assert max(nblocks) - before <= 2


@pytest.mark.parametrize("options", [{"shuffle": True}, {"sampler": [1]}, {"batch_sampler": [[1]]}])
def test_a_stream_has_its_own_order(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="an IterableDataset has its own order"):
        DataLoader(Stream(3), **options)


def test_it_is_reached_by_the_name_pytorch_has() -> None:
    from shmtensor.utils import data

    assert data.DataLoader is DataLoader
    assert "TensorDataset" in dir(data)


def test_far_more_workers_than_cores_are_warned_about() -> None:
    cores = len(os.sched_getaffinity(0))
    DataLoader([1, 2], num_workers=2 * cores)
    with pytest.warns(UserWarning, match=f"{2 * cores + 1} workers, {cores} cores"):
        DataLoader([1, 2], num_workers=2 * cores + 1)


def test_a_loader_of_samples_and_batches_is_a_type() -> None:
    """`DataLoader[sample]` is PyTorch's form; a class of loaders may be derived from either."""
    T = TypeVar("T")
    assert get_args(DataLoader[int]) == (int, Any)
    assert get_args(DataLoader[int, str]) == (int, str)

    class Logged(DataLoader[T]):
        pass

    assert get_args(Logged[int]) == (int,)
    assert [batch.tolist() for batch in Logged([1, 2, 3], batch_size=2)] == [[1, 2], [3]]
