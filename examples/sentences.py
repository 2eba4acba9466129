"""Pairs of sentences from a small grammar, and vectors of its words in a text file."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np

import shmtensor as st

KINDS = {"dog": "animal", "cat": "animal", "horse": "animal", "girl": "child", "boy": "child"}
OTHERS = {"runs": "sleeps", "eats": "sings", "jumps": "lies", "sleeps": "runs", "sings": "eats"}
SIZES, PLACES = ["small", "big", "old", "young"], ["park", "house", "street", "garden"]
WORDS = sorted(
    {"the", "in", "a", *KINDS, *KINDS.values(), *OTHERS, *OTHERS.values(), *SIZES, *PLACES}
)


def make_pair(rng: random.Random) -> tuple[list[str], list[str], int]:
    """Two sentences, and whether the second follows (0), contradicts (1), or neither (2)."""
    who, does = rng.choice(list(KINDS)), rng.choice(list(OTHERS))
    size, place = rng.choice(SIZES), rng.choice(PLACES)
    first = ["the", size, who, does, "in", "the", place]
    label = rng.randrange(3)
    subject = ["a", rng.choice([who, KINDS[who]])]
    if label == 0:
        second = [*subject, does, *rng.choice([[], ["in", "the", place]])]
    elif label == 1:
        second = [*subject, OTHERS[does], *rng.choice([[], ["in", "the", place]])]
    else:
        other = rng.choice([k for k in KINDS if k != who])
        second = ["a", rng.choice([s for s in SIZES if s != size]), other, does]
    return first, second, label


def write_embeddings(path: Path, width: int = 16) -> None:
    """A line per word, with its vector: singular vectors of the counts of neighbouring words."""
    rng, index = random.Random(1), {w: i for i, w in enumerate(WORDS)}
    counts = np.ones((len(WORDS), len(WORDS)))
    for _ in range(3000):
        for sentence in make_pair(rng)[:2]:
            for a, b in zip(sentence, sentence[1:], strict=False):  # noqa: RUF007
                counts[index[a], index[b]] += 1
    u, s, _ = np.linalg.svd(np.log(counts / counts.sum(0)))
    vectors = u[:, :width] * np.sqrt(s[:width])
    lines = (f"{w} {' '.join(f'{x:.5f}' for x in v)}" for w, v in zip(WORDS, vectors, strict=True))
    path.write_text("\n".join(lines))


def read_embeddings(path: Path) -> tuple[dict[str, int], st.Tensor]:
    """Words' indices, and their vectors (words, width)."""
    lines = [line.split() for line in path.read_text().splitlines()]
    vectors = np.array([line[1:] for line in lines], np.float32)
    return {line[0]: i for i, line in enumerate(lines)}, st.tensor(vectors)
