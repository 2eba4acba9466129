"""A small language model, trained on a generated file of tokens.

    text --> uint16 file --> TokenDataset (mapped) --> 2 workers --> windows --> model

The model reads the last two tokens: an embedding, a hidden layer, the next token's logits. The text
repeats a few sentences in random order, so most letters are determined by the previous two.

    python examples/tokens.py [--epochs 4] [--workers 2] [--quick]
"""

from __future__ import annotations

import argparse
import math
import tempfile
from pathlib import Path

import numpy as np
import training
from pictures import draw_curve

import shmtensor as st
from shmtensor import nn, optim
from shmtensor.dataloaders import DataLoader, datasets
from shmtensor.nn import functional as F

SENTENCES = [
    "the worker writes the batch into a block and sends a handle. ",
    "a dead worker is named within a second, and the memory comes back. ",
    "nothing is copied between processes, and nothing is left behind. ",
    "the same seed gives the same batches with any number of workers. ",
]


def write_tokens(path: Path, sentences: int, seed: int) -> list[str]:
    """Writes sentences in random order as letters' indices; returns the letters."""
    order = np.random.default_rng(seed).integers(len(SENTENCES), size=sentences)
    text = "".join(SENTENCES[i] for i in order)
    letters = sorted(set(text))
    index = {letter: i for i, letter in enumerate(letters)}
    np.array([index[letter] for letter in text], np.uint16).tofile(path)
    return letters


class Model(nn.Module):
    """Logits `(N, T, letters)` of the next token after each of `(N, T)`, from the last two."""

    def __init__(self, letters: int, width: int = 24, hidden: int = 96) -> None:
        super().__init__()
        self.embedding = nn.Embedding(letters, width)
        self.layers = nn.Sequential(
            nn.Linear(2 * width, hidden), nn.ReLU(), nn.Linear(hidden, letters)
        )

    def forward(self, tokens: st.Tensor) -> st.Tensor:
        embedded = self.embedding(tokens)
        previous = st.cat([embedded[:, :1], embedded[:, :-1]], dim=1)
        return self.layers(st.cat([previous, embedded], dim=2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2)
    training.add_device(parser)
    parser.add_argument("--sentences", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default="tokens.png", metavar="FILE", help="file of the picture")
    parser.add_argument("--quick", action="store_true", help="a short run: 2 epochs, 400 sentences")
    options = parser.parse_args()
    if options.quick:
        options.epochs, options.sentences = 2, 400
    st.manual_seed(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tokens.bin")
        letters = write_tokens(path, options.sentences, options.seed)
        data = datasets.TokenDataset(path, block_size=64, dtype=np.uint16)
        print(f"{data}, {len(letters)} letters")
        loader = DataLoader(
            data,
            batch_size=32,
            shuffle=True,
            drop_last=True,
            num_workers=options.workers,
            persistent_workers=options.workers > 0,
        )
        model = Model(len(letters)).to(options.device)
        optimizer = optim.Adam(model.parameters(), lr=3e-3)
        all_losses = []
        for epoch in range(options.epochs):
            losses = []
            for tokens, targets in loader:
                tokens, targets = tokens.to(options.device), targets.to(options.device)
                logits = model(tokens)
                loss = F.cross_entropy(logits.reshape(-1, len(letters)), targets.reshape(-1))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            all_losses += losses
            mean = sum(losses) / len(losses)
            print(f"epoch {epoch}: loss {mean:.3f}, perplexity {math.exp(mean):.2f}")
        print(f"guessing: perplexity {len(letters)}")
    draw_curve(options.out, all_losses, "Loss in training, nats per letter")
    print(f"the curve: {options.out}")


if __name__ == "__main__":
    main()
