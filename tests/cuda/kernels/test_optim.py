"""optim.cu on the host: the steps of the CPU's kernels, whatever the launch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shmtensor import native
from tests.cuda.kernels.check import TOLERANCE, acc, check, host_kernel, values

NULL = np.uint64(0)
N = 101
DTYPES = ["float32", "float64", "float16"]


def wide(x: Any) -> Any:
    return x.astype(np.float32 if x.dtype == np.float16 else x.dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("largest", [False, True])
def test_adam(largest: bool, dtype: str) -> None:
    kind = "float64" if dtype == "float64" else "float32"
    p, g = values((N,), dtype), values((N,), dtype, 1)
    state = [np.abs(values((N,), kind, 2 + i)) for i in range(3)]
    cpu = [wide(p), wide(g), *(s.copy() for s in state)]
    if not largest:
        cpu[4] = None
    native.adam_(*cpu, 4, 0.01, 0.9, 0.99, 1e-6, 0.1, False, True)
    pointer = state[2] if largest else NULL
    numbers = [np.float64(v) for v in (0.01, 0.9, 0.99)]
    more = [acc(dtype, v) for v in (1e-6, 0.1, 1.0)]
    corrections = [np.float64(1 - 0.9**4), np.float64(1 - 0.99**4)]
    pairs = list(zip((p, state[0], state[1]), (cpu[0], cpu[2], cpu[3]), strict=True))
    pairs += [(state[2], cpu[4])] if largest else []
    step = np.array([4], np.float32)
    for end in ((*corrections, np.int32(1), NULL), (*(np.float64(9),) * 2, np.int32(1), step)):
        arguments = (
            p,
            g,
            state[0],
            state[1],
            pointer,
            np.int64(N),
            *numbers,
            *more,
            *end,
            NULL,
            NULL,
        )
        kept = [x.copy() for x, _ in pairs]
        check(host_kernel("optim", dtype, "adam"), 2, 32, arguments, pairs, TOLERANCE[dtype])
        for (x, _), before in zip(pairs, kept, strict=True):
            x[...] = before


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("nesterov", [False, True])
def test_sgd(nesterov: bool, dtype: str) -> None:
    kind = "float64" if dtype == "float64" else "float32"
    p, g, buffer = values((N,), dtype), values((N,), dtype, 1), values((N,), kind, 2)
    cpu = [wide(p), wide(g), buffer.copy()]
    native.sgd_(*cpu, 0.1, 0.9, 0.0, 0.05, nesterov, False, False)
    numbers = [acc(dtype, v) for v in (0.1, 0.9, 0.0, 0.05)]
    flags = [np.int32(v) for v in (nesterov, 0, 0)]
    arguments = (p, g, buffer, np.int64(N), *numbers, *flags, NULL, NULL, NULL)
    pairs = [(p, cpu[0]), (buffer, cpu[2])]
    check(host_kernel("optim", dtype, "sgd"), 2, 32, arguments, pairs, TOLERANCE[dtype])
