"""Programs that load data with `torch.utils.data.DataLoader`, and the same with ours: samples are
made by NumPy in `__getitem__`, as users write it.

    images     float32 (3, pixels, pixels): an image of a uint8 array, times 1 / 255
    tensors    the same as tensors of PyTorch
    rows       dicts of 32 floats and a number
    training   a small convolutional network in PyTorch, with one thread beside the two workers; its
               step takes about as long as loading a batch with PyTorch's loader

Batches have 64 samples; workers are forked and persistent.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

from .harness.case import OURS, PYTORCH, Case

BATCH = 64
KEPT = 128  # images in memory


class Images:
    """Images (3, pixels, pixels) as float32, with class numbers."""

    def __init__(self, n: int, pixels: int) -> None:
        random = np.random.default_rng(0)
        self.n = n
        self.images = random.integers(0, 256, (KEPT, 3, pixels, pixels), np.uint8)

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> Any:
        return np.multiply(self.images[i % KEPT], np.float32(1 / 255), dtype=np.float32), i % 10


class TorchImages(Images):
    """Images that are tensors of PyTorch."""

    def __getitem__(self, i: int) -> Any:
        import torch

        image, label = super().__getitem__(i)
        return torch.from_numpy(image), label


class Rows:
    """Rows of 32 floats with a number, as dicts."""

    def __init__(self, n: int) -> None:
        self.rows = np.random.default_rng(0).random((n, 32), np.float32)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: int) -> Any:
        return {"x": self.rows[i], "y": i}


def nothing(_: Any) -> None:
    """What the program does with a batch, if only loading is measured."""


def new_step() -> Callable[[Any], None]:
    """A training step of a small network in PyTorch."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(3, 16, 4, stride=4), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(),
        nn.Flatten(), nn.Linear(32 * 7 * 7, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(network.parameters(), 0.01, momentum=0.9)

    def step(batch: Any) -> None:
        images, labels = map(torch.from_dlpack, batch)
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(images), labels).backward()
        optimizer.step()

    return step


@contextmanager
def one_thread() -> Iterator[None]:
    """PyTorch computes with one thread: two, beside two workers on two cores, would wait for a core
    in each operation, and the case would measure that.
    """
    import torch

    n = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(n)


def epochs(loader: Any, n: int, step: Callable[[Any], None]) -> Iterator[Any]:
    """One epoch per call, from the first batch to the last."""

    def run() -> float:
        batches = iter(loader)
        next(batches)
        with nullcontext() if step is nothing else one_thread():
            began = time.perf_counter()
            for batch in batches:
                step(batch)
            return (time.perf_counter() - began) * n / (n - BATCH)

    yield run
    iterator = getattr(loader, "_iterator", None)
    if iterator is not None and hasattr(iterator, "_shutdown_workers"):
        iterator._shutdown_workers()


def both_loaders(
    workers: int, make: Callable[[], Any], new_step: Callable[[], Callable[[Any], None]] | None
) -> dict[str, Any]:
    def program(loader_class: Any) -> Iterator[Any]:
        dataset = make()
        options: dict[str, Any] = {"persistent_workers": True, "multiprocessing_context": "fork"}
        loader = loader_class(
            dataset, batch_size=BATCH, num_workers=workers, **(options if workers else {})
        )
        return epochs(loader, len(dataset), nothing if new_step is None else new_step())

    def ours(_: Any) -> Iterator[Any]:
        from shmtensor.utils.data import DataLoader

        yield from program(DataLoader)

    def theirs(_: Any) -> Iterator[Any]:
        from torch.utils.data import DataLoader

        yield from program(DataLoader)

    return {OURS: ours, PYTORCH: theirs}


def case(
    what: str, workers: int, target: float, n: int, make: Callable[[], Any], step: Any = None
) -> Case:
    name = f"program/{what}, {workers or 'no'} workers"
    return Case(name, both_loaders(workers, make, step), target, per=n, slow=True)


CASES = [
    case("images of 64 px", 2, 0.1, 4096, lambda: Images(4096, 64)),
    case("images of 224 px", 2, 0.167, 512, lambda: Images(512, 224)),
    case("tensors of 64 px", 2, 0.333, 4096, lambda: TorchImages(4096, 64)),
    case("rows as dicts", 2, 0.125, 16384, lambda: Rows(16384)),
    case("images of 64 px", 0, 0.9, 2048, lambda: Images(2048, 64)),
    case("images of 224 px", 0, 0.9, 256, lambda: Images(256, 224)),
    case("tensors of 64 px", 0, 0.9, 2048, lambda: TorchImages(2048, 64)),
    case("rows as dicts", 0, 0.9, 8192, lambda: Rows(8192)),
    case("training on 64 px", 2, 0.77, 4096, lambda: Images(4096, 64), new_step),
]
