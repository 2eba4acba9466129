"""Data-parallel training steps on two ranks."""

from __future__ import annotations

import importlib
from itertools import pairwise
from typing import Any

from .harness.case import Case, compare
from .harness.ranks import rounds


def perceptron(st: Any, distributed: Any, widths: tuple[int, ...], batch: int) -> Any:
    """In a rank: a step of a multi-layer perceptron with cross entropy and SGD."""
    nn = st.nn
    parallel = importlib.import_module(f"{st.__name__}.nn.parallel")
    layers: list[Any] = []
    for n, m in pairwise(widths):
        layers += [nn.Linear(n, m), nn.ReLU()]
    model = parallel.DistributedDataParallel(nn.Sequential(*layers[:-1]))
    optimizer = st.optim.SGD(model.parameters(), lr=1e-3)
    loss = nn.CrossEntropyLoss()
    x, y = st.ones(batch, widths[0]), st.zeros(batch, dtype=st.int64)

    def run() -> None:
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()

    return run


def train_perceptron(st: Any, widths: tuple[int, ...], batch: int) -> Any:
    return rounds(st, "benchmarks.data_parallel:perceptron", widths, batch)


def step(st: Any, distributed: Any, width: int, batch: int) -> Any:
    """In a rank: forward, backward with averaged gradients, SGD; 5 layers of width x width."""
    nn = st.nn
    parallel = importlib.import_module(f"{st.__name__}.nn.parallel")
    layers: list[Any] = []
    for _ in range(5):
        layers += [nn.Linear(width, width), nn.ReLU()]
    model = parallel.DistributedDataParallel(nn.Sequential(*layers))
    optimizer = st.optim.SGD(model.parameters(), lr=1e-4)
    x = st.ones(batch, width)

    def run() -> None:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    return run


def train_layers(st: Any, width: int, batch: int) -> Any:
    return rounds(st, "benchmarks.data_parallel:step", width, batch)


CASES = [
    Case(
        "data-parallel step/64-128-10, 2 ranks", compare(train_perceptron, (64, 128, 10), 32), 0.2
    ),
    Case(
        "data-parallel step/784-512-256-10, 2 ranks",
        compare(train_perceptron, (784, 512, 256, 10), 64),
        0.45,
    ),
    Case("data-parallel step/10 M, 2 ranks", compare(train_layers, 1448, 32), 0.45, slow=True),
]
