"""Training steps: forward, loss, backward, update."""

from __future__ import annotations

import functools
import itertools
from contextlib import nullcontext
from pathlib import Path
from time import perf_counter
from typing import Any

from .harness.case import OURS, PYTORCH, Case, compare

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


def dense(st: Any, *sizes: int) -> Any:
    nn = st.nn
    layers = [f for k, n in itertools.pairwise(sizes) for f in (nn.Linear(k, n), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def transformer(st: Any, size: int, heads: int) -> Any:
    """Two blocks of causal attention and a network of 4 times the size."""
    nn, F = st.nn, st.nn.functional

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm_1, self.norm_2 = nn.LayerNorm(size), nn.LayerNorm(size)
            self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
            self.up, self.down = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

        def forward(self, x: Any) -> Any:
            batch, length, _ = x.shape
            qkv = self.qkv(self.norm_1(x)).reshape(batch, length, 3, heads, size // heads)
            y = F.scaled_dot_product_attention(*qkv.permute(2, 0, 3, 1, 4), is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(batch, length, size))
            return x + self.down(F.gelu(self.up(self.norm_2(x))))

    return nn.Sequential(Block(), Block(), nn.Linear(size, 256), nn.Flatten(0, 1))


def in_precision(st: Any, network: Any, shape: tuple[int, ...], classes: int, lower: bool) -> Any:
    """A step of SGD with cross entropy, under autocast to bfloat16 or in float32."""
    model, x = network(st), st.randn(*shape)
    optimizer = st.optim.SGD(model.parameters(), lr=1e-3)
    loss = st.nn.CrossEntropyLoss()
    y = st.randint(0, classes, (model(x).shape[0],))

    def run() -> None:
        optimizer.zero_grad()
        with st.autocast("cpu", dtype=st.bfloat16, enabled=lower):
            value = loss(model(x), y)
        value.backward()
        optimizer.step()

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


NETWORKS: list[tuple[str, Any, tuple[int, ...], int]] = [
    ("784-512-256-10, batch 128", lambda st: dense(st, 784, 512, 256, 10), (128, 784), 10),
    ("1024-4096-1024, batch 256", lambda st: dense(st, 1024, 4096, 1024), (256, 1024), 1024),
    (
        "transformer of 2 blocks of 256, 8 x 128 tokens",
        lambda st: transformer(st, 256, 4),
        (8, 128, 256),
        256,
    ),
]


def autocast(network: Any, shape: tuple[int, ...], classes: int) -> dict[str, Any]:
    """Steps under autocast, and ours in float32, the rival."""

    def step(lower: bool) -> Any:
        return functools.partial(
            in_precision, network=network, shape=shape, classes=classes, lower=lower
        )

    return {OURS: step(True), f"{OURS}, float32": step(False), PYTORCH: step(True)}


# Autocast should not be slower than float32 where the CPU multiplies bfloat16.
TARGET = 1.0 if "avx512_bf16" in Path("/proc/cpuinfo").read_text() else None


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
    *[
        Case(
            f"training/autocast, {name}", autocast(*network), TARGET, f"{OURS}, float32", slow=True
        )
        for name, *network in NETWORKS
    ],
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
