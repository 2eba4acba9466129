"""Runs a kernel of shmtensor/ops/cuda/kernels on the host, in five orders of its threads."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from shmtensor.ops.cuda.kernel_source import kernel_source
from tests.cuda.kernels.host import HostKernel

ORDERS = range(1, 6)
TOLERANCE = {"float16": 2e-3, "float32": 5e-6, "float64": 1e-12}


@functools.cache
def host_kernel(source: str, dtype: str, function: str) -> HostKernel:
    """A kernel of `<source>.cu` for a dtype."""
    return HostKernel(kernel_source(source, dtype), function)


def acc(dtype: str, value: float) -> Any:
    """A number of the type that the kernels of a dtype compute in."""
    return np.float64(value) if dtype == "float64" else np.float32(value)


def values(shape: tuple[int, ...], dtype: str, seed: int = 0, scale: float = 1.0) -> Any:
    """Normal random numbers."""
    return np.asarray(np.random.default_rng(seed).standard_normal(shape) * scale).astype(dtype)


def check(
    kernel: HostKernel,
    blocks: int | tuple[int, int, int],
    threads: int | tuple[int, int, int],
    arguments: Sequence[Any],
    expected: Sequence[tuple[Any, Any]],
    tolerance: float = 0.0,
    shared: int = 0,
) -> None:
    """Launches the kernel in each order, and compares.

    Args:
        expected: pairs of an array among the arguments that the kernel writes, and its values
            afterwards. What the array holds when `check` is called is there before each launch.
    """
    grid = blocks if isinstance(blocks, tuple) else (blocks, 1, 1)
    block = threads if isinstance(threads, tuple) else (threads, 1, 1)
    before = [out.copy() for out, _ in expected]
    for order in ORDERS:
        for (out, _), initial in zip(expected, before, strict=True):
            out[...] = initial
        kernel.seed(order)
        kernel(grid, block, arguments, shared)
        for out, wanted in expected:
            np.testing.assert_allclose(
                out, wanted, tolerance, tolerance, equal_nan=True, err_msg=f"order {order}"
            )
