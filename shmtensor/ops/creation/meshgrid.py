"""meshgrid, cartesian_prod, constant_pad_nd, unravel_index: tensors made of other tensors."""

from __future__ import annotations

import builtins
import math

import numpy as np

from ... import native
from ..table.constants import filled
from ..table.op_table import composite


@composite(method=False)
def meshgrid(ops, *tensors, indexing=None):
    """Vectors as grids: output i has tensor i along dimension i ("xy": the first two exchanged).
    Copies: none.
    """
    vectors = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(f"meshgrid: no such indexing: {indexing!r}, 'ij' or 'xy' is needed")
    if any(x.ndim > 1 for x in vectors):
        raise RuntimeError(f"meshgrid: vectors are needed: {[tuple(x.shape) for x in vectors]}")
    if any(x.dtype != vectors[0].dtype for x in vectors):
        raise RuntimeError(
            f"meshgrid: vectors of one dtype are needed: {[x.dtype for x in vectors]}"
        )
    sizes = tuple(math.prod(x.shape) for x in vectors)
    n = len(vectors)
    grids = [
        ops.broadcast_to(ops.reshape(x, (1,) * i + (-1,) + (1,) * (n - 1 - i)), sizes)
        for i, x in enumerate(vectors)
    ]
    return tuple(ops.transpose(x, 0, 1) if indexing == "xy" and n > 1 else x for x in grids)


@composite(method=False)
def cartesian_prod(ops, *tensors):
    """All combinations of the elements of vectors, one row each."""
    if any(x.ndim != 1 for x in tensors):
        raise RuntimeError(f"cartesian_prod: vectors are needed: {[x.shape for x in tensors]}")
    if len(tensors) == 1:
        return tensors[0]
    return ops.stack([ops.reshape(x, (-1,)) for x in ops.meshgrid(*tensors)], 1)


@composite(method=False)
def broadcast_shapes(ops, *shapes):
    """The shape to which tensors of these shapes are broadcast."""
    try:
        sizes = ((s,) if isinstance(s, int) else tuple(s) for s in shapes)
        return native.Size(np.broadcast_shapes(*sizes))
    except ValueError:
        raise RuntimeError(f"broadcast_shapes: the shapes cannot be broadcast: {shapes}") from None


@composite(method=False)
def fill(ops, input, value):
    """One number (or a 0-d tensor) in the shape and dtype of a tensor."""
    if hasattr(value, "ndim"):
        if value.ndim:
            raise RuntimeError(f"fill: the value must be a number or 0-d: {tuple(value.shape)}")
        value = ops._to_copy(value, input.dtype)
    else:
        value = filled((), value, input.dtype, input)
    return ops._where(filled(tuple(input.shape), True, np.bool_, input), value, input)


@composite(method=False)
def zero_(ops, input):
    """Fills the tensor with 0."""
    return input.zero_()


@composite(method=False)
def constant_pad_nd(ops, input, pad, value=0):
    """The tensor padded with one number: pad is (before, after) of the last dimension, then of the
    one before it.
    """
    if len(pad) % 2 or len(pad) // 2 > input.ndim:
        raise RuntimeError(f"constant_pad_nd: pad does not fit: {tuple(pad)}, {tuple(input.shape)}")
    if not builtins.any(pad):
        return ops.clone(input)
    widths = [(0, 0)] * (input.ndim - len(pad) // 2)
    widths += [(pad[i], pad[i + 1]) for i in builtins.range(len(pad) - 2, -1, -2)]
    for dim, (before, after) in enumerate(widths):
        if before >= 0 and after >= 0:
            continue
        start = max(-before, 0)
        length = input.shape[dim] - start - max(-after, 0)
        if length < 0:
            raise RuntimeError(
                f"constant_pad_nd: negative padding exceeds the size: {(before, after)} of dim "
                f"{dim} of {tuple(input.shape)}"
            )
        input = ops.narrow(input, dim, start, length)
    widths = [(max(a, 0), max(b, 0)) for a, b in widths]
    shape = tuple(n + a + b for n, (a, b) in zip(input.shape, widths, strict=True))
    inner = tuple(slice(a, a + n) for n, (a, _) in zip(input.shape, widths, strict=True))
    return ops._slice_backward(input, shape, inner, value)


@composite(method=False)
def unravel_index(ops, indices, shape):
    """Indices of the flattened tensor as one index for each dimension."""
    shape = (shape,) if isinstance(shape, int) else tuple(int(n) for n in shape)
    if indices.dtype.kind not in "iu":
        raise TypeError(f"unravel_index: whole numbers are needed: {indices.dtype.name}")
    coordinates, flat = [], ops._to_copy(indices, np.dtype(np.int64))
    for n in reversed(shape):
        coordinates.append(ops.remainder(flat, n))
        flat = ops.floor_divide(flat, n)
    return tuple(reversed(coordinates))
