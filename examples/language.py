"""The text that the language examples learn, Python's own help pages, and their loss."""

from __future__ import annotations

import re
from collections import Counter
from pydoc_data import topics

import numpy as np

import shmtensor as st
from shmtensor.nn import functional as F


def text() -> str:
    """All help topics one after the other, about 460 KB."""
    return "\n".join(topics.topics[name] for name in sorted(topics.topics))


def words(least: int = 3) -> tuple[np.ndarray, list[str]]:
    """The text as numbers of words, and the words; rarer ones than `least` are "<unk>"."""
    found = re.findall(r"[a-z]+|[0-9]+|[^\sa-z0-9]", text().lower())
    counts = Counter(found)
    known = ["<unk>", *sorted(word for word, n in counts.items() if n >= least)]
    number = {word: i for i, word in enumerate(known)}
    return np.array([number.get(word, 0) for word in found]), known


def windows(tokens: np.ndarray, length: int, count: int, rng: np.random.Generator) -> st.Tensor:
    """`count` pieces of `length` + 1 tokens from random places: (count, length + 1)."""
    starts = rng.integers(0, len(tokens) - length, count)
    return st.tensor(tokens[starts[:, None] + np.arange(length + 1)])


def next_token_loss(model, tokens: st.Tensor) -> st.Tensor:
    """Cross entropy of each of tokens (N, T + 1) after the first, given those before it."""
    return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
