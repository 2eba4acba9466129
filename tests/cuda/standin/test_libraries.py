"""The doubles of cuBLAS, cuSOLVER and cuFFT under CuPy's own modules: lateness, misuse.

Their values are those of the ops that call them: tests/cuda/table.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.cuda.standin.fixtures import Misuses
from tests.cuda.standin.program import run


def call(cp: Any, name: str, *arguments: Any) -> None:
    """A function of CuPy's cuBLAS module; arrays are their addresses."""
    from cupy_backends.cuda.libs import cublas

    places = [a.data.ptr if isinstance(a, cp.ndarray) else a for a in arguments]
    places = [a.ctypes.data if isinstance(a, np.ndarray) else a for a in places]
    getattr(cublas, name)(cp.cuda.device.get_cublas_handle(), *places)


def test_what_is_multiplied_by_zero_is_not_read(cp: Any) -> None:
    one, zero = np.ones(1), np.zeros(1)
    a, c = cp.ones((2, 2)), cp.full((2, 2), np.nan)
    call(cp, "dgemm", 0, 0, 2, 2, 2, one, a, 2, a, 2, zero, c, 2)
    assert (c.get() == 2).all()


@pytest.mark.usefixtures("no_background")
def test_the_work_is_late_and_ordered_by_its_stream(cp: Any) -> None:
    first, second = (cp.cuda.Stream(non_blocking=True) for _ in range(2))
    x, y = cp.ones((8, 8)), cp.ones((8, 8))
    cp.cuda.runtime.deviceSynchronize()
    wrong = 0
    for number in range(2, 42):
        with first:
            x.fill(number)
            product = x @ y
        assert not first.done
        with second:
            early = product.sum()
        second.synchronize()
        first.synchronize()
        with first:
            assert float(product.sum()) == 8 * 8 * 8 * number
        wrong += float(early) != 8 * 8 * 8 * number
    assert wrong > 0  # nothing ordered the second stream after the first


def test_short_memory_is_refused(cp: Any, misuses: Misuses) -> None:
    from cupy_backends.cuda.libs import cublas

    one, a = np.ones(1), cp.cuda.Memory(4 * 4 * 8)
    b = cp.ndarray((4, 4), float, cp.cuda.MemoryPointer(a, 0))
    with pytest.raises(cublas.CUBLASError, match="INVALID_VALUE"):
        call(cp, "dgemm", 0, 0, 4, 4, 4, one, b, 5, b, 4, one, b, 4)  # five columns' lengths
    with pytest.raises(cublas.CUBLASError, match="INVALID_VALUE"):
        call(cp, "dgemm", 0, 0, 4, 4, 4, one, one, 4, b, 4, one, b, 4)  # host memory
    with pytest.raises(cublas.CUBLASError, match="INVALID_VALUE"):
        call(cp, "dgemm", 0, 0, 4, 4, 4, b, b, 4, b, 4, one, b, 4)  # a scalar on the device


def test_functions_without_a_double_say_so(cp: Any) -> None:
    from cupy_backends.cuda.libs import cusolver

    with pytest.raises(cusolver.CUSOLVERError, match="NOT_SUPPORTED"):
        cusolver.spCreate()
    with pytest.raises(RuntimeError, match="stand-in device"):
        cp.cuda.device.get_cusparse_handle()


def test_a_program_ends_in_peace_with_work_queued() -> None:
    code = "x = cupy.ones((4, 4)); y = cupy.linalg.inv(x @ x + cupy.eye(4)); z = cupy.fft.fft(y)"
    status, _, err = run(code, STANDIN_LATE_US=100_000)
    assert (status, err) == (0, "")
