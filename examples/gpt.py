"""A small GPT on characters, with a cache of keys and values for generation.

    python examples/gpt.py [--steps 1500] [--quick]

Learns Python's help pages character by character (Radford et al. 2018, norms first). The full run
reaches a held-out loss of 1.17 nats per character. New characters use the cached keys and values.
"""

from __future__ import annotations

import numpy as np
import training
from language import next_token_loss, text, windows
from pictures import draw_curve

import shmtensor as st
from shmtensor import nn, optim
from shmtensor.nn import functional as F


class Block(nn.Module):
    """Attention and a hidden layer, each added to its input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        up, down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.hidden = nn.Sequential(up, nn.GELU(), down)

    def forward(self, x, cache: dict | None = None):
        """(N, T, width); with a cache, x holds only the new positions."""
        n, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).chunk(3, -1)
        q, k, v = (t.reshape(n, length, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        is_first = not cache
        if cache is not None:
            k, v = (t if is_first else st.cat([cache[c], t], 2) for c, t in (("k", k), ("v", v)))
            cache.update(k=k, v=v)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=is_first and length > 1)
        x = x + self.out(a.transpose(1, 2).reshape(n, length, width))
        return x + self.hidden(self.norm2(x))


class GPT(nn.Module):
    """Logits (N, T, characters) of the character after each of (N, T)."""

    def __init__(self, characters=128, width=128, heads=4, layers=4, context=128) -> None:
        super().__init__()
        self.context = context
        self.embedding = nn.Embedding(characters, width)
        self.position = nn.Parameter(0.02 * st.randn(context, width))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.output = nn.LayerNorm(width), nn.Linear(width, characters, bias=False)

    def forward(self, tokens, caches: list[dict] | None = None, start: int = 0):
        x = self.embedding(tokens) + self.position[start : start + tokens.shape[1]]
        for i, block in enumerate(self.blocks):
            x = block(x, None if caches is None else caches[i])
        return self.output(self.norm(x))

    @st.no_grad()
    def generate(self, tokens, temperature: float = 0.7):
        """Tokens (N, T), continued by sampling up to `context` tokens, with cached keys."""
        caches: list[dict] = [{} for _ in self.blocks]
        new, start = tokens, 0
        while tokens.shape[1] < self.context:
            logits, start = self(new, caches, start)[:, -1], tokens.shape[1]
            new = st.multinomial(F.softmax(logits / temperature, -1), 1)
            tokens = st.cat([tokens, new], 1)
        return tokens


make_model = GPT


def make_optimizer(model: nn.Module) -> optim.Optimizer:
    return optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1, betas=(0.9, 0.95))


def train_step(model, optimizer, tokens):
    """One update from tokens (N, T + 1). Returns the loss per character."""
    optimizer.zero_grad()
    loss = next_token_loss(model, tokens)
    loss.backward()
    optimizer.step()
    return loss.detach()


def main() -> None:
    options = training.options(__doc__, 1500, 30, "gpt.png")
    st.manual_seed(0)
    rng = np.random.default_rng(0)
    tokens = np.frombuffer(text().encode("ascii", "replace"), np.uint8).astype(np.int64)
    train, held_out = np.split(tokens, [len(tokens) * 9 // 10])
    sizes = {"width": 32, "layers": 2, "context": 64} if options.quick else {}
    model = make_model(**sizes).to(options.device)
    optimizer = make_optimizer(model)
    scheduler = optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=options.steps)

    def step(_: int):
        batch = windows(train, model.context, 32, rng).to(options.device)
        loss = train_step(model, optimizer, batch)
        scheduler.step()
        return loss

    losses = training.run(options.steps, step)
    batch = windows(held_out, model.context, 64, rng).to(options.device)
    with st.no_grad():
        loss = next_token_loss(model, batch)
    print(f"held-out loss        {loss.item():.3f} nats per character")
    sample = model.generate(st.tensor([list(b"The ")], device=options.device))[0]
    print(bytes(sample.tolist()).decode("ascii", "replace"))
    draw_curve(options.out, losses, "Loss in training, nats per character")
    print(f"the curve            {options.out}")


if __name__ == "__main__":
    main()
