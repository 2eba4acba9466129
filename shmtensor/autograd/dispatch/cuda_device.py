"""CUDA as the second device of the op table, from the first use of CUDA on."""

from __future__ import annotations

from typing import Any

from ...cuda_arrays import device_of, guard, guard_gradients
from ...ops import cuda
from . import devices


def use_cuda(cupy: Any) -> None:
    """Makes the op table take CuPy's arrays."""
    cuda.load()
    from ...ops.cuda import pointwise
    from ...ops.cuda import pointwise_rows as rows

    devices.register(
        devices.DeviceType(
            "cuda", cupy.ndarray, pointwise.pointwise(), device_of, guard, guard_gradients,
            rows.pullback_of, rows.assign, rows.copy_array, rows.add_arrays,
        )
    )  # fmt: skip
