"""Classifies whether one sentence follows from another, contradicts it, or neither.

    python examples/sentence_pairs.py [--steps 600] [--embeddings FILE] [--quick]

One LSTM encodes both sentences (Bowman et al. 2015); a classifier receives both vectors, their
difference and product. A grammar generates the sentences. Word vectors come from a file in GloVe's
text format; without one, a file is generated. The full run classifies all of a thousand new pairs
correctly.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import training
from pictures import draw_curve
from sentences import make_pair, read_embeddings, write_embeddings

import shmtensor as st
from shmtensor import nn, optim
from shmtensor.nn import functional as F
from shmtensor.nn.utils.rnn import pack_sequence


class PairClassifier(nn.Module):
    """Logits (N, 3) of two lists of N sentences, each a vector of word indices."""

    def __init__(self, words: int = 32, width: int = 16, hidden: int = 48, vectors=None) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        if vectors is not None:
            self.embedding = nn.Embedding.from_pretrained(vectors, freeze=False)
        self.lstm = nn.LSTM(width, hidden, bidirectional=True)
        self.classifier = nn.Sequential(
            nn.Linear(8 * hidden, 2 * hidden), nn.ReLU(), nn.Linear(2 * hidden, 3)
        )

    def encode(self, sentences):
        sequence = pack_sequence(sentences, enforce_sorted=False)
        _, (last, _) = self.lstm(sequence._replace(data=self.embedding(sequence.data)))
        return st.cat([last[0], last[1]], 1)

    def forward(self, first, second):
        u, v = self.encode(first), self.encode(second)
        return self.classifier(st.cat([u, v, (u - v).abs(), u * v], 1))


make_model = PairClassifier


def make_optimizer(model: nn.Module) -> optim.Optimizer:
    return optim.Adam(model.parameters(), lr=2e-3)


def train_step(model, optimizer, first, second, labels):
    """One update from lists of sentences and labels (N,). Returns the loss."""
    optimizer.zero_grad()
    loss = F.cross_entropy(model(first, second), labels)
    loss.backward()
    optimizer.step()
    return loss.detach()


def main() -> None:
    options = training.options(__doc__, 600, 10, "sentence_pairs.png", embeddings=None)
    st.manual_seed(0)
    rng = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(options.embeddings or Path(folder) / "vectors.txt")
        if not options.embeddings:
            write_embeddings(path)
        index, vectors = read_embeddings(path)

    def batch(count: int) -> tuple:
        pairs = [make_pair(rng) for _ in range(count)]
        words = ([[index[w] for w in p[i]] for p in pairs] for i in (0, 1))
        first, second = ([st.tensor(x, device=options.device) for x in s] for s in words)
        return first, second, st.tensor([p[2] for p in pairs], device=options.device)

    model = make_model(vectors=vectors).to(options.device)
    optimizer = make_optimizer(model)
    losses = training.run(options.steps, lambda _: train_step(model, optimizer, *batch(32)))
    with st.no_grad():
        first, second, labels = batch(1000)
        accuracy = (model(first, second).argmax(1) == labels).float().mean().item()
    print(f"accuracy            {100 * accuracy:.1f} %")
    draw_curve(options.out, losses, "Loss in training", "log")
    print(f"the curve           {options.out}")


if __name__ == "__main__":
    main()
