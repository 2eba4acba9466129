"""Where randomness of the loaders comes from, and how a worker's generators are seeded."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from shmtensor.functions import randint
from shmtensor.random import manual_seed

__all__ = ["GeneratorLike", "draw_seed", "numpy_generator", "seed_everything"]

# A shmtensor generator, one of NumPy's, or None for shmtensor's default generator.
GeneratorLike = Any


def draw_seed(generator: GeneratorLike = None) -> int:
    """A fresh 63-bit seed, drawn from `generator` (shmtensor's default one if None)."""
    if isinstance(generator, np.random.Generator):
        return int(generator.integers(2**63 - 1))
    return int(randint(0, 2**63 - 1, (), generator=generator).item())


def numpy_generator(generator: GeneratorLike = None) -> np.random.Generator:
    """A NumPy generator seeded with one draw from `generator`, so that each epoch differs."""
    if isinstance(generator, np.random.Generator):
        return generator
    return np.random.Generator(np.random.PCG64(draw_seed(generator)))


def seed_everything(seed: int) -> None:
    """Seeds this process's Python, NumPy and shmtensor generators from one number.

    NumPy's takes 32-bit words, so it is given the seed as two; all three streams differ for every
    worker and epoch (PyTorch before 1.9 left NumPy's equal in all workers).
    """
    random.seed(seed)
    manual_seed(seed)
    np.random.seed([seed & 0xFFFFFFFF, seed >> 32])
