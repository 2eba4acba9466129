"""How much memory forked workers take that read all of a data set:
`python -m benchmarks.memory_growth` (bare processes; `--loader`: the workers of a DataLoader, over
strings and numbers), and the cases of the latter with 5 million samples.

What is compared, as proportional set sizes (a page that n processes have counts 1/n for each),
after a full epoch of a loader whose 8 workers stay, over one process after such an epoch:

the data    what parent and workers hold together of it: beyond what the same processes hold after
            an epoch over samples that are made up; 1 is perfect
workers     all that the workers hold together, interpreters and libraries included
everything  the same with their parent
target      1.2 for the first two (a plain list goes to the number of workers and more)
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

__all__ = ["CASES", "main", "proportional", "together"]

TARGET = 1.2
WORKERS, SAMPLES = 8, 5_000_000
ONE = f"{OURS}, one process"


def proportional(pid: int | None = None) -> int:
    """The proportional set size of this process (or another) in bytes: shared pages count in
    part."""
    with open(f"/proc/{pid or os.getpid()}/smaps_rollup") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("Pss:")) * 1024


def read(data: Any, pipe: Any, go: Any) -> None:
    """A worker: reads every element, waits until all have, and says what it holds."""
    total = sum(len(x) for x in data)
    go.wait()
    pipe.send((total, proportional()))
    go.wait()


def together(data: Any, workers: int) -> int:
    """Bytes that this process and so many forked workers hold once all have read the data."""
    context = multiprocessing.get_context("fork")
    go = context.Barrier(workers + 1)
    pipes = [context.Pipe() for _ in range(workers)]
    processes = [context.Process(target=read, args=(data, pipe, go)) for _, pipe in pipes]
    for process in processes:
        process.start()
    total = sum(len(x) for x in data)
    go.wait()
    said = [pipe.recv() for pipe, _ in pipes]
    own = proportional()
    go.wait()
    for process in processes:
        process.join()
    for both in pipes:
        for pipe in both:
            pipe.close()
    if any(count != total for count, _ in said):
        raise RuntimeError(f"a worker has read something else: {said}, {total}")
    return own + sum(share for _, share in said)


def growth(make: Callable[[], Any], workers: int) -> tuple[int, int]:
    """Bytes that the data takes in one process, and in it with all workers."""
    bare_one, bare_all = together([], 0), together([], workers)
    data = make()
    one, everyone = together(data, 0), together(data, workers)
    del data
    return one - bare_one, everyone - bare_all


class Made:
    """Strings that are made when they are asked for."""

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


def by_loader(make: Callable[[], Pairs], workers: int) -> dict[str, int]:
    """Bytes after a full epoch of a DataLoader whose workers stay: see above."""
    from dataloaders import DataLoader

    def taken(dataset: Any, n: int) -> tuple[int, int]:
        options: Any = {"persistent_workers": True, "multiprocessing_context": "fork"}
        loader = DataLoader(dataset, 4096, num_workers=n, **(options if n else {}))
        for _ in loader:
            continue
        pids = [process.pid for process in loader._workers.processes] if loader._workers else []
        return proportional(), sum(proportional(pid) for pid in pids)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of plain lists, which are the comparison
        bare: Any = Pairs(Made(), range(200_000))
        bare_one, bare_all = sum(taken(bare, 0)), sum(taken(bare, workers))
        dataset: Any = make()
        one = sum(taken(dataset, 0))
        parent, others = taken(dataset, workers)
    data = {"one, data": one - bare_one, "all, data": parent + others - bare_all}
    return {**data, "one": one, "workers": others, "all": parent + others}


def names(n: int) -> Iterator[str]:
    return (f"image-{i:08d}.png" for i in range(n))


def numbered(kind: Any, n: int) -> Pairs:
    """Strings and numbers, held by lists of this kind."""
    return Pairs(kind(names(n)), kind(range(n)))


@lru_cache(maxsize=1)
def measured() -> dict[str, float]:
    """`by_loader` of the cases, in a process of its own: this one holds whatever cases left."""
    command = [sys.executable, "-m", __name__, "--json"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {name: float(nbytes) for name, nbytes in json.loads(text).items()}


def held(what: str) -> Callable[[Any], Callable[[], float]]:
    """A party: the same bytes each time, for they are measured once."""
    return lambda _: lambda: measured()[what]


def case(what: str, everyone: str, one: str) -> Case:
    name = f"loader/PSS of 8 workers, 5 M strings: {what}"
    return Case(name, {OURS: held(everyone), ONE: held(one)}, TARGET, ONE, long=True, unit="B")


CASES = [
    case("the data", "all, data", "one, data"),
    case("the workers", "workers", "one"),
]


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
        print(json.dumps(by_loader(lambda: numbered(st.SharedList, SAMPLES), WORKERS)))
        return 0
    missed = 0
    print(f"{n} strings of 18 characters, {workers} forked workers that read all of them")
    for what, kind in (("st.SharedList", st.SharedList), ("list", list)):
        if options.loader:
            taken = by_loader(lambda: numbered(kind, n), workers)  # noqa: B023
        else:
            one, everyone = growth(lambda: kind(names(n)), workers)  # noqa: B023
            taken = {"one, data": one, "all, data": everyone}
        parts = {"the data": ("one, data", "all, data")}
        if options.loader:
            parts |= {"the workers": ("one", "workers"), "everything": ("one", "all")}
        for part, (first, second) in parts.items():
            one, everyone = taken[first], taken[second]
            print(
                f"{what:14} {part:11} one process {one / 1e6:7.1f} MB, together "
                f"{everyone / 1e6:8.1f} MB, growth {everyone / one:.2f}"
            )
            missed += what != "list" and part != "everything" and everyone > TARGET * one
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
