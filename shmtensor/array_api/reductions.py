"""Reductions and cumulative sums, by the array API standard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import dtypes, functions
from ..dtypes import int64, uint64
from ..tensor import Tensor
from .creation import sizes
from .dtypes import astype
from .reshape_index import Axis

__all__ = [
    "all",
    "any",
    "argmax",
    "argmin",
    "count_nonzero",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
    "max",
    "mean",
    "min",
    "prod",
    "std",
    "sum",
    "var",
]

f: Any = functions


def normalize_axes(x: Tensor, axis: Axis) -> tuple[Tensor, tuple[int, ...]]:
    """The tensor and the axes to reduce. Without axes, it gets a new axis to reduce, because
    PyTorch's functions would reduce all.
    """
    axes = tuple(range(x.ndim)) if axis is None else sizes(axis)
    return (x, axes) if axes or not x.ndim else (x.unsqueeze(-1), (-1,))


def reduce_axes(function: Any, x: Tensor, axis: Axis, keepdims: Any, **kwargs: Any) -> Tensor:
    """Calls a reduction along axes."""
    x, axes = normalize_axes(x, axis)
    is_inserted = axes == (-1,) and axis == ()  # the inserted axis is always removed
    return function(x, axes, keepdim=keepdims and not is_inserted, **kwargs)  # type: ignore[no-any-return]


def reduction(name: str, doc: str, standard_name: Any = False) -> Callable[..., Tensor]:
    def reduce(x: Tensor, /, *, axis: Axis = None, keepdims: Any = False) -> Tensor:
        return reduce_axes(getattr(f, name), x, axis, keepdims)

    reduce.__name__ = reduce.__qualname__ = standard_name or name
    reduce.__doc__ = doc
    return reduce


max = reduction("amax", "The largest elements along axes.", "max")
min = reduction("amin", "The smallest elements along axes.", "min")
mean = reduction("mean", "The mean along axes.")


def all(x: Tensor, /, *, axis: Axis = None, keepdims: Any = False) -> Tensor:
    """Whether all elements along axes are true."""
    return ~any(~astype(x, dtypes.bool), axis=axis, keepdims=keepdims)


def any(x: Tensor, /, *, axis: Axis = None, keepdims: Any = False) -> Tensor:
    """Whether some element along axes is true."""
    return count_nonzero(x, axis=axis, keepdims=keepdims) > 0


def count_nonzero(x: Tensor, /, *, axis: Axis = None, keepdims: Any = False) -> Tensor:
    """The number of elements along axes that are not zero."""
    return reduce_axes(f.sum, x != 0, axis, keepdims)


def accumulator_dtype(x: Tensor, dtype: Any) -> Any:
    """The dtype of a sum or product: 64-bit for integers, signed or unsigned."""
    return dtype or {"b": int64, "i": int64, "u": uint64}.get(x.dtype.kind, x.dtype)


def sum(x: Tensor, /, *, axis: Axis = None, dtype: Any = None, keepdims: Any = False) -> Tensor:
    """The sum along axes; int64 or uint64 for integers."""
    return reduce_axes(f.sum, x, axis, keepdims, dtype=accumulator_dtype(x, dtype))


def prod(x: Tensor, /, *, axis: Axis = None, dtype: Any = None, keepdims: Any = False) -> Tensor:
    """The product along axes; int64 or uint64 for integers."""
    target = accumulator_dtype(x, dtype)
    result = x.to(target)
    axes = tuple(range(x.ndim)) if axis is None else sizes(axis)
    for a in sorted((d % x.ndim for d in axes), reverse=True):
        result = result.prod(a, keepdims)
    return result.to(target)


def var(x: Tensor, /, *, axis: Axis = None, correction: Any = 0.0, keepdims: Any = False) -> Tensor:
    """The variance along axes, divided by n - correction."""
    return reduce_axes(f.var, x, axis, keepdims, correction=correction)


def std(x: Tensor, /, *, axis: Axis = None, correction: Any = 0.0, keepdims: Any = False) -> Tensor:
    """The standard deviation along axes."""
    return reduce_axes(f.std, x, axis, keepdims, correction=correction)


def cumulative(name: str, start: int) -> Callable[..., Tensor]:
    def cumulate(
        x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: Any = False
    ) -> Tensor:
        dim = 0 if axis is None else axis
        target = accumulator_dtype(x, dtype)
        result = getattr(f, name)(x.to(target), dim).to(target)
        if include_initial:
            shape = [*result.shape]
            shape[dim] = 1
            result = f.cat([f.full(tuple(shape), start, dtype=target), result], dim)
        return result  # type: ignore[no-any-return]

    return cumulate


cumulative_sum = cumulative("cumsum", 0)
cumulative_sum.__doc__ = "The sums of all elements up to each along an axis."
cumulative_prod = cumulative("cumprod", 1)
cumulative_prod.__doc__ = "The products of all elements up to each along an axis."


def diff(
    x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None
) -> Tensor:
    """The differences of adjacent elements along an axis."""
    return f.diff(x, n, axis, prepend, append)  # type: ignore[no-any-return]


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: Any = False) -> Tensor:
    """The index of the largest element along an axis."""
    return f.argmax(x, axis, keepdims)  # type: ignore[no-any-return]


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: Any = False) -> Tensor:
    """The index of the smallest element along an axis."""
    return f.argmin(x, axis, keepdims)  # type: ignore[no-any-return]
