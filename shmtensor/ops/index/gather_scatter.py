"""Reading and writing along one dimension: index_select, index_add, gather, scatter."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import native
from ..table.check_dtypes import check_index_dtype, check_same_dtype
from ..table.constants import constant, data_of, filled, on_device
from ..table.dims import axis, broadcast_shape
from ..table.op_table import composite, op
from ..table.python_scalars import as_operand_of
from ..table.samples import ints
from ..table.sparse_gradient import sparse_gather_backward
from .getitem_index_put_where import Shape
from .index_add import add_at_flat_indices, flat_indices_along, flat_slice_indices


def index_along(dim: int, index: Any) -> tuple[Any, ...]:
    """The index tuple with `index` along dim and full slices before it."""
    return (slice(None),) * dim + (index,)


def check_index_range(name: str, index: Any, size: int, error: type[Exception] = IndexError) -> Any:
    """The indices, if all of them are from 0 to size - 1.

    Raises:
        IndexError: one is not, or they are not integers; another error class if `error` is given.
    """
    if index.dtype.kind not in "iu":
        raise error(f"{name}: indices must be whole numbers: {index.dtype.name}")
    if not isinstance(index, np.ndarray):  # Note [Indices on a device]
        return index
    if index.size and (index.min() < 0 or index.max() >= size):
        value = int(index.min()) if index.min() < 0 else int(index.max())
        raise error(f"{name}: index is out of range: {value}, expected 0 to {size - 1}")
    return index


def as_vector(name: str, index: Any) -> Any:
    """The indices as a vector."""
    if index.ndim > 1:
        raise IndexError(f"{name}: the indices must be a vector: shape {index.shape}")
    return index.reshape(-1)


# ---- Note [Indices on a device]
#
# To look at indices on a device would stop the program until all queued work is done. CuPy wraps an
# index that is out of range around, so that no foreign memory is touched, and no error is raised;
# PyTorch's kernels end the process's use of the device with an assertion.


# ---- whole slices


@op(
    complex_gradients=True,
    native=native.take,
    samples=[((3, 4), ints((5,), 3), 0), ((3, 4), ints((2,), 4), 1)],
    halves="copies",
    vmap="first_along",
)
def _index_select(xp, x, index, /, dim):
    """The slices at indices along dim."""
    dim, index = axis(x, dim), as_vector("index_select", index)
    check_index_range("index_select", index, x.shape[dim] if x.ndim else 1)
    if not x.ndim:
        if index.size != 1:
            raise IndexError(f"index_select: a 0-d tensor has one element: {index.tolist()}")
        return x.copy()
    return x.take(index, dim)


@op(complex_gradients=True, samples=[((5, 4), ints((5,), 3), (3, 4), 0)])
def _index_select_backward(xp, x, index, /, shape, dim):
    """Zeros of a shape, with slices added at indices along dim."""
    out = xp.zeros(shape, x.dtype)
    if not shape:
        return x.reshape(())
    if native.index_add(out, x, index, dim):
        return out
    add_at_flat_indices(
        xp, out, flat_slice_indices(xp, shape, dim % len(shape), index).reshape(-1), x.reshape(-1)
    )
    return out


_index_select.pullback(
    x=lambda ops, g, index, x_shape, dim: ops._index_select_backward(g, index, x_shape, dim)
)
_index_select_backward.pullback(x=lambda ops, g, index, dim: ops._index_select(g, index, dim))


@composite(exact_out=True)
def index_select(ops, input, dim, index):
    """The slices along a dimension at given indices.

    Parameters
    ----------
    input : Tensor
        Of any dtype.
    dim : int
        The dimension that is indexed.
    index : Tensor
        A vector of int32 or int64; indices may repeat, and must not be negative.

    Returns
    -------
    Tensor
        Of the shape of `input` with the length of `index` in place of its size along `dim`.

    Raises
    ------
    IndexError
        An index or `dim` is out of range.

    See Also
    --------
    gather, take_along_dim, masked_select

    Notes
    -----
    Copies: one (the result). The gradients of slices that are selected several times are added.

    Examples
    --------
    >>> x = st.tensor([[1, 2, 3], [4, 5, 6]])
    >>> st.index_select(x, 1, st.tensor([2, 0]))
    tensor([[3, 1],
            [6, 4]])
    """
    check_index_dtype("index_select", index)
    return ops._index_select(input, index, dim)


@op(complex_gradients=True, write=native.index_add, samples=[((3, 4), (2, 4), ints((2,), 3), 0)])
def _index_add(xp, x, source, index, /, dim):
    """x, with slices of source added at indices along dim."""
    out = xp.empty(x.shape, x.dtype)
    if native.index_add(out, source, index, dim, x):
        return out
    index = check_index_range(
        "index_add", as_vector("index_add", index), x.shape[axis(x, dim)] if x.ndim else 1
    )
    if not x.ndim:
        return x + source.sum().astype(x.dtype)
    dim = axis(x, dim)
    expected = (*x.shape[:dim], index.size, *x.shape[dim + 1 :])
    if source.shape != expected:
        raise RuntimeError(f"index_add: source must have shape {expected}: {source.shape}")
    out[...] = x
    add_at_flat_indices(
        xp, out, flat_slice_indices(xp, x.shape, dim, index).reshape(-1), source.reshape(-1)
    )
    return out


_index_add.pullback(
    x=lambda g: g,
    source=lambda ops, g, index, source_shape, dim: ops.reshape(
        ops._index_select(g, index, dim), source_shape
    ),
)


@composite(inplace="_index_add")
def index_add(ops, input, dim, index, source, *, alpha=1):
    """A copy of a tensor, with slices of another added at given indices.

    Parameters
    ----------
    input : Tensor
        The tensor.
    dim : int
        The dimension that is indexed.
    index : Tensor
        A vector of int32 or int64. At an index that repeats all its slices are added.
    source : Tensor
        Of the dtype of `input`, and of its shape with the length of `index` along `dim`.
    alpha : number, optional
        A factor of `source`.

    Returns
    -------
    Tensor
        Of the shape of `input`; `index_add_` writes into the tensor itself.

    Raises
    ------
    RuntimeError
        The shapes or dtypes do not match.
    IndexError
        An index is out of range.

    See Also
    --------
    index_copy, scatter_add

    Notes
    -----
    Copies: one (the result).

    Examples
    --------
    >>> x = st.zeros(3, 2)
    >>> st.index_add(x, 0, st.tensor([0, 2, 0]), st.ones(3, 2), alpha=10)
    tensor([[20., 20.],
            [ 0.,  0.],
            [10., 10.]])
    """
    check_index_dtype("index_add", index)
    source = source if alpha == 1 else ops.mul(source, alpha)
    if getattr(source, "dtype", None) is not input.dtype:
        check_same_dtype("index_add", input, source)
    return ops._index_add(input, source, index, dim)


@composite(inplace="_index_put", autocast="widest")
def index_copy(ops, input, dim, index, source):
    """A copy of a tensor, with slices of another written at given indices.

    Parameters
    ----------
    input : Tensor
        The tensor.
    dim : int
        The dimension that is indexed.
    index : Tensor
        A vector of int64.
    source : Tensor
        Of the dtype of `input`, and of its shape with the length of `index` along `dim`.

    Returns
    -------
    Tensor
        Of the shape of `input`; `index_copy_` writes into the tensor itself.

    Raises
    ------
    RuntimeError
        The shapes or dtypes do not match.

    See Also
    --------
    index_add, index_fill, index_put

    Notes
    -----
    Copies: one (the result).

    Examples
    --------
    >>> st.index_copy(st.zeros(3, 2), 0, st.tensor([2]), st.tensor([[5., 6.]]))
    tensor([[0., 0.],
            [0., 0.],
            [5., 6.]])
    """
    check_index_dtype("index_copy", index, "lq")
    check_same_dtype("index_copy", input, source)
    if not input.ndim:
        return ops.clone(ops.reshape(source, ()))
    return ops._index_put(input, source, index_along(axis(input, dim), index), False)


@composite(inplace="_index_put")
def index_fill(ops, input, dim, index, value):
    """A copy of a tensor, with one number in the slices at given indices.

    Parameters
    ----------
    input : Tensor
        The tensor.
    dim : int
        The dimension that is indexed.
    index : Tensor
        A vector of int64.
    value : number or Tensor
        A number or a 0-d tensor.

    Returns
    -------
    Tensor
        Of the shape of `input`; `index_fill_` writes into the tensor itself.

    Raises
    ------
    RuntimeError
        `value` is a tensor with dimensions.

    See Also
    --------
    index_copy, masked_fill

    Notes
    -----
    Copies: one (the result).

    Examples
    --------
    >>> st.index_fill(st.zeros(2, 3), 1, st.tensor([0, 2]), -1)
    tensor([[-1.,  0., -1.],
            [-1.,  0., -1.]])
    """
    check_index_dtype("index_fill", index, "lq", IndexError)
    if isinstance(value, (int, float, complex)):
        value = as_operand_of("index_fill", value, input)
    elif value.ndim:
        raise RuntimeError(f"index_fill: value must be a number or 0-d: {tuple(value.shape)}")
    else:  # value may have a gradient, in which each index counts once
        data = data_of(index)
        index = constant(np.unique(data), input) if isinstance(data, np.ndarray) else index
    if value.dtype != input.dtype:
        value = ops._to_copy(value, input.dtype)
    index_tuple = index_along(axis(input, dim), index) if input.ndim else ()
    return ops._index_put(input, value, index_tuple, False)


# ---- element by element


def mesh_index(xp: Any, index: Any, dim: int) -> tuple[Any, ...]:
    """The index tuple that has a copy of `index` along dim, and each element's own position
    elsewhere.
    """
    n, index = index.ndim, native.private_index(index)
    return tuple(
        index if d == dim else xp.arange(size).reshape((size,) + (1,) * (n - 1 - d))
        for d, size in enumerate(index.shape)
    )


def check_index_shape(name: str, x: Any, index: Any, dim: int) -> int:
    """The dimension, counted from the front, if index fits x."""
    dim = axis(x, dim)
    larger = any(
        n > m for d, (n, m) in enumerate(zip(index.shape, x.shape, strict=False)) if d != dim
    )
    if max(index.ndim, 1) != max(x.ndim, 1) or (larger and index.size):
        raise RuntimeError(f"{name}: the index must fit in the tensor: {index.shape} in {x.shape}")
    check_index_range(name, index, x.shape[dim] if x.ndim else 1, RuntimeError)
    return dim


@op(
    complex_gradients=True,
    native=(native.gather, "x, index, dim"),
    samples=[((3, 4), ints((2, 5), 4), 1), ((3, 4), ints((5, 2), 3), 0)],
    halves="copies",
    vmap="along",
)
def _gather(xp, x, index, /, dim, sparse=False):
    """x[i, index[i, j]] for dim = 1. sparse: the gradient is a SparseGradient."""
    dim = check_index_shape("gather", x, index, dim) if index.size else axis(x, dim)
    if not x.ndim or not index.ndim:
        return x.reshape(-1)[native.private_index(index)]
    if not index.size:
        return xp.empty(index.shape, x.dtype)
    return x[mesh_index(xp, index, dim)]


def gather_backward(ops: Any, g: Any, index: Any, shape: Shape, dim: int, sparse: bool) -> Any:
    """The gradient of gather's input."""
    if sparse:
        return sparse_gather_backward(ops, g, index, shape, dim)
    return ops._gather_backward(g, index, shape, dim)


@op(complex_gradients=True, samples=[((2, 5), ints((2, 5), 4), (3, 4), 1)], vmap="shaped_along")
def _gather_backward(xp, x, index, /, shape, dim):
    """Zeros of a shape, with x added at indices along dim: the gradient of `gather`."""
    out = xp.zeros(shape, x.dtype)
    if index.size and not native.scatter(out, x, index, dim, 1):
        flat = not shape or not index.ndim
        at = index if flat else flat_indices_along(xp, shape, dim % len(shape), index)
        part = x if flat else x[tuple(slice(0, n) for n in index.shape)]
        add_at_flat_indices(xp, out, at, part)
    return out


def pad_with_zeros(ops: Any, g: Any, shape: Shape) -> Any:
    """g, padded with zeros to the shape of a source that is larger than the index."""
    if tuple(g.shape) == tuple(shape):
        return g
    return ops._slice_backward(g, shape, tuple(slice(0, n) for n in g.shape))


_gather.pullback(
    x=lambda ops, g, index, x_shape, dim, sparse: gather_backward(
        ops, g, index, x_shape, dim, sparse
    )
)
_gather_backward.pullback(
    x=lambda ops, g, index, x_shape, dim: pad_with_zeros(ops, ops._gather(g, index, dim), x_shape)
)


@composite(exact_out=True)
def gather(ops, input, dim, index, *, sparse_grad=False):
    """Elements picked along a dimension, each by an index of its own.

    Parameters
    ----------
    input : Tensor
        Of n dimensions.
    dim : int
        The dimension that the indices are of.
    index : Tensor
        int32 or int64, of n dimensions; in dimensions other than `dim` its sizes are at most those
        of `input`.
    sparse_grad : bool, optional
        Whether the gradient of a leaf is a sparse tensor.

    Returns
    -------
    Tensor
        Of the shape of `index`.

    Raises
    ------
    RuntimeError
        An index is out of range, or the shape of `index` does not fit.

    See Also
    --------
    take_along_dim, scatter, index_select

    Notes
    -----
    For three dimensions and dim = 1: `out[i][j][k] = input[i][index[i][j][k]][k]`.

    Copies: one (the result). The gradients of elements that are picked several times are added.

    Examples
    --------
    >>> x = st.tensor([[1, 2], [3, 4]])
    >>> st.gather(x, 1, st.tensor([[0, 0], [1, 0]]))
    tensor([[1, 1],
            [4, 3]])
    >>> scores, labels = st.tensor([[0.1, 0.9], [0.8, 0.2]]), st.tensor([1, 0])
    >>> st.gather(scores, 1, labels[:, None]).squeeze(1)
    tensor([0.9000, 0.8000])
    """
    check_index_dtype("gather", index)
    return ops._gather(input, index, dim, sparse_grad)


@composite
def take_along_dim(ops, input, indices, dim=None):
    """Elements picked along a dimension by indices, as those that `argsort` or `argmax` return.

    Parameters
    ----------
    input : Tensor
        The tensor.
    indices : Tensor
        int64, of as many dimensions; the sizes other than along `dim` are broadcast. A negative
        index counts from the end.
    dim : int, optional
        The dimension that the indices are of; None: both are flattened first.

    Returns
    -------
    Tensor
        Of the broadcast shape, with the size of `indices` along `dim`.

    Raises
    ------
    RuntimeError
        The numbers of dimensions differ, or an index is out of range.

    See Also
    --------
    gather, argsort

    Notes
    -----
    Copies: one (the result).

    Examples
    --------
    >>> x = st.tensor([[3, 1, 2], [9, 8, 7]])
    >>> st.take_along_dim(x, st.argsort(x, 1), 1)
    tensor([[1, 2, 3],
            [7, 8, 9]])
    """
    check_index_dtype("take_along_dim", indices, "lq")
    if dim is None:
        return ops._gather(ops.reshape(input, (-1,)), ops.reshape(indices, (-1,)), 0)
    if input.ndim != indices.ndim:
        raise RuntimeError(
            "take_along_dim: input and indices must have the same number of dimensions: "
            f"{tuple(input.shape)}, {tuple(indices.shape)}"
        )
    dim = axis(input, dim)
    other_sizes = lambda shape: (*shape[:dim], 1, *shape[dim + 1 :])  # noqa: E731
    common = broadcast_shape(
        "take_along_dim", other_sizes(tuple(input.shape)), other_sizes(tuple(indices.shape))
    )
    expanded_shape = lambda x: (*common[:dim], x.shape[dim], *common[dim + 1 :])  # noqa: E731
    input = ops.broadcast_to(input, expanded_shape(input))
    indices = ops._where(indices < 0, indices + input.shape[dim], indices)
    return ops._gather(input, ops.broadcast_to(indices, expanded_shape(indices)), dim)


def crop_to_index(name: str, source: Any, index: Any) -> Any:
    """The part of source that has index's shape; a 0-d source is one number for all."""
    if not source.ndim:
        return source
    if source.ndim != index.ndim or any(
        n > m for n, m in zip(index.shape, source.shape, strict=True)
    ):
        raise RuntimeError(f"{name}: src is smaller than index: {source.shape}, {index.shape}")
    return source[tuple(slice(0, n) for n in index.shape)]


def scatter_in_place(name: str, reduction: int) -> Any:
    """A function that writes (reduction=0) or adds (1) at indices in place."""

    def write(x: Any, source: Any, index: Any, dim: int) -> bool:
        if not index.size or native.scatter(x, source, index, dim, reduction):
            return True
        if source.dtype != x.dtype or not x.ndim or not index.ndim:
            return False
        at = mesh_index(np, index, check_index_shape(name, x, index, dim))
        part = crop_to_index(name, source, index)
        if reduction:
            np.add.at(x, at, part)
        else:
            x[at] = part
        return True

    return write


@op(
    complex_gradients=True,
    write=scatter_in_place("scatter", 0),
    samples=[((3, 4), (3, 4), ints((2, 4), 4, unique=True), 1)],
    vmap="along",
)
def _scatter(xp, x, source, index, /, dim):
    """x with elements of source written at indices along dim."""
    if not index.size:
        return x.copy()
    out = xp.empty(x.shape, x.dtype)
    if native.scatter(out, source, index, dim, 0, x):
        return out
    out[...] = x
    dim = check_index_shape("scatter", x, index, dim)
    if not x.ndim or not index.ndim:
        out.reshape(-1)[native.private_index(index)] = source
    else:
        out[mesh_index(xp, index, dim)] = crop_to_index("scatter", source, index)
    return out


@op(complex_gradients=True, samples=[((3, 4), ints((2, 4), 4), 1)], halves="copies", vmap="along")
def _scatter_zeros(xp, x, index, /, dim):
    """x with 0 at indices along dim."""
    out = x.copy()
    if index.size:
        if x.ndim and index.ndim:
            out[mesh_index(xp, index, axis(x, dim))] = 0
        else:
            out.reshape(-1)[native.private_index(index)] = 0
    return out


_scatter_zeros.pullback(x=lambda ops, g, index, dim: ops._scatter_zeros(g, index, dim))


def scatter_source_backward(
    ops: Any, g: Any, index: Any, shape: Shape, dim: int, is_sum: bool = True
) -> Any:
    """The gradient of scatter's source: g at the indices; of values that are not added up, for
    those that were kept.
    """
    is_sum = is_sum or on_device(g)
    g = ops._gather(g, index, dim) if is_sum else ops._gather_kept(g, index, dim)
    return ops.sum(g) if not shape and index.ndim else pad_with_zeros(ops, g, shape)


@op(samples=[((3, 4), ints((2, 5), 4), 1)], halves="copies")
def _gather_kept(xp, x, index, /, dim):
    """`_gather`, with 0 for elements that a later index selects again. Note [Kept values]"""
    if xp is not np:
        return _gather.forward(xp, x, index, dim)
    out = _gather.numpy[0](x, index, dim)
    if index.size < 2:
        return out
    positions = np.arange(out.size).reshape(out.shape)
    written = _scatter.forward(np, np.zeros(x.shape, positions.dtype), positions, index, dim)
    return np.where(_gather.numpy[0](written, index, dim) == positions, out, out.dtype.type(0))


_gather_kept.pullback(
    x=lambda ops, g, index, x_shape, dim: ops._scatter(
        filled(x_shape, 0, g.dtype, g), g, index, dim
    )
)


_scatter.pullback(
    x=lambda ops, g, index, dim: ops._scatter_zeros(g, index, dim),
    source=lambda ops, g, index, source_shape, dim: scatter_source_backward(
        ops, g, index, source_shape, dim, False
    ),
)


@op(
    complex_gradients=True,
    write=scatter_in_place("scatter_add", 1),
    samples=[((3, 4), (3, 4), ints((2, 4), 4), 1)],
    vmap="along",
)
def _scatter_add(xp, x, source, index, /, dim):
    """x with elements of source added at indices along dim."""
    if not index.size:
        return x.copy()
    out = xp.empty(x.shape, x.dtype)
    if native.scatter(out, source, index, dim, 1, x):
        return out
    out[...] = x
    dim = check_index_shape("scatter_add", x, index, dim)
    if not x.ndim or not index.ndim:
        add_at_flat_indices(xp, out, index.reshape(-1), source.reshape(-1)[: index.size])
    else:
        part = crop_to_index("scatter_add", source, index)
        add_at_flat_indices(xp, out, flat_indices_along(xp, x.shape, dim, index), part)
    return out


_scatter_add.pullback(
    x=lambda g: g,
    source=lambda ops, g, index, source_shape, dim: scatter_source_backward(
        ops, g, index, source_shape, dim
    ),
)


@composite(inplace="_scatter _scatter_add _scatter_reduce")
def scatter(ops, input, dim, index, src=None, *, value=None, reduce=None):
    """A copy of a tensor, with elements of another written along a dimension at given indices.

    Parameters
    ----------
    input : Tensor
        The tensor, of n dimensions.
    dim : int
        The dimension that the indices are of.
    index : Tensor
        int32 or int64, of n dimensions, at most as large as `src`, and in dimensions other than
        `dim` as `input`.
    src : Tensor or number, optional
        What is written, of the dtype of `input`; or one number.
    value : number, optional
        Another name of `src`, for one number.
    reduce : str, optional
        "add" or "multiply": the elements are combined with those of `input` instead.

    Returns
    -------
    Tensor
        Of the shape of `input`; `scatter_` writes into the tensor itself.

    Raises
    ------
    RuntimeError
        An index is out of range, or shapes or dtypes do not match.

    See Also
    --------
    gather, scatter_add, scatter_reduce

    Notes
    -----
    For two dimensions and dim = 1: `out[i][index[i][j]] = src[i][j]`. Of several elements with the
    same index one is kept, and on the CPU only its gradient is not 0.

    Copies: one (the result).

    Examples
    --------
    >>> st.scatter(st.zeros(2, 3), 1, st.tensor([[2], [0]]), st.tensor([[5.], [6.]]))
    tensor([[0., 0., 5.],
            [6., 0., 0.]])
    >>> labels = st.tensor([0, 2])
    >>> st.scatter(st.zeros(2, 3), 1, labels[:, None], 1.0)
    tensor([[1., 0., 0.],
            [0., 0., 1.]])
    """
    check_index_dtype("scatter", index)
    src = value if src is None else src
    if isinstance(src, (int, float, complex)):
        src = as_operand_of("scatter", src, input)
    elif getattr(src, "dtype", None) is not input.dtype:
        check_same_dtype("scatter", input, src)
    if reduce is None:
        return ops._scatter(input, src, index, dim)
    if reduce == "add":
        full = src if src.ndim else ops.broadcast_to(src, tuple(index.shape))
        return ops._scatter_add(input, full, index, dim)
    if reduce != "multiply":
        raise RuntimeError(f"scatter: no such reduction: {reduce!r}, 'add' or 'multiply' is needed")
    full = src if src.ndim else ops.broadcast_to(src, tuple(index.shape))
    return ops._scatter_reduce(input, full, index, dim, "prod", True)


@composite(autocast_cuda="widest", inplace="_scatter_add")
def scatter_add(ops, input, dim, index, src):
    """A copy of a tensor, with elements of another added along a dimension at given indices.

    Parameters
    ----------
    input : Tensor
        The tensor, of n dimensions.
    dim : int
        The dimension that the indices are of.
    index : Tensor
        int32 or int64, of n dimensions, at most as large as `src`. All elements with the same index
        are added.
    src : Tensor
        Of the dtype of `input`.

    Returns
    -------
    Tensor
        Of the shape of `input`; `scatter_add_` writes into the tensor itself.

    Raises
    ------
    RuntimeError
        An index is out of range, or shapes or dtypes do not match.

    See Also
    --------
    scatter, scatter_reduce, index_add

    Notes
    -----
    For two dimensions and dim = 1: `out[i][index[i][j]] += src[i][j]`.

    Copies: one (the result).

    Examples
    --------
    >>> st.scatter_add(st.zeros(3), 0, st.tensor([0, 0, 2]), st.tensor([1., 2., 3.]))
    tensor([3., 0., 3.])
    """
    check_index_dtype("scatter_add", index)
    if getattr(src, "dtype", None) is not input.dtype:
        check_same_dtype("scatter_add", input, src)
    return ops._scatter_add(input, src, index, dim)
