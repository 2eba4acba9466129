"""Samplers that use the samples' lengths or weights; each yields one rank's share.

lengths --> shuffled --> sorted in pools --> batches of similar lengths --> shuffled --> one rank's
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .distributed import check_rank, default_group
from .sampler import Sampler, WeightedRandomSampler, check_count

__all__ = ["BucketBatchSampler", "DistributedWeightedSampler"]

POOL = 100  # batches sorted together: larger pools save little more padding and randomise less


class BucketBatchSampler(Sampler[list[int]]):
    """Batches of samples of similar lengths, to reduce padding; a `batch_sampler`.

    Each epoch (`set_epoch`) the samples are shuffled, sorted by length within pools of `pool_size`
    and cut into batches, and the batches are shuffled. Several ranks take turns at the batches of
    one common order; all get the same number of them.

    Parameters
    ----------
    lengths : sequence of int or ndarray
        Of the samples, `(N,)`.
    batch_size : int, optional
        Samples in a batch; None with `max_tokens`.
    max_tokens : int, optional
        Bounds the size of the padded batch (its samples times its longest length), instead of
        `batch_size` or as well. A longer sample is a batch of its own.
    shuffle : bool, optional
        False sorts by length over all, in the same order each epoch.
    seed : int, optional
        Of the order; the same on all ranks.
    drop_last : bool, optional
        Whether batches shorter than `batch_size` are dropped, and the last ones if not all ranks
        get one; otherwise the first batches are repeated until all ranks have the same number.
    pool_size : int, optional
        Samples sorted together; 100 batches of them if None.
    num_replicas : int, optional
        The number of ranks; 1 if None.
    rank : int, optional
        This rank; that of the default process group if None and there are several.

    Examples
    --------
    >>> from shmtensor.dataloaders import BucketBatchSampler
    >>> list(BucketBatchSampler([3, 9, 2, 8], batch_size=2, shuffle=False))
    [[2, 0], [3, 1]]
    >>> list(BucketBatchSampler([3, 9, 2, 8], max_tokens=10, shuffle=False))
    [[2, 0], [3], [1]]
    """

    def __init__(
        self,
        lengths: Sequence[int] | np.ndarray[Any, Any],
        batch_size: int | None = None,
        max_tokens: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        pool_size: int | None = None,
        num_replicas: int | None = None,
        rank: int | None = None,
    ) -> None:
        where = type(self).__name__
        if batch_size is None and max_tokens is None:
            raise ValueError(f"{where}: batch_size or max_tokens is needed: both are None")
        counts = {"batch_size": batch_size, "max_tokens": max_tokens, "pool_size": pool_size}
        for name, value in counts.items():
            if value is not None:
                check_count(where, name, value)
        self.lengths: np.ndarray[Any, np.dtype[np.int64]] = np.asarray(lengths, np.int64)
        if self.lengths.ndim != 1 or (self.lengths < 0).any():
            raise ValueError(f"{where}: lengths are not a row of numbers from 0 on: {lengths!r}")
        self.batch_size = batch_size
        self.max_tokens = max_tokens
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = drop_last
        if pool_size is None:
            mean = max(float(self.lengths.mean()), 1.0) if len(self.lengths) else 1.0
            pool_size = POOL * (batch_size or max(int((max_tokens or 1) / mean), 1))
        self.pool_size = pool_size
        self.num_replicas, self.rank = share(where, num_replicas, rank)
        self.epoch = 0

    def __iter__(self) -> Iterator[list[int]]:
        n, order = self.num_replicas, self.batches()
        if self.drop_last:
            order = order[: len(order) // n * n]
        elif order:
            order += [order[i % len(order)] for i in range(-len(order) % n)]
        return iter(order[self.rank :: n])

    def __len__(self) -> int:
        count = len(self.batches())
        n = self.num_replicas
        return count // n if self.drop_last else -(-count // n)

    def set_epoch(self, epoch: int) -> None:
        """Makes the next iteration's order that of `epoch`; call it on all ranks alike."""
        self.epoch = epoch

    def batches(self) -> list[list[int]]:
        """All ranks' batches of this epoch."""
        random = np.random.Generator(np.random.PCG64([self.seed, self.epoch]))
        n = len(self.lengths)
        order = random.permutation(n) if self.shuffle else np.arange(n)
        pool = self.pool_size if self.shuffle else max(n, 1)
        batches: list[list[int]] = []
        for start in range(0, n, pool):
            chunk = order[start : start + pool]
            chunk = chunk[np.argsort(self.lengths[chunk], kind="stable")]
            batches += self.split_into_batches(chunk)
        if self.shuffle:
            batches = [batches[i] for i in random.permutation(len(batches)).tolist()]
        return batches

    def split_into_batches(self, indices: np.ndarray[Any, Any]) -> list[list[int]]:
        """Sorted indices in batches, the last one shorter."""
        if self.max_tokens is None:
            assert self.batch_size is not None
            batches = [
                indices[start : start + self.batch_size].tolist()
                for start in range(0, len(indices), self.batch_size)
            ]
        else:
            batches = [[]]
            lengths = self.lengths[indices].tolist()
            for index, length in zip(indices.tolist(), lengths, strict=True):
                size = len(batches[-1])
                if (size and (size + 1) * length > self.max_tokens) or size == self.batch_size:
                    batches.append([])
                batches[-1].append(index)
        min_size = self.batch_size if self.drop_last and self.max_tokens is None else 1
        return [batch for batch in batches if len(batch) >= (min_size or 1)]


class DistributedWeightedSampler(Sampler[int]):
    """`WeightedRandomSampler` for several ranks: each takes its part of one common draw.

    Parameters
    ----------
    weights : sequence of float
        One non-negative weight per index; they need not sum to 1.
    num_samples : int
        How many to draw for all ranks together; cut so that all get the same number.
    replacement : bool, optional
        Whether an index may come more than once.
    num_replicas : int, optional
        The number of ranks; of the default process group if None.
    rank : int, optional
        This rank; of the default process group if None.
    seed : int, optional
        Of the draw; the same on all ranks. `set_epoch` gives each epoch its own.

    Raises
    ------
    ValueError
        Weights that cannot be drawn by, or fewer positive ones than `num_samples` without
        replacement.

    Examples
    --------
    >>> from shmtensor.dataloaders import DistributedWeightedSampler
    >>> list(DistributedWeightedSampler([0.0, 1.0, 0.0], 4, num_replicas=2, rank=0))
    [1, 1]
    """

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        num_replicas: int | None = None,
        rank: int | None = None,
        seed: int = 0,
    ) -> None:
        # It checks the arguments and draws.
        self.draw = WeightedRandomSampler(weights, num_samples, replacement)
        if num_replicas is None:
            num_replicas, group_rank = default_group()
            rank = group_rank if rank is None else rank
        self.num_replicas, self.rank = share(type(self).__name__, num_replicas, rank)
        self.num_samples = num_samples // self.num_replicas
        self.seed = seed
        self.epoch = 0

    def __iter__(self) -> Iterator[int]:
        self.draw.generator = np.random.Generator(np.random.PCG64([self.seed, self.epoch]))
        indices = list(self.draw)[: self.num_samples * self.num_replicas]
        return iter(indices[self.rank :: self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Makes the next iteration's draw that of `epoch`; call it on all ranks alike."""
        self.epoch = epoch


def share(where: str, num_replicas: int | None, rank: int | None) -> tuple[int, int]:
    """Number of ranks and this one, checked."""
    n = 1 if num_replicas is None else num_replicas
    if rank is None:
        rank = default_group()[1] if n > 1 else 0
    check_rank(where, rank, n)
    return n, rank
