"""Dimensions: how PyTorch's `dim` becomes NumPy's `axis`, and how a gradient gets a reduced
dimension back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Shape = tuple[int, ...]


def axis(x: Any, dim: int) -> int:
    """A dimension counted from the front; a 0-d tensor counts as having one."""
    n = x.ndim or 1
    if not -n <= dim < n:
        raise IndexError(f"dim: out of range: {dim} for shape {x.shape}, expected {-n} to {n - 1}")
    return dim % n


def axes(x: Any, dim: int | Sequence[int] | None) -> Any:
    """NumPy's `axis` for a `dim`: None and an empty list both mean all dimensions."""
    if dim is None:
        return None
    if not x.ndim:
        dims = (dim,) if isinstance(dim, int) else dim
        if len({axis(x, d) for d in dims}) < len(dims):
            raise RuntimeError(f"dim: {dim}: dim 0 appears multiple times: shape ()")
        return ()
    return dim if isinstance(dim, int) else tuple(dim) or None


def axes_of_all_any(x: Any, dim: int | Sequence[int] | None) -> Any:
    """`axes` for `all` and `any`, where an empty list means no dimension."""
    return () if isinstance(dim, (tuple, list)) and not dim else axes(x, dim)


def broadcast_shape(name: str, *shapes: Sequence[int]) -> Shape:
    """The shape to which tensors of these shapes are broadcast."""
    try:
        return np.broadcast_shapes(*(tuple(s) for s in shapes))
    except ValueError:
        message = ", ".join(str(tuple(s)) for s in shapes)
        raise RuntimeError(f"{name}: shapes cannot be broadcast: {message}") from None


def check_ordered(name: str, x: Any, refused: str = "c") -> Any:
    """The array, if its elements can be ordered."""
    if x.dtype.kind in refused:
        raise NotImplementedError(f"{name}: not implemented for {x.dtype.name}: shape {x.shape}")
    return x


def keepdim_shape(shape: Shape, dim: int | Sequence[int] | None) -> Shape:
    """The shape with the reduced dimensions of size 1."""
    n = len(shape)
    if dim is None or not n:
        return (1,) * n
    if isinstance(dim, int):
        dim %= n
        return (*shape[:dim], 1, *shape[dim + 1 :])
    reduced = {d % n for d in dim} or range(n)
    return tuple(1 if i in reduced else size for i, size in enumerate(shape))


def reduced_dims(dim: int | Sequence[int] | None, shape: Shape) -> tuple[int, ...]:
    """All reduced dimensions, counted from the front."""
    n = len(shape)
    if dim is None or not n:
        return tuple(range(n))
    if isinstance(dim, int):
        return (dim % n,)
    return tuple(sorted({d % n for d in dim})) or tuple(range(n))


def expand_reduced(
    ops: Any, g: Any, shape: Shape, dim: int | Sequence[int] | None, keepdim: bool = False
) -> Any:
    """A reduced tensor, expanded to the shape that it was reduced from (a view)."""
    if dim is not None and not keepdim:
        g = ops.reshape(g, keepdim_shape(shape, dim))
    return ops.broadcast_to(g, shape)


def evenly_distribute_backward(ops: Any, g: Any, x: Any, out: Any, dim: Any, keepdim: bool) -> Any:
    """The gradient of a min, max or median, divided evenly among the elements equal to it."""
    shape = tuple(x.shape)
    extreme = expand_reduced(ops, out, shape, dim, keepdim)
    mask = (x == extreme) | ((x != x) & (extreme != extreme))
    return ops._where(
        mask, expand_reduced(ops, g / ops.sum(mask, dim, keepdim), shape, dim, keepdim), 0.0
    )
