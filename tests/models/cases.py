"""Every example's model at a size that trains in seconds, and its data."""

from __future__ import annotations

import numpy as np

from .side_by_side import Batch, Case


def images(n: int, channels: int, size: int, classes: int) -> object:
    """Batches of n random images and labels."""

    def batch(rng: np.random.Generator) -> Batch:
        return rng.standard_normal((n, channels, size, size)), rng.integers(0, classes, n)

    return batch


CASES = [
    Case("digits_cnn", images(16, 1, 8, 10), {"channels": 4}),
]
