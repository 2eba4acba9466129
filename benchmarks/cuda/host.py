"""`python -m benchmarks.cuda.host [--standin]`: the host's time of small GPU operations, in us.

Five turns of each call without a wait for the GPU; the median, beside PyTorch's where it has CUDA.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import time
from collections.abc import Callable
from typing import Any

from .libraries import libraries, use_cuda

WARM, TURNS, CALLS = 20, 5, 300
Case = tuple[str, Callable[[Any, Any], Callable[[], Any]], int]


def case(name: str, text: str, calls: int = CALLS) -> Case:
    """A call by an expression of x (4 elements), m (64, 64), b (64), y (labels), image, filters,
    c (a number for each of their 16 channels); X, W and C are the last three with gradients.
    """

    def build(library: Any, nn: Any) -> Callable[[], Any]:
        values = {
            "lib": library,
            "F": nn.functional,
            "x": library.ones(4, device="cuda"),
            "m": library.ones(64, 64, device="cuda"),
            "b": library.ones(64, device="cuda"),
            "y": library.zeros(64, dtype=library.int64, device="cuda"),
            "image": library.ones(8, 16, 16, 16, device="cuda"),
            "filters": library.ones(16, 16, 3, 3, device="cuda"),
            "c": library.ones(16, device="cuda"),
            "half": library.ones(8, 16, 8, 8, device="cuda"),
        }
        for name, source in (("X", "image"), ("W", "filters"), ("C", "c")):
            values[name] = values[source].clone().requires_grad_()
        call: Callable[[], Any] = eval(f"lambda: {text}", values)
        return call

    return name, build, calls


def training(width: int, optimizer: str, part: str) -> Case:
    """A step, or a part of it, of Linear, ReLU, LayerNorm, Linear, cross entropy."""

    def build(library: Any, nn: Any) -> Callable[[], Any]:
        layers = nn.Linear(width, width), nn.ReLU(), nn.LayerNorm(width), nn.Linear(width, 10)
        model = nn.Sequential(*layers).to("cuda")
        x = library.randn(width, width, device="cuda")
        y = library.randint(10, (width,), device="cuda")
        chosen = getattr(library.optim, optimizer)(model.parameters(), lr=1e-3)

        def forward() -> Any:
            return nn.functional.cross_entropy(model(x), y)

        def step() -> None:
            chosen.zero_grad()
            forward().backward()
            chosen.step()

        step()
        return {"forward": forward, "step": step, "optimizer": chosen.step}[part]

    return f"{optimizer}, width {width}: {part}", build, 50


def convolutional(part: str) -> Case:
    """A step, or its forward, of two convolutions with batch norm, ReLU and pooling, and Linear."""

    def build(library: Any, nn: Any) -> Callable[[], Any]:
        layers: list[Any] = []
        for channels in (3, 16):
            layers += [nn.Conv2d(channels, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()]
            layers += [nn.MaxPool2d(2)]
        model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(16 * 16, 10)).to("cuda")
        x = library.randn(8, 3, 16, 16, device="cuda")
        y = library.randint(10, (8,), device="cuda")
        optimizer = library.optim.Adam(model.parameters(), lr=1e-3)

        def forward() -> Any:
            return nn.functional.cross_entropy(model(x), y)

        def step() -> None:
            optimizer.zero_grad()
            forward().backward()
            optimizer.step()

        step()
        return {"forward": forward, "step": step}[part]

    return f"convolutions, Adam: {part}", build, 50


CASES: list[Case] = [
    case("x + x", "x + x"),
    case("x.add_(0)", "x.add_(0)"),
    case("relu", "lib.relu(x)"),
    case("exp", "x.exp()"),
    case("sum", "x.sum()"),
    case("sum of rows", "m.sum(1)"),
    case("matmul", "m @ m"),
    case("linear", "F.linear(m, m, b)"),
    case("layer_norm", "F.layer_norm(m, (64,), b, b)"),
    case("softmax", "F.softmax(m, 1)"),
    case("dropout", "F.dropout(m, 0.5)"),
    case("cross_entropy", "F.cross_entropy(m, y)"),
    case("zeros", "lib.zeros(64, 64, device='cuda')"),
    case("randn", "lib.randn(64, 64, device='cuda')"),
    case("conv2d", "F.conv2d(image, filters, None, 1, 1)"),
    case("conv2d, bias, backward", "F.conv2d(X, W, C, 1, 1).backward(image)", 50),
    case("max_pool2d", "F.max_pool2d(image, 2)"),
    case("max_pool2d, backward", "F.max_pool2d(X, 2).backward(half)", 50),
    case("avg_pool2d", "F.avg_pool2d(image, 2)"),
    case("adaptive_avg_pool2d", "F.adaptive_avg_pool2d(image, 1)"),
    case("batch_norm, training", "F.batch_norm(image, b[:16], b[16:32], c, c, True)"),
    case("batch_norm, backward", "F.batch_norm(X, None, None, C, C, True).backward(image)", 50),
    case("flatten", "image.flatten(1)"),
    *(training(n, "Adam", part) for n in (64, 1024) for part in ("forward", "optimizer", "step")),
    training(64, "SGD", "step"),
    *(convolutional(part) for part in ("forward", "step")),
]


def time_of(call: Callable[[], Any], wait: Callable[[], Any], calls: int) -> float:
    """The median of the turns, in us a call; the wait between them is not counted."""
    for _ in range(min(WARM, calls)):
        call()
    wait()
    turns = []
    for _ in range(TURNS):
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        turns.append((time.perf_counter() - begin) / calls * 1e6)
        wait()
    return statistics.median(turns)


def main(arguments: list[str] | None = None) -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cuda.host")
    parser.add_argument("--standin", action="store_true", help="on the stand-in device")
    options = parser.parse_args(arguments)
    if not use_cuda(options.standin):
        return 0
    pairs = libraries().values()
    device = importlib.import_module("shmtensor.cuda").get_device_name(0)
    print(f"{device}; us of the host: shmtensor, PyTorch")
    for name, build, calls in CASES:
        times = [
            time_of(build(lib, nn), lib.cuda.synchronize, calls if not options.standin else 1)
            for lib, nn in pairs
        ]
        print(f"{name:<28}" + "".join(f"{t:10.2f}" for t in times), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
