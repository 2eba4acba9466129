"""New tensors, by the array API standard."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes, functions
from ..tensor import Tensor, from_data

__all__ = [
    "arange",
    "asarray",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "full",
    "full_like",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "sizes",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]

f: Any = functions


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: Any = None) -> Tensor:
    """Data as a tensor. Copies: none if possible, unless `copy`; never if that is False."""
    return from_data.asarray(obj, dtype=dtype, device=device, copy=copy)


def from_dlpack(x: Any, /, *, device: Any = None, copy: Any = None) -> Tensor:
    """A tensor over the memory of any object with `__dlpack__`. Copies: none, unless `copy`."""
    return from_data.from_dlpack(x, device=device, copy=copy)


def arange(
    start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None
) -> Tensor:
    """Numbers from start, or 0, up to stop; empty if step has the wrong sign."""
    bounds = (0, start) if stop is None else (start, stop)
    if (bounds[1] - bounds[0]) * step < 0:
        bounds = bounds[0], bounds[0]
    return f.arange(*bounds, step, dtype=dtype, device=device)  # type: ignore[no-any-return]


def linspace(
    start: Any,
    stop: Any,
    /,
    num: int,
    *,
    dtype: Any = None,
    device: Any = None,
    endpoint: Any = True,
) -> Tensor:
    """Evenly spaced numbers, real or complex."""
    if isinstance(start, complex) or isinstance(stop, complex):
        target = dtypes.as_dtype(dtype or dtypes.default_complex())
        steps = linspace(0, 1, num, dtype=dtypes.float64, device=device, endpoint=endpoint)
        return (steps * (stop - start) + start).to(target)  # type: ignore[no-any-return]
    if endpoint:
        return f.linspace(start, stop, num, dtype=dtype, device=device)  # type: ignore[no-any-return]
    return f.linspace(start, stop, num + 1, dtype=dtype, device=device)[:num]  # type: ignore[no-any-return]


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None
) -> Tensor:
    """Ones on the k-th diagonal."""
    array = np.eye(n_rows, n_cols, k, dtype=dtypes.as_dtype(dtype or dtypes.get_default_dtype()))
    return asarray(array, device=device, copy=True)


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of one value."""
    return f.full(sizes(shape), fill_value, dtype=dtype, device=device)  # type: ignore[no-any-return]


def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An uninitialized tensor."""
    return f.empty(sizes(shape), dtype=dtype, device=device)  # type: ignore[no-any-return]


def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of ones."""
    return f.ones(sizes(shape), dtype=dtype, device=device)  # type: ignore[no-any-return]


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of zeros."""
    return f.zeros(sizes(shape), dtype=dtype, device=device)  # type: ignore[no-any-return]


def sizes(shape: Any) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


empty_like, ones_like, zeros_like = f.empty_like, f.ones_like, f.zeros_like
full_like = f.full_like


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The lower triangle, up to the k-th diagonal."""
    return f.tril(x, k)  # type: ignore[no-any-return]


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The upper triangle, from the k-th diagonal on."""
    return f.triu(x, k)  # type: ignore[no-any-return]


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Grids of coordinates."""
    return tuple(f.meshgrid(*arrays, indexing=indexing))
