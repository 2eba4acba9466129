"""A small residual network of convolutions, by functions alone."""

from __future__ import annotations

from typing import Any

import shmtensor as st
from shmtensor import nn

F = nn.functional


class Convolution(nn.Module):
    def __init__(self, inputs: int, outputs: int, size: int, stride: int = 1) -> None:
        super().__init__()
        self.weight = nn.Parameter(st.randn(outputs, inputs, size, size) / 10)
        self.stride, self.padding = stride, size // 2

    def forward(self, x: Any) -> Any:
        return F.conv2d(x, self.weight, None, self.stride, self.padding)


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = Convolution(inputs, outputs, 3, stride)
        self.second = Convolution(outputs, outputs, 3)
        self.drop = nn.Dropout(0.5)
        self.shortcut = Convolution(inputs, outputs, 1, stride) if stride > 1 else None

    def forward(self, x: Any) -> Any:
        y = self.second(self.drop(F.relu(self.first(x))))
        return F.relu(y + (x if self.shortcut is None else self.shortcut(x)))


class ResNet(nn.Module):
    """For images of (N, 3, 8, 8)."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = Convolution(3, 8, 3)
        self.blocks = nn.ModuleList([Block(8, 8, 1), Block(8, 16, 2)])
        self.head = nn.Linear(16, 10)

    def forward(self, x: Any) -> Any:
        x = F.relu(self.stem(x))
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean((2, 3)))
