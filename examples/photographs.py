"""Pieces of the two photographs that scikit-learn ships, for the examples with large images."""

from __future__ import annotations

import numpy as np

import shmtensor as st


def photographs() -> list[np.ndarray]:
    """A temple and a flower: (3, 427, 640) each, values from 0 to 1."""
    from sklearn.datasets import load_sample_images

    images = load_sample_images().images
    return [image.astype(np.float32).transpose(2, 0, 1) / 255 for image in images]


def crops(
    images: list[np.ndarray],
    size: int,
    count: int,
    rng: np.random.Generator,
    held_out: bool = False,
) -> st.Tensor:
    """Squares from random places: (count, 3, size, size).

    The right 40 % of each photograph is held out: no square of training reaches into it.
    """
    pieces = []
    for i in range(count):
        image = images[i % len(images)]
        edge = image.shape[2] * 6 // 10
        left, right = (edge, image.shape[2] - size) if held_out else (0, edge - size)
        y, x = rng.integers(0, image.shape[1] - size + 1), rng.integers(left, right + 1)
        piece = image[:, y : y + size, x : x + size]
        pieces.append(piece[:, :, ::-1] if rng.random() < 0.5 else piece)
    return st.tensor(np.stack(pieces))
