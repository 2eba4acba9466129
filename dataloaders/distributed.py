"""DistributedSampler: every rank draws the same order and takes its own part of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sized

import numpy as np

from .sampler import Sampler

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler[int]):
    """This rank's part of a dataset's indices: rank, rank + num_replicas, ... of a common order.

    All ranks get the same number: the order is padded with its own beginning, or cut with
    `drop_last`. With `uneven` nothing is repeated or cut, so some ranks get one sample more than
    others: right for evaluation; training then needs `join` of DistributedDataParallel. Call
    `set_epoch` before each epoch, or every epoch has the same order.

    Parameters
    ----------
    dataset : sized
        What is sampled.
    num_replicas : int, optional
        The number of ranks; of the default process group if None.
    rank : int, optional
        This rank; of the default process group if None.
    shuffle : bool, optional
        Whether the order is random, the same on all ranks.
    seed : int, optional
        Of that order; the same on all ranks.
    drop_last : bool, optional
        Whether the tail is cut instead of repeating samples.
    uneven : bool, optional
        Whether none is cut or repeated; excludes `drop_last`.

    Raises
    ------
    ValueError
        `rank` is out of range, or `drop_last` and `uneven` are both set.

    Examples
    --------
    >>> from shmtensor.dataloaders import DistributedSampler
    >>> [list(DistributedSampler(range(5), 2, rank, shuffle=False)) for rank in range(2)]
    [[0, 2, 4], [1, 3, 0]]
    >>> [list(DistributedSampler(range(5), 2, r, False, uneven=True)) for r in range(2)]
    [[0, 2, 4], [1, 3]]
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        *,
        uneven: bool = False,
    ) -> None:
        if uneven and drop_last:
            raise ValueError("DistributedSampler: drop_last and uneven exclude each other")
        if num_replicas is None or rank is None:
            world_size, own_rank = default_group()
            num_replicas = world_size if num_replicas is None else num_replicas
            rank = own_rank if rank is None else rank
        check_rank("DistributedSampler", rank, num_replicas)
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = drop_last
        self.uneven = uneven
        self.epoch = 0

    @property
    def num_samples(self) -> int:
        """How many indices this rank gets."""
        n = len(self.dataset)
        if self.uneven:
            return max(0, -(-(n - self.rank) // self.num_replicas))
        return n // self.num_replicas if self.drop_last else -(-n // self.num_replicas)

    @property
    def total_size(self) -> int:
        """How many indices all ranks get together, repeated ones included."""
        return len(self.dataset) if self.uneven else self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        n = len(self.dataset)
        if self.shuffle:
            order = np.random.Generator(np.random.PCG64([self.seed, self.epoch])).permutation(n)
        else:
            order = np.arange(n)
        # np.resize repeats the order as often as needed, or cuts it.
        mine = np.resize(order, self.total_size)[self.rank :: self.num_replicas]
        return iter(mine.tolist())

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Makes the next iteration's order that of `epoch`; call it on all ranks alike."""
        self.epoch = epoch


def check_rank(where: str, rank: int, num_replicas: int) -> None:
    if not 0 <= rank < num_replicas:
        raise ValueError(f"{where}: rank is not between 0 and {num_replicas - 1}: {rank}")


def default_group() -> tuple[int, int]:
    """World size and rank of the default process group.

    `distributed` is a higher layer than this package, so it is not imported but looked up: a group
    exists only if the program has imported it.
    """
    distributed = sys.modules.get("shmtensor.distributed")
    if distributed is None or not distributed.is_initialized():
        raise RuntimeError(
            "DistributedSampler: there is no default process group: call init_process_group first, "
            "or pass num_replicas and rank"
        )
    return distributed.get_world_size(), distributed.get_rank()
