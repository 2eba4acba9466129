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
    samples=[((3, 4), (4, 3)), ((3, 4), (2, -1)), ((), (1, 1)), ((0, 3), (3, 0))],
    vmap="shaped shape",
)
def reshape(xp, x, /, shape: sizes):
    """The elements in row order in another shape, where one size may be -1. Copies: none if the
    strides allow it.
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
    """The same memory in another shape, or its bytes as another dtype. Copies: none."""
    if size and size[0].__class__ is int:
        return ops._view(input, size)
    if len(size) == 1 and not isinstance(size[0], int):
        if isinstance(size[0], Sequence):
            return ops._view(input, tuple(size[0]))
        return ops._view_dtype(input, size[0])
    return ops._view(input, size)


@composite(function=False)
def view_as(ops, input, other):
    """`view` in the shape of another tensor."""
    return ops._view(input, tuple(other.shape))


@composite(function=False)
def reshape_as(ops, input, other):
    """`reshape` to the shape of another tensor."""
    return ops.reshape(input, tuple(other.shape))


@composite
def ravel(ops, input):
    """All elements in one dimension, contiguous. Copies: none or one."""
    flat = ops.reshape(input, (-1,))
    array = memory_of(flat)
    return flat if array is None or array.flags.c_contiguous else ops._contiguous(flat)


@composite
def unflatten(ops, input, dim, sizes):
    """One dimension as several; one of the sizes may be -1."""
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
    """Without its dimensions of size 1, or without those of `dim` with size 1. Copies: none."""
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
    """With a new dimension of size 1 at `dim`. Copies: none."""
    n = x.ndim + 1
    if not -n <= dim < n:
        raise IndexError(f"unsqueeze: dim is out of range: {dim}, expected {-n} to {n - 1}")
    return x[(*(slice(None),) * (dim % n), None, ...)]


unsqueeze.pullback(x=lambda ops, g, x_shape: ops.reshape(g, x_shape))


@view_op(samples=[((3, 4), 0, 1), ((2, 3, 4), -1, 0), ((), 0, -1)], vmap="dim_attributes dim0 dim1")
def transpose(xp, x, /, dim0, dim1):
    """Two dimensions exchanged. Copies: none."""
    if not x.ndim:
        axis(x, dim0), axis(x, dim1)
        return x.view()
    return x.swapaxes(dim0, dim1)


transpose.pullback(x=lambda ops, g, dim0, dim1: ops.transpose(g, dim0, dim1))
transpose.alias("swapaxes", "swapdims")


@view_op(samples=[((2, 3, 4), (2, 0, 1)), ((3, 4), (-1, 0)), ((), ())], vmap="permute")
def permute(xp, x, /, dims: sizes):
    """Dimensions in another order. Copies: none."""
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
    """A matrix transposed; vectors and 0-d tensors unchanged."""
    if input.ndim > 2:
        raise RuntimeError(f"t: at most 2 dimensions are expected: {tuple(input.shape)}")
    return ops.transpose(input, 0, 1) if input.ndim == 2 else ops.reshape(input, input.shape)


@composite
def adjoint(ops, input):
    """The last two dimensions exchanged, and complex numbers conjugated."""
    return ops.conj(ops.transpose(input, -2, -1))


@composite
def movedim(ops, input, source, destination):
    """Dimensions moved to other positions, the others in order. Copies: none."""
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
    """Dimensions of size 1 expanded, new ones in front; -1 means the same size. Copies: none, the
    elements are shared.
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
    """Broadcast to a shape. Copies: none, the elements are shared."""
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
    """`expand` to the shape of another tensor."""
    return ops.expand(input, tuple(other.shape))


@composite(function=False)
def sum_to_size(ops, input, *size):
    """Summed down to a shape that broadcasts to this one."""
    size = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    if not size:
        return ops.sum(input)
    return sum_to_shape(ops, input, size)


@composite(method=False)
def broadcast_tensors(ops, *tensors):
    """All tensors broadcast to their common shape."""
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
    """Dimensions reversed. Copies: one (the result)."""
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
    """The second dimension reversed."""
    if input.ndim < 2:
        raise RuntimeError(f"fliplr: at least 2 dimensions are needed: {tuple(input.shape)}")
    return ops.flip(input, (1,))


@composite
def flipud(ops, input):
    """The first dimension reversed."""
    if not input.ndim:
        raise RuntimeError("flipud: at least 1 dimension is needed: ()")
    return ops.flip(input, (0,))


@composite
def rot90(ops, input, k=1, dims=(0, 1)):
    """A quarter turn, k times, from the first dim towards the second."""
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
    """Elements shifted along dimensions; elements beyond the end reenter at the front."""
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
    """The tensor repeated along each dimension. Copies: one (the result)."""
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
    """`repeat`; missing leading numbers are 1."""
    dims = tuple(dims[0]) if len(dims) == 1 and not isinstance(dims[0], int) else dims
    return ops.repeat(input, (1,) * (input.ndim - len(dims)) + dims)
