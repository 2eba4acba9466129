"""Crops of the two photographs in scikit-learn, for the examples with large images."""

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
    columns: tuple[float, float] = (0.0, 1.0),
) -> st.Tensor:
    """Squares from random positions, half of them mirrored: (count, 3, size, size).

    Args:
        columns: the range of columns to crop from, as fractions of the width.
    """
    pieces = []
    for _ in range(count):
        image = images[rng.integers(len(images))]
        first, end = (round(image.shape[2] * edge) for edge in columns)
        y = rng.integers(0, image.shape[1] - size + 1)
        x = rng.integers(first, end - size + 1)
        piece = image[:, y : y + size, x : x + size]
        pieces.append(piece[:, :, ::-1] if rng.random() < 0.5 else piece)
    return st.tensor(np.stack(pieces))


def tiles(size: int = 96) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Square tiles of both photographs: three quarters of them, and the others."""
    squares = [
        image[:, y : y + size, x : x + size]
        for image in photographs()
        for y in range(0, image.shape[1] - size + 1, size)
        for x in range(0, image.shape[2] - size + 1, size)
    ]
    return [tile for i, tile in enumerate(squares) if i % 4], squares[::4]
