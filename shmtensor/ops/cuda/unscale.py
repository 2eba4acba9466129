"""Unscaling gradients with a check for infinity and NaN, in one pass: for amp.GradScaler."""

from __future__ import annotations

from typing import Any

import cupy

from ...cuda_arrays import guard

__all__ = ["unscale"]

multiply_and_check = cupy.ElementwiseKernel(
    "T x, float64 factor",
    "T out, raw float32 found",
    "out = (T)(x * factor); if (!isfinite(x)) found[0] = 1.0f;",
    "shmtensor_unscale",
)


@guard
def unscale(arrays: list[Any], factor: float) -> Any:
    """Multiplies arrays on one device by a factor, in place.

    Returns: an array of one element: 1 if there was an infinity or NaN, else 0.
    """
    found = cupy.zeros(1, "float32")
    for array in arrays:
        for part in (array.real, array.imag) if array.dtype.kind == "c" else (array,):
            multiply_and_check(part, factor, part, found)
    return found
