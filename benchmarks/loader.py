"""Batches from a DataLoader: samples are NumPy arrays, as in most data sets, tensors of the library
that loads them, rows as dicts, or, for both loaders, tensors of PyTorch ("torch").

Workers are forked and persistent. CPU seconds are those of the consumer and its workers together.
The memory's limit is the party "numpy, memcpy": the same bytes copied to warm batches, one call
each, by two threads; our share is its time over ours. The party "shmtensor, two bare forks" is the
time to fork our program twice, with children that do nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any

import numpy as np

from .first_batch import BARE, PROGRAM, first_batch
from .harness.case import OURS, PYTORCH, Case

BATCH = 32
MEMCPY = "numpy, memcpy"
FORKS = f"{OURS}, two bare forks"


class Images:
    """Synthetic images (3, pixels, pixels) with class numbers."""

    def __init__(self, n: int, pixels: int, dtype: Any = np.float32) -> None:
        self.n = n
        self.image: Any = np.ones((3, pixels, pixels), dtype)

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> Any:
        return self.image, i % 10


class Rows(Images):
    """Rows of 32 floats with a number, as dicts."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.row = np.ones(32, np.float32)

    def __getitem__(self, i: int) -> Any:
        return {"x": self.row, "y": i}


def images(_: Any, n: int, pixels: int, dtype: Any = np.float32) -> Images:
    return Images(n, pixels, dtype)


def tensors(library: Any, n: int, pixels: int) -> Images:
    """Images that are tensors of the library."""
    dataset = Images(n, pixels)
    dataset.image = library.from_numpy(dataset.image)
    return dataset


def rows(_: Any, n: int) -> Rows:
    return Rows(n)


class TorchImages(Images):
    """New images, tensors of PyTorch."""

    def __init__(self, n: int, pixels: int) -> None:
        super().__init__(n, pixels)
        torch: Any = import_module("torch")
        self.image = torch.from_numpy(self.image)

    def __getitem__(self, i: int) -> Any:
        return self.image + 1, i % 10


def torch_images(_: Any, n: int, pixels: int) -> TorchImages:
    return TorchImages(n, pixels)


def torch_images_with_collate_fn(_: Any, n: int, pixels: int) -> TorchImages:
    dataset: Any = TorchImages(n, pixels)
    dataset.collate_fn = collate_by_torch
    images: TorchImages = dataset
    return images


def torch_rows(_: Any, n: int) -> Any:
    """PyTorch's `TensorDataset` of rows of 32 floats and numbers."""
    torch: Any = import_module("torch")
    dataset = import_module("torch.utils.data").TensorDataset(torch.ones(n, 32), torch.arange(n))
    dataset.n = n
    return dataset


def collate_by_torch(samples: list[Any]) -> Any:
    """A `collate_fn` that calls PyTorch's."""
    return import_module("torch.utils.data").default_collate(samples)


def processor_seconds(pids: list[int]) -> float:
    """CPU time of all threads of these processes."""
    total = 0
    for pid in pids:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/schedstat") as file:
                total += int(file.read().split()[0])
    return total / 1e9


def epochs(
    library: Any, data: Any, is_cpu: bool, workers: int, make: Callable[..., Images], *settings: Any
) -> Iterator[Any]:
    """One epoch per call, from the first batch to the last, with persistent workers."""
    dataset = make(library, *settings)
    options: Any = {"persistent_workers": True, "multiprocessing_context": "fork"}
    loader = data.DataLoader(
        dataset,
        batch_size=BATCH,
        num_workers=workers,
        collate_fn=getattr(dataset, "collate_fn", None),
        **(options if workers else {}),
    )

    def run() -> float:
        batches = iter(loader)
        next(batches)
        workers = getattr(loader, "_workers", None)
        processes = workers.processes if workers else getattr(batches, "_workers", [])
        pids = [os.getpid(), *(process.pid for process in processes)]
        cpu_start, began = processor_seconds(pids) if is_cpu else 0.0, time.perf_counter()
        for _ in batches:
            pass
        took = processor_seconds(pids) - cpu_start if is_cpu else time.perf_counter() - began
        return took * dataset.n / (dataset.n - BATCH)

    yield run
    iterator = getattr(loader, "_iterator", None)
    if iterator is not None and hasattr(iterator, "_shutdown_workers"):
        iterator._shutdown_workers()


def memcpy(n: int, pixels: int, threads: int) -> Callable[[Any], Iterator[Any]]:
    """Copies of n images to warm memory."""

    def build(_: Any) -> Iterator[Any]:
        source = np.ones((3, pixels, pixels), np.float32)
        targets = np.ones((threads, 4, BATCH, *source.shape), np.float32)

        def work(thread: int) -> None:
            for number in range(n // BATCH // threads):
                np.copyto(targets[thread, number % 4], source)

        with ThreadPoolExecutor(threads) as pool:
            yield lambda: list(pool.map(work, range(threads)))

    return build


def both_libraries(build: Any, *arguments: Any) -> dict[str, Any]:
    """Both libraries' `utils.data`."""

    def ours(st: Any) -> Any:
        import shmtensor.utils.data

        return build(st, shmtensor.utils.data, *arguments)

    def theirs(torch: Any) -> Any:
        import torch.utils.data

        return build(torch, torch.utils.data, *arguments)

    return {OURS: ours, PYTORCH: theirs}


def first_batches(what: str) -> dict[str, Any]:
    return {OURS: first_batch(what), PYTORCH: first_batch(what)}


def wall(*settings: Any) -> dict[str, Any]:
    return both_libraries(epochs, False, *settings)


def cpu(*settings: Any) -> dict[str, Any]:
    return both_libraries(epochs, True, *settings)


def with_memcpy(workers: int, n: int, pixels: int) -> dict[str, Any]:
    return {**wall(workers, images, n, pixels), MEMCPY: memcpy(n, pixels, workers or 2)}


BYTES = np.uint8
CASES = [
    Case("loader/64 px bytes, no workers", wall(0, images, 2048, 64, BYTES), per=2048, slow=True),
    Case("loader/64 px bytes, 2 workers", wall(2, images, 2048, 64, BYTES), 0.25, per=2048,
         slow=True),
    Case("loader/64 px, no workers", with_memcpy(0, 1024, 64), 0.85, per=1024, slow=True),
    Case("loader/224 px, no workers", with_memcpy(0, 128, 224), 0.85, per=128, slow=True),
    Case("loader/rows, no workers", wall(0, rows, 4096), 0.7, per=4096, slow=True),
    Case("loader/64 px, 2 workers", with_memcpy(2, 2048, 64), 0.1, per=2048, slow=True),
    Case("loader/224 px, 2 workers", with_memcpy(2, 256, 224), 0.17, per=256, slow=True),
    Case("loader/64 px tensors, 2 workers", wall(2, tensors, 2048, 64), 0.5, per=2048, slow=True),
    Case("loader/64 px torch, 2 workers", wall(2, torch_images, 2048, 64), 0.33, per=2048,
         slow=True),
    Case("loader/64 px torch with collate_fn, 2 workers",
         wall(2, torch_images_with_collate_fn, 2048, 64), per=2048, slow=True),
    Case("loader/64 px torch, no workers", wall(0, torch_images, 1024, 64), 0.9, per=1024,
         slow=True),
    Case("loader/224 px torch, no workers", wall(0, torch_images, 128, 224), 0.9, per=128,
         slow=True),
    Case("loader/torch TensorDataset, no workers", wall(0, torch_rows, 4096), 0.9, per=4096,
         slow=True),
    Case("loader/rows, 2 workers", wall(2, rows, 8192), 0.125, per=8192, slow=True),
    Case("loader/64 px, 2 workers, CPU", cpu(2, images, 2048, 64), 0.5, per=2048, slow=True),
    Case("loader/224 px, 2 workers, CPU", cpu(2, images, 256, 224), 0.5, per=256, slow=True),
    Case("loader/rows, 2 workers, CPU", cpu(2, rows, 8192), 0.5, per=8192, slow=True),
    Case("loader/first batch, fork", {**first_batches("fork"), FORKS: first_batch(BARE)}, 0.4,
         long=True),
    Case("loader/first batch, forkserver", first_batches("forkserver"), 0.4, long=True),
    Case("loader/first batch, spawn", first_batches("spawn"), 0.2, long=True),
    Case("loader/first batch of a program, fork", first_batches(PROGRAM), 0.4, long=True),
]  # fmt: skip
