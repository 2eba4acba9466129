"""Data sets, samplers, batches: a loader knows the type of its batches where that is known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from typing_extensions import reveal_type

import shmtensor as st
from shmtensor.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    Subset,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    get_worker_info,
    random_split,
)


class Squares(Dataset[tuple[st.Tensor, int]]):
    def __init__(self, n: int) -> None:
        self.data = st.arange(n)

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[st.Tensor, int]:
        return self.data[index] ** 2, index


class Rows(Dataset[dict[str, npt.NDArray[np.float32]]]):
    def __getitem__(self, index: int) -> dict[str, npt.NDArray[np.float32]]:
        return {"x": np.zeros(3, np.float32)}

    def __len__(self) -> int:
        return 8


class Names(Dataset[str]):
    def __getitem__(self, index: int) -> str:
        return str(index)


class Stream(IterableDataset[float]):
    def __iter__(self) -> Iterator[float]:
        info = get_worker_info()
        yield 0.5 if info is None else float(info.id)


class Batch(NamedTuple):
    x: st.Tensor
    y: list[int]


def collate(samples: list[tuple[st.Tensor, int]]) -> Batch:
    return Batch(st.stack([x for x, _ in samples]), [y for _, y in samples])


def start(worker: int) -> None:
    print(worker)


data = Squares(100)
reveal_type(data[0])  # -> tuple[Tensor, int]
loader = DataLoader(data, 10, True, num_workers=2, pin_memory=True, drop_last=True)
reveal_type(loader)  # -> DataLoader[tuple[Tensor, int], list[Tensor]]
for x, y in loader:
    reveal_type(x)  # -> Tensor
    reveal_type(y)  # -> Tensor
for named in DataLoader(data, batch_size=4, collate_fn=collate, worker_init_fn=start):
    reveal_type(named)  # -> Batch
    reveal_type(named.y)  # -> list[int]
for rows in DataLoader(Rows(), batch_size=4):
    reveal_type(rows["x"])  # -> Tensor
for numbers in DataLoader(Stream(), batch_size=4):
    reveal_type(numbers)  # -> Tensor
for text in DataLoader(Names(), batch_size=4):
    reveal_type(text)  # -> Any
for sample in DataLoader(data, batch_size=None):
    reveal_type(sample)  # -> Any
for foreign in DataLoader(data, batch_size=4, output="numpy"):
    reveal_type(foreign)  # -> Any
for parts in DataLoader(TensorDataset(st.ones(4, 2), st.ones(4)), batch_size=2):
    reveal_type(parts)  # -> list[Tensor]

train, test = random_split(data, [0.8, 0.2])
reveal_type(train)  # -> Subset[tuple[Tensor, int]]
reveal_type(DataLoader(Subset(data, [1, 2])))  # -> DataLoader[tuple[Tensor, int], list[Tensor]]
reveal_type(ConcatDataset([data, data])[3])  # -> tuple[Tensor, int]
reveal_type(DataLoader([1, 2, 3]))  # -> DataLoader[int, Any]
order: Sampler[int] = RandomSampler(data, generator=st.Generator().manual_seed(1))
batches = BatchSampler(WeightedRandomSampler([0.1, 0.9], 2), batch_size=2, drop_last=False)
DataLoader(data, batch_size=2, sampler=order)
DataLoader(data, batch_sampler=batches, timeout=10.0, prefetch_factor=4, persistent_workers=True)
reveal_type(len(loader))  # -> int
reveal_type(loader.statistics().bottleneck)  # -> str
reveal_type(default_collate([1, 2]))  # -> Any


def run(loader: DataLoader[tuple[st.Tensor, int]]) -> None:
    """PyTorch's form, with the samples' type alone, takes every loader of such samples."""
    with loader as entered:
        entered.load_state_dict(entered.state_dict())


run(loader)
run(DataLoader(data, collate_fn=collate))
