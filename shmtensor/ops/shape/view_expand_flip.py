"""The same elements in another shape or order: views if the strides allow it, else copies."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import native
from ..table.dims import axis, broadcast_shape
from ..table.memory_format import memory_of
from ..table.op_table import composite, dtype, op, sizes
from ..table.sizes import SMALL, check_size

Shape = tuple[int, ...]


def is_view(out: Any, x: Any) -> bool:
    """Does out share the memory of x?"""
    return out.base is x or (out.base is not None and out.base is x.base)


view_op = functools.partial(op, complex_gradients=True, view=True)


@view_op(
    native=native.reshape,
    samples=[((3, 4), (4, 3)), ((3, 4), (2, -1)), ((), (1, 1)), ((0, 3), (3, 0))],
    vmap="shaped shape",
)
def reshape(xp, x, /, shape: sizes):
    """The elements of a tensor, in row order, in another shape.

    Parameters
    ----------
    input : Tensor
        The tensor.
    shape : sequence of int
        The new shape, of as many elements. One size may be -1: it follows from the others. The
        method takes the sizes as arguments, too: `x.reshape(2, -1)`.

    Returns
    -------
    Tensor
        A view if the strides allow it, else a copy.

    Raises
    ------
    RuntimeError
        The number of elements does not fit.

    See Also
    --------
    view, flatten, unflatten, squeeze

    Notes
    -----
    Copies: none if the strides allow it, else one. `view` raises an error instead of copying.

    Examples
    --------
    >>> st.reshape(st.arange(6), (2, 3))
    tensor([[0, 1, 2],
            [3, 4, 5]])
    >>> st.arange(6).reshape(3, -1).shape
    Size([3, 2])
    """
    return x.reshape(shape)


reshape.pullback(x=lambda ops, g, x_shape: ops.reshape(g, x_shape))


@view_op(
    native=native.reshape_view,
    name="_view",
    samples=[((3, 4), (4, 3)), ((3, 4), (2, -1))],
    vmap="shaped shape",
)
def _view(xp, x, /, shape: sizes):
    """`reshape` that never copies.

    Raises:
        RuntimeError: the strides do not allow it.
    """
    out = x.reshape(shape)
    if not is_view(out, x) and x.size:
        raise RuntimeError(
            f"view: no view of these strides has that shape: {x.shape} with strides "
            f"{tuple(s // x.itemsize for s in x.strides)} as {shape}, use reshape()"
        )
    return out


_view.pullback(x=lambda ops, g, x_shape: ops.reshape(g, x_shape))


@op(view=True, samples=[])
def _view_dtype(xp, x, /, dtype: dtype):
    """The same bytes as another dtype."""
    return x.view(dtype)


@composite(function=False)
def view(ops, input, *size):
    """The same memory in another shape, or its bytes as another dtype.

    Parameters
    ----------
    *size : int or dtype
        The new shape, as several sizes or one sequence; one size may be -1. Or a dtype.

    Returns
    -------
    Tensor
        A view: it shares the memory, and a write to one of the two is seen in the other.

    Raises
    ------
    RuntimeError
        The strides do not allow a view of that shape, or the number of elements does not fit.

    See Also
    --------
    reshape, view_as, as_strided

    Notes
    -----
    Copies: none. A tensor that was transposed has no view of another shape: `reshape` copies it, or
    `x.contiguous().view(...)`.

    Examples
    --------
    >>> x = st.arange(6)
    >>> y = x.view(2, 3)
    >>> y[0, 0] = 9
    >>> x
    tensor([9, 1, 2, 3, 4, 5])
    >>> st.ones(1).view(st.int32)
    tensor([1065353216], dtype=shmtensor.int32)
    """
    if size and size[0].__class__ is int:
        return ops._view(input, size)
    if len(size) == 1 and not isinstance(size[0], int):
        if isinstance(size[0], Sequence):
            return ops._view(input, tuple(size[0]))
        return ops._view_dtype(input, size[0])
    return ops._view(input, size)


@composite(function=False)
def view_as(ops, input, other):
    """The same memory in the shape of another tensor.

    Parameters
    ----------
    other : Tensor
        Whose shape is taken.

    Returns
    -------
    Tensor
        A view.

    Raises
    ------
    RuntimeError
        The strides do not allow it, or the number of elements differs.

    See Also
    --------
    view, reshape_as

    Notes
    -----
    Copies: none.

    Examples
    --------
    >>> st.arange(6).view_as(st.zeros(2, 3))
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """
    return ops._view(input, tuple(other.shape))


@composite(function=False)
def reshape_as(ops, input, other):
    """The elements in row order in the shape of another tensor.

    Parameters
    ----------
    other : Tensor
        Whose shape is taken.

    Returns
    -------
    Tensor
        A view if the strides allow it, else a copy.

    Raises
    ------
    RuntimeError
        The number of elements differs.

    See Also
    --------
    reshape, view_as

    Notes
    -----
    Copies: none if the strides allow it, else one.

    Examples
    --------
    >>> st.arange(4).reshape_as(st.zeros(2, 2))
    tensor([[0, 1],
            [2, 3]])
    """
    return ops.reshape(input, tuple(other.shape))


@composite
def ravel(ops, input):
    """All elements of a tensor in one dimension, in row order and contiguous.

    Parameters
    ----------
    input : Tensor
        The tensor.

    Returns
    -------
    Tensor
        A vector.

    See Also
    --------
    flatten, reshape

    Notes
    -----
    Copies: none if the tensor is contiguous, else one.

    Examples
    --------
    >>> st.ravel(st.tensor([[1, 2], [3, 4]]).t())
    tensor([1, 3, 2, 4])
    """
    flat = ops.reshape(input, (-1,))
    array = memory_of(flat)
    return flat if array is None or array.flags.c_contiguous else ops._contiguous(flat)


@composite
def unflatten(ops, input, dim, sizes):
    """One dimension of a tensor as several.

    Parameters
    ----------
    input : Tensor
        The tensor.
    dim : int
        The dimension that is taken apart.
    sizes : int or sequence of int
        The sizes in its place, whose product is its size; one may be -1.

    Returns
    -------
    Tensor
        A view if the strides allow it.

    Raises
    ------
    RuntimeError
        The sizes do not make up the dimension.

    See Also
    --------
    flatten, reshape

    Notes
    -----
    Copies: none if the strides allow it, else one.

    Examples
    --------
    >>> st.unflatten(st.zeros(2, 6), 1, (3, -1)).shape
    Size([2, 3, 2])
    """
    shape, dim = tuple(input.shape), axis(input, dim)
    if not shape:
        raise RuntimeError("unflatten: the tensor must have a dimension: shape ()")
    sizes = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    if not sizes:
        raise RuntimeError("unflatten: sizes must not be empty: ()")
    product = math.prod(s for s in sizes if s != -1)
    fits = shape[dim] == product if -1 not in sizes else product and shape[dim] % product == 0
    if not fits:
        raise RuntimeError(f"unflatten: sizes do not make up dim {dim}: {sizes} of {shape}")
    sizes = tuple(shape[dim] // product if s == -1 else s for s in sizes)
    return ops.reshape(input, (*shape[:dim], *sizes, *shape[dim + 1 :]))


@view_op(
    native=native.squeeze,
    samples=[((3, 1, 4, 1),), ((3, 1), 1), ((3, 4), 0), ((1, 3, 1), (0, 2)), ((), 0)],
    vmap="squeeze",
)
def squeeze(xp, x, /, dim=None):
    """A tensor without its dimensions of size 1.

    Parameters
    ----------
    input : Tensor
        The tensor.
    dim : int or sequence of int, optional
        The dimensions to remove, if their size is 1; by default all of size 1.

    Returns
    -------
    Tensor
        A view.

    Raises
    ------
    IndexError
        A dimension is out of range.

    See Also
    --------
    unsqueeze, flatten

    Notes
    -----
    Copies: none. Name the dimension where a batch may have one sample: without it the batch's
    dimension vanishes, too.

    Examples
    --------
    >>> st.squeeze(st.zeros(2, 1, 3, 1)).shape
    Size([2, 3])
    >>> st.squeeze(st.zeros(1, 3, 1), -1).shape
    Size([1, 3])
    """
    if dim is None:
        return x.squeeze()
    dims = (dim,) if isinstance(dim, int) else dim
    axes = {axis(x, d) for d in dims}
    if len(axes) < len(dims):
        raise RuntimeError(f"squeeze: a dim appears multiple times: {dim}: shape {x.shape}")
    return x.squeeze(tuple(d for d in axes if x.ndim and x.shape[d] == 1))


squeeze.pullback(x=lambda ops, g, x_shape: ops.reshape(g, x_shape))


@view_op(native=native.unsqueeze, samples=[((3, 4), 1), ((3, 4), -1), ((), 0)], vmap="unsqueeze")
def unsqueeze(xp, x, /, dim):
    """A tensor with a new dimension of size 1.

    Parameters
    ----------
    input : Tensor
        Of n dimensions.
    dim : int
        Where the new dimension is, from -(n + 1) to n.

    Returns
    -------
    Tensor
        A view with n + 1 dimensions.

    Raises
    ------
    IndexError
        `dim` is out of range.

    See Also
    --------
    squeeze

    Notes
    -----
    Copies: none. The same as `x[:, None]` for dim = 1.

    Examples
    --------
    >>> x = st.tensor([1, 2, 3])
    >>> st.unsqueeze(x, 0).shape, st.unsqueeze(x, -1).shape
    (Size([1, 3]), Size([3, 1]))
    """
    n = x.ndim + 1
    if not -n <= dim < n:
        raise IndexError(f"unsqueeze: dim is out of range: {dim}, expected {-n} to {n - 1}")
    return x[(*(slice(None),) * (dim % n), None, ...)]


unsqueeze.pullback(x=lambda ops, g, x_shape: ops.reshape(g, x_shape))


@view_op(samples=[((3, 4), 0, 1), ((2, 3, 4), -1, 0), ((), 0, -1)], vmap="dim_attributes dim0 dim1")
def transpose(xp, x, /, dim0, dim1):
    """Two dimensions of a tensor exchanged.

    Parameters
    ----------
    input : Tensor
        The tensor.
    dim0, dim1 : int
        The dimensions.

    Returns
    -------
    Tensor
        A view, whose strides are exchanged, too.

    Raises
    ------
    IndexError
        A dimension is out of range.

    See Also
    --------
    permute, t, movedim

    Notes
    -----
    Copies: none. `swapaxes` and `swapdims` are other names.

    Examples
    --------
    >>> st.transpose(st.tensor([[1, 2, 3], [4, 5, 6]]), 0, 1)
    tensor([[1, 4],
            [2, 5],
            [3, 6]])
    """
    if not x.ndim:
        axis(x, dim0), axis(x, dim1)
        return x.view()
    return x.swapaxes(dim0, dim1)


transpose.pullback(x=lambda ops, g, dim0, dim1: ops.transpose(g, dim0, dim1))
transpose.alias("swapaxes", "swapdims")


@view_op(samples=[((2, 3, 4), (2, 0, 1)), ((3, 4), (-1, 0)), ((), ())], vmap="permute")
def permute(xp, x, /, dims: sizes):
    """The dimensions of a tensor in another order.

    Parameters
    ----------
    input : Tensor
        Of n dimensions.
    dims : sequence of int
        All n dimensions, in the order that the result has. The method takes them as arguments, too:
        `x.permute(0, 2, 1)`.

    Returns
    -------
    Tensor
        A view: dimension i of it is dimension `dims[i]` of the tensor.

    Raises
    ------
    RuntimeError
        `dims` does not have each dimension once.

    See Also
    --------
    transpose, movedim

    Notes
    -----
    Copies: none.

    Examples
    --------
    >>> images = st.zeros(8, 32, 32, 3)  # N, H, W, C
    >>> st.permute(images, (0, 3, 1, 2)).shape
    Size([8, 3, 32, 32])
    """
    if len(dims) != x.ndim:
        raise RuntimeError(f"permute: one dim for each of {x.ndim} is needed: {tuple(dims)}")
    return x.transpose(dims)


permute.pullback(
    x=lambda ops, g, dims: ops.permute(
        g, tuple(int(i) for i in np.argsort([d % len(dims) for d in dims]))
    )
)


@composite
def t(ops, input):
    """A matrix transposed.

    Parameters
    ----------
    input : Tensor
        Of at most two dimensions; vectors and 0-d tensors are returned as they are.

    Returns
    -------
    Tensor
        A view of shape `(n, m)` for `(m, n)`.

    Raises
    ------
    RuntimeError
        The tensor has more than two dimensions.

    See Also
    --------
    transpose, adjoint

    Notes
    -----
    Copies: none.

    Examples
    --------
    >>> st.t(st.tensor([[1, 2], [3, 4]]))
    tensor([[1, 3],
            [2, 4]])
    """
    if input.ndim > 2:
        raise RuntimeError(f"t: at most 2 dimensions are expected: {tuple(input.shape)}")
    return ops.transpose(input, 0, 1) if input.ndim == 2 else ops.reshape(input, input.shape)


@composite
def adjoint(ops, input):
    """Matrices transposed, with complex numbers conjugated.

    Parameters
    ----------
    input : Tensor
        Of shape `(..., m, n)`.

    Returns
    -------
    Tensor
        Of shape `(..., n, m)`.

    See Also
    --------
    transpose, conj

    Notes
    -----
    Copies: none for a real tensor, one for a complex one.

    Examples
    --------
    >>> st.adjoint(st.tensor([[1 + 2j, 3]]))
    tensor([[1.-2.j],
            [3.-0.j]])
    """
    return ops.conj(ops.transpose(input, -2, -1))


@composite
def movedim(ops, input, source, destination):
    """Dimensions of a tensor moved to other positions; the others keep their order.

    Parameters
    ----------
    input : Tensor
        The tensor.
    source : int or sequence of int
        The dimensions that are moved.
    destination : int or sequence of int
        Where each of them is in the result.

    Returns
    -------
    Tensor
        A view.

    Raises
    ------
    RuntimeError
        The two are not equally many distinct dimensions.

    See Also
    --------
    permute, transpose

    Notes
    -----
    Copies: none. `moveaxis` is another name.

    Examples
    --------
    >>> st.movedim(st.zeros(2, 3, 4), 0, -1).shape
    Size([3, 4, 2])
    """
    n = input.ndim
    source = (source,) if isinstance(source, int) else source
    destination = (destination,) if isinstance(destination, int) else destination
    start, end = [axis(input, d) for d in source], [axis(input, d) for d in destination]
    if len(start) != len(end) or len(set(start)) != len(start) or len(set(end)) != len(end):
        raise RuntimeError(
            f"movedim: source and destination must be equally many distinct dims: {source}, "
            f"{destination}"
        )
    order = [d for d in range(n) if d not in start]
    for target, dim in sorted(zip(end, start, strict=True)):
        order.insert(target, dim)
    return ops.permute(input, tuple(order)) if n else ops.reshape(input, ())


movedim.alias("moveaxis")


@view_op(
    numpy=native.expand,
    function=False,
    samples=[((3, 1), (3, 4)), ((4,), (2, 3, -1)), ((), (2,))],
    vmap="expand",
)
def expand(xp, x, /, size: sizes):
    """Dimensions of size 1 repeated to other sizes, without a copy, and new dimensions in front.

    Parameters
    ----------
    *size : int
        The new shape, as several sizes or one sequence; -1 keeps a size.

    Returns
    -------
    Tensor
        A view with strides of 0: its elements share memory, so write only to a copy of it.

    Raises
    ------
    RuntimeError
        A size other than 1 would change.

    See Also
    --------
    broadcast_to, repeat, expand_as

    Notes
    -----
    Copies: none. The gradient is the sum over the repetitions.

    Examples
    --------
    >>> st.tensor([[1], [2]]).expand(2, 3)
    tensor([[1, 1, 1],
            [2, 2, 2]])
    >>> st.tensor([1, 2]).expand(2, -1)
    tensor([[1, 2],
            [1, 2]])
    """
    n_new = len(size) - x.ndim
    shape = tuple(x.shape[i - n_new] if s == -1 and i >= n_new else s for i, s in enumerate(size))
    if n_new < 0 or -1 in shape:
        raise RuntimeError(f"expand: cannot expand {x.shape} to {tuple(size)}")
    return xp.broadcast_to(x, shape)


@view_op(
    numpy=native.expand, samples=[((3, 1), (3, 4)), ((4,), (2, 3, 4)), ((), (2,))], vmap="expand"
)
def broadcast_to(xp, x, /, size: sizes):
    """A tensor broadcast to a shape.

    Parameters
    ----------
    input : Tensor
        The tensor.
    size : sequence of int
        The shape; sizes differ from the tensor's only where those are 1 or missing.

    Returns
    -------
    Tensor
        A view with strides of 0: its elements share memory, so write only to a copy of it.

    Raises
    ------
    RuntimeError
        The tensor cannot be broadcast to the shape.

    See Also
    --------
    expand, broadcast_tensors

    Notes
    -----
    Copies: none. The gradient is the sum over the repetitions.

    Examples
    --------
    >>> st.broadcast_to(st.tensor([1, 2, 3]), (2, 3))
    tensor([[1, 2, 3],
            [1, 2, 3]])
    """
    return xp.broadcast_to(x, size)


def sum_to_shape(ops: Any, g: Any, shape: Shape) -> Any:
    """A gradient, summed over the dimensions that were broadcast."""
    if g.shape == shape:
        return g
    n_new = g.ndim - len(shape)
    dims = tuple(
        i for i in range(g.ndim) if i < n_new or (shape[i - n_new] == 1 and g.shape[i] != 1)
    )
    return ops.reshape(ops.sum(g, dims), shape) if dims else g


for row in (expand, broadcast_to):
    row.pullback(x=lambda ops, g, x_shape: sum_to_shape(ops, g, x_shape))


@composite(function=False)
def expand_as(ops, input, other):
    """Dimensions of size 1 repeated to the shape of another tensor, without a copy.

    Parameters
    ----------
    other : Tensor
        Whose shape is taken.

    Returns
    -------
    Tensor
        A view with strides of 0: its elements share memory, so write only to a copy of it.

    Raises
    ------
    RuntimeError
        A size other than 1 would change.

    See Also
    --------
    expand

    Notes
    -----
    Copies: none.

    Examples
    --------
    >>> st.tensor([[1], [2]]).expand_as(st.zeros(2, 3))
    tensor([[1, 1, 1],
            [2, 2, 2]])
    """
    return ops.expand(input, tuple(other.shape))


@composite(function=False)
def sum_to_size(ops, input, *size):
    """The sum down to a shape that broadcasts to the tensor's: what broadcasting does to a
    gradient.

    Parameters
    ----------
    *size : int
        The shape, as several sizes or one sequence.

    Returns
    -------
    Tensor
        Of the shape `size`.

    See Also
    --------
    sum, expand

    Examples
    --------
    >>> st.ones(2, 3).sum_to_size(1, 3)
    tensor([[2., 2., 2.]])
    """
    size = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    if not size:
        return ops.sum(input)
    return sum_to_shape(ops, input, size)


@composite(method=False)
def broadcast_tensors(ops, *tensors):
    """Tensors broadcast to their common shape.

    Parameters
    ----------
    *tensors : Tensor
        Tensors, or one sequence of them.

    Returns
    -------
    tuple of Tensor
        A view of each, all of one shape.

    Raises
    ------
    RuntimeError
        The shapes cannot be broadcast.

    See Also
    --------
    broadcast_to, broadcast_shapes

    Notes
    -----
    Copies: none.

    Examples
    --------
    >>> st.broadcast_tensors(st.tensor([[1], [2]]), st.tensor([5, 6]))
    (tensor([[1, 1],
            [2, 2]]), tensor([[5, 6],
            [5, 6]]))
    """
    operands = (
        tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
    )
    shape = broadcast_shape("broadcast_tensors", *(t.shape for t in operands))
    return tuple(ops.broadcast_to(t, shape) for t in operands)


# ---- copies in another order


@op(
    complex_gradients=True,
    native=native.flip,
    samples=[((3, 4), (0,)), ((3, 4), (0, -1)), ((0, 3), (1,))],
    layout="like",
    halves="copies",
    vmap="dim_attributes dims",
)
def flip(xp, x, /, dims: sizes):
    """A tensor with the order of elements reversed along dimensions.

    Parameters
    ----------
    input : Tensor
        The tensor.
    dims : int or sequence of int
        The dimensions that are reversed.

    Returns
    -------
    Tensor
        Of the same shape.

    Raises
    ------
    RuntimeError
        A dimension appears twice.

    See Also
    --------
    fliplr, flipud, roll

    Notes
    -----
    Copies: one (the result); there are no negative strides.

    Examples
    --------
    >>> st.flip(st.tensor([[1, 2], [3, 4]]), (0,))
    tensor([[3, 4],
            [1, 2]])
    >>> st.flip(st.tensor([[1, 2], [3, 4]]), (0, 1))
    tensor([[4, 3],
            [2, 1]])
    """
    dims = (dims,) if isinstance(dims, int) else tuple(axis(x, d) for d in dims)
    if len(set(dims)) != len(dims):
        raise RuntimeError(f"flip: a dim appears twice: {dims}")
    if not x.ndim:
        return x.copy()
    flipped = xp.flip(x, dims)
    return native.contiguous(flipped) if xp is np else flipped.copy()


flip.pullback(x=lambda ops, g, dims: ops.flip(g, dims))


@composite
def fliplr(ops, input):
    """A tensor with its columns, the second dimension, in reverse order.

    Parameters
    ----------
    input : Tensor
        With at least two dimensions.

    Returns
    -------
    Tensor
        Of the same shape.

    Raises
    ------
    RuntimeError
        The tensor has fewer dimensions.

    See Also
    --------
    flipud, flip

    Notes
    -----
    Copies: one (the result).

    Examples
    --------
    >>> st.fliplr(st.tensor([[1, 2], [3, 4]]))
    tensor([[2, 1],
            [4, 3]])
    """
    if input.ndim < 2:
        raise RuntimeError(f"fliplr: at least 2 dimensions are needed: {tuple(input.shape)}")
    return ops.flip(input, (1,))


@composite
def flipud(ops, input):
    """A tensor with its rows, the first dimension, in reverse order.

    Parameters
    ----------
    input : Tensor
        With at least one dimension.

    Returns
    -------
    Tensor
        Of the same shape.

    Raises
    ------
    RuntimeError
        The tensor is 0-d.

    See Also
    --------
    fliplr, flip

    Notes
    -----
    Copies: one (the result).

    Examples
    --------
    >>> st.flipud(st.tensor([[1, 2], [3, 4]]))
    tensor([[3, 4],
            [1, 2]])
    """
    if not input.ndim:
        raise RuntimeError("flipud: at least 1 dimension is needed: ()")
    return ops.flip(input, (0,))


@composite
def rot90(ops, input, k=1, dims=(0, 1)):
    """A tensor turned by quarter turns in the plane of two dimensions.

    Parameters
    ----------
    input : Tensor
        With at least two dimensions.
    k : int, optional
        How many quarter turns, from the first of `dims` towards the second; negative: backwards.
    dims : sequence of int, optional
        The two dimensions.

    Returns
    -------
    Tensor
        For odd k with the two sizes exchanged.

    Raises
    ------
    RuntimeError
        The two dimensions are the same.

    See Also
    --------
    flip, transpose

    Notes
    -----
    Copies: one (the result).

    Examples
    --------
    >>> st.rot90(st.tensor([[1, 2], [3, 4]]))
    tensor([[2, 4],
            [1, 3]])
    >>> st.rot90(st.tensor([[1, 2], [3, 4]]), -1)
    tensor([[3, 1],
            [4, 2]])
    """
    if len(dims) != 2 or input.ndim < 2 or axis(input, dims[0]) == axis(input, dims[1]):
        raise RuntimeError(
            f"rot90: two different dims are needed: {tuple(dims)} of {tuple(input.shape)}"
        )
    k = operator.index(k)
    flipped_dims = {1: (dims[1],), 2: tuple(dims), 3: (dims[0],)}
    out = ops.flip(input, flipped_dims[k % 4]) if k % 4 else ops.clone(input)
    return ops.transpose(out, *dims) if k % 2 else out


@op(
    complex_gradients=True,
    native=native.roll,
    samples=[((3, 4), 1), ((3, 4), (1, -2), (0, 1)), ((3, 4), 5, 1)],
    layout="images x",
    halves="copies",
    vmap="dim_attributes dims",
)
def roll(xp, x, /, shifts, dims=None):
    """The elements of a tensor shifted along dimensions; those beyond the end come in again at the
    front.

    Parameters
    ----------
    input : Tensor
        The tensor.
    shifts : int or sequence of int
        By how many places; negative: towards the front.
    dims : int or sequence of int, optional
        The dimension of each shift; by default the flattened tensor is shifted.

    Returns
    -------
    Tensor
        Of the same shape.

    Raises
    ------
    RuntimeError
        There is not one shift for each dimension.

    See Also
    --------
    flip

    Notes
    -----
    Copies: one (the result).

    Examples
    --------
    >>> st.roll(st.tensor([1, 2, 3, 4]), 1)
    tensor([4, 1, 2, 3])
    >>> st.roll(st.tensor([[1, 2], [3, 4], [5, 6]]), -1, dims=0)
    tensor([[3, 4],
            [5, 6],
            [1, 2]])
    """
    if dims == () or dims == []:
        dims = None
    if not isinstance(shifts, int):
        shifts = tuple(shifts)
        if dims is None and len(shifts) != 1:
            raise RuntimeError(f"roll: dims are needed for several shifts: {shifts}")
    if dims is not None:
        dims = (dims,) if isinstance(dims, int) else tuple(dims)
        shifts = (shifts,) if isinstance(shifts, int) else shifts
        if len(dims) != len(shifts):
            raise RuntimeError(f"roll: one shift for each dim is needed: {shifts}, {dims}")
        for d in dims:
            if not x.ndim:
                raise IndexError(f"roll: a 0-d tensor has no dimensions: dims={dims}")
            axis(x, d)
    return xp.roll(x, shifts, dims)


roll.pullback(
    x=lambda ops, g, shifts, dims: ops.roll(
        g, -shifts if isinstance(shifts, int) else tuple(-s for s in shifts), dims
    )
)


@op(
    complex_gradients=True,
    function=False,
    samples=[((3, 4), (2, 1)), ((4,), (2, 3)), ((), (2,)), ((3,), (0,))],
    halves="copies",
    vmap="repeat",
)
def repeat(xp, x, /, repeats: sizes):
    """A tensor repeated along each of its dimensions.

    Parameters
    ----------
    *repeats : int
        How often along each dimension, as several numbers or one sequence. Further numbers in front
        make new dimensions.

    Returns
    -------
    Tensor
        Each size times its number.

    Raises
    ------
    RuntimeError
        There are fewer numbers than dimensions.

    See Also
    --------
    expand, tile, repeat_interleave

    Notes
    -----
    Copies: one (the result). `expand` repeats dimensions of size 1 without a copy.

    Examples
    --------
    >>> st.tensor([1, 2]).repeat(2)
    tensor([1, 2, 1, 2])
    >>> st.tensor([1, 2]).repeat(2, 2)
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])
    """
    if len(repeats) < x.ndim:
        raise RuntimeError(
            f"repeat: one number for each of {x.ndim} dims is needed: {tuple(repeats)}"
        )
    if x.size * math.prod(repeats) > SMALL:
        check_size("repeat", (x.size, *repeats), x.dtype.itemsize)
    if xp is np and x.size > 4096 and 0 not in repeats:
        return native.contiguous(tiled_view(x, tuple(repeats))).reshape(
            tuple(
                r * n
                for r, n in zip(repeats, (1,) * (len(repeats) - x.ndim) + x.shape, strict=True)
            )
        )
    return xp.tile(x, repeats)


def tiled_view(x: Any, repeats: Shape) -> Any:
    """A view with a stride of 0 before each dimension: (repeats[0], n, repeats[1], m, ...)."""
    n_new = len(repeats) - x.ndim
    shape = (1,) * n_new + x.shape
    strides = (0,) * n_new + x.strides
    return native.as_strided(
        x,
        tuple(k for pair in zip(repeats, shape, strict=True) for k in pair),
        tuple(k for stride in strides for k in (0, stride)),
        0,
    )


def repeat_backward(ops: Any, g: Any, shape: Shape, repeats: Shape) -> Any:
    """The sum over the copies."""
    n_new = len(repeats) - len(shape)
    full = (1,) * n_new + tuple(shape)
    if 0 in repeats:
        return ops.broadcast_to(ops.sum(g), shape)
    split = tuple(n for pair in zip(repeats, full, strict=True) for n in pair)
    return ops.reshape(ops.sum(ops.reshape(g, split), tuple(range(0, len(split), 2))), shape)


repeat.pullback(x=lambda ops, g, x_shape, repeats: repeat_backward(ops, g, x_shape, repeats))


@composite
def tile(ops, input, *dims):
    """A tensor repeated along its dimensions; leading numbers that are missing are 1.

    Parameters
    ----------
    input : Tensor
        The tensor.
    *dims : int
        How often along each dimension, as several numbers or one sequence.

    Returns
    -------
    Tensor
        Each size times its number.

    See Also
    --------
    repeat_interleave

    Notes
    -----
    Copies: one (the result).

    Examples
    --------
    >>> st.tile(st.tensor([[1, 2], [3, 4]]), (2,))
    tensor([[1, 2, 1, 2],
            [3, 4, 3, 4]])
    """
    dims = tuple(dims[0]) if len(dims) == 1 and not isinstance(dims[0], int) else dims
    return ops.repeat(input, (1,) * (input.ndim - len(dims)) + dims)
