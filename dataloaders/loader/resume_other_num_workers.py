"""The streams of an epoch that is resumed with another number of workers.

    began with workers      0   1   2   3   4
    resumed with two        0   1   0   1   0      (stream s is read by worker s % num_workers)

A stream is what `iter(dataset)` gives to one worker; only the data set knows how it shares its
samples among streams. So an epoch keeps the streams that it began with: the reader of a stream
presents itself to the data set and `worker_init_fn` as the worker that began it, with its own copy
of the data set. The remaining samples are then exactly those not consumed yet, in the same order
and with the same random numbers, whatever the data set does. The next epoch has one stream per
worker again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from shmtensor.multiprocessing.reduction import dumps, loads, sending_values

from .fetch import OPENING, Fetcher, Recipe, make_fetcher
from .seeding import SampleSeeds, seed_everything
from .worker_info import WorkerInfo, acting_as


@dataclass(frozen=True)
class Reader:
    """A stream's fetcher, and the worker it presents itself as; None: no workers."""

    fetcher: Fetcher
    info: WorkerInfo | None


def same_workers(positions: Sequence[dict[str, Any]], num_workers: int) -> bool:
    """Whether these are the streams of an epoch that began with so many workers."""
    return [position["worker"] for position in positions] == (list(range(num_workers)) or [-1])


def open_streams(
    recipe: Recipe,
    seed: int,
    seeds: SampleSeeds,
    row: Any,
    positions: Sequence[dict[str, Any]],
    first: int = 0,
    step: int = 1,
) -> dict[int, Reader]:
    """Every `step`-th stream from `first`, each after its consumed batches (see `Progress`).

    Raises the errors of pickling the data set.

    Copies: the data set for each stream, except its shared memory.
    """
    readers = {}
    for stream in range(first, len(positions), step):
        worker = positions[stream]["worker"]
        with sending_values():
            own_recipe = replace(recipe, dataset=loads(*dumps(recipe.dataset)))
        info = None
        if worker >= 0:
            info = WorkerInfo(worker, len(positions), seed + worker, own_recipe.dataset)
        seeds.start(seed, OPENING, worker)  # installs its own generators for `seed_everything`
        seed_everything(seed + max(worker, 0))
        with acting_as(info):
            if info is not None and recipe.init_fn is not None:
                recipe.init_fn(worker)
            fetcher = make_fetcher(own_recipe, seed, seeds, row, positions[stream])
        readers[stream] = Reader(fetcher, info)
    return readers
