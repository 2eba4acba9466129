"""softmax.cu on the host: values in several orders of threads, and each barrier is needed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shmtensor.ops.cuda.kernel_source import kernel_source
from tests.cuda.kernels.check import ORDERS, TOLERANCE, check, host_kernel, values
from tests.cuda.kernels.host import HostKernel

DTYPES = ["float32", "float64", "float16"]
BARRIER = re.compile(r"__syncthreads\(\);")
SOURCE = kernel_source("softmax", "float32")
BARRIERS = len(BARRIER.findall(SOURCE))
I64 = np.int64


def softmax(x: Any, axis: int = 1) -> Any:
    x = x.astype(np.float64)
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def backward(g: Any, y: Any, axis: int, is_log: bool) -> Any:
    g, y = g.astype(np.float64), y.astype(np.float64)
    if is_log:
        return g - np.exp(y) * g.sum(axis, keepdims=True)
    return y * (g - (g * y).sum(axis, keepdims=True))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("is_log", [False, True])
@pytest.mark.parametrize(
    ("function", "rows", "columns", "threads", "blocks"),
    [
        *((f"warp_{k}", 5, 32 * k - 3, 64, 2) for k in (1, 2, 4, 8, 16, 32)),
        *((f"warp_packs_{k}", 3, 32 * k + 16, 64, 1) for k in (1, 2, 4)),
        ("block", 3, 1000, 128, 2),
        ("block", 2, 33, 64, 2),
    ],
)
def test_rows(
    function: str, rows: int, columns: int, threads: int, blocks: int, is_log: bool, dtype: str
) -> None:
    x = values((rows, columns), dtype, scale=3)
    out = np.full_like(x, np.nan)
    wanted = np.log(softmax(x)) if is_log else softmax(x)
    size = I64(columns) if function == "block" else np.int32(columns)
    arguments: tuple[Any, ...] = (x, out, I64(rows), size, np.int32(is_log))
    kernel = host_kernel("softmax", dtype, f"softmax_{function}")
    for cached in (1, 0) if function == "block" else (0,):
        flag = (np.int32(cached),) if function == "block" else ()
        shared = 8 * columns if cached else 0
        check(kernel, blocks, threads, arguments + flag, [(out, wanted)], TOLERANCE[dtype], shared)
    kernel = host_kernel("softmax", dtype, f"softmax_backward_{function}")
    g, y = values((rows, columns), dtype, 1), wanted.astype(dtype)
    arguments = (g, y, out, I64(rows), size, np.int32(is_log))
    check(
        kernel, blocks, threads, arguments, [(out, backward(g, y, 1, is_log))], 3 * TOLERANCE[dtype]
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("is_log", [False, True])
@pytest.mark.parametrize(
    ("outer", "n", "inner", "y"), [(3, 9, 40, 4), (2, 3, 5, 1), (1, 70, 2, 32)]
)
def test_columns(outer: int, n: int, inner: int, y: int, is_log: bool, dtype: str) -> None:
    x = values((outer, n, inner), dtype, scale=3)
    out = np.full_like(x, np.nan)
    wanted = np.log(softmax(x)) if is_log else softmax(x)
    sizes = (I64(outer), I64(n), I64(inner), np.int32(is_log))
    grid = (-(-inner // 32), min(outer, 2), 1)
    kernel = host_kernel("softmax", dtype, "softmax_columns")
    check(kernel, grid, (32, y, 1), (x, out, *sizes), [(out, wanted)], TOLERANCE[dtype])
    g, result = values(x.shape, dtype, 1), wanted.astype(dtype)
    kernel = host_kernel("softmax", dtype, "softmax_backward_columns")
    gradient = backward(g, result, 1, is_log)
    check(
        kernel, grid, (32, y, 1), (g, result, out, *sizes), [(out, gradient)], 3 * TOLERANCE[dtype]
    )


@pytest.mark.parametrize(
    "row",
    [
        [-np.inf, 1.0, 2.0],
        [-np.inf] * 3,
        [np.inf, 1.0, -np.inf],
        [np.nan, 1.0, 2.0],
        [1.0, 2.0, np.nan],
        [3e38, -3e38, 1.0],
    ],
    ids=str,
)
def test_infinities_and_nan(row: list[float]) -> None:
    x = np.array([row], np.float32)
    with np.errstate(all="ignore"):
        wanted = softmax(x)
    for function, threads in (("warp_1", 32), ("block", 32), ("block", 64)):
        out = np.zeros_like(x)
        is_block = function == "block"
        flag = (np.int32(0),) if is_block else ()
        arguments = (x, out, I64(1), I64(3) if is_block else np.int32(3), np.int32(0), *flag)
        kernel = host_kernel("softmax", "float32", f"softmax_{function}")
        check(kernel, 1, threads, arguments, [(out, wanted)], 1e-6)
    out = np.zeros_like(x).reshape(3, 1)
    arguments = (x, out, I64(1), I64(3), I64(1), np.int32(0))
    kernel = host_kernel("softmax", "float32", "softmax_columns")
    check(kernel, 1, (32, 2, 1), arguments, [(out, wanted.reshape(3, 1))], 1e-6)


def largest_errors(library: str, cache: Path) -> list[float]:
    """Of kernels of a changed source, one for each order: the largest difference; infinity for
    what is no number."""
    rows, columns = (
        HostKernel(library, "softmax_block", cache),
        HostKernel(library, "softmax_columns", cache),
    )
    errors = []
    for order in ORDERS:
        error = 0.0
        for kernel in (rows, columns):
            kernel.seed(order)
        for n, threads in ((1000, 128), (33, 64), (2049, 1024)):
            x = values((3, n), "float32", scale=30)
            out = np.full_like(x, np.nan)
            arguments = (x, out, I64(3), I64(n), np.int32(0), np.int32(1))
            rows((2, 1, 1), (threads, 1, 1), arguments, 4 * n)
            error = max(error, np.nan_to_num(np.abs(out - softmax(x)), nan=np.inf).max())
        x = values((3, 70, 8), "float32", scale=30)
        out = np.full_like(x, np.nan)
        columns((1, 2, 1), (32, 16, 1), (x, out, I64(3), I64(70), I64(8), np.int32(0)), 0)
        error = max(error, np.nan_to_num(np.abs(out - softmax(x)), nan=np.inf).max())
        errors.append(float(error))
    return errors


def test_all_barriers_are_enough(tmp_path: Path) -> None:
    assert max(largest_errors(SOURCE, tmp_path)) < 1e-5


@pytest.mark.parametrize("barrier", range(BARRIERS))
def test_a_missing_barrier_is_noticed_in_every_order(barrier: int, tmp_path: Path) -> None:
    place = list(BARRIER.finditer(SOURCE))[barrier]
    errors = largest_errors(SOURCE[: place.start()] + SOURCE[place.end() :], tmp_path)
    assert min(errors) > 1e-5, errors


PROGRAM = """
import numpy as np
from pathlib import Path
from tests.cuda.kernels.host import HostKernel
HostKernel({source!r}, "f", Path({cache!r}))((1, 1, 1), (64, 1, 1), (np.zeros(64, np.int32),))
"""
DIVERGENT = {
    "a barrier or a warp that not all threads reach": """
        extern "C" __global__ void f(int* x) {
          if (threadIdx.x < 16) __syncthreads();
          else x[threadIdx.x] = __shfl_sync(0xffffffffu, x[0], 0);
        }""",
    "threads of a block at different barriers": """
        extern "C" __global__ void f(int* x) {
          if (threadIdx.x < 32) { x[0] = 1; __syncthreads(); }
          else
            __syncthreads();
        }""",
    "a lane outside its own mask": """
        extern "C" __global__ void f(int* x) {
          x[threadIdx.x] = __shfl_sync(0xffffu, x[0], 0);
        }""",
}


@pytest.mark.parametrize("message", DIVERGENT)
def test_divergent_threads_end_the_process(message: str, tmp_path: Path) -> None:
    program = PROGRAM.format(source=DIVERGENT[message], cache=str(tmp_path))
    root = str(Path(__file__).resolve().parents[3])
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=100, cwd=root
    )
    assert run.returncode == -6
    assert message in run.stderr
    assert "line" in run.stderr
