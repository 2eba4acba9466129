"""`python -m benchmarks.cuda [--short] [--standin] [--seconds N]`: GPU tensors beside PyTorch's.

Libraries take turns; each turn is as many calls as take 20 ms, and the wait for the GPU; the median
of five. Pointwise ops, reductions and normalizations are given in GB/s of the memory that they have
to read and write, beside the copy, which is the most that the card does. Without PyTorch for CUDA
its column is empty. The table is for people: results depend on the card. A failed case is printed,
and the exit code is 1; the others still run.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from .libraries import libraries, use_cuda

REPEATS = 5
TURN = 0.02  # seconds
Build = Callable[[Any, Any, bool], Callable[[], Any]]  # (library, its nn, short) -> the call


class Case(NamedTuple):
    """A call by both libraries.

    Attributes:
        amount: the bytes moved, or the floating-point operations, of a call; 0: time only.
        unit: "GB/s" or "TFLOP/s".
    """

    name: str
    build: Build
    amount: Callable[[bool], float] = lambda short: 0.0
    unit: str = ""


def n_elements(short: bool) -> int:
    return 1 << 10 if short else 1 << 26  # 256 MiB of float32


def matrix(short: bool) -> int:
    return 32 if short else 4096


def vector(library: Any, short: bool) -> Any:
    return library.ones(n_elements(short), device="cuda")


def image(library: Any, short: bool) -> Any:
    return library.ones(n_elements(short) // 256, 256, device="cuda")


def on_vector(call: Callable[[Any, Any], Any]) -> Build:
    """A case on one large vector."""

    def build(library: Any, nn: Any, short: bool) -> Callable[[], Any]:
        x = vector(library, short)
        return lambda: call(library, x)

    return build


def on_rows(call: Callable[[Any, Any], Any]) -> Build:
    """A case on rows of 256 elements."""

    def build(library: Any, nn: Any, short: bool) -> Callable[[], Any]:
        x = image(library, short)
        return lambda: call(nn.functional, x)

    return build


def matmul(dtype: str) -> Build:
    def build(library: Any, nn: Any, short: bool) -> Callable[[], Any]:
        x = library.ones(matrix(short), matrix(short), device="cuda", dtype=getattr(library, dtype))
        return lambda: x @ x

    return build


def small(library: Any, nn: Any, short: bool) -> Callable[[], Any]:
    x = library.ones(4, device="cuda")
    return lambda: x + x


def training(library: Any, nn: Any, short: bool) -> Callable[[], Any]:
    """A step of a network of three layers: forward, backward, Adam."""
    width, batch = (16, 8) if short else (1024, 1024)
    library.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(width, width), nn.ReLU(), nn.LayerNorm(width), nn.Linear(width, 10)
    ).to("cuda")
    x, y = library.randn(batch, width, device="cuda"), library.randint(10, (batch,), device="cuda")
    optimizer = library.optim.Adam(model.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    return step


def bytes_moved(factor: float) -> Callable[[bool], float]:
    return lambda short: factor * 4 * n_elements(short)


def operations(short: bool) -> float:
    return 2.0 * matrix(short) ** 3


CASES = [
    Case("copy", on_vector(lambda lib, x: x.clone()), bytes_moved(2), "GB/s"),
    Case("x + x", on_vector(lambda lib, x: x + x), bytes_moved(2), "GB/s"),
    Case("exp(x)", on_vector(lambda lib, x: lib.exp(x)), bytes_moved(2), "GB/s"),
    Case("relu(x)", on_vector(lambda lib, x: lib.relu(x)), bytes_moved(2), "GB/s"),
    Case("x.sum()", on_vector(lambda lib, x: x.sum()), bytes_moved(1), "GB/s"),
    Case("sum of rows", on_rows(lambda f, x: x.sum(1)), bytes_moved(1), "GB/s"),
    Case("softmax of rows", on_rows(lambda f, x: f.softmax(x, 1)), bytes_moved(2), "GB/s"),
    Case("layer_norm", on_rows(lambda f, x: f.layer_norm(x, (256,))), bytes_moved(2), "GB/s"),
    Case("matmul float32", matmul("float32"), operations, "TFLOP/s"),
    Case("matmul float16", matmul("float16"), operations, "TFLOP/s"),
    Case("x + x of 4 elements", small),
    Case("training step", training),
]


class Row(NamedTuple):
    """A case's seconds a call: ours, PyTorch's (None without it), and what went wrong with ours."""

    case: Case
    ours: float | None
    torch: float | None
    error: str = ""


def turn(call: Callable[[], Any], wait: Callable[[], Any], n: int) -> float:
    """Seconds a call of n calls and the wait for the GPU."""
    begin = time.perf_counter()
    for _ in range(n):
        call()
    wait()
    return (time.perf_counter() - begin) / n


def calls_in(call: Callable[[], Any], wait: Callable[[], Any], short: bool) -> int:
    """How many calls take a turn; the kernels are compiled and loaded before."""
    turn(call, wait, 1)
    if short:
        return 1
    return max(1, min(1000, int(TURN / turn(call, wait, 1))))


def text_of_error(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:60]}"


def time_case(case: Case, pairs: dict[str, tuple[Any, Any]], short: bool) -> Row:
    """Times a case in turns."""
    parties: dict[str, tuple[Callable[[], Any], Callable[[], Any], int]] = {}
    error = ""
    for name, (library, nn) in pairs.items():
        wait = library.cuda.synchronize
        try:
            call = case.build(library, nn, short)
            parties[name] = call, wait, calls_in(call, wait, short)
        except Exception as problem:
            if name == "shmtensor":
                error = text_of_error(problem)
            else:
                print(f"PyTorch: {text_of_error(problem)}")
    seconds: dict[str, list[float]] = {name: [] for name in parties}
    for _ in range(1 if short else REPEATS):
        for name, (call, wait, n) in parties.items():
            seconds[name].append(turn(call, wait, n))
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    return Row(case, medians.get("shmtensor"), medians.get("torch"), error)


# ---- a send to another process


# One program for both libraries, as their users write it. The child takes the tensor, queues its
# first use and answers with the shape: nobody waits for the GPU, so the time is that of the send.
SEND = """
import statistics, time
import LIBRARY as library, LIBRARY.multiprocessing as mp
def child(requests, answers):
    answers.put("ready")
    while (x := requests.get()) is not None:
        x.add_(1)
        answers.put(tuple(x.shape))
        del x
    library.cuda.synchronize()
    answers.put("end")
if __name__ == "__main__":
    context = mp.get_context("spawn")
    requests, answers = context.SimpleQueue(), context.SimpleQueue()
    process = context.Process(target=child, args=(requests, answers))
    process.start()
    answers.get()
    seconds = []
    for i in range(REPEATS):
        x = library.full((1 << 20,), float(i), device="cuda")
        begin = time.perf_counter()
        requests.put(x)
        answers.get()
        seconds.append(time.perf_counter() - begin)
    requests.put(None)
    answers.get()
    assert x[-1].item() == REPEATS
    process.join()
    print(statistics.median(seconds))
"""
ON_STANDIN = "from tests.cuda.standin.install import install\ninstall()\n"


def time_send(library: str, short: bool, words: list[str]) -> float:
    """Seconds of a send of 4 MiB to another process, with its answer, by a library's queues.

    Raises:
        RuntimeError: the program failed.
    """
    text = SEND.replace("LIBRARY", library).replace("REPEATS", "3" if short else "200")
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:  # spawn needs a file
        file.write((ON_STANDIN if words else "") + text)
        file.flush()
        process = subprocess.Popen(
            [sys.executable, file.name],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            out, errors = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # its child, too
            process.communicate()
            raise
    if process.returncode:
        raise RuntimeError(errors.splitlines()[-1] if errors else f"exit {process.returncode}")
    return float(out)


# ---- the table


def rows(short: bool, seconds: float, words: list[str]) -> Iterator[Row]:
    """The cases, as long as there is time."""
    pairs = libraries()
    end = time.monotonic() + seconds
    for case in CASES:
        if time.monotonic() < end:
            yield time_case(case, pairs, short)
            pairs["shmtensor"][0].cuda.empty_cache()
    if time.monotonic() < end:
        yield send_row(short, words, list(pairs))


def send_row(short: bool, words: list[str], names: list[str]) -> Row:
    """The send by each library that is there."""
    seconds: dict[str, float] = {}
    error = ""
    for library in names:
        try:
            seconds[library] = time_send(library, short, words)
        except (RuntimeError, subprocess.TimeoutExpired) as problem:
            if library == "shmtensor":
                error = text_of_error(problem)
            else:
                print(f"PyTorch: {text_of_error(problem)}")
    case = Case("send of 4 MiB, with an answer", lambda lib, nn, short: lambda: None)
    return Row(case, seconds.get("shmtensor"), seconds.get("torch"), error)


def text_of(row: Row, seconds: float | None, short: bool) -> str:
    """A time, and the rate if the case has one."""
    if seconds is None:
        return "-"
    text = f"{seconds * 1e6:,.1f} us"
    if row.case.unit:
        scale = 1e9 if row.case.unit == "GB/s" else 1e12
        text += f"  {row.case.amount(short) / seconds / scale:,.1f} {row.case.unit}"
    return text


def main(arguments: list[str] | None = None) -> int:
    """Prints the table; returns 1 if a case of ours failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cuda")
    parser.add_argument("--short", action="store_true", help="small sizes, one call each")
    parser.add_argument("--standin", action="store_true", help="on the stand-in device")
    parser.add_argument("--seconds", type=float, default=240.0, help="no case begins later")
    options = parser.parse_args(arguments)
    if not use_cuda(options.standin):
        return 0
    words = ["--standin"] if options.standin else []
    device = importlib.import_module("shmtensor.cuda").get_device_name(0)
    code = 0
    print(f"{device}; a call: shmtensor, PyTorch, and the ratio of the times")
    for row in rows(options.short, options.seconds, words):
        ratio = f"{row.ours / row.torch:.2f}" if row.ours and row.torch else "-"
        ours = row.error or text_of(row, row.ours, options.short)
        theirs = text_of(row, row.torch, options.short)
        print(f"{row.case.name:<30} {ours:<34} {theirs:<34} {ratio}", flush=True)
        code |= bool(row.error)
    return code
