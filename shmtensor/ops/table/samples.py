"""Samples: the inputs that the generated test gives a row.

A sample is a tuple: the inputs in the row's order, then attributes. A plain shape means real
numbers of that shape (complex ones where the test runs complex); the functions below make others.
"""

from __future__ import annotations

from typing import Any


class Sample:
    """Uniform numbers from [low, high) of a kind ("f", "i", "b") and a shape; optionally all
    different, or ascending, in the last dimension."""

    def __init__(
        self,
        shape: tuple[int, ...],
        kind: str = "f",
        low: float = -1.0,
        high: float = 1.0,
        unique: bool = False,
        ascending: bool = False,
    ) -> None:
        self.shape, self.kind, self.low, self.high = shape, kind, low, high
        self.unique, self.ascending = unique, ascending

    def __repr__(self) -> str:
        return (
            f"Sample({self.shape}, {self.kind!r}, {self.low}, {self.high}, {self.unique}, "
            f"{self.ascending})"
        )


def reals(shape: tuple[int, ...], low: float = -1.0, high: float = 1.0) -> Sample:
    """Real numbers from [low, high)."""
    return Sample(shape, "f", low, high)


def ascending(shape: tuple[int, ...]) -> Sample:
    """Real numbers from [-1, 1), in ascending order in the last dimension."""
    return Sample(shape, ascending=True)


def ints(shape: tuple[int, ...], high: int, low: int = 0, unique: bool = False) -> Sample:
    """Whole numbers (int64) from [low, high); unique: no number twice in the last dimension."""
    return Sample(shape, "i", low, high, unique)


def bools(shape: tuple[int, ...]) -> Sample:
    """True and False."""
    return Sample(shape, "b")


def unary(low: float, high: float) -> list[tuple[Any, ...]]:
    """The samples of a function of one tensor whose domain is [low, high)."""
    return [(reals((3, 4), low, high),), (reals((), low, high),), (reals((0, 3), low, high),)]


UNARY: list[tuple[Any, ...]] = [((3, 4),), ((),), ((0, 3),)]
PAIR: list[tuple[Any, ...]] = [
    ((3, 4), (3, 4)),
    ((3, 4), (4,)),
    ((2, 1, 4), (3, 1)),
    ((), (2,)),
    ((0, 4), (4,)),
]
TRIPLE: list[tuple[Any, ...]] = [((3, 4), (3, 4), (3, 4)), ((3, 4), (4,), (3, 1)), ((), (2,), ())]
