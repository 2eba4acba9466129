"""A training step by the trainer beside a bare loop of this library in one process.

python -m benchmarks.trainer [--turns 5] [--quick] [--nprocs 2] [--only NAME] [--torch]

| way | what |
|---|---|
| loop | forward, backward, step in one process with all its threads: the unit of the ratios |
| trainer | `Trainer(nprocs=1)` |
| ranks | `Trainer(nprocs=2)`: each rank has its share of the threads |
| auto | `Trainer()`, after it has chosen; its processor time has what measuring took |
| ddp | with `--torch`: PyTorch's DistributedDataParallel over gloo, one thread a process |

Each way is a program of its own, one after the other, in turn; figures are medians over the turns.
The batch is the same in every step, and in shared memory. "CPU" is the processor time of all
processes of a way over that of the loop. "ranks / ddp" compares two processes with two processes.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from typing import Any

WAYS = ("loop", "trainer", "ranks", "auto")
STEPS = {"64-128-10": 3000, "784-512-256-10": 600, "CNN": 150, "transformer": 50}


def make(name: str, st: Any) -> tuple[Any, Any]:
    """A model, and inputs; st: the library, shmtensor or torch."""
    nn = st.nn
    st.manual_seed(0)
    if name[0].isdigit():
        widths = [int(width) for width in name.split("-")]
        layers: list[Any] = []
        for n, m in pairwise(widths):
            layers += [nn.Linear(n, m), nn.ReLU()]
        return nn.Sequential(*layers[:-1]), st.randn(64, widths[0])
    if name == "CNN":
        first = [nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        second = [nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
        return nn.Sequential(*first, *second, nn.Linear(32 * 7 * 7, 10)), st.randn(64, 1, 28, 28)
    layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    return nn.Sequential(encoder, nn.Flatten(), nn.Linear(64 * 128, 10)), st.randn(32, 64, 128)


def seconds_of_step(name: str, way: str, nprocs: int, steps: int) -> tuple[float, float]:
    """Seconds and processor seconds of a step."""
    if way == "ddp":
        return seconds_of_ddp(name, nprocs, steps)
    import shmtensor as st
    from shmtensor import nn, optim
    from shmtensor.trainer import Trainer

    model, x = make(name, st)
    y = st.randint(0, 10, (len(x),))
    optimizer, loss = optim.Adam(model.parameters(), lr=1e-4), nn.CrossEntropyLoss()
    if way == "loop":
        for i in range(steps + 10):
            if i == 10:
                began, cpu = time.perf_counter(), processor_seconds()
            optimizer.zero_grad()
            loss(model(x), y).backward()
            optimizer.step()
        return (time.perf_counter() - began) / steps, (processor_seconds() - cpu) / steps
    ranks: Any = {"ranks": nprocs, "trainer": 1, "auto": "auto"}[way]
    trainer = Trainer(model, optimizer, loss, nprocs=ranks, progress=False)
    epochs = 5 if way == "auto" else 2  # of a short run "auto" measures one process alone
    cpu = processor_seconds()
    history = trainer.fit([(x, y)] * steps, epochs)
    return history["seconds"][-1] / steps, (processor_seconds() - cpu) / steps / epochs


def seconds_of_ddp(name: str, nprocs: int, steps: int) -> tuple[float, float]:
    """The same of PyTorch's DistributedDataParallel: of the first process's loop, and of all."""
    with tempfile.TemporaryDirectory() as folder:
        meeting = f"file://{folder}/meeting"
        context = multiprocessing.get_context("fork")  # before PyTorch is imported
        others = [
            context.Process(target=train_ddp, args=(name, rank, nprocs, steps, meeting))
            for rank in range(1, nprocs)
        ]
        for process in others:
            process.start()
        seconds, cpu = train_ddp(name, 0, nprocs, steps, meeting)
        for process in others:
            process.join()
        return seconds, cpu * nprocs


def train_ddp(name: str, rank: int, nprocs: int, steps: int, meeting: str) -> tuple[float, float]:
    """Seconds and processor seconds of a step in this process."""
    import torch

    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=nprocs)
    model, x = make(name, torch)
    y = torch.randint(0, 10, (len(x),))
    x, y = x.chunk(nprocs)[rank].clone(), y.chunk(nprocs)[rank].clone()
    model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer, loss = torch.optim.Adam(model.parameters(), lr=1e-4), torch.nn.CrossEntropyLoss()
    for i in range(steps + 10):
        if i == 10:
            began, cpu = time.perf_counter(), processor_seconds()
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()
    result = (time.perf_counter() - began) / steps, (processor_seconds() - cpu) / steps
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    return result


def processor_seconds() -> float:
    """Of this process and its children that have ended."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one turn of fewer steps")
    parser.add_argument("--nprocs", type=int, default=2)
    parser.add_argument("--only", default="", help="one model")
    parser.add_argument("--torch", action="store_true", help="beside DistributedDataParallel")
    parser.add_argument("--way", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    ways = (*WAYS, "ddp") if options.torch else WAYS
    divisor = 10 if options.quick else 1
    if options.way:
        steps = STEPS[options.only] // divisor
        print(*seconds_of_step(options.only, options.way, options.nprocs, steps))
        return 0
    print(
        f"{'model':18}"
        + "".join(f"{way:>32}" for way in ways)
        + f"{'ranks / ddp':>32}" * options.torch
    )
    for name in [options.only] if options.only else STEPS:
        figures: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
        for turn in range(1 if options.quick else options.turns):
            for way in ways if turn % 2 else reversed(ways):
                command = [sys.executable, "-m", "benchmarks.trainer", "--only", name, "--way", way]
                command += ["--nprocs", str(options.nprocs), *["--quick"] * options.quick]
                text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                wall, cpu = map(float, text.split())
                figures[way].append((wall, cpu))
        medians = {
            way: [statistics.median(column) for column in zip(*figures[way], strict=True)]
            for way in ways
        }
        cells = []
        for way in ways:
            wall, cpu = medians[way]
            ratios = [a / b for a, b in zip(medians[way], medians["loop"], strict=True)]
            cells.append(f"{wall * 1e6:10.0f} us, {ratios[0]:5.2f}, CPU {ratios[1]:5.2f}")
        if options.torch:
            cells.append(f"{medians['ranks'][0] / medians['ddp'][0]:8.2f}")
        print(f"{name:18}" + "".join(f"{cell:>32}" for cell in cells), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
