"""Training steps: forward, loss, backward, update."""

from __future__ import annotations

from typing import Any

from .harness.case import Case, compare


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


CASES = [
    Case("training/tiny MLP, SGD", compare(tiny), 0.6),
    Case("training/50 layers of 16, SGD", compare(deep), 0.6),
    Case("training/Module.__call__, 50 of Identity", compare(calls), 0.5),
    Case("training/784-256-128-10, Adam", compare(mlp), 0.6),
    Case("training/784-256-128-10, forward only", compare(inference)),
]
