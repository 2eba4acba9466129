"""The peak memory of a process in five training steps: `python -m benchmarks.peak_memory` (`--only
REGEX`), and the cases.

Each measurement is a fresh process that loads one library, makes a network and its optimizer, and
does five steps from the same batch; this process samples its memory every few milliseconds. The
figure is `memory_of`: the proportional set size, with all committed pages of the shared heap,
touched or not. A page of a library's file that other processes map counts in part.

peak        the peak of the process, imports included
growth      the peak during the steps, minus the memory just before them
target      1.0 for both

The table has two more figures as checks. `highest` is the kernel's peak of resident memory during
the steps (VmHWM), minus the resident memory just before them: not sampled, but without committed
pages that were not touched. `heap` is from our heap's statistics after the steps: committed bytes,
and the free part, which is cached for the next tensors.
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

TARGET = 1.0
STEPS = 5
PAUSE = 0.002

# The names of `builds`, which only the measured process calls.
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
    """By name, a function that makes a network and returns its step."""
    from .models import MODELS, floats, integers, step
    from .training_step import mlp

    steps = {name: step(example, sizes, *batch) for name, example, sizes, batch in MODELS}
    sixteen = (floats(16, 3, 224, 224), integers(1000, 16))
    steps["ResNet-18, 16 x 224^2"] = step("resnet18", {}, *sixteen)
    steps["MLP 784-256-128-10"] = mlp
    return steps


def memory_of(pid: int) -> int:
    """Bytes of memory of a process: see above."""
    sizes = {"Pss:": 0, "Pss_Shmem:": 0}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        what, amount = line.split()[:2]
        if what in sizes:
            sizes[what] = int(amount) * 1024
    return sizes["Pss:"] - sizes["Pss_Shmem:"] + max(sizes["Pss_Shmem:"], committed(pid))


def committed(pid: int) -> int:
    """Bytes of a process's open memory files, mapped or not."""
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
    """Replaces `shmtensor.dataloaders`, which imports shmtensor; the steps do not use it."""

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)


def status_field(field: str) -> int:
    """A size in /proc/self/status, in bytes."""
    text = Path("/proc/self/status").read_text()
    return int(re.findall(rf"{field}:\s*(\d+)", text)[0]) * 1024


def run_steps(library: str, network: str) -> None:
    """The measured process: writes a line before and after the steps, and waits for an answer."""
    sys.modules["shmtensor.dataloaders"] = Absent("dataloaders")
    step = builds()[network](importlib.import_module(library))
    other_libraries = {OURS, "torch"} - {library}
    if other_libraries & set(sys.modules):
        raise RuntimeError(f"peak_memory: both libraries are loaded: {library}, {other_libraries}")
    print("ready", flush=True)
    sys.stdin.readline()
    before = status_field("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM
    for _ in range(STEPS):
        step()
    report = {"highest": status_field("VmHWM") - before}
    if library == OURS:
        statistics = sys.modules[OURS].memory.statistics()
        report |= {"heap": statistics.committed_bytes, "heap, free": statistics.cached_bytes}
    print(json.dumps(report), flush=True)
    sys.stdin.readline()


@lru_cache(maxsize=64)
def measure(library: str, network: str) -> dict[str, int]:
    """Bytes: "peak", "growth", "highest", and of our heap "heap" and "heap, free"."""
    command = [sys.executable, "-m", "benchmarks.peak_memory", "--run", library, "--only", network]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin
        assert process.stdout
        pid, orders, answers = process.pid, process.stdin, process.stdout

        def watch() -> tuple[int, int, str]:
            """The peak until the process answers, the memory at that time, and the answer."""
            peak = memory_of(pid)
            while not select.select([answers], [], [], PAUSE)[0]:
                peak = max(peak, memory_of(pid))
            answer = answers.readline()
            if not answer:
                raise RuntimeError(f"peak_memory: ended without an answer: {library}, {network}")
            now = memory_of(pid)
            orders.write("\n")
            orders.flush()
            return max(peak, now), now, answer

        at_first, before, _ = watch()
        in_steps, _, answer = watch()
    report: dict[str, int] = json.loads(answer)
    return {"peak": max(at_first, in_steps), "growth": in_steps - before, **report}


def bytes_of(network: str, what: str) -> Build:
    """A party that always returns the same bytes, which are measured once."""
    return lambda library: lambda: float(measure(library.__name__, network)[what])


def case(network: str, what: str) -> Case:
    parties = {OURS: bytes_of(network, what), PYTORCH: bytes_of(network, what)}
    is_short = network == QUICK
    name = f"memory/{what}, {network}"
    return Case(name, parties, TARGET, long=not is_short, wide=not is_short, unit="B")


CASES = [case(network, what) for network in NETWORKS for what in ("peak", "growth")]


def main(arguments: list[str] | None = None) -> int:
    """Prints the table; 1 if a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peak_memory", description=__doc__)
    parser.add_argument("--only", default="", metavar="REGEX", help="networks whose name matches")
    parser.add_argument("--run", metavar="LIBRARY", help="be the measured process")
    options = parser.parse_args(arguments)
    if options.run:
        run_steps(options.run, options.only)
        return 0
    misses = 0
    columns = ("peak", "growth", "highest")
    print(f"{'MB: ours / PyTorch':30}", *(f"{c:>24}" for c in columns), f"{'heap, free':>16}")
    for network in NETWORKS:
        if not re.search(options.only, network):
            continue
        ours, theirs = (measure(module_of(party), network) for party in (OURS, PYTORCH))
        ratios = [ours[c] / theirs[c] for c in columns]
        misses += any(ratio > TARGET for ratio in ratios[:2])
        cells = [
            f"{ours[c] / 1e6:7.1f} / {theirs[c] / 1e6:7.1f}{ratio:7.2f}"
            for c, ratio in zip(columns, ratios, strict=True)
        ]
        heap = f"{ours['heap'] / 1e6:8.1f},{ours['heap, free'] / 1e6:7.1f}"
        print(f"{network:30}", *cells, heap, flush=True)
    return int(misses > 0)


if __name__ == "__main__":
    sys.exit(main())
