"""flatten, narrow, select, diagonal and unfold: views of a tensor."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import native
from ..table.dims import axis
from ..table.op_table import composite, op

# ---- flatten


@op(
    native=native.flatten,
    view=True,
    samples=[((3, 4),), ((2, 3, 4), 1), ((2, 3, 4), 0, 1), ((),), ((0, 3), 0, -1)],
    vmap="flatten",
)
def _flatten(xp, x, /, start_dim=0, end_dim=-1):
    """Dimensions start_dim to end_dim as one. Copies: none if the strides allow it."""
    if not x.ndim:
        axis(x, start_dim), axis(x, end_dim)
        return x.reshape((1,))
    start, end = axis(x, start_dim), axis(x, end_dim)
    if start > end:
        raise RuntimeError(f"flatten: start_dim comes after end_dim: {start_dim}, {end_dim}")
    size = math.prod(x.shape[start : end + 1])
    return x.reshape((*x.shape[:start], size, *x.shape[end + 1 :]))


_flatten.pullback(x=lambda ops, g, x_shape: ops.reshape(g, x_shape))


@composite
def flatten(ops, input, start_dim=0, end_dim=-1):
    """A range of dimensions as one; by default all.

    Parameters
    ----------
    input : Tensor
        The tensor; a 0-d one becomes a vector of one element.
    start_dim, end_dim : int, optional
        The first and the last of these dimensions.

    Returns
    -------
    Tensor
        A view if the strides allow it; the tensor itself if the range is one dimension.

    Raises
    ------
    RuntimeError
        `start_dim` comes after `end_dim`.
    IndexError
        One of them is out of range.

    See Also
    --------
    reshape, ravel, unflatten

    Notes
    -----
    Copies: none if the strides allow it, else one.

    Examples
    --------
    >>> x = st.arange(8).reshape(2, 2, 2)
    >>> st.flatten(x)
    tensor([0, 1, 2, 3, 4, 5, 6, 7])
    >>> st.flatten(x, start_dim=1)
    tensor([[0, 1, 2, 3],
            [4, 5, 6, 7]])
    """
    n = input.ndim
    if n == 1 and start_dim in (0, -1) and end_dim in (0, -1):
        return input
    if n > 1 and -n <= start_dim < n and -n <= end_dim < n and start_dim % n == end_dim % n:
        return input
    return ops._flatten(input, start_dim, end_dim)


# ---- parts of a tensor, as views


@op(
    complex_gradients=True, view=True, samples=[((3, 4), 1, 1, 2), ((3, 4), 0, -2, 1)], vmap="along"
)
def narrow(xp, x, /, dim, start, length):
    """A range of a dimension, as a view.

    Parameters
    ----------
    input : Tensor
        With at least one dimension.
    dim : int
        The dimension.
    start : int or Tensor
        The first index; a negative one counts from the end.
    length : int
        How many indices.

    Returns
    -------
    Tensor
        Of the size `length` along `dim`.

    Raises
    ------
    RuntimeError
        The range ends beyond the dimension.
    IndexError
        `start` or `dim` is out of range.

    See Also
    --------
    select, split

    Notes
    -----
    Copies: none.

    Examples
    --------
    >>> st.narrow(st.tensor([[1, 2, 3], [4, 5, 6]]), 1, 1, 2)
    tensor([[2, 3],
            [5, 6]])
    """
    if not x.ndim:
        raise RuntimeError("narrow: a 0-d tensor has nothing to narrow: shape ()")
    dim, size = axis(x, dim), x.shape[axis(x, dim)]
    if not isinstance(start, int):
        if start.ndim or start.dtype.kind not in "iu":
            raise RuntimeError(
                f"narrow: start must be a whole number or a 0-d tensor of one: {start.dtype.name} "
                f"{tuple(start.shape)}"
            )
        start = int(start)
    if not -size <= start <= size:
        raise IndexError(f"narrow: start is out of range: {start}, dim {dim} of {x.shape}")
    start = start + size if start < 0 else start
    if length < 0 or start + length > size:
        raise RuntimeError(f"narrow: too long: {start} + {length} > {size}, dim {dim} of {x.shape}")
    return x[(slice(None),) * dim + (slice(start, start + length),)]


narrow.pullback(x=lambda ops, g, x_shape, dim, start: narrow_backward(ops, g, x_shape, dim, start))


def narrow_backward(ops: Any, g: Any, shape: tuple[int, ...], dim: int, start: int) -> Any:
    """Zeros of a shape, with g as a slice."""
    dim %= len(shape)
    start = int(start) % (shape[dim] or 1) if start != shape[dim] else shape[dim]
    stop = start + g.shape[dim]
    return ops._slice_backward(g, shape, (slice(None),) * dim + (slice(start, stop),))


def embed_kernel(x: Any, shape: Any, index: Any, value: Any = 0) -> Any:
    """The native kernel, for slices without steps; None for small arrays."""
    if x.size < 4096 or len(index) > x.ndim:
        return None
    starts = [0] * x.ndim
    for d, part in enumerate(index):
        if part.__class__ is not slice or part.step is not None:
            return None
        starts[d], stop, _ = part.indices(shape[d])
        if stop - starts[d] != x.shape[d]:
            return None
    return native.embed(x, tuple(shape), tuple(starts), np.full((), value, x.dtype))


@op(
    native=embed_kernel,
    complex_gradients=True,
    samples=[
        ((2, 4), (3, 4), (slice(1, 3),)),
        ((2, 3, 50, 60), (2, 3, 52, 61), (..., slice(1, 51), slice(0, 60)), 2.5),
        ((70, 60), (75, 61), (slice(2, 72), slice(1, 61)), -1.5),
    ],
    layout="images x",
    halves="copies",
)
def _slice_backward(xp, x, /, shape, index, value=0):
    """One number in a shape, with x at a basic index."""
    out = xp.full(shape, value, x.dtype) if value else xp.zeros(shape, x.dtype)
    out[index] = x
    return out


_slice_backward.pullback(x=lambda g, index: g[index])


@op(complex_gradients=True, view=True, samples=[((3, 4), 1, 2), ((3, 4), 0, -1)], vmap="along")
def select(xp, x, /, dim, index):
    """One slice of a dimension, as a view without this dimension.

    Parameters
    ----------
    input : Tensor
        With at least one dimension.
    dim : int
        The dimension.
    index : int
        The index; a negative one counts from the end.

    Returns
    -------
    Tensor
        With one dimension less.

    Raises
    ------
    IndexError
        The index or `dim` is out of range.

    See Also
    --------
    narrow, unbind, index_select

    Notes
    -----
    Copies: none.

    Examples
    --------
    >>> st.select(st.tensor([[1, 2, 3], [4, 5, 6]]), 1, -1)
    tensor([3, 6])
    """
    if not x.ndim:
        raise IndexError("select: a 0-d tensor has nothing to select: shape ()")
    dim, index = axis(x, dim), int(index)
    if not -x.shape[dim] <= index < x.shape[dim]:
        raise IndexError(f"select: index is out of range: {index}, dim {dim} of {x.shape}")
    return x[(slice(None),) * dim + (index, ...)]


select.pullback(
    x=lambda ops, g, x_shape, dim, index: ops._slice_backward(
        g, x_shape, (slice(None),) * (dim % len(x_shape)) + (int(index), ...)
    )
)


@op(
    complex_gradients=True,
    native=native.diagonal,
    view=True,
    samples=[((3, 4),), ((3, 4), 1), ((2, 3, 4), -1, 0, 2)],
    vmap="dim_attributes dim1 dim2",
)
def diagonal(xp, x, /, offset=0, dim1=0, dim2=1):
    """The diagonal of two dimensions, as a view with the diagonal in its last dimension.

    Parameters
    ----------
    input : Tensor
        With at least two dimensions.
    offset : int, optional
        Which diagonal: above the main one if positive, below it if negative.
    dim1, dim2 : int, optional
        The two dimensions.

    Returns
    -------
    Tensor
        Without `dim1` and `dim2`, and with a last dimension along the diagonal.

    See Also
    --------
    diag, diag_embed, diagonal_scatter

    Notes
    -----
    Copies: none.

    Examples
    --------
    >>> x = st.tensor([[1, 2], [3, 4]])
    >>> st.diagonal(x)
    tensor([1, 4])
    >>> st.diagonal(x, offset=1)
    tensor([2])
    """
    return make_writable(x.diagonal(offset, axis(x, dim1), axis(x, dim2)), x)


def make_writable(out: Any, x: Any) -> Any:
    """A diagonal, writable if x is: NumPy's diagonals are read-only for historical reasons."""
    if isinstance(x, np.ndarray) and x.flags.writeable:
        out.flags.writeable = True
    return out


diagonal.pullback(
    x=lambda ops, g, x_shape, offset, dim1, dim2: ops._diagonal_backward(
        g, x_shape, offset, dim1, dim2
    )
)


@op(
    complex_gradients=True,
    samples=[((3,), (3, 4), 0, 0, 1), ((2, 3), (4, 2, 3), 1, -1, 0)],
    halves="copies",
    vmap="diagonal_backward",
)
def _diagonal_backward(xp, x, /, shape, offset, dim1, dim2):
    """Zeros of a shape, with x on the diagonal of two dimensions."""
    out = xp.zeros(shape, x.dtype)
    make_writable(out.diagonal(offset, dim1, dim2), out)[...] = x
    return out


_diagonal_backward.pullback(
    x=lambda ops, g, offset, dim1, dim2: ops.diagonal(g, offset, dim1, dim2)
)


def unfold_kernel(x: Any, dimension: int, size: int, step: int) -> Any:
    """`unfold` without NumPy's Python layer; None if no window fits."""
    n = x.ndim
    if not -n <= dimension < n or not 0 <= size <= x.shape[dimension] or step < 1:
        return None
    shape, strides = list(x.shape), list(x.strides)
    shape[dimension] = (shape[dimension] - size) // step + 1
    strides[dimension] *= step
    return native.as_strided(x, (*shape, size), (*strides, x.strides[dimension]), 0)


@op(
    complex_gradients=True,
    native=unfold_kernel,
    view=True,
    function=False,
    samples=[((8,), 0, 3, 2), ((3, 7), 1, 2, 2)],
    vmap="dim_attributes dimension",
)
def unfold(xp, x, /, dimension, size, step):
    """Windows along a dimension, as a new last dimension.

    Parameters
    ----------
    dimension : int
        The dimension along which they slide.
    size : int
        The size of a window.
    step : int
        The distance of two windows.

    Returns
    -------
    Tensor
        A view: `dimension` counts the windows, (n - size) // step + 1, and the last dimension has
        the elements of each. They may overlap, so write only to a copy of it.

    Raises
    ------
    RuntimeError
        No window fits, or `step` is less than 1.

    See Also
    --------
    as_strided, nn.functional.unfold

    Notes
    -----
    Copies: none. The gradient of an element is the sum over the windows that contain it.

    Examples
    --------
    >>> st.arange(6).unfold(0, 3, 2)
    tensor([[0, 1, 2],
            [2, 3, 4]])
    """
    if not x.ndim:
        return xp.lib.stride_tricks.as_strided(x, (size,), (0,))
    dim = axis(x, dimension)
    if size > x.shape[dim] or step < 1:
        raise RuntimeError(
            f"unfold: no window fits: size={size}, step={step}, dim {dim} of {x.shape}"
        )
    shape, strides = list(x.shape), list(x.strides)
    shape[dim] = (shape[dim] - size) // step + 1
    strides[dim] *= step
    return xp.lib.stride_tricks.as_strided(x, (*shape, size), (*strides, x.strides[dim]))


@op(complex_gradients=True, samples=[((3, 3), (8,), 0, 3, 2), ((3, 3, 2), (3, 7), 1, 2, 2)])
def _unfold_backward(xp, x, /, shape, dimension, size, step):
    """Zeros of a shape, with windows along a dimension added."""
    out = xp.zeros(shape, x.dtype)
    dim = dimension % len(shape)
    rows = xp.moveaxis(out, dim, 0)
    for i in range(size):
        part = rows[i : i + step * (x.shape[dim] - 1) + 1 : step]
        part += xp.moveaxis(x[..., i], dim, 0)
    return out


unfold.pullback(
    x=lambda ops, g, x_shape, dimension, size, step: (
        ops._unfold_backward(g, x_shape, dimension, size, step) if x_shape else ops.sum(g)
    )
)
_unfold_backward.pullback(
    x=lambda ops, g, dimension, size, step: ops.unfold(g, dimension, size, step)
)
