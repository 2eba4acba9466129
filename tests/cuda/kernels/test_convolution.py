"""convolution.cu on the host: a bias for each channel, in both orders of the memory."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cuda.kernels.check import TOLERANCE, check, host_kernel, values


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("shift", [0, 1], ids=["aligned", "not aligned"])
@pytest.mark.parametrize("inner", [1, 3, 16], ids=lambda n: f"inner {n}")
@pytest.mark.parametrize("channels", [5, 16])
def test_add_to_channels(dtype: str, shift: int, inner: int, channels: int) -> None:
    n = 3 * channels * inner
    x = values((n + shift,), dtype)[shift:]
    bias = values((channels,), dtype, 1)
    expected = x.reshape(3, channels, inner) + bias[:, None]
    arguments = (x, bias, np.int64(n), np.int64(inner), np.int64(channels))
    kernel = host_kernel("convolution", dtype, "add_to_channels")
    check(kernel, 8, 64, arguments, [(x, expected.reshape(-1))], TOLERANCE[dtype])
