"""A data-parallel training step on two ranks."""

from __future__ import annotations

import importlib
from typing import Any

from .case import Case, beside
from .ranks import rounds

__all__ = ["CASES", "step"]


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


def stepped(st: Any, width: int, batch: int) -> Any:
    return rounds(st, "benchmarks.parallel:step", width, batch)


CASES = [
    Case("data-parallel step/10 M, 2 ranks", beside(stepped, 1448, 32), 0.5, slow=True),
]
