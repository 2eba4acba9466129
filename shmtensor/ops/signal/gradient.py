"""Finite differences: the gradient of a function from its values on a grid."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..table.constants import array_module, constant, data_of, on_device
from ..table.dims import axis
from ..table.op_table import composite


def differences(ops: Any, x: Any, step: Any, dim: int, edge_order: int) -> Any:
    """Central differences of evenly spaced values, one-sided ones at the ends."""
    n = x.shape[dim]
    part = lambda a, b: ops.narrow(x, dim, a, b - a)  # noqa: E731
    inner = ops.div(ops.sub(part(2, n), part(0, n - 2)), 2 * step)
    if edge_order == 1:
        first = ops.div(ops.sub(part(1, 2), part(0, 1)), step)
        last = ops.div(ops.sub(part(n - 1, n), part(n - 2, n - 1)), step)
    else:
        second_order = lambda a, b, c: ops.div(  # noqa: E731
            ops.add(ops.sub(ops.mul(b, 2), ops.mul(a, 1.5)), ops.mul(c, -0.5)), step
        )
        first = second_order(part(0, 1), part(1, 2), part(2, 3))
        last = ops.neg(second_order(part(n - 1, n), part(n - 2, n - 1), part(n - 3, n - 2)))
    return ops.cat([first, inner, last], dim)


def uneven_differences(ops: Any, x: Any, positions: Any, dim: int, edge_order: int) -> Any:
    """`differences` for values at the given positions."""
    n, shape = x.shape[dim], (-1, *(1,) * (x.ndim - 1 - dim))
    xp = array_module(x)
    steps = xp.diff(xp.asarray(positions, xp.float64))
    dtype = x.dtype if x.dtype.kind in "fc" else np.dtype(np.float32)
    as_x = lambda v: constant(xp.asarray(v).astype(dtype), x)  # noqa: E731
    column = lambda v: as_x(v.reshape(shape))  # noqa: E731
    part = lambda a, b: ops.narrow(x, dim, a, b - a)  # noqa: E731
    a, b = steps[:-1], steps[1:]
    inner = ops.add(
        ops.add(
            ops.mul(part(0, n - 2), column(-b / (a * (a + b)))),
            ops.mul(part(1, n - 1), column((b - a) / (a * b))),
        ),
        ops.mul(part(2, n), column(a / (b * (a + b)))),
    )
    if edge_order == 1:
        first = ops.div(ops.sub(part(1, 2), part(0, 1)), as_x(steps[0]))
        last = ops.div(ops.sub(part(n - 1, n), part(n - 2, n - 1)), as_x(steps[-1]))
        return ops.cat([first, inner, last], dim)

    def edge_difference(indices: tuple[int, int, int], a: float, b: float) -> Any:
        weights = (-(2 * a + b) / (a * (a + b)), (a + b) / (a * b), -a / (b * (a + b)))
        parts = [ops.mul(part(i, i + 1), as_x(w)) for i, w in zip(indices, weights, strict=True)]
        return ops.add(ops.add(*parts[:2]), parts[2])

    first = edge_difference((0, 1, 2), steps[0], steps[1])
    last = ops.neg(edge_difference((n - 1, n - 2, n - 3), steps[-1], steps[-2]))
    return ops.cat([first, inner, last], dim)


@composite(method=False)
def gradient(ops, input, *, spacing=1, dim=None, edge_order=1):
    """The derivative of a function along dimensions, from its values on a grid.

    Parameters
    ----------
    input : Tensor
        The values.
    spacing : number or sequence, optional
        The distance of two values: one number, or for each dimension a number or a vector of
        positions.
    dim : int or sequence of int, optional
        The dimensions; by default all.
    edge_order : int, optional
        1 or 2: the order of the one-sided differences at the ends.

    Returns
    -------
    tuple of Tensor
        For each dimension a tensor of the shape of `input`.

    Raises
    ------
    RuntimeError
        `spacing` and `dim` do not match, or a dimension is too short.

    See Also
    --------
    diff

    Notes
    -----
    Inside, the differences are central: (input[i + 1] - input[i - 1]) / 2 for a spacing of 1.

    Examples
    --------
    >>> st.gradient(st.tensor([0., 1., 4., 9.]))
    (tensor([1., 2., 4., 5.]),)
    >>> st.gradient(st.tensor([0., 1., 4., 9.]), spacing=2, edge_order=2)
    (tensor([0., 1., 2., 3.]),)
    """
    if edge_order not in (1, 2):
        raise RuntimeError(f"gradient: only edge_order 1 and 2 are supported: {edge_order}")
    dims = range(input.ndim) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    dims = [axis(input, d) for d in dims]
    if len(set(dims)) != len(dims):
        raise RuntimeError(f"gradient: a dim appears several times: {dims}")
    spacing = 1 if spacing is None else spacing
    is_number = isinstance(spacing, (int, float, complex))
    spacings = [spacing] * len(dims) if is_number else list(spacing)
    if len(spacings) != len(dims):
        raise RuntimeError(f"gradient: spacing for each of dims {dims} is needed: {len(spacings)}")
    results = []
    for d, step in zip(dims, spacings, strict=True):
        if input.shape[d] < edge_order + 1:
            raise RuntimeError(
                f"gradient: expected each dimension size to be at least edge_order+1: "
                f"{tuple(input.shape)}, edge_order={edge_order}"
            )
        if isinstance(step, (int, float, complex)):
            results.append(differences(ops, input, step, d, edge_order))
            continue
        positions = data_of(step) if on_device(step) else np.asarray(data_of(step))
        if positions.ndim and positions.shape != (input.shape[d],):
            raise RuntimeError(
                f"gradient: {input.shape[d]} places along dim {d} are needed: {positions.shape}"
            )
        if positions.ndim:
            results.append(uneven_differences(ops, input, positions, d, edge_order))
        else:
            results.append(differences(ops, input, positions.item(), d, edge_order))
    return tuple(results)
