"""Reading SharedList and SharedDict, against list and dict, and against pickles in one NumPy
buffer, the usual remedy for workers' growing memory.

The memory of workers: `python -m benchmarks.memory_growth`.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from typing import Any

from .harness.case import OURS, Build, Case

N, READS = 200_000, 2000
PLAIN = "builtins"


class Pickles:
    """Elements pickled into one buffer, with their end offsets."""

    def __init__(self, np: Any, elements: list[Any]) -> None:
        pickled = [pickle.dumps(x, pickle.HIGHEST_PROTOCOL) for x in elements]
        self.buffer = np.frombuffer(b"".join(pickled), np.uint8)
        self.ends = np.cumsum([len(x) for x in pickled])

    def __getitem__(self, i: int) -> Any:
        start = 0 if i == 0 else self.ends[i - 1].item()
        return pickle.loads(memoryview(self.buffer[start : self.ends[i].item()]))


def reading(data: Any, keys: list[Any]) -> Any:
    def run() -> None:
        for key in keys:
            data[key]

    return run


def name(i: int) -> str:
    return f"image-{i:06d}.png"


def lists(element: Callable[[int], Any]) -> dict[str, Build]:
    """Random reads of a list of such elements."""
    indices = random.Random(1).sample(range(N), READS)
    return {
        OURS: lambda st: reading(st.SharedList(map(element, range(N))), indices),
        PLAIN: lambda _: reading(list(map(element, range(N))), indices),
        "numpy": lambda np: reading(Pickles(np, list(map(element, range(N)))), indices),
    }


def tables() -> dict[str, Build]:
    """Random look-ups of strings."""
    pairs = lambda: ((name(i), i) for i in range(N))  # noqa: E731
    keys = [name(i) for i in random.Random(1).sample(range(N), READS)]
    return {
        OURS: lambda st: reading(st.SharedDict(pairs()), keys),
        PLAIN: lambda _: reading(dict(pairs()), keys),
    }


CASES = [
    Case("packed/list of str, read", lists(name), 3.0, against=PLAIN, per=READS),
    Case("packed/list of int, read", lists(lambda i: i + 1000), 3.0, against=PLAIN, per=READS),
    Case("packed/list of tuples, read", lists(lambda i: (name(i), i)), against="numpy", per=READS),
    Case("packed/dict of str, read", tables(), against=PLAIN, per=READS),
]  # fmt: skip
