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
    """Coordinates of a grid, one tensor for each dimension, from vectors of positions.

    Parameters
    ----------
    *tensors : Tensor
        Vectors of one dtype or 0-d tensors, as arguments or as one sequence.
    indexing : str, optional
        "ij", which is the default: vector i lies along dimension i. "xy": the first two dimensions
        of the results are exchanged, as for columns x and rows y.

    Returns
    -------
    tuple of Tensor
        One for each vector, all of the grid's shape.

    Raises
    ------
    RuntimeError
        A tensor is not a vector, the dtypes differ, or there is no such indexing.

    See Also
    --------
    cartesian_prod

    Notes
    -----
    Copies: none; the results are views with strides of 0, so write only to their copies.

    Examples
    --------
    >>> rows, columns = st.meshgrid(st.arange(2), st.arange(3), indexing="ij")
    >>> rows
    tensor([[0, 0, 0],
            [1, 1, 1]])
    >>> columns
    tensor([[0, 1, 2],
            [0, 1, 2]])
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
    """All combinations of the elements of vectors, as the rows of a matrix.

    Parameters
    ----------
    *tensors : Tensor
        n vectors.

    Returns
    -------
    Tensor
        Of shape `(product of the lengths, n)`; one vector is returned as it is.

    Raises
    ------
    RuntimeError
        A tensor is not a vector.

    See Also
    --------
    meshgrid, combinations

    Notes
    -----
    The last vector changes fastest. Copies: one (the result).

    Examples
    --------
    >>> st.cartesian_prod(st.tensor([1, 2]), st.tensor([5, 6]))
    tensor([[1, 5],
            [1, 6],
            [2, 5],
            [2, 6]])
    """
    if any(x.ndim != 1 for x in tensors):
        raise RuntimeError(f"cartesian_prod: vectors are needed: {[x.shape for x in tensors]}")
    if len(tensors) == 1:
        return tensors[0]
    return ops.stack([ops.reshape(x, (-1,)) for x in ops.meshgrid(*tensors)], 1)


@composite(method=False)
def broadcast_shapes(ops, *shapes):
    """The shape to which tensors of these shapes are broadcast.

    Parameters
    ----------
    *shapes : sequence of int
        Shapes; an int is a shape of one size.

    Returns
    -------
    Size
        The common shape.

    Raises
    ------
    RuntimeError
        Two sizes differ and neither is 1.

    See Also
    --------
    broadcast_tensors, broadcast_to

    Examples
    --------
    >>> st.broadcast_shapes((3, 1), (4,))
    Size([3, 4])
    """
    try:
        sizes = ((s,) if isinstance(s, int) else tuple(s) for s in shapes)
        return native.Size(np.broadcast_shapes(*sizes))
    except ValueError:
        raise RuntimeError(f"broadcast_shapes: the shapes cannot be broadcast: {shapes}") from None


@composite(method=False)
def fill(ops, input, value):
    """A new tensor of one number in the shape and dtype of another.

    Parameters
    ----------
    input : Tensor
        Whose shape and dtype are taken.
    value : number or Tensor
        A number, or a 0-d tensor, to which the gradient goes.

    Returns
    -------
    Tensor
        Of the shape of `input`; `fill_` writes into the tensor itself.

    Raises
    ------
    RuntimeError
        `value` is a tensor with dimensions.

    See Also
    --------
    full_like

    Notes
    -----
    Copies: one (the result).

    Examples
    --------
    >>> st.fill(st.zeros(2, 2), 5)
    tensor([[5., 5.],
            [5., 5.]])
    """
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
    """Adds elements of one number around a tensor, or with negative widths removes its edges.

    Parameters
    ----------
    input : Tensor
        Of any dtype.
    pad : sequence of int
        `(before, after)` of the last dimension, then of the one before it, and so on.
    value : number, optional
        The number in the new elements.

    Returns
    -------
    Tensor
        Size n of a padded dimension becomes before + n + after.

    Raises
    ------
    RuntimeError
        `pad` is odd or too long, or removes more than there is.

    Notes
    -----
    Copies: one (the result).

    Examples
    --------
    >>> st.constant_pad_nd(st.tensor([[1, 2]]), (1, 2))
    tensor([[0, 1, 2, 0, 0]])
    >>> st.constant_pad_nd(st.tensor([[1, 2]]), (0, 0, 1, 0), value=9)
    tensor([[9, 9],
            [1, 2]])
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
    """Indices of the flattened tensor, as one index for each of its dimensions.

    Parameters
    ----------
    indices : Tensor
        Integers.
    shape : int or sequence of int
        The shape of the tensor that they index.

    Returns
    -------
    tuple of Tensor
        One int64 tensor of the shape of `indices` for each dimension.

    Raises
    ------
    TypeError
        `indices` are not integers.

    Examples
    --------
    >>> st.unravel_index(st.tensor([0, 5]), (2, 3))
    (tensor([0, 1]), tensor([0, 2]))
    """
    shape = (shape,) if isinstance(shape, int) else tuple(int(n) for n in shape)
    if indices.dtype.kind not in "iu":
        raise TypeError(f"unravel_index: whole numbers are needed: {indices.dtype.name}")
    coordinates, flat = [], ops._to_copy(indices, np.dtype(np.int64))
    for n in reversed(shape):
        coordinates.append(ops.remainder(flat, n))
        flat = ops.floor_divide(flat, n)
    return tuple(reversed(coordinates))
