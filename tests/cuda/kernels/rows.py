"""Calls the CUDA forward of a row, and compares it with the row's forward on NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from shmtensor.autograd.dispatch.op_function import declare
from shmtensor.ops import ROWS
from shmtensor.ops.cuda import load

TOLERANCE = {"float16": 4e-3, "float32": 1e-5, "float64": 1e-11}


def device_forward(name: str) -> Any:
    """The forward that a row has for CUDA."""
    declare()
    load()
    return ROWS[name].device_forwards["cuda"]


def to_device(cp: Any, value: Any) -> Any:
    """NumPy's arrays, on the device."""
    if isinstance(value, np.ndarray):
        return cp.asarray(value)
    if isinstance(value, tuple) and any(isinstance(v, np.ndarray) for v in value):
        return tuple(to_device(cp, v) for v in value)
    return value


def to_host(value: Any) -> Any:
    return value.get() if hasattr(value, "get") else value


def laid_out(cp: Any, x: Any) -> Any:
    """The same values on the device, with strides that are not contiguous."""
    if not isinstance(x, np.ndarray) or not x.ndim:
        return to_device(cp, x)
    wide = cp.zeros((*x.shape[:-1], 2 * x.shape[-1] + 1), x.dtype)
    wide[..., 1::2] = cp.asarray(x)
    return wide[..., 1::2]


def compare(
    cp: Any,
    name: str,
    inputs: tuple[Any, ...],
    attributes: tuple[Any, ...] = (),
    tolerance: float | None = None,
    outputs: int | None = None,
) -> None:
    """Compares values, shapes and dtypes for contiguous and for other inputs.

    float16 is compared with the row's forward in float32, rounded.

    Args:
        outputs: how many of the results are compared; all by default.
    """
    declare()
    row, dtype = ROWS[name], next(x.dtype for x in inputs if isinstance(x, np.ndarray))
    half = any(isinstance(x, np.ndarray) and x.dtype == np.float16 for x in inputs)

    def widened(x: Any) -> Any:
        is_half = isinstance(x, np.ndarray) and x.dtype == np.float16
        return x.astype(np.float32) if is_half else x

    with np.errstate(all="ignore"):
        wanted = row.forward(np, *(widened(x) for x in inputs), *attributes)
    wanted = wanted if isinstance(wanted, (tuple, list)) else (wanted,)
    tolerance = (
        TOLERANCE.get("float16" if half else dtype.name, 1e-5) if tolerance is None else tolerance
    )
    for place in (to_device, laid_out):
        result = device_forward(name)(cp, *(place(cp, x) for x in inputs), *attributes)
        result = result if isinstance(result, (tuple, list)) else (result,)
        for ours, plain in list(zip(result, wanted, strict=True))[:outputs]:
            ours, plain = to_host(ours), np.asarray(plain)
            if half and plain.dtype == np.float32 and ours.dtype == np.float16:
                plain = plain.astype(np.float16)
            assert ours.shape == plain.shape, (name, ours.shape, plain.shape)
            assert ours.dtype == plain.dtype, (name, ours.dtype, plain.dtype)
            np.testing.assert_allclose(
                ours.astype(np.float64) if ours.dtype == np.float16 else ours,
                plain.astype(np.float64) if plain.dtype == np.float16 else plain,
                tolerance,
                tolerance,
                equal_nan=True,
                err_msg=f"{name} {attributes}",
            )
