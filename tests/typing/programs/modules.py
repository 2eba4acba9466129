"""Modules: a call takes and returns what `forward` does; containers, state, hooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from typing_extensions import reveal_type

import shmtensor as st
from shmtensor import nn
from shmtensor.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence


class Attention(nn.Module):
    scale: st.Tensor

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.register_buffer("scale", st.tensor(dim**-0.5))
        self.bias = nn.Parameter(st.zeros(heads))
        self.blocks = nn.ModuleList([nn.Linear(dim, dim) for _ in range(2)])

    def forward(self, x: st.Tensor, mask: st.Tensor | None = None) -> tuple[st.Tensor, st.Tensor]:
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        weights = (q @ k.transpose(-2, -1) * self.scale).softmax(-1)
        if mask is not None:
            weights = weights.masked_fill(mask, 0.0)
        for block in self.blocks:
            v = block(v)
        return weights @ v, weights


class Block(nn.Module):
    def __init__(self, dim: int, activation: Callable[[st.Tensor], st.Tensor]) -> None:
        super().__init__()
        self.attention = Attention(dim, 4)
        self.activation = activation

    def forward(self, x: st.Tensor) -> st.Tensor:
        y, weights = self.attention(x)
        reveal_type(weights)  # -> Tensor
        return self.activation(x + y)


class Loose(nn.Module):
    def forward(self, *inputs: Any, **options: Any) -> Any:
        return inputs[0]


x = st.randn(2, 5, 8)
block = Block(8, nn.GELU())
reveal_type(block(x))  # -> Tensor
reveal_type(block.attention(x, mask=x > 0))  # -> tuple[Tensor, Tensor]
reveal_type(Loose()(x, anything=True))  # -> Any
reveal_type(nn.Linear(8, 2)(x))  # -> Tensor
reveal_type(nn.Embedding(10, 8)(x))  # -> Tensor
reveal_type(nn.Dropout(0.1)(nn.LayerNorm(8)(x)))  # -> Tensor
output, (hidden, cell) = nn.LSTM(8, 16, batch_first=True)(x)
reveal_type(output)  # -> Tensor
reveal_type(hidden)  # -> Tensor
reveal_type(nn.GRU(8, 16)(x, hidden))  # -> tuple[Tensor, Tensor]
reveal_type(nn.MultiheadAttention(8, 2)(x, x, x))  # -> tuple[Tensor, Tensor | None]
reveal_type(nn.TransformerEncoderLayer(8, 2)(x))  # -> Tensor
reveal_type(nn.Linear(8, 2).weight)  # -> Parameter
reveal_type(nn.Linear(8, 2).bias)  # -> Parameter | None
reveal_type(block.state_dict()["scale"])  # -> Any
reveal_type(block.train(False).half().to(st.float32))  # -> Block
for name, module in block.named_modules():
    reveal_type(module)  # -> Module
    reveal_type(name)  # -> str
reveal_type(sum(p.numel() for p in block.parameters() if p.requires_grad))  # -> int
packed: PackedSequence = pack_padded_sequence(x, [5, 3], batch_first=True)
reveal_type(pad_packed_sequence(packed)[0])  # -> Tensor
reveal_type(nn.RNN(8, 16)(packed))  # -> tuple[PackedSequence, Tensor]


def initialize(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        reveal_type(nn.init.xavier_uniform_(module.weight))  # -> Tensor
        if module.bias is not None:
            nn.init.zeros_(module.bias)


def show(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
    print(type(module).__name__, len(inputs), output)


block.apply(initialize)
block.register_forward_hook(show).remove()


def apply(function: Callable[[st.Tensor], st.Tensor], x: st.Tensor) -> st.Tensor:
    return function(x)


apply(block, x)
apply(nn.ReLU(), x)
st.viz.summary(block, x)
