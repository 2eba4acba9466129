"""`python -m benchmarks.kernels [--quick] [--only REGEX]`: each native kernel of the op table, its
NumPy form and PyTorch.

A row with a CPU kernel (`row.numpy`) also has a forward, its NumPy form, which would run without
the kernel. Each row is listed once, with the trial in which its kernel gains most. A kernel stays
if it takes at most half of the form's time in that trial, or if the form takes more than PyTorch. A
ufunc on the thread pool gets one thread, like NumPy's: the ratio is that of the loops.
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
from .harness.report import format_amount
from .trials import Trial, trials_of

# Reasons for kernels that are not twice as fast as NumPy, other than PyTorch's time.
REASONS = {
    "_to_copy": "16-bit floats, bool of complex; reductions and copies use it",
    "_overwrite": "transposed copies, and fills, in a fraction of the time",
    "copy": "transposed copies, and fills, in a fraction of the time",
    "dot": "a call of matmul, which small vectors need",
    **dict.fromkeys(("flip", "roll", "clone", "all", "any"), "small tensors: PyTorch's time"),
    "_index_put": "a view or an assignment without a frame of Python",
}
QUICK_SIZE = (200, 200)  # of matrices in the short run
FORMLESS = (
    "optimizers, recurrent layers, collectives (reduce_into, stack_into), random numbers (randint, "
    "randperm), gradients of norms (layer_norm_backward, batch_norm_backward), contiguous, "
    "combinations"
)

# The same gradients as rows: their operands' shapes depend on each other.
OF_NORMS = {"_native_layer_norm_backward", "_native_batch_norm_backward"}


def kernel_of(row: Row, arguments: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """The CPU kernel and its arguments."""
    if not isinstance(row.numpy, tuple):
        return row.numpy, arguments
    names = dict(zip([*(i.name for i in row.inputs), *(a.name for a in row.attributes)], arguments))
    return row.numpy[0], tuple(names[word.strip()] for word in row.numpy[1].split(","))


# Kernels that NumPy forms call, too; they have a fallback for the result None.
CALLED_BY_FORMS = ("add_at", "index_add", "take_rows", "scatter", "take")


@contextmanager
def without(names: tuple[str, ...]) -> Iterator[None]:
    """In this block these kernels return None."""
    kernels = {name: getattr(native, name) for name in names}
    for name in names:
        setattr(native, name, lambda *args: None)
    try:
        yield
    finally:
        for name, kernel in kernels.items():
            setattr(native, name, kernel)


def calls(row: Row, trial: Trial) -> list[Callable[[], Any]]:
    """The kernel, the NumPy form and PyTorch's function if there is one, on the same arrays."""
    n = len(row.inputs)
    defaults = [a.default for a in row.attributes[len(trial.arguments) - n :]]
    arguments = (*trial.arguments, *defaults)
    kernel, kernel_args = kernel_of(row, arguments)
    keywords = [a.name for a in row.attributes if a.keyword_only]
    args = arguments[: len(arguments) - len(keywords)]
    kwargs = dict(zip(keywords, arguments[len(args) :]))

    def form() -> Any:
        with np.errstate(all="ignore"), without(CALLED_BY_FORMS):
            return row.forward(np, *args, **kwargs)

    ours = [lambda: native.call(kernel, *kernel_args), lambda: native.call(form)]
    return ours + pytorch(trial, arguments[:n])


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
    """The shortest time of each call, called in turn for `seconds`, but at least once."""
    times: list[list[float]] = [[] for _ in calls]
    end = time.perf_counter() + seconds
    while not times[0] or time.perf_counter() < end:
        for call, took in zip(calls, times, strict=True):
            if not took or took[-1] < 0.01:
                call()  # warms the caches
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
        """The reason to keep the kernel."""
        if self.ratio <= 0.5:
            return ""
        if self.torch is not None and self.form > self.torch:
            return "PyTorch's time"
        return REASONS.get(self.name, "NumPy's loop on the pool" if self.is_loop else "")

    def __str__(self) -> str:
        torch = (
            ""
            if self.torch is None
            else f"{format_amount(self.torch):>8} {self.form / self.torch:>6.2f}"
        )
        return (
            f"{self.name:34} {self.what:26} "
            f"{format_amount(self.kernel):>8} {format_amount(self.form):>8} "
            f"{self.ratio:>6.2f} {torch:15} {self.reason()}"
        ).rstrip()


def lines(only: str, seconds: float, with_torch: bool) -> Iterator[Line]:
    """A line for each row with a kernel: its best trial."""
    threads = get_num_threads()
    for row in ROWS.values():
        if row.numpy is None or row.name in OF_NORMS or not re.search(only, row.name):
            continue
        is_loop = isinstance(row.numpy, np.ufunc)
        set_num_threads(1 if is_loop else threads)
        candidates = []
        for trial in trials_of(row):
            times = best(calls(row, trial if with_torch else trial._replace(torch=None)), seconds)
            torch = times[2] if len(times) > 2 else None
            candidates.append(Line(row.name, trial.what, times[0], times[1], torch, is_loop))
        set_num_threads(threads)
        yield min(candidates, key=lambda line: line.ratio)


def main(arguments: list[str] | None = None) -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernels", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller, and without PyTorch")
    parser.add_argument("--only", default="", metavar="REGEX", help="rows whose name matches")
    options = parser.parse_args(arguments)
    load()
    if options.quick:
        trials.SIZE = QUICK_SIZE
    print(header(describe()) + "\n", flush=True)
    columns = f"{'kernel':>8} {'NumPy':>8} {'ratio':>6} {'PyTorch':>8} {'NumPy/':>6}"
    print(f"{'row':34} {'case':26} {columns}  stays for")
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's, of mean reductions
        seconds = 0.005 if options.quick else 0.2
        table = sorted(lines(options.only, seconds, not options.quick), key=lambda line: line.ratio)
    print("\n".join(map(str, table)))
    slow = sum(line.ratio > 0.5 for line in table)
    took = time.perf_counter() - began
    print(f"\n{len(table)} kernels, {slow} above half of NumPy's time, {took:.0f} s")
    print(f"Without a NumPy form: {FORMLESS}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
