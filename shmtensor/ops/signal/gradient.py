"""Finite differences: the gradient of a function from its values on a grid."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..table.dims import axis
from ..table.op_definition import composite


def even(ops: Any, x: Any, step: Any, dim: int, edge_order: int) -> Any:
    """Central differences of evenly spaced values, one-sided ones at the ends."""
    n = x.shape[dim]
    cut = lambda a, b: ops.narrow(x, dim, a, b - a)  # noqa: E731
    inner = ops.div(ops.sub(cut(2, n), cut(0, n - 2)), 2 * step)
    if edge_order == 1:
        first = ops.div(ops.sub(cut(1, 2), cut(0, 1)), step)
        last = ops.div(ops.sub(cut(n - 1, n), cut(n - 2, n - 1)), step)
    else:
        slopes = lambda a, b, c: ops.div(  # noqa: E731
            ops.add(ops.sub(ops.mul(b, 2), ops.mul(a, 1.5)), ops.mul(c, -0.5)), step
        )
        first = slopes(cut(0, 1), cut(1, 2), cut(2, 3))
        last = ops.neg(slopes(cut(n - 1, n), cut(n - 2, n - 1), cut(n - 3, n - 2)))
    return ops.cat([first, inner, last], dim)


def uneven(ops: Any, x: Any, at: Any, dim: int, edge_order: int) -> Any:
    """The same for values at given places."""
    n, shape = x.shape[dim], (-1, *(1,) * (x.ndim - 1 - dim))
    steps = np.diff(np.asarray(at, np.float64))
    as_x = lambda v: np.asarray(v).astype(x.dtype if x.dtype.kind in "fc" else np.float32)  # noqa: E731
    lay = lambda v: as_x(v).reshape(shape)  # noqa: E731
    cut = lambda a, b: ops.narrow(x, dim, a, b - a)  # noqa: E731
    a, b = steps[:-1], steps[1:]
    inner = ops.add(
        ops.add(
            ops.mul(cut(0, n - 2), lay(-b / (a * (a + b)))),
            ops.mul(cut(1, n - 1), lay((b - a) / (a * b))),
        ),
        ops.mul(cut(2, n), lay(a / (b * (a + b)))),
    )
    if edge_order == 1:
        first = ops.div(ops.sub(cut(1, 2), cut(0, 1)), as_x(steps[0]))
        last = ops.div(ops.sub(cut(n - 1, n), cut(n - 2, n - 1)), as_x(steps[-1]))
        return ops.cat([first, inner, last], dim)

    def end(places: tuple[int, int, int], a: float, b: float) -> Any:
        weights = (-(2 * a + b) / (a * (a + b)), (a + b) / (a * b), -a / (b * (a + b)))
        parts = [ops.mul(cut(i, i + 1), as_x(w)) for i, w in zip(places, weights, strict=True)]
        return ops.add(ops.add(*parts[:2]), parts[2])

    first = end((0, 1, 2), steps[0], steps[1])
    last = ops.neg(end((n - 1, n - 2, n - 3), steps[-1], steps[-2]))
    return ops.cat([first, inner, last], dim)


@composite(method=False)
def gradient(ops, input, *, spacing=1, dim=None, edge_order=1):
    """The slope of a function along each dimension, from its values on a grid: a tensor each.

    Args:
        spacing: the step, one for each dimension, or the places along each dimension.
        dim: the dimensions, by default all.
        edge_order: 1 or 2: the order of the one-sided differences at the ends.

    Raises:
        RuntimeError: spacing and dim do not go together, or a dimension is too short.
    """
    if edge_order not in (1, 2):
        raise RuntimeError(f"gradient: only edge_order 1 and 2 are supported: {edge_order}")
    dims = range(input.ndim) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    dims = [axis(input, d) for d in dims]
    if len(set(dims)) != len(dims):
        raise RuntimeError(f"gradient: a dim appears several times: {dims}")
    spacing = 1 if spacing is None else spacing
    one = isinstance(spacing, (int, float, complex))
    given = [spacing] * len(dims) if one else list(spacing)
    if len(given) != len(dims):
        raise RuntimeError(f"gradient: spacing for each of dims {dims} is needed: {len(given)}")
    found = []
    for d, step in zip(dims, given, strict=True):
        if input.shape[d] < edge_order + 1:
            raise RuntimeError(
                f"gradient: expected each dimension size to be at least edge_order+1: "
                f"{tuple(input.shape)}, edge_order={edge_order}"
            )
        if isinstance(step, (int, float, complex)):
            found.append(even(ops, input, step, d, edge_order))
            continue
        at = np.asarray(getattr(step, "array", step))
        if at.ndim and at.shape != (input.shape[d],):
            raise RuntimeError(
                f"gradient: {input.shape[d]} places along dim {d} are needed: {at.shape}"
            )
        made = even(ops, input, at.item(), d, edge_order) if not at.ndim else None
        found.append(uneven(ops, input, at, d, edge_order) if made is None else made)
    return tuple(found)
