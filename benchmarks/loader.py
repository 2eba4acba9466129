"""Batches from a DataLoader: samples are NumPy arrays, as most data sets make them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from .case import OURS, PYTORCH, Case

__all__ = ["CASES"]

BATCH = 64


class Images:
    """Images of one size, made up; (3, pixels, pixels) of bytes and a class number."""

    def __init__(self, n: int, pixels: int) -> None:
        self.n = n
        self.image = np.ones((3, pixels, pixels), np.uint8)

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> tuple[Any, int]:
        return self.image, i % 10


def epochs(data: Any, pixels: int, n: int, workers: int) -> Iterator[Any]:
    """One epoch per call, from the first batch to the last; the workers stay."""
    loader = data.DataLoader(
        Images(n, pixels), batch_size=BATCH, num_workers=workers, persistent_workers=workers > 0
    )

    def run() -> float:
        batches = iter(loader)
        next(batches)
        began = time.perf_counter()
        for _ in batches:
            pass
        return (time.perf_counter() - began) * n / (n - BATCH)

    yield run
    iterator = getattr(loader, "_iterator", None)
    if iterator is not None and hasattr(iterator, "_shutdown_workers"):
        iterator._shutdown_workers()


def startup(data: Any) -> Iterator[Any]:
    """From nothing to the first batch, with two spawned workers."""

    def run() -> float:
        loader = data.DataLoader(
            Images(4 * BATCH, 64), BATCH, num_workers=2, multiprocessing_context="spawn"
        )
        began = time.perf_counter()
        batches = iter(loader)
        next(batches)
        took = time.perf_counter() - began
        for _ in batches:
            pass
        return took

    yield run


def of(build: Any, *arguments: Any) -> dict[str, Any]:
    """Both libraries' `utils.data`."""

    def ours(st: Any) -> Any:
        import shmtensor.utils.data

        return build(shmtensor.utils.data, *arguments)

    def theirs(torch: Any) -> Any:
        import torch.utils.data

        return build(torch.utils.data, *arguments)

    return {OURS: ours, PYTORCH: theirs}


CASES = [
    Case("loader/64 px, no workers", of(epochs, 64, 2048, 0), per=2048, slow=True),
    Case("loader/64 px, 2 workers", of(epochs, 64, 2048, 2), 0.25, per=2048, slow=True),
    Case("loader/224 px, 2 workers", of(epochs, 224, 512, 2), 0.33, per=512, slow=True),
    Case("loader/first batch, spawned workers", of(startup), 0.4, long=True),
]
