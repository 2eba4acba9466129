"""Every example's model at a size that trains in seconds, and its data."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .side_by_side import Batch, Case

Rng = np.random.Generator


def images(n: int, channels: int, size: int, classes: int) -> Callable[[Rng], Batch]:
    """n images, and labels if there are classes."""

    def batch(rng: Rng) -> Batch:
        x = rng.random((n, channels, size, size))
        return (x, rng.integers(0, classes, n)) if classes else (x,)

    return batch


def tokens(n: int, length: int, words: int) -> Callable[[Rng], Batch]:
    return lambda rng: (rng.integers(0, words, (n, length + 1)),)


def pairs(rng: Rng) -> Batch:
    return rng.random((8, 1, 8, 8)), rng.random((8, 1, 8, 8)), (rng.random(8) < 0.5) * 1.0


def sentences(rng: Rng) -> Batch:
    both = [[rng.integers(0, 12, rng.integers(1, 6)) for _ in range(6)] for _ in range(2)]
    return *both, rng.integers(0, 3, 6)


def graph(rng: Rng) -> Batch:
    edges = np.concatenate([rng.integers(0, 20, (2, 40)), np.arange(20) * np.ones((2, 1), int)], 1)
    edges = np.unique(edges, axis=1)  # every node is its own neighbour
    return rng.random((20, 8)), edges, rng.integers(0, 10, 20), np.arange(0, 20, 3)


def episode(rng: Rng) -> Batch:
    return rng.standard_normal((12, 4)), rng.integers(0, 2, 12), 10 * rng.random(12)


def photographs(rng: Rng) -> Batch:
    return rng.random((1, 3, 16, 16)), rng.random((1, 3, 16, 16))


CASES = [
    Case("digits_cnn", images(16, 1, 8, 10), {"channels": 4}),
    Case("resnet18", images(8, 3, 64, 4), {"classes": 4, "width": 4}),
    *(
        Case(
            "word_language_model",
            tokens(4, 6, 30),
            {"kind": kind, "words": 30, "width": 8, "dropout": 0.0},
            f"word_language_model, {kind}",
        )
        for kind in ("lstm", "gru", "transformer")
    ),
    Case(
        "gpt",
        tokens(4, 8, 30),
        {"characters": 30, "width": 8, "heads": 2, "layers": 2, "context": 8},
    ),
    Case("vision_transformer", images(6, 1, 8, 10), {"width": 8, "layers": 2, "dropout": 0.0}),
    Case("vae", lambda rng: (rng.random((8, 64)),), {"width": 16}),
    Case("dcgan", images(8, 1, 16, 0), {"width": 4}),
    Case("super_resolution", images(2, 3, 18, 0), {"width": 6}),
    Case("style_transfer", photographs, {"size": 16, "width": 4}),
    Case("time_series", lambda rng: (rng.standard_normal((4, 9)),), {"width": 6}),
    Case("siamese", pairs, {"width": 4}),
    Case("sentence_pairs", sentences, {"words": 12, "width": 4, "hidden": 5}),
    *(
        Case(
            "graph_networks",
            graph,
            {"kind": kind, "n": 8, "width": 8, "dropout": 0.0},
            f"graph_networks, {kind}",
        )
        for kind in ("convolution", "attention")
    ),
    *(
        Case("cart_pole", episode, {"method": method, "width": 8}, f"cart_pole, {method}")
        for method in ("reinforce", "actor_critic")
    ),
]
