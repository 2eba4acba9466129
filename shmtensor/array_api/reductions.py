"""Reductions and running sums, by the array API standard."""

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


def over(x: Tensor, axis: Axis) -> tuple[Tensor, tuple[int, ...]]:
    """What is reduced, and along which axes: along none, each element is one by itself. There the
    functions of PyTorch's names take all."""
    axes = tuple(range(x.ndim)) if axis is None else sizes(axis)
    return (x, axes) if axes or not x.ndim else (x.unsqueeze(-1), (-1,))


def kept(function: Any, x: Tensor, axis: Axis, keepdims: Any, **named: Any) -> Tensor:
    """A reduction by axes."""
    x, axes = over(x, axis)
    single = axes == (-1,) and axis == ()  # that axis is ours, and goes in any case
    return function(x, axes, keepdim=keepdims and not single, **named)  # type: ignore[no-any-return]


def reduction(name: str, doc: str, extreme: Any = False) -> Callable[..., Tensor]:
    def reduce(x: Tensor, /, *, axis: Axis = None, keepdims: Any = False) -> Tensor:
        return kept(getattr(f, name), x, axis, keepdims)

    reduce.__name__ = reduce.__qualname__ = extreme or name
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
    """How many elements along axes are not zero."""
    return kept(f.sum, x != 0, axis, keepdims)


def accumulator(x: Tensor, dtype: Any) -> Any:
    """The dtype of a sum or product: integers are added up in 64 bits, unsigned ones as such."""
    return dtype or {"b": int64, "i": int64, "u": uint64}.get(x.dtype.kind, x.dtype)


def sum(x: Tensor, /, *, axis: Axis = None, dtype: Any = None, keepdims: Any = False) -> Tensor:
    """The sum along axes; of integers in int64 or uint64."""
    return kept(f.sum, x, axis, keepdims, dtype=accumulator(x, dtype))


def prod(x: Tensor, /, *, axis: Axis = None, dtype: Any = None, keepdims: Any = False) -> Tensor:
    """The product along axes; of integers in int64 or uint64."""
    wanted = accumulator(x, dtype)
    made = x.to(wanted)
    axes = tuple(range(x.ndim)) if axis is None else sizes(axis)
    for a in sorted((d % x.ndim for d in axes), reverse=True):
        made = made.prod(a, keepdims)
    return made.to(wanted)


def var(x: Tensor, /, *, axis: Axis = None, correction: Any = 0.0, keepdims: Any = False) -> Tensor:
    """The variance along axes, divided by n - correction."""
    return kept(f.var, x, axis, keepdims, correction=correction)


def std(x: Tensor, /, *, axis: Axis = None, correction: Any = 0.0, keepdims: Any = False) -> Tensor:
    """The standard deviation along axes."""
    return kept(f.std, x, axis, keepdims, correction=correction)


def cumulative(name: str, start: int) -> Callable[..., Tensor]:
    def cumulate(
        x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: Any = False
    ) -> Tensor:
        along = 0 if axis is None else axis
        wanted = accumulator(x, dtype)
        made = getattr(f, name)(x.to(wanted), along).to(wanted)
        if include_initial:
            shape = [*made.shape]
            shape[along] = 1
            made = f.cat([f.full(tuple(shape), start, dtype=wanted), made], along)
        return made  # type: ignore[no-any-return]

    return cumulate


cumulative_sum = cumulative("cumsum", 0)
cumulative_sum.__doc__ = "The sums of all elements up to each along an axis."
cumulative_prod = cumulative("cumprod", 1)
cumulative_prod.__doc__ = "The products of all elements up to each along an axis."


def diff(
    x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None
) -> Tensor:
    """The differences of neighbours along an axis."""
    return f.diff(x, n, axis, prepend, append)  # type: ignore[no-any-return]


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: Any = False) -> Tensor:
    """Where the largest element along an axis is."""
    return f.argmax(x, axis, keepdims)  # type: ignore[no-any-return]


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: Any = False) -> Tensor:
    """Where the smallest element along an axis is."""
    return f.argmin(x, axis, keepdims)  # type: ignore[no-any-return]
