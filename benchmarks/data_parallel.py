"""Data-parallel training steps on two ranks.

`python -m benchmarks.data_parallel` measures the step with two threads in each rank beside the step
with one, in turn: what more threads than processors cost.
"""

from __future__ import annotations

import importlib
import statistics
import sys
from itertools import pairwise
from typing import Any

from .harness.case import Case, compare
from .harness.ranks import Ranks, rounds


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

# Widths, rows of a rank, and steps of a turn.
WITH_THREADS = [
    ((64, 128, 10), 32, 800),
    ((784, 512, 256, 10), 64, 200),
    ((784, 512, 256, 10), 512, 60),
    ((1024, 1024, 1024, 1024), 512, 20),
]


def perceptron_with_threads(
    st: Any, distributed: Any, n_threads: int, widths: tuple[int, ...], batch: int
) -> Any:
    """In a rank: the step of `perceptron`, with so many threads."""
    st.set_num_threads(n_threads)
    return perceptron(st, distributed, widths, batch)


def main() -> int:
    """Prints a line for each network: both times, and the median ratio of eleven turns."""
    groups = {n_threads: Ranks("shmtensor", 2) for n_threads in (1, 2)}
    for widths, batch, steps in WITH_THREADS:
        for n_threads, ranks in groups.items():
            arguments = (n_threads, widths, batch)
            ranks.order(("benchmarks.data_parallel:perceptron_with_threads", arguments))
            ranks.order(steps // 4)
        turns = [[groups[n].order(steps) for n in (1, 2)] for _ in range(11)]
        one, two = (statistics.median(times) * 1e6 for times in zip(*turns, strict=True))
        ratio = statistics.median(b / a for a, b in turns)
        name = "-".join(map(str, widths))
        print(f"{name}, {batch} rows: {one:.0f} us, two threads {two:.0f} us, {ratio:.2f}")
    for ranks in groups.values():
        ranks.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
