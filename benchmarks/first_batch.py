"""The first batch of two workers, in a program that has loaded one library only.

A fork copies the page tables of its process, so each party is a separate program: `python -m
benchmarks.first_batch LIBRARY WHAT` does `WHAT` once for each line that it reads, and prints the
seconds.
"""

from __future__ import annotations

import gc
import importlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

BARE = "bare forks"
PROGRAM = "program"
BATCH = 32


class Images:
    """Four batches of synthetic images (3, 64, 64) with class numbers."""

    def __init__(self) -> None:
        self.image = np.ones((3, 64, 64), np.float32)

    def __len__(self) -> int:
        return 4 * BATCH

    def __getitem__(self, i: int) -> Any:
        return self.image, i % 10


def load(library: str, method: str) -> float:
    """Seconds until the first batch, with two workers."""
    data = importlib.import_module(library + ".utils.data")
    loader = data.DataLoader(Images(), BATCH, num_workers=2, multiprocessing_context=method)
    began = time.perf_counter()
    batches = iter(loader)
    next(batches)
    took = time.perf_counter() - began
    for _ in batches:
        pass
    del batches, loader
    gc.collect()
    return took


def fork() -> float:
    """Seconds until two calls of fork have returned and a child has written to a pipe."""
    reads, writes = os.pipe()
    children = []
    began = time.perf_counter()
    for _ in range(2):
        child = os.fork()
        if child == 0:
            os.write(writes, b"x")
            os._exit(0)
        children.append(child)
    os.read(reads, 1)
    took = time.perf_counter() - began
    for child in children:
        os.waitpid(child, 0)
    os.close(reads)
    os.close(writes)
    return took


def main(library: str, what: str) -> None:
    importlib.import_module(library)
    for _ in sys.stdin:
        print(fork() if what == BARE else load(library, what), flush=True)


def first_batch(what: str) -> Callable[[Any], Iterator[Any]]:
    """A start method, or BARE: in a running program. PROGRAM: including the start of a new program,
    which forks.
    """

    def build(library: Any) -> Iterator[Any]:
        name = library.__name__
        method = "fork" if what == PROGRAM else what
        command = [sys.executable, "-m", "benchmarks.first_batch", name, method]

        def run_program() -> None:
            subprocess.run(command, input="\n", stdout=subprocess.DEVNULL, check=True, text=True)

        if what == PROGRAM:
            yield run_program
            return
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as program:
            assert program.stdin
            assert program.stdout
            orders, answers = program.stdin, program.stdout

            def once() -> float:
                orders.write("\n")
                orders.flush()
                return float(answers.readline())

            yield once
            orders.close()

    return build


if __name__ == "__main__":
    main(*sys.argv[1:])
