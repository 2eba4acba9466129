"""Data sets from files: token windows, folders of JPEGs; for PyTorch as its users write them."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .harness.case import OURS, PYTORCH, Case

BLOCK, WINDOWS, BATCH = 256, 4096, 64
IMAGES, PIXELS, FEW = 128, 224, 16


def write_tokens(folder: str) -> Path:
    path = Path(folder, "tokens.bin")
    np.random.default_rng(0).integers(0, 50_000, BLOCK * WINDOWS + 1).astype(np.uint16).tofile(path)
    return path


def write_images(folder: str) -> Path:
    from PIL import Image

    random = np.random.default_rng(0)
    for n in range(IMAGES):
        path = Path(folder, str(n % 4), f"{n}.jpg")
        path.parent.mkdir(exist_ok=True)
        small = Image.fromarray(random.integers(0, 256, (12, 12, 3)).astype(np.uint8))
        small.resize((PIXELS, PIXELS), Image.Resampling.BICUBIC).save(path, quality=90)
    return Path(folder)


class Windows:
    """Token windows as a PyTorch user writes them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tokens = np.memmap(path, np.uint16, "r")

    def __len__(self) -> int:
        return WINDOWS

    def __getitem__(self, i: int) -> tuple[Any, Any]:
        import torch

        window = self.tokens[i * BLOCK : (i + 1) * BLOCK + 1].astype(np.int64)
        return torch.from_numpy(window[:-1]), torch.from_numpy(window[1:])


class Folder:
    """Images of a folder as a PyTorch user without torchvision writes them."""

    def __init__(self, folder: Path) -> None:
        self.paths = sorted(folder.rglob("*.jpg"))

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, i: int) -> tuple[Any, int]:
        import torch
        from PIL import Image

        with Image.open(self.paths[i]) as image:
            pixels = torch.from_numpy(np.array(image.convert("RGB")))
        return pixels.permute(2, 0, 1), int(self.paths[i].parent.name)


def epochs(loader: Any, batch: int) -> Iterator[Any]:
    """One epoch per call, from the first batch to the last, with persistent workers."""
    n = len(loader.dataset)

    def run() -> float:
        batches = iter(loader)
        next(batches)
        began = time.perf_counter()
        for _ in batches:
            pass
        return (time.perf_counter() - began) * n / (n - batch)

    yield run
    iterator = getattr(loader, "_iterator", None)
    if iterator is not None and hasattr(iterator, "_shutdown_workers"):
        iterator._shutdown_workers()


def options(batch: int, workers: int) -> dict[str, Any]:
    return {
        "batch_size": batch,
        "shuffle": True,
        "num_workers": workers,
        "persistent_workers": workers > 0,
    }


def both_libraries(write: Any, ours: Any, theirs: Any, batch: int, workers: int) -> dict[str, Any]:
    def shmtensor_loader(st: Any) -> Iterator[Any]:
        from shmtensor.dataloaders import DataLoader

        with tempfile.TemporaryDirectory() as folder:
            yield from epochs(DataLoader(ours(write(folder)), **options(batch, workers)), batch)

    def torch_loader(torch: Any) -> Iterator[Any]:
        from torch.utils.data import DataLoader

        with tempfile.TemporaryDirectory() as folder:
            yield from epochs(DataLoader(theirs(write(folder)), **options(batch, workers)), batch)

    return {OURS: shmtensor_loader, PYTORCH: torch_loader}


def tokens(path: Path) -> Any:
    from shmtensor.dataloaders.datasets import TokenDataset

    return TokenDataset(path, BLOCK, np.uint16)


def images(path: Path) -> Any:
    from shmtensor.dataloaders.datasets import ImageFolder

    return ImageFolder(path)


CASES = [
    Case(
        "loader/windows of 256 tokens, no workers",
        both_libraries(write_tokens, tokens, Windows, BATCH, 0), per=WINDOWS, slow=True,
    ),
    Case(
        "loader/windows of 256 tokens, 2 workers",
        both_libraries(write_tokens, tokens, Windows, BATCH, 2), per=WINDOWS, slow=True,
    ),
    Case(
        "loader/folder of 224 px JPEGs, no workers",
        both_libraries(write_images, images, Folder, FEW, 0), per=IMAGES, slow=True, long=True,
    ),
    Case(
        "loader/folder of 224 px JPEGs, 2 workers",
        both_libraries(write_images, images, Folder, FEW, 2), per=IMAGES, slow=True, long=True,
    ),
]  # fmt: skip
