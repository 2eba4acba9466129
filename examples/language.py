"""The training text of the language examples, Python's help pages, and their loss."""

from __future__ import annotations

import re
from collections import Counter
from pydoc_data import topics

import numpy as np

import shmtensor as st
from shmtensor.nn import functional as F


def text() -> str:
    """All help topics, about 460 KB."""
    return "\n".join(topics.topics[name] for name in sorted(topics.topics))


def words(least: int = 3) -> tuple[np.ndarray, list[str]]:
    """The text as word indices, and the vocabulary; words rarer than `least` are "<unk>"."""
    tokens = re.findall(r"[a-z]+|[0-9]+|[^\sa-z0-9]", text().lower())
    counts = Counter(tokens)
    vocabulary = ["<unk>", *sorted(word for word, n in counts.items() if n >= least)]
    index = {word: i for i, word in enumerate(vocabulary)}
    return np.array([index.get(word, 0) for word in tokens]), vocabulary


def windows(tokens: np.ndarray, length: int, count: int, rng: np.random.Generator) -> st.Tensor:
    """`count` windows of `length` + 1 tokens from random positions: (count, length + 1)."""
    starts = rng.integers(0, len(tokens) - length, count)
    return st.tensor(tokens[starts[:, None] + np.arange(length + 1)])


def next_token_loss(model, tokens: st.Tensor) -> st.Tensor:
    """Cross entropy of tokens (N, T + 1) after the first, each given the previous ones."""
    return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
