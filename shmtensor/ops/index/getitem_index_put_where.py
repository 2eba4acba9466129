"""`x[index]`, index_put, where, masked_fill, take, nonzero: reading and writing at indices and
masks.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import native
from ...dtypes import HALVES, float32
from ..table.check_dtypes import check_index_dtype, check_same_dtype
from ..table.constants import data_of, filled, on_device
from ..table.dims import broadcast_shape
from ..table.op_table import composite, index, op
from ..table.python_scalars import as_operand_of, fits_dtype
from ..table.samples import bools
from .index_add import add_at_flat_indices, add_rows, flat_indices

Shape = tuple[int, ...]


@op(
    complex_gradients=True,
    numpy=native.where,
    selects=True,
    broadcast=True,
    promote="common x y",
    inplace=False,
    samples=[(bools((3, 4)), (3, 4), (4,)), (bools((3, 1)), (), (4,)), (bools(()), (2,), (2,))],
)
def _where(xp, condition, x, y, /):
    """The elements of one tensor where a condition holds, of another where not."""
    return xp.where(condition, x, y)


_where.pullback(
    x=lambda ops, g, condition: ops._where(condition, g, 0.0),
    y=lambda ops, g, condition: ops._where_other(condition, g, 0.0),
)


@op(
    complex_gradients=True,
    numpy=lambda condition, x, y: native.where(condition, y, x),
    selects=True,
    broadcast=True,
    promote="common x y",
    inplace=False,
    samples=[(bools((3, 4)), (3, 4), (4,)), (bools((3, 1)), (), (4,)), (bools(()), (2,), (2,))],
)
def _where_other(xp, condition, x, y, /):
    """`_where` with exchanged operands, so that the second one may be a number."""
    return xp.where(condition, y, x)


_where_other.pullback(
    x=lambda ops, g, condition: ops._where_other(condition, g, 0.0),
    y=lambda ops, g, condition: ops._where(condition, g, 0.0),
)


@composite(method=False)
def where(ops, condition, input=None, other=None):
    """Elements of one tensor where a condition holds, and of another where it does not.

    Parameters
    ----------
    condition : Tensor
        Of bool. Without the other two arguments of any dtype: then the indices of what is not 0 are
        returned, as of `nonzero(condition, as_tuple=True)`.
    input, other : Tensor or number, optional
        Broadcast against the condition, and converted to their common dtype.

    Returns
    -------
    Tensor
        Of the common shape; or a tuple of index vectors.

    Raises
    ------
    RuntimeError
        The condition is not of bool, or the shapes do not fit.

    See Also
    --------
    nonzero, masked_fill

    Notes
    -----
    Copies: one (the result). The gradient of each operand is 0 where the other one was chosen, but
    an infinite or NaN derivative of an operand itself still gives NaN: 0 * inf.

    Examples
    --------
    >>> x = st.tensor([-1., 2., -3.])
    >>> st.where(x > 0, x, 0.0)
    tensor([0., 2., 0.])
    >>> st.where(x < 0)
    (tensor([0, 2]),)
    """
    if input is None and other is None:
        return ops.nonzero(condition, as_tuple=True)
    if condition.dtype != np.bool_:
        raise RuntimeError(f"where: the condition must be bool: {condition.dtype.name}")
    if isinstance(input, (int, float)):
        if isinstance(other, (int, float)):
            number = ops.full((), other)
            other = filled((), other, number.dtype, condition) if on_device(condition) else number
        return ops._where_other(condition, other, input)
    return ops._where(condition, input, other)


# ---- x[index]


def is_basic(index: Any) -> bool:
    """Is it made of numbers, slices, None and `...` only, so that no element occurs twice?"""
    parts = index if isinstance(index, tuple) else (index,)
    return all(not hasattr(i, "dtype") and not isinstance(i, (list, bool)) for i in parts)


def add_at(xp: Any, out: Any, index: Any, values: Any) -> None:
    """out[index] += values, where an element may occur several times."""
    if xp is np and add_rows(out, index, values):
        return
    parts = index if isinstance(index, tuple) else (index,)
    if is_basic(index) or all(getattr(i, "dtype", None) == np.bool_ for i in parts):
        out[native.private_index(index)] += values
    else:
        add_at_flat_indices(xp, out, flat_indices(xp, out.shape, index), values)


def getitem(x: Any, index: Any) -> Any:
    """x[index]; one element is a 0-d view, not a number."""
    index = native.private_index(index)
    out = x[index]
    if out.__class__ is not x.__class__:
        out = x[(*index, ...) if isinstance(index, tuple) else (index, ...)]
    return out


def explain_slice_step(inputs: Any, attributes: Any) -> Any:
    """The error of a slice with a step that is not positive."""
    (index,) = attributes
    for part in index if isinstance(index, tuple) else (index,):
        if isinstance(part, slice) and part.step is not None and part.step <= 0:
            return ValueError(
                f"indexing: slice step must be greater than zero: {part.step} of shape "
                f"{tuple(inputs[0].shape)}"
            )
    return None


@op(
    complex_gradients=True,
    diagnose=explain_slice_step,
    numpy=native.item,
    view=True,
    samples=[((3, 4), 1), ((3, 4), (slice(None), slice(1, 3))), ((3, 4), (np.array([0, 0]),))],
    halves="copies",
    vmap="getitem",
)
def _getitem(xp, x, /, index: index):
    """Part of a tensor: a view for numbers and slices, a copy for arrays and masks."""
    return getitem(x, index)


_getitem.pullback(x=lambda ops, g, x_shape, index: ops._index_backward(g, x_shape, index))


@op(complex_gradients=True, samples=[((2, 4), (3, 4), (np.array([0, 0]),))])
def _index_backward(xp, x, /, shape, index: index):
    """Zeros of a shape, with x added at an index: the gradient of x[index]."""
    out = xp.zeros(shape, x.dtype)
    if is_basic(index):
        out[index] = x
    else:
        add_at(xp, out, index, x)
    return out


_index_backward.pullback(x=lambda ops, g, index: ops._getitem(g, index))


def index_put_in_place(x: Any, values: Any, index: Any, accumulate: bool) -> bool:
    """`_index_put` in place; False for sums of 16-bit floats, which need float32."""
    if not accumulate:
        native.assign(x, index, values)
        return True
    if x.dtype in HALVES:
        return False
    if x.flags.c_contiguous:
        add_at(np, x, index, values.astype(x.dtype, copy=False))
    else:
        np.add.at(x, native.private_index(index), values)
    return True


@op(
    complex_gradients=True,
    write=index_put_in_place,
    samples=[((3, 4), (2, 4), (np.array([0, 2]),), False)],
    halves="copies",
)
def _index_put(xp, x, values, /, index: index, accumulate):
    """The tensor with values written or added at an index. Copies: one (the result)."""
    if not accumulate:
        out = x.copy(order="C")
        if xp is np:
            native.assign(out, index, values)
        else:
            out[native.private_index(index)] = values
        return out
    if x.dtype not in HALVES:
        out = x.copy(order="C")
        add_at(xp, out, index, values.astype(x.dtype, copy=False))
        return out
    wide = native.recast(x.copy(order="C"), float32)  # a sum of many is rounded once
    add_at(xp, wide, index, native.recast(values, float32))
    return native.recast(wide, x.dtype)


def zero_at(ops: Any, g: Any, index: Any) -> Any:
    """A gradient with 0 at the elements that were overwritten."""
    return ops._index_put(g, filled((), 0, g.dtype, g), index, False)


def index_put_values_backward(
    ops: Any, g: Any, index: Any, shape: Shape, accumulate: bool = True
) -> Any:
    """The gradient of index_put's values: g at the index, summed to the values' shape. Of values
    written to one place the last is kept, and has the gradient.
    """
    g = ops._getitem(g, index) if accumulate or on_device(g) else ops._getitem_kept(g, index)
    n_new = g.ndim - len(shape)
    dims = tuple(i for i in range(g.ndim) if i < n_new or (shape[i - n_new] == 1 != g.shape[i]))
    return ops.reshape(ops.sum(g, dims), shape) if dims else g


_index_put.pullback(
    x=lambda ops, g, index, accumulate: g if accumulate else zero_at(ops, g, index),
    values=lambda ops, g, index, values_shape, accumulate: index_put_values_backward(
        ops, g, index, values_shape, accumulate
    ),
)


# Note [Kept values]: of several values that are written to one place, the last is kept. The
# gradient of the values has 0 for the others. A write of each value's position, by the kernel that
# wrote the values, shows which are kept: those that find their own position. It costs a pass over
# the indices in backward. On a device, whose order of writes is not defined, all have the gradient.


def may_repeat(index: Any) -> bool:
    """Whether an index can select an element twice: it has an array of several integers."""
    return any(
        isinstance(part, list) or (hasattr(part, "dtype") and part.dtype != np.bool_ and part.ndim)
        for part in (index if isinstance(index, tuple) else (index,))
    )


@op(samples=[((3, 4), (np.array([0, 2, 0]),))], halves="copies")
def _getitem_kept(xp, x, /, index: index):
    """x[index], with 0 for elements that a later index selects again. Note [Kept values]"""
    out = getitem(x, index)
    if xp is not np or not may_repeat(index):
        return out.copy() if is_basic(index) else out
    positions = np.arange(out.size).reshape(out.shape)
    written = np.empty(x.shape, positions.dtype)
    native.assign(written, index, positions)
    return np.where(getitem(written, index) == positions, out, out.dtype.type(0))


_getitem_kept.pullback(
    x=lambda ops, g, index, x_shape: ops._index_put(filled(x_shape, 0, g.dtype, g), g, index, False)
)


@composite(autocast_cuda="widest", inplace="_index_put")
def index_put(ops, input, indices, values, accumulate=False):
    """A copy of a tensor, with values written at positions that index tensors give.

    Parameters
    ----------
    input : Tensor
        The tensor.
    indices : tuple of Tensor
        An index tensor for each of the first dimensions, broadcast against each other; or masks of
        bool.
    values : Tensor
        Of the dtype of `input`, broadcast to the shape of `input[indices]`.
    accumulate : bool, optional
        Whether the values are added, at an index that repeats each of them, instead of written.

    Returns
    -------
    Tensor
        Of the shape of `input`; `index_put_` writes into the tensor itself.

    Raises
    ------
    RuntimeError
        The dtypes or shapes do not match.
    IndexError
        An index is out of range.

    See Also
    --------
    scatter, put, masked_fill

    Notes
    -----
    Copies: one (the result).

    Examples
    --------
    >>> x, at = st.zeros(2, 3), (st.tensor([0, 1, 1]), st.tensor([2, 0, 0]))
    >>> st.index_put(x, at, st.tensor(1.), accumulate=True)
    tensor([[0., 0., 1.],
            [2., 0., 0.]])
    """
    check_same_dtype("index_put", input, values)
    return ops._index_put(input, values, tuple(indices), accumulate)


# ---- under a mask


@op(complex_gradients=True, samples=[((3, 4), (), bools((3, 4))), ((3, 4), (), bools((4,)))])
def _masked_fill(xp, x, value, mask, /):
    """x, with the one element of value where mask is true."""
    if value.ndim:
        raise RuntimeError(f"masked_fill: value must be a number or 0-d: {value.shape}")
    if mask.dtype != np.bool_:
        raise RuntimeError(f"masked_fill: the mask must be bool: {mask.dtype.name}")
    where_function = native.where if xp is np else xp.where
    return where_function(mask, value.astype(x.dtype, copy=False), x)


_masked_fill.pullback(
    x=lambda ops, g, mask, x_shape: sum_to_shape(ops, ops._where_other(mask, g, 0.0), x_shape),
    value=lambda ops, g, mask: ops.sum(ops._where(mask, g, 0.0)),
)


def sum_to_shape(ops: Any, g: Any, shape: Shape) -> Any:
    """g, summed over the dimensions that were broadcast."""
    return g if tuple(g.shape) == tuple(shape) else ops.sum_to_size(g, *shape)


@composite(inplace=True)
def masked_fill(ops, input, mask, value):
    """A copy of a tensor, with one number where a mask is true.

    Parameters
    ----------
    input : Tensor
        The tensor.
    mask : Tensor
        Of bool; broadcast against `input`.
    value : number or Tensor
        A number, or a 0-d tensor, which may have a gradient.

    Returns
    -------
    Tensor
        Of the broadcast shape and the dtype of `input`; `masked_fill_` writes into the tensor
        itself.

    Raises
    ------
    RuntimeError
        The mask is not of bool, or the value does not fit the dtype.

    See Also
    --------
    where, masked_select, masked_scatter

    Notes
    -----
    Copies: one (the result).

    Examples
    --------
    >>> x = st.tensor([[1., 2.], [3., 4.]])
    >>> st.masked_fill(x, x > 2, 0)
    tensor([[1., 2.],
            [0., 0.]])
    >>> st.masked_fill(x, st.tensor([True, False]), -float("inf"))
    tensor([[-inf, 2.],
            [-inf, 4.]])
    """
    if isinstance(value, (int, float, complex)):
        if input.dtype.kind == "f" and value.__class__ in (int, float) and mask.dtype == np.bool_:
            fits_dtype("masked_fill", value, input.dtype)
            return ops._where_other(mask, input, float(value))
        value = as_operand_of("masked_fill", value, input)
    elif value.dtype.kind == "c" and input.dtype.kind != "c":
        raise RuntimeError(
            f"masked_fill: a complex value does not fit: {value}, {input.dtype.name}"
        )
    return ops._masked_fill(input, value, mask)


@composite(exact_out=True)
def masked_select(ops, input, mask):
    """The elements where a mask is true, in row order.

    Parameters
    ----------
    input : Tensor
        The tensor.
    mask : Tensor
        Of bool; broadcast against `input`.

    Returns
    -------
    Tensor
        A vector of as many elements as the mask selects.

    Raises
    ------
    RuntimeError
        The mask is not of bool, or the shapes do not fit.

    See Also
    --------
    masked_fill, nonzero

    Notes
    -----
    Copies: one (the result).

    Examples
    --------
    >>> x = st.tensor([[1, 5], [7, 2]])
    >>> st.masked_select(x, x > 3)
    tensor([5, 7])
    """
    if mask.dtype != np.bool_:
        raise RuntimeError(f"masked_select: the mask must be bool: {mask.dtype.name}")
    shape = broadcast_shape("masked_select", input.shape, mask.shape)
    return ops._getitem(ops.broadcast_to(input, shape), ops.broadcast_to(mask, shape))


@op(
    complex_gradients=True,
    samples=[((3, 4), (12,), bools((3, 4))), ((3, 4), (3, 4), bools((4,)))],
    halves="copies",
)
def _masked_scatter(xp, x, source, mask, /):
    """x, with the elements of source in order where mask is true."""
    if mask.dtype != np.bool_:
        raise RuntimeError(f"masked_scatter: the mask must be bool: {mask.dtype.name}")
    shape = broadcast_shape("masked_scatter", x.shape, mask.shape)
    out, mask = xp.broadcast_to(x, shape).copy(), xp.broadcast_to(mask, shape)
    mask = native.private_index(mask)
    n = int(mask.sum())
    if n > source.size:
        raise RuntimeError(
            f"masked_scatter: too few elements in source: {source.size}, mask has {n}"
        )
    out[mask] = source.reshape(-1)[:n]
    return out


_masked_scatter.pullback(
    x=lambda ops, g, mask, x_shape: sum_to_shape(ops, ops._where_other(mask, g, 0.0), x_shape),
    source=lambda ops, g, mask, source_shape: ops._masked_scatter_backward(
        ops._getitem(g, ops.broadcast_to(mask, tuple(g.shape))), source_shape
    ),
)


@op(complex_gradients=True, samples=[((3,), (2, 4)), ((0,), (2,))], halves="copies")
def _masked_scatter_backward(xp, x, /, shape):
    """Zeros of a shape whose first elements are x's."""
    out = xp.zeros(shape, x.dtype)
    out.reshape(-1)[: x.size] = x
    return out


_masked_scatter_backward.pullback(x=lambda ops, g, x_shape: ops.reshape(g, (-1,))[: x_shape[0]])


@composite(inplace=True)
def masked_scatter(ops, input, mask, source):
    """A copy of a tensor, with the elements of another, one after the other, where a mask is true.

    Parameters
    ----------
    input : Tensor
        The tensor.
    mask : Tensor
        Of bool; broadcast against `input`.
    source : Tensor
        Of the dtype of `input`, with at least as many elements as the mask selects.

    Returns
    -------
    Tensor
        Of the broadcast shape; `masked_scatter_` writes into the tensor itself.

    Raises
    ------
    RuntimeError
        `source` has too few elements, or shapes or dtypes do not fit.

    See Also
    --------
    masked_fill, masked_select

    Notes
    -----
    Copies: one (the result).

    Examples
    --------
    >>> mask = st.tensor([True, False, True])
    >>> st.masked_scatter(st.zeros(3), mask, st.tensor([8., 9.]))
    tensor([8., 0., 9.])
    """
    check_same_dtype("masked_scatter", input, source)
    return ops._masked_scatter(input, source, mask)


# ---- the flattened tensor, and the elements that are not 0


@composite(exact_out=True)
def take(ops, input, index):
    """Elements of the flattened tensor at given indices.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    index : Tensor
        int64; a negative index counts from the end.

    Returns
    -------
    Tensor
        Of the shape of `index`.

    Raises
    ------
    IndexError
        An index is out of range.

    See Also
    --------
    put, take_along_dim, gather

    Notes
    -----
    Copies: one (the result).

    Examples
    --------
    >>> st.take(st.tensor([[1, 2], [3, 4]]), st.tensor([0, -1]))
    tensor([1, 4])
    """
    check_index_dtype("take", index, "lq")
    return ops._getitem(ops.reshape(input, (-1,)), index)


def put_in_place(ops: Any, input: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """`put` without a copy of the tensor: the flat indices become one index per dimension."""
    check_index_dtype("put", index, "lq")
    check_same_dtype("put", input, source)
    shape = tuple(input.shape)
    if on_device(input):
        return None
    flat = np.array(data_of(index))
    flat[flat < 0] += math.prod(shape)
    try:
        indices = np.unravel_index(flat, shape)
    except ValueError:
        return None  # `put` itself raises the error
    return ops._index_put_(
        input, ops.reshape(source, tuple(index.shape)), tuple(indices), accumulate
    )


@composite(inplace=put_in_place)
def put(ops, input, index, source, accumulate=False):
    """A copy of a tensor, with values written at indices of the flattened tensor.

    Parameters
    ----------
    input : Tensor
        The tensor.
    index : Tensor
        int64; a negative index counts from the end.
    source : Tensor
        Of the dtype of `input`, with as many elements as `index`.
    accumulate : bool, optional
        Whether the values are added instead of written.

    Returns
    -------
    Tensor
        Of the shape of `input`; `put_` writes into the tensor itself.

    Raises
    ------
    IndexError
        An index is out of range.

    See Also
    --------
    take, index_put

    Notes
    -----
    Copies: one (the result).

    Examples
    --------
    >>> st.put(st.zeros(2, 2), st.tensor([1, 1]), st.tensor([4., 5.]), accumulate=True)
    tensor([[0., 9.],
            [0., 0.]])
    """
    check_index_dtype("put", index, "lq")
    check_same_dtype("put", input, source)
    flat = ops._index_put(
        ops.reshape(input, (-1,)), ops.reshape(source, index.shape), (index,), accumulate
    )
    return ops.reshape(flat, tuple(input.shape))


@op(sized_by_values="nonzero", native=native.nonzero, samples=[(bools((3, 4)),)])
def _argwhere(xp, x, /):
    """The indices of the elements that are not 0, a row for each."""
    return xp.argwhere(native.private_index(x))


@composite(exact_out=True)
def nonzero(ops, input, *, as_tuple=False):
    """The indices of the elements that are not 0.

    Parameters
    ----------
    input : Tensor
        Of any dtype, of n dimensions.
    as_tuple : bool, optional
        Whether one vector for each dimension is returned, which can index the tensor.

    Returns
    -------
    Tensor or tuple of Tensor
        int64, of shape `(count, n)`, in row order; or n vectors of shape `(count,)`.

    See Also
    --------
    argwhere, count_nonzero, where

    Notes
    -----
    Copies: one (the result). On a GPU the number of elements is waited for.

    Examples
    --------
    >>> x = st.tensor([[0, 3], [4, 0]])
    >>> st.nonzero(x)
    tensor([[0, 1],
            [1, 0]])
    >>> x[st.nonzero(x, as_tuple=True)]
    tensor([3, 4])
    """
    rows = ops._argwhere(input)
    if not as_tuple:
        return rows
    return tuple(ops.unbind(rows if input.ndim else ops.reshape(rows, (-1, 1)) * 0, 1))


@composite
def nonzero_static(ops, input, *, size, fill_value=-1):
    """The indices of the elements that are not 0, in a result of given size.

    Parameters
    ----------
    input : Tensor
        Of any dtype, of n dimensions.
    size : int
        The number of rows: further indices are left out, missing ones filled up.
    fill_value : int, optional
        The number in the rows that are missing.

    Returns
    -------
    Tensor
        int64, of shape `(size, n)`.

    Raises
    ------
    RuntimeError
        `size` is negative.

    See Also
    --------
    nonzero

    Examples
    --------
    >>> st.nonzero_static(st.tensor([0, 7, 8]), size=3)
    tensor([[ 1],
            [ 2],
            [-1]])
    """
    if size < 0:
        raise RuntimeError(f"nonzero_static: size must not be negative: {size}")
    rows = ops._argwhere(input)[:size]
    missing = size - rows.shape[0]
    shape = missing, input.ndim
    if on_device(rows):
        return ops.cat([rows, filled(shape, fill_value, np.int64, rows)])
    return ops.cat([rows, ops.full(shape, fill_value, dtype=np.int64)])


@composite
def argwhere(ops, input):
    """The indices of the elements that are not 0, a row for each.

    Parameters
    ----------
    input : Tensor
        Of any dtype, of n dimensions.

    Returns
    -------
    Tensor
        int64, of shape `(count, n)`, in row order; of a 0-d tensor `(count, 0)`.

    See Also
    --------
    nonzero

    Examples
    --------
    >>> st.argwhere(st.tensor([[True, False], [False, True]]))
    tensor([[0, 0],
            [1, 1]])
    """
    return ops._argwhere(input)
