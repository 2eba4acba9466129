"""The memory of forked workers that read a full data set: `python -m benchmarks.memory_growth`
(bare processes; `--loader`: the workers of a DataLoader, over strings and numbers), and the cases
of the latter with 5 million samples.

The figures are ratios of proportional set sizes (a page that n processes share counts 1/n for
each): after a full epoch of a loader with 8 persistent workers, over one process after such an
epoch:

the data    memory of the data in parent and workers: the difference to the same processes after an
            epoch over generated samples; 1 is perfect
workers     all memory of the workers, including interpreters and libraries
everything  the same with their parent
target      1.2 for the first two (a plain list reaches the number of workers and more)
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from .harness.case import OURS, Case

TARGET = 1.2
WORKERS, SAMPLES = 8, 5_000_000
ONE = f"{OURS}, one process"


def pss(pid: int | None = None) -> int:
    """The proportional set size of this process (or another) in bytes."""
    with open(f"/proc/{pid or os.getpid()}/smaps_rollup") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("Pss:")) * 1024


def read(data: Any, pipe: Any, go: Any) -> None:
    """A worker: reads every element, waits until all have, and sends its memory size."""
    total = sum(len(x) for x in data)
    go.wait()
    pipe.send((total, pss()))
    go.wait()


def total_pss(data: Any, workers: int) -> int:
    """Bytes of this process and its forked workers after all have read the data."""
    context = multiprocessing.get_context("fork")
    go = context.Barrier(workers + 1)
    pipes = [context.Pipe() for _ in range(workers)]
    processes = [context.Process(target=read, args=(data, pipe, go)) for _, pipe in pipes]
    for process in processes:
        process.start()
    total = sum(len(x) for x in data)
    go.wait()
    replies = [pipe.recv() for pipe, _ in pipes]
    parent_pss = pss()
    go.wait()
    for process in processes:
        process.join()
    for both in pipes:
        for pipe in both:
            pipe.close()
    if any(count != total for count, _ in replies):
        raise RuntimeError(f"a worker has read something else: {replies}, {total}")
    return parent_pss + sum(share for _, share in replies)


def growth(make: Callable[[], Any], workers: int) -> tuple[int, int]:
    """Bytes of the data in one process, and in it with all workers."""
    bare_one, bare_all = total_pss([], 0), total_pss([], workers)
    data = make()
    one, everyone = total_pss(data, 0), total_pss(data, workers)
    del data
    return one - bare_one, everyone - bare_all


class GeneratedNames:
    """Strings generated on access."""

    def __getitem__(self, i: int) -> str:
        return f"image-{i:08d}.png"


class Pairs:
    """A string and a number per sample."""

    def __init__(self, names: Any, numbers: Any) -> None:
        self.names, self.numbers = names, numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, i: int) -> Any:
        return len(self.names[i]), self.numbers[i]


def loader_pss(make: Callable[[], Pairs], workers: int) -> dict[str, int]:
    """Bytes after a full epoch of a DataLoader with persistent workers: see above."""
    from shmtensor.dataloaders import DataLoader

    def pss_after_epoch(dataset: Any, n: int) -> tuple[int, int]:
        options: Any = {"persistent_workers": True, "multiprocessing_context": "fork"}
        loader = DataLoader(dataset, 4096, num_workers=n, **(options if n else {}))
        for _ in loader:
            continue
        pids = [process.pid for process in loader._workers.processes] if loader._workers else []
        return pss(), sum(pss(pid) for pid in pids)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of plain lists, which are the comparison
        bare: Any = Pairs(GeneratedNames(), range(200_000))
        bare_one, bare_all = sum(pss_after_epoch(bare, 0)), sum(pss_after_epoch(bare, workers))
        dataset: Any = make()
        one = sum(pss_after_epoch(dataset, 0))
        parent, workers_pss = pss_after_epoch(dataset, workers)
    data = {"one, data": one - bare_one, "all, data": parent + workers_pss - bare_all}
    return {**data, "one": one, "workers": workers_pss, "all": parent + workers_pss}


def names(n: int) -> Iterator[str]:
    return (f"image-{i:08d}.png" for i in range(n))


def make_pairs(kind: Any, n: int) -> Pairs:
    """Strings and numbers in lists of this kind."""
    return Pairs(kind(names(n)), kind(range(n)))


@lru_cache(maxsize=1)
def measure() -> dict[str, float]:
    """`loader_pss` of the cases, in a fresh process without the memory of earlier cases."""
    command = [sys.executable, "-m", __name__, "--json"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {name: float(nbytes) for name, nbytes in json.loads(text).items()}


def pss_of(what: str) -> Callable[[Any], Callable[[], float]]:
    """A party that always returns the same bytes, which are measured once."""
    return lambda _: lambda: measure()[what]


def case(what: str, everyone: str, one: str) -> Case:
    name = f"loader/PSS of 8 workers, 5 M strings: {what}"
    return Case(name, {OURS: pss_of(everyone), ONE: pss_of(one)}, TARGET, ONE, long=True, unit="B")


CASES = [case("the data", "all, data", "one, data"), case("the workers", "workers", "one")]


def main(arguments: list[str] | None = None) -> int:
    """Prints the table; 1 if the target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory_growth", description=__doc__)
    parser.add_argument("--strings", type=int, default=2_000_000)
    parser.add_argument("--workers", type=int, default=WORKERS)
    parser.add_argument("--loader", action="store_true", help="the workers of a DataLoader")
    parser.add_argument("--json", action="store_true", help="the bytes of the cases, and no table")
    options = parser.parse_args(arguments)
    n, workers = options.strings, options.workers

    import shmtensor as st

    if options.json:
        print(json.dumps(loader_pss(lambda: make_pairs(st.SharedList, SAMPLES), WORKERS)))
        return 0
    misses = 0
    print(f"{n} strings of 18 characters, {workers} forked workers that read all of them")
    for what, kind in (("st.SharedList", st.SharedList), ("list", list)):
        if options.loader:
            sizes = loader_pss(lambda: make_pairs(kind, n), workers)  # noqa: B023
        else:
            one, everyone = growth(lambda: kind(names(n)), workers)  # noqa: B023
            sizes = {"one, data": one, "all, data": everyone}
        parts = {"the data": ("one, data", "all, data")}
        if options.loader:
            parts |= {"the workers": ("one", "workers"), "everything": ("one", "all")}
        for part, (first, second) in parts.items():
            one, everyone = sizes[first], sizes[second]
            print(
                f"{what:14} {part:11} one process {one / 1e6:7.1f} MB, all "
                f"{everyone / 1e6:8.1f} MB, growth {everyone / one:.2f}"
            )
            misses += what != "list" and part != "everything" and everyone > TARGET * one
    return int(misses > 0)


if __name__ == "__main__":
    sys.exit(main())
