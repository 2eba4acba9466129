"""A language model of words: LSTM, GRU or Transformer, for Python's help pages.

    python examples/word_language_model.py [--model lstm|gru|transformer] [--steps 1200] [--quick]

Predicts each word from the previous ones. The last tenth of the text is held out. Held-out
perplexity after the full run: LSTM 14.7, GRU 15.5, Transformer 15.4. Finally it samples some words.
"""

from __future__ import annotations

import math

import numpy as np
import training
from language import next_token_loss, windows, words
from pictures import draw_curve

import shmtensor as st
from shmtensor import nn, optim
from shmtensor.nn import functional as F

LENGTH = 32
KINDS = ["lstm", "gru", "transformer"]


class Recurrent(nn.Module):
    """Logits (N, T, words) of the word after each of (N, T)."""

    def __init__(self, kind: str, words: int, width: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        layer = nn.LSTM if kind == "lstm" else nn.GRU
        self.layers = layer(width, width, layers, batch_first=True, dropout=dropout)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(width, words)
        self.output.weight = self.embedding.weight  # tied, after Press and Wolf 2017

    def forward(self, tokens):
        out, _ = self.layers(self.dropout(self.embedding(tokens)))
        return self.output(self.dropout(out))


class CausalTransformer(nn.Module):
    """The same with a causal Transformer."""

    def __init__(self, words: int, width: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.position = nn.Embedding(256, width)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, layers)
        self.output = nn.Linear(width, words)

    def forward(self, tokens):
        length = tokens.shape[1]
        x = self.embedding(tokens) + self.position(st.arange(length, device=tokens.device))
        mask = nn.Transformer.generate_square_subsequent_mask(length, x.device, x.dtype)
        return self.output(self.layers(x, mask=mask, is_causal=True))


def make_model(
    kind: str = "lstm", words: int = 3000, width: int = 128, layers: int = 2, dropout: float = 0.3
) -> nn.Module:
    if kind == "transformer":
        return CausalTransformer(words, width, layers, dropout)
    return Recurrent(kind, words, width, layers, dropout)


def make_optimizer(model: nn.Module) -> optim.Optimizer:
    return optim.AdamW(model.parameters(), lr=2e-3)


def train_step(model, optimizer, tokens):
    """One update from tokens (N, T + 1). Returns the loss per word."""
    optimizer.zero_grad()
    loss = next_token_loss(model, tokens)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.detach()


def perplexity(model: nn.Module, tokens: np.ndarray, device: st.device) -> float:
    """The perplexity on windows that cover the tokens."""
    n = (len(tokens) - 1) // LENGTH
    indices = np.arange(n)[:, None] * LENGTH + np.arange(LENGTH + 1)
    model.eval()
    with st.no_grad():
        return math.exp(next_token_loss(model, st.tensor(tokens[indices], device=device)).item())


def main() -> None:
    options = training.options(__doc__, 1200, 30, "word_language_model.png", model=KINDS)
    st.manual_seed(0)
    (tokens, vocabulary), rng = words(), np.random.default_rng(0)
    train, held_out = np.split(tokens, [len(tokens) * 9 // 10])
    model = make_model(options.model, len(vocabulary), width=32 if options.quick else 128)
    model.to(options.device)
    optimizer = make_optimizer(model)
    scheduler = optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=options.steps)

    def step(_: int):
        loss = train_step(model, optimizer, windows(train, LENGTH, 32, rng).to(options.device))
        scheduler.step()
        return loss

    losses = training.run(options.steps, step)
    print(f"held-out perplexity  {perplexity(model, held_out, options.device):.1f}")
    sample = [int(train[0])]
    with st.no_grad():
        for _ in range(40):
            logits = model(st.tensor([sample[-LENGTH:]], device=options.device))[0, -1]
            sample.append(int(st.multinomial(F.softmax(logits / 0.7, 0), 1)))
    print("a sample            ", *(vocabulary[i] for i in sample))
    draw_curve(options.out, np.exp(losses), "Perplexity in training", "log")
    print(f"the curve            {options.out}")


if __name__ == "__main__":
    main()
