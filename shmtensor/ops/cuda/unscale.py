"""What amp.GradScaler does on a GPU: unscaling with a check for infinity and NaN in one pass, and
the scale's update. Nothing is read by the host.

A flag is an array of one float32 number in device memory: not 0 if there was an infinity or NaN.
"""

from __future__ import annotations

from typing import Any

import cupy

from ...cuda_arrays import guard

multiply_and_check = cupy.ElementwiseKernel(
    "T x, raw float32 factor",
    "T out, raw float32 found",
    "out = (T)(x * factor[0]); if (!isfinite(x)) found[0] = 1.0f;",
    "shmtensor_unscale",
)
check_only = cupy.ElementwiseKernel(
    "T x", "raw float32 found", "if (!isfinite(x)) found[0] = 1.0f;", "shmtensor_check_finite"
)
inverse_of = cupy.ElementwiseKernel(
    "float32 scale", "float32 inverse", "inverse = (float)(1.0 / scale)", "shmtensor_inverse_scale"
)
# An int32 tracker, which is 0 again where the scale has changed.
next_scale = cupy.ElementwiseKernel(
    "float32 scale, int32 tracker, raw float32 found, float64 growth, float64 backoff, "
    "int32 interval",
    "float32 new_scale, int32 new_tracker",
    """
    const bool is_good = found[0] == 0;
    const bool is_due = is_good && tracker + 1 == interval;
    const float factor_scale = (float)(scale * (is_good ? growth : backoff));
    new_scale = !is_good || (is_due && isfinite(factor_scale)) ? factor_scale : scale;
    new_tracker = is_good && !is_due ? tracker + 1 : 0;
    """,
    "shmtensor_next_scale",
)
count_unless = cupy.ElementwiseKernel(
    "raw float32 found", "float32 step", "step += found[0] == 0", "shmtensor_count_step"
)


def parts_of(array: Any) -> tuple[Any, ...]:
    """The real arrays of an array: itself, or its real and its imaginary part."""
    return (array.real, array.imag) if array.dtype.kind == "c" else (array,)


@guard
def unscale(arrays: list[Any], factor: Any) -> Any:
    """Multiplies arrays on one device by a factor, in place.

    Args:
        factor: one float32 number in memory of the device.

    Returns: a flag of all arrays.
    """
    found = cupy.zeros(1, "float32")
    for array in arrays:
        for part in parts_of(array):
            multiply_and_check(part, factor, part, found)
    return found


@guard
def check(arrays: list[Any]) -> Any:
    """A flag of arrays on one device, which are not changed."""
    found = cupy.zeros(1, "float32")
    for array in arrays:
        for part in parts_of(array):
            check_only(part, found)
    return found


@guard
def invert(scale: Any) -> Any:
    """The inverse of a scale: computed in float64, one float32 number."""
    return inverse_of(scale)


@guard
def update_scale(
    scale: Any, tracker: Any, found: Any, growth: float, backoff: float, interval: int
) -> tuple[Any, Any]:
    """A scale and its tracker (good steps since the scale changed) after a step with a flag.

    Returns: new arrays, float32 and int32.
    """
    new_scale, new_tracker = next_scale(scale, tracker, found, growth, backoff, interval)
    return new_scale, new_tracker


@guard
def count_step(counts: Any, found: Any) -> None:
    """Adds 1 to float32 counts of steps, unless `found`, a flag or None, is not 0."""
    if found is None:
        counts += 1
    else:
        count_unless(found, counts)
