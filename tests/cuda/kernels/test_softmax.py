"""softmax.cu on the host: values in several orders of threads, and each barrier is needed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cuda.kernels.host import HostKernel

SOURCE = (Path(__file__).resolve().parent / "softmax.cu").read_text()
BARRIER = re.compile(r"__syncthreads\(\);")
BARRIERS = len(BARRIER.findall(SOURCE))
SEEDS = range(1, 6)
# rows, columns, threads of a block, blocks
SHAPES = [(5, 7, 32, 5), (3, 1000, 128, 2), (2, 33, 64, 2), (4, 2049, 1024, 3), (1, 1, 32, 1)]


def softmax(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    e: np.ndarray[Any, Any] = np.exp(x - x.max(1, keepdims=True))
    return np.asarray(e / e.sum(1, keepdims=True))


def largest_error(kernel: HostKernel, shape: tuple[int, int, int, int]) -> float:
    """The largest difference to NumPy's softmax; infinity if an element is no number."""
    rows, columns, threads, blocks = shape
    x = (np.random.default_rng(0).standard_normal((rows, columns)) * 30).astype(np.float32)
    y = np.full_like(x, np.nan)
    arguments = (x, y, np.uint64(rows), np.uint32(columns))
    kernel((blocks, 1, 1), (threads, 1, 1), arguments, shared=4 * columns)
    return float(np.nan_to_num(np.abs(y - softmax(x)), nan=np.inf).max())


@pytest.fixture(scope="module")
def kernel() -> HostKernel:
    return HostKernel(SOURCE, "softmax_rows")


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values_in_five_orders_of_threads(
    kernel: HostKernel, shape: tuple[int, int, int, int]
) -> None:
    for seed in SEEDS:
        kernel.seed(seed)
        assert largest_error(kernel, shape) < 1e-6


@pytest.mark.parametrize("barrier", range(BARRIERS))
def test_a_missing_barrier_is_noticed_in_every_order(barrier: int, tmp_path: Path) -> None:
    place = list(BARRIER.finditer(SOURCE))[barrier]
    kernel = HostKernel(SOURCE[: place.start()] + SOURCE[place.end() :], "softmax_rows", tmp_path)
    for seed in SEEDS:
        kernel.seed(seed)
        assert max(largest_error(kernel, shape) for shape in SHAPES) > 1e-5, f"seed {seed}"


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
