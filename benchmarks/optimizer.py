"""One optimizer step over parameters whose gradients are there."""

from __future__ import annotations

from typing import Any

from .case import Case, beside

__all__ = ["CASES"]

SMALL = [(16, 8), (16,), (4, 16), (4,)]
MLP = [(256, 784), (256,), (128, 256), (128,), (10, 128), (10,)]
LARGE = [(1024, 1024)] * 10


def step(st: Any, kind: str, shapes: list[tuple[int, ...]], **arguments: Any) -> Any:
    """`optimizer.step()` alone."""
    parameters = [st.nn.Parameter(st.ones(*shape)) for shape in shapes]
    optimizer = getattr(st.optim, kind)(parameters, lr=1e-4, **arguments)
    sum((p * p).sum() for p in parameters).backward()
    return optimizer.step


def adam(st: Any, shapes: list[tuple[int, ...]]) -> Any:
    return step(st, "Adam", shapes)


def momentum(st: Any, shapes: list[tuple[int, ...]]) -> Any:
    return step(st, "SGD", shapes, momentum=0.9)


CASES = [
    Case("optimizer/SGD, momentum, 4 tiny", beside(momentum, SMALL), 0.5),
    Case("optimizer/SGD, momentum, MLP", beside(momentum, MLP), 0.5),
    Case("optimizer/SGD, momentum, 10 M", beside(momentum, LARGE), 0.5, slow=True),
    Case("optimizer/Adam, 4 tiny", beside(adam, SMALL), 0.5),
    Case("optimizer/Adam, MLP", beside(adam, MLP), 0.5),
    Case("optimizer/Adam, 10 M", beside(adam, LARGE), 0.5, slow=True),
]
