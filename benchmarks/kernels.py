"""`python -m benchmarks.kernels [--quick] [--only REGEX]`: each native kernel of the op table, its
NumPy form and PyTorch.

A row with a CPU kernel (`row.numpy`) has a forward as well, which is what would run without it; so
they are found in the table. A row stands in the list once, with the trial where its kernel gains
most. A kernel stays if it takes at most half of the form's time there, or if the form would take
more than PyTorch. A ufunc on the pool has one thread here, as NumPy's: the ratio is that of the
loops.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from shmtensor import get_num_threads, native, set_num_threads
from shmtensor.ops import ROWS, Row, load

from . import trials
from .harness.machine import describe, header
from .harness.report import shown
from .trials import Trial, trials_of

__all__ = ["main"]

# Why a kernel stays that is not twice as fast, where it is not for PyTorch's time.
REASONS = {
    "cast": "16-bit floats, bool of complex; reductions and copies use it",
    "overwrite": "transposed copies, and fills, in a fraction of the time",
    "copy": "transposed copies, and fills, in a fraction of the time",
    "dot": "a call of matmul, which small vectors need",
    **dict.fromkeys(("flip", "roll", "clone", "all", "any"), "small tensors: PyTorch's time"),
    "written": "a view or an assignment without a frame of Python",
}
SMALLER = (200, 200)  # matrices of the short run
FORMLESS = (
    "optimizers, recurrent layers, collectives (reduce_into, stack_into), random numbers (integers,"
    " permutation), gradients of norms (normed_slope, batch_normed_slope), packed, combinations"
)


def kernel_of(row: Row, arguments: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """The CPU kernel, and what it gets."""
    if not isinstance(row.numpy, tuple):
        return row.numpy, arguments
    names = dict(zip([*(i.name for i in row.inputs), *(a.name for a in row.attributes)], arguments))
    return row.numpy[0], tuple(names[word.strip()] for word in row.numpy[1].split(","))


# Kernels that forwards ask themselves, and do without where the answer is None.
ASKED = ("add_at", "add_slices", "rows_at", "scatter_into", "take")


@contextmanager
def without(names: tuple[str, ...]) -> Iterator[None]:
    """In it these kernels know no case."""
    kept = {name: getattr(native, name) for name in names}
    for name in names:
        setattr(native, name, lambda *given: None)
    try:
        yield
    finally:
        for name, kernel in kept.items():
            setattr(native, name, kernel)


def calls(row: Row, trial: Trial) -> list[Callable[[], Any]]:
    """The kernel, the NumPy form and perhaps PyTorch's function, on the same arrays."""
    n = len(row.inputs)
    rest = [a.default for a in row.attributes[len(trial.arguments) - n :]]
    arguments = (*trial.arguments, *rest)
    kernel, given = kernel_of(row, arguments)
    keywords = [a.name for a in row.attributes if a.keyword_only]
    plain = arguments[: len(arguments) - len(keywords)]
    named = dict(zip(keywords, arguments[len(plain) :]))

    def form() -> Any:
        with np.errstate(all="ignore"), without(ASKED):
            return row.forward(np, *plain, **named)

    found = [lambda: native.call(kernel, *given), lambda: native.call(form)]
    return found + pytorch(trial, arguments[:n])


def pytorch(trial: Trial, inputs: tuple[Any, ...]) -> list[Callable[[], Any]]:
    """PyTorch's call, if it is installed and has such a function."""
    try:
        import torch  # type: ignore[import-not-found, unused-ignore]
    except ModuleNotFoundError:
        return []
    flat = [a for x in inputs for a in (x if isinstance(x, list) else [x])]
    tensors = [torch.from_numpy(a.copy()) for a in flat if isinstance(a, np.ndarray)]

    def call() -> Any:
        with torch.no_grad():
            return trial.torch(torch, *tensors)  # type: ignore[misc]

    try:
        if trial.torch is not None:
            call()
            return [call]
    except LookupError:
        pass
    return []


def best(calls: list[Callable[[], Any]], seconds: float) -> list[float]:
    """The shortest time of each, called in turn for so long, but once at least."""
    times: list[list[float]] = [[] for _ in calls]
    end = time.perf_counter() + seconds
    while not times[0] or time.perf_counter() < end:
        for call, took in zip(calls, times, strict=True):
            if not took or took[-1] < 0.01:
                call()  # warms what the one before left cold
            began = time.perf_counter()
            call()
            took.append(time.perf_counter() - began)
    return [min(took) for took in times]


class Line(NamedTuple):
    """Shortest seconds of a kernel, of the NumPy form and of PyTorch (None: no such function)."""

    name: str
    what: str
    kernel: float
    form: float
    torch: float | None
    is_loop: bool

    @property
    def ratio(self) -> float:
        return self.kernel / self.form

    def reason(self) -> str:
        """Why the kernel stays."""
        if self.ratio <= 0.5:
            return ""
        if self.torch is not None and self.form > self.torch:
            return "PyTorch's time"
        return REASONS.get(self.name, "NumPy's loop on the pool" if self.is_loop else "")

    def __str__(self) -> str:
        torch = (
            "" if self.torch is None else f"{shown(self.torch):>8} {self.form / self.torch:>6.2f}"
        )
        return (
            f"{self.name:34} {self.what:26} {shown(self.kernel):>8} {shown(self.form):>8} "
            f"{self.ratio:>6.2f} {torch:15} {self.reason()}"
        ).rstrip()


def lines(only: str, seconds: float, with_torch: bool) -> Iterator[Line]:
    """One for each row that has a kernel: its best trial."""
    threads = get_num_threads()
    for row in ROWS.values():
        if row.numpy is None or not re.search(only, row.name):
            continue
        is_loop = isinstance(row.numpy, np.ufunc)
        set_num_threads(1 if is_loop else threads)
        found = []
        for trial in trials_of(row):
            times = best(calls(row, trial if with_torch else trial._replace(torch=None)), seconds)
            torch = times[2] if len(times) > 2 else None
            found.append(Line(row.name, trial.what, times[0], times[1], torch, is_loop))
        set_num_threads(threads)
        yield min(found, key=lambda line: line.ratio)


def main(arguments: list[str] | None = None) -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernels", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller, and without PyTorch")
    parser.add_argument("--only", default="", metavar="REGEX", help="rows whose name matches")
    options = parser.parse_args(arguments)
    load()
    if options.quick:
        trials.SIZE = SMALLER
    print(header(describe()) + "\n", flush=True)
    columns = f"{'kernel':>8} {'NumPy':>8} {'ratio':>6} {'PyTorch':>8} {'NumPy/':>6}"
    print(f"{'row':34} {'case':26} {columns}  stays for")
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's, of mean reductions
        seconds = 0.005 if options.quick else 0.2
        found = sorted(lines(options.only, seconds, not options.quick), key=lambda line: line.ratio)
    print("\n".join(map(str, found)))
    slow = sum(line.ratio > 0.5 for line in found)
    took = time.perf_counter() - began
    print(f"\n{len(found)} kernels, {slow} above half of NumPy's time, {took:.0f} s")
    print(f"Without a NumPy form: {FORMLESS}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
