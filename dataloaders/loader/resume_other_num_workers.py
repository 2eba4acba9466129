"""The streams of an epoch that goes on by another number of workers than it began with.

    began with workers     0   1   2   3   4
    goes on with two       0   1   0   1   0      (stream s is read by worker s % num_workers)

A stream is what `iter(dataset)` gives to one worker, and how a data set shares its samples among
streams is its own affair. So an epoch keeps the streams that it began with: whoever reads one is,
for the data set and `worker_init_fn`, the worker that it began with, and has a copy of the data set
for it alone. What is left is then exactly what was not seen, in the same order and with the same
random numbers, whatever the data set does. The next epoch has the streams of its own workers.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shmtensor.multiprocessing.reduction import dumps, loads

from .fetch import OPENING, Fetcher, Recipe, make_fetcher
from .seeding import SampleSeeds, seed_everything
from .worker_info import WorkerInfo, acting_as

__all__ = ["CheckedLength", "Reader", "are_own", "open_streams"]


@dataclass(frozen=True)
class Reader:
    """A stream's fetcher, and the worker that reads it; None: as without workers."""

    fetcher: Fetcher
    info: WorkerInfo | None


def are_own(places: Sequence[dict[str, Any]], workers: int) -> bool:
    """Whether these are the streams of an epoch that began with so many workers."""
    return [place["worker"] for place in places] == (list(range(workers)) or [-1])


def open_streams(
    recipe: Recipe,
    seed: int,
    seeds: SampleSeeds,
    row: Any,
    places: Sequence[dict[str, Any]],
    first: int = 0,
    step: int = 1,
) -> dict[int, Reader]:
    """Every `step`-th stream from `first`, each behind what was handed over of it (see `Progress`).

    Raises what pickling the data set raises.

    Copies: the data set for each stream, but not what of it lies in shared memory.
    """
    found = {}
    for stream in range(first, len(places), step):
        worker = places[stream]["worker"]
        mine = replace(recipe, dataset=loads(*dumps(recipe.dataset)))
        info = None
        if worker >= 0:
            info = WorkerInfo(worker, len(places), seed + worker, mine.dataset)
        seeds.start(seed, OPENING, worker)  # its own generators, which are then seeded otherwise
        seed_everything(seed + max(worker, 0))
        with acting_as(info):
            if info is not None and recipe.init_fn is not None:
                recipe.init_fn(worker)
            fetcher = make_fetcher(mine, seed, seeds, row, worker, places[stream])
        found[stream] = Reader(fetcher, info)
    return found


class CheckedLength(Iterator[Any]):
    """The batches of a loader of streams; warns when there are more than promised.

    Args:
        batches: of all streams.
        promised: how many batches the data set's length makes.
        streams: how many streams there are; each may end with a short batch.
    """

    def __init__(self, batches: Iterator[Any], promised: int, streams: int) -> None:
        self.batches = batches
        self.promised = promised
        self.left = promised + streams - 1  # until the warning

    def __next__(self) -> Any:
        batch = next(self.batches)
        self.left -= 1
        if self.left == -1:
            warnings.warn(
                "DataLoader: more batches than the data set's length promised: "
                f"{self.promised}, with several workers each must take its own part "
                "(get_worker_info)",
                stacklevel=2,
            )
        return batch
