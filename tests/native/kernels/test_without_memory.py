"""A kernel that gets no temporary memory raises MemoryError, whichever thread asked for it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from shmtensor import native

WIDE = 1 << 17  # elements of a row that several threads reduce
SHORT = 1 << 10  # elements of a row that one thread sorts
X = np.random.default_rng(0).standard_normal((4, WIDE)).astype("float32")
C = X.astype(np.complex64)
LOGITS, LABELS = X[0].reshape(-1, 256), np.zeros(WIDE // 256, np.int64)
KERNELS = {
    "cross_entropy": lambda: native.cross_entropy(LOGITS, LABELS, -100, "mean"),
    "sum of rows": lambda: native.sum(X, 1, False),
    "sum of columns": lambda: native.sum(X.reshape(-1, 64), 0, False),
    "sum of complex rows": lambda: native.sum(C, 1, False),
    "reduce_into": lambda: native.reduce_into(np.empty_like(X), [X, X], "sum"),
    "var": lambda: native.var(X, 1, 0, False, False),
    "min of rows": lambda: native.minmax(X, 1, False, False),
    "max of columns": lambda: native.minmax(X.reshape(-1, 64), 0, False, True),
    "argmax of rows": lambda: native.argminmax(X, 1, False, True),
    "prod of rows": lambda: native.prod(X, 1, False),
    "prod of columns": lambda: native.prod(X.reshape(-1, 64), 0, False),
    "count": lambda: native.count(X, 1, False),
    "sort": lambda: native.sort(X.reshape(-1, SHORT), 1, False),
    "topk": lambda: native.topk(X.reshape(-1, SHORT), 10, 1, True),
    "kthvalue": lambda: native.kthvalue(X.reshape(-1, SHORT), 3, 1),
}  # fmt: skip


def deny_allocations(call: Callable[[], Any]) -> int:
    """Calls until the allocator of `PyMem_RawMalloc` need not refuse: in the nth call it refuses
    the nth request. Returns the number of MemoryErrors.
    """
    import _testcapi

    call()  # what is allocated once
    refused = 0
    for n in range(1000):
        _testcapi.set_nomemory(n, n + 1)
        try:
            call()
        except MemoryError:
            refused += 1
            continue
        finally:
            _testcapi.remove_mem_hooks()
        return refused
    raise AssertionError("the call allocates without end")


def run(threads: int) -> None:
    """Prints each kernel's name before, and its number of MemoryErrors after."""
    native.set_num_threads(threads)
    for name, call in KERNELS.items():
        print(name, end=": ", flush=True)
        print(deny_allocations(call), flush=True)


@pytest.mark.parametrize("threads", [1, 2])
def test_memory_error_is_raised(threads: int) -> None:
    pytest.importorskip("_testcapi")
    code = f"from tests.native.kernels.test_without_memory import run; run({threads})"
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, (process.returncode, process.stdout, process.stderr)
    refused = dict(line.split(": ") for line in process.stdout.splitlines())
    assert list(refused) == list(KERNELS)
    assert all(map(int, refused.values())), refused
