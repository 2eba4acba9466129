"""The most memory that a process takes in five training steps: `python -m benchmarks.peak_memory`
(`--only REGEX`), and the cases.

Each measurement is a fresh process that loads one library, makes a network and its optimizer, and
does five steps from the same batch; this process reads its memory every few milliseconds. What
counts is `taken`: the proportional set size, where the heap's shared pages count as those which
the heap has committed, touched or not. A page of a library's file that other processes have mapped
counts in part.

peak        the most that was taken from the start of the process on, imports included
growth      the most that was taken during the steps, over what was taken just before them
target      1.0 for both

The table shows two more figures to check these by. `highest` is the kernel's own mark of the most
resident memory during the steps (VmHWM), less what was resident just before them: no sampling, but
without committed pages that nobody touched. `heap` is what our heap says of itself after the
steps: committed bytes, and how much of them is free and kept for the next tensors.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import select
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from types import ModuleType

from .harness.case import OURS, PYTORCH, Build, Case, module_of

__all__ = ["CASES", "main", "measured", "taken"]

TARGET = 1.0
STEPS = 5
PAUSE = 0.002

# The names of `builds`, which only the measured process fills.
NETWORKS = (
    "ResNet-18, 4 x 224^2",
    "ResNet-18, 16 x 224^2",
    "GPT, 16 x 128",
    "LSTM of words, 32 x 32",
    "Transformer of words, 32 x 32",
    "CNN, 64 digits",
    "vision transformer, 64 digits",
    "super-resolution, 8 x 96^2",
    "MLP 784-256-128-10",
)
QUICK = "MLP 784-256-128-10"


def builds() -> dict[str, Build]:
    """By name, what makes a network and returns its step."""
    from .models import MODELS, floats, integers, step
    from .training_step import mlp

    found = {name: step(example, sizes, *batch) for name, example, sizes, batch in MODELS}
    sixteen = (floats(16, 3, 224, 224), integers(1000, 16))
    found["ResNet-18, 16 x 224^2"] = step("resnet18", {}, *sixteen)
    found["MLP 784-256-128-10"] = mlp
    return found


def taken(pid: int) -> int:
    """Bytes that a process takes now: see above."""
    sizes = {"Pss:": 0, "Pss_Shmem:": 0}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        what, amount = line.split()[:2]
        if what in sizes:
            sizes[what] = int(amount) * 1024
    return sizes["Pss:"] - sizes["Pss_Shmem:"] + max(sizes["Pss_Shmem:"], committed(pid))


def committed(pid: int) -> int:
    """Bytes of memory files that a process has open, whether mapped or not."""
    files = {}
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target, status = os.readlink(link), link.stat()
        except FileNotFoundError:  # closed meanwhile
            continue
        if target.startswith(("/memfd:", "/dev/shm/")):
            files[status.st_dev, status.st_ino] = status.st_blocks * 512
    return sum(files.values())


class Absent(ModuleType):
    """In place of `dataloaders`, which imports shmtensor: the steps do not use it."""

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)


def own(field: str) -> int:
    """A size in /proc/self/status, in bytes."""
    text = Path("/proc/self/status").read_text()
    return int(re.findall(rf"{field}:\s*(\d+)", text)[0]) * 1024


def run_steps(library: str, network: str) -> None:
    """The measured process. It says when it begins the steps, and waits until that was read."""
    sys.modules["dataloaders"] = Absent("dataloaders")
    step = builds()[network](importlib.import_module(library))
    others = {OURS, "torch"} - {library}
    if others & set(sys.modules):
        raise RuntimeError(f"peak_memory: both libraries are loaded: {library}, {others}")
    print("ready", flush=True)
    sys.stdin.readline()
    before = own("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the mark begins anew
    for _ in range(STEPS):
        step()
    said = {"highest": own("VmHWM") - before}
    if library == OURS:
        statistics = sys.modules[OURS].memory.statistics()
        said |= {"heap": statistics.committed_bytes, "heap, free": statistics.cached_bytes}
    print(json.dumps(said), flush=True)
    sys.stdin.readline()


@lru_cache(maxsize=64)
def measured(library: str, network: str) -> dict[str, int]:
    """Bytes: "peak", "growth", "highest", and of our heap "heap" and "heap, free"."""
    command = [sys.executable, "-m", "benchmarks.peak_memory", "--run", library, "--only", network]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin
        assert process.stdout
        pid, orders, answers = process.pid, process.stdin, process.stdout

        def watch() -> tuple[int, int, str]:
            """The most that is taken until the process answers, what is taken then, the answer."""
            most = taken(pid)
            while not select.select([answers], [], [], PAUSE)[0]:
                most = max(most, taken(pid))
            answer = answers.readline()
            if not answer:
                raise RuntimeError(f"peak_memory: ended without an answer: {library}, {network}")
            now = taken(pid)
            orders.write("\n")
            orders.flush()
            return max(most, now), now, answer

        at_first, before, _ = watch()
        in_steps, _, answer = watch()
    said: dict[str, int] = json.loads(answer)
    return {"peak": max(at_first, in_steps), "growth": in_steps - before, **said}


def held(network: str, what: str) -> Build:
    """A party: the same bytes each time, for they are measured once."""
    return lambda library: lambda: float(measured(library.__name__, network)[what])


def case(network: str, what: str) -> Case:
    parties = {OURS: held(network, what), PYTORCH: held(network, what)}
    is_short = network == QUICK
    name = f"memory/{what}, {network}"
    return Case(name, parties, TARGET, long=not is_short, wide=not is_short, unit="B")


CASES = [case(network, what) for network in NETWORKS for what in ("peak", "growth")]


def main(arguments: list[str] | None = None) -> int:
    """Prints the table; 1 if a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peak_memory", description=__doc__)
    parser.add_argument("--only", default="", metavar="REGEX", help="networks whose name matches")
    parser.add_argument("--run", metavar="LIBRARY", help="be the process that is measured")
    options = parser.parse_args(arguments)
    if options.run:
        run_steps(options.run, options.only)
        return 0
    missed = 0
    columns = ("peak", "growth", "highest")
    print(f"{'MB: ours / PyTorch':30}", *(f"{c:>24}" for c in columns), f"{'heap, free':>16}")
    for network in NETWORKS:
        if not re.search(options.only, network):
            continue
        ours, theirs = (measured(module_of(party), network) for party in (OURS, PYTORCH))
        ratios = [ours[c] / theirs[c] for c in columns]
        missed += any(ratio > TARGET for ratio in ratios[:2])
        cells = [
            f"{ours[c] / 1e6:7.1f} / {theirs[c] / 1e6:7.1f}{ratio:7.2f}"
            for c, ratio in zip(columns, ratios, strict=True)
        ]
        heap = f"{ours['heap'] / 1e6:8.1f},{ours['heap, free'] / 1e6:7.1f}"
        print(f"{network:30}", *cells, heap, flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
