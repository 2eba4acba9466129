"""Training steps: forward, loss, backward, update."""

from __future__ import annotations

from contextlib import nullcontext
from time import perf_counter
from typing import Any

from .harness.case import OURS, Case, compare

UNPROFILED = "shmtensor, without a profile"


def tiny(st: Any) -> Any:
    """8-16-4 with SGD, a batch of 8, mean squared error."""
    nn = st.nn
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    optimizer = st.optim.SGD(model.parameters(), lr=1e-3)
    loss = nn.MSELoss()
    x, y = st.ones(8, 8), st.ones(8, 4)

    def run() -> None:
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()

    return run


def mlp(st: Any) -> Any:
    """784-256-128-10 with Adam, a batch of 64, cross entropy."""
    nn = st.nn
    model = nn.Sequential(
        nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10)
    )
    optimizer = st.optim.Adam(model.parameters(), lr=1e-3)
    loss = nn.CrossEntropyLoss()
    x, y = st.randn(64, 784), st.zeros(64, dtype=st.int64)

    def run() -> None:
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()

    return run


def deep(st: Any) -> Any:
    """50 layers of 16 with SGD, a batch of 8."""
    nn = st.nn
    layers = [layer for _ in range(50) for layer in (nn.Linear(16, 16), nn.Tanh())]
    model = nn.Sequential(*layers)
    optimizer = st.optim.SGD(model.parameters(), lr=1e-3)
    loss = nn.MSELoss()
    x, y = st.ones(8, 16), st.ones(8, 16)

    def run() -> None:
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()

    return run


def calls(st: Any) -> Any:
    """`Module.__call__` alone: 50 layers that return their input."""
    model = st.nn.Sequential(*(st.nn.Identity() for _ in range(50)))
    x = st.ones(1)
    return lambda: model(x)


def inference(st: Any) -> Any:
    """784-256-128-10, a batch of 64, without graph."""
    nn = st.nn
    model = nn.Sequential(
        nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10)
    )
    x = st.randn(64, 784)

    def run() -> None:
        with st.no_grad():
            model(x)

    return run


def cnn(st: Any) -> Any:
    """Two convolutions with pooling, and a linear layer, with SGD; 32 images of 28 x 28."""
    nn = st.nn
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(800, 10),
    )  # fmt: skip
    optimizer = st.optim.SGD(model.parameters(), lr=1e-2)
    loss = nn.CrossEntropyLoss()
    x, y = st.randn(32, 1, 28, 28), st.zeros(32, dtype=st.int64)

    def run() -> None:
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()

    return run


def add(st: Any) -> Any:
    """`x + y` of 10 elements."""
    x, y = st.ones(10), st.ones(10)
    return lambda: x + y


def profiled(build: Any, n: int) -> dict[str, Any]:
    """Calls under a profile, against the same without one. Only the calls are timed, not the end of
    the profile."""

    def timed(library: Any, profile: Any) -> Any:
        call = build(library)

        def run() -> float:
            with profile():
                began = perf_counter()
                for _ in range(n):
                    call()
                return perf_counter() - began

        return run

    return {
        OURS: lambda st: timed(st, st.profiler.profile),
        UNPROFILED: lambda st: timed(st, nullcontext),
    }


CASES = [
    Case("training/tiny MLP, SGD", compare(tiny), 0.6),
    Case("training/50 layers of 16, SGD", compare(deep), 0.6),
    Case("training/Module.__call__, 50 of Identity", compare(calls), 0.5),
    Case("training/784-256-128-10, Adam", compare(mlp), 0.6),
    Case("training/784-256-128-10, forward only", compare(inference)),
    *(
        Case(f"profiler/{name}", profiled(build, n), target, UNPROFILED, per=n, slow=True)
        for name, build, n, target in (
            ("784-256-128-10, Adam", mlp, 100, 1.05),
            ("CNN, SGD", cnn, 30, 1.05),
            ("tiny MLP, SGD", tiny, 500, None),
            ("x + y of 10 elements", add, 20_000, None),
        )
    ),
]
