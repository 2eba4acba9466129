"""How much memory forked workers take that read all of a data set: `python -m benchmarks.growth`
(by hand: bare processes; `--loader`: the workers of a DataLoader, over strings and numbers).

growth    what the parent and all workers hold together of it (proportional set size, beyond what
          the same processes hold without data) over what one process holds; 1 is perfect
target    1.2 with 8 workers (a plain list goes to the number of workers and more)
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

__all__ = ["main", "proportional", "together"]

TARGET = 1.2


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


def by_loader(make: Callable[[], Pairs], workers: int) -> tuple[int, int]:
    """As `growth`, after a full epoch of a DataLoader whose workers stay."""
    from dataloaders import DataLoader

    def taken(dataset: Any, n: int) -> int:
        options: Any = {"persistent_workers": True, "multiprocessing_context": "fork"}
        loader = DataLoader(dataset, 4096, num_workers=n, **(options if n else {}))
        for _ in loader:
            continue
        pids = [process.pid for process in loader._crew.processes] if loader._crew else []
        return proportional() + sum(proportional(pid) for pid in pids)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of plain lists, which are the comparison
        bare: Any = Pairs(Made(), range(200_000))
        bare_one, bare_all = taken(bare, 0), taken(bare, workers)
        dataset: Any = make()
        one, everyone = taken(dataset, 0), taken(dataset, workers)
    return one - bare_one, everyone - bare_all


def main(arguments: list[str] | None = None) -> int:
    """Prints the table; 1 if the target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--strings", type=int, default=2_000_000)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--loader", action="store_true", help="the workers of a DataLoader")
    options = parser.parse_args(arguments)
    n, workers = options.strings, options.workers

    import shmtensor as st

    names = lambda: (f"image-{i:08d}.png" for i in range(n))  # noqa: E731
    missed = 0
    print(f"{n} strings of 18 characters, {workers} forked workers that read all of them")
    for what, kind in (("st.SharedList", st.SharedList), ("list", list)):
        if options.loader:
            one, everyone = by_loader(lambda: Pairs(kind(names()), kind(range(n))), workers)  # noqa: B023
        else:
            one, everyone = growth(lambda: kind(names()), workers)  # noqa: B023
        print(
            f"{what:14} one process {one / 1e6:7.1f} MB, together {everyone / 1e6:8.1f} MB, "
            f"growth {everyone / one:.2f}"
        )
        missed += what != "list" and everyone > TARGET * one
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
