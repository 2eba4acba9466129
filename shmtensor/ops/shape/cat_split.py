"""cat, stack and their variants; split, chunk, unbind; repeat_interleave, block_diag."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import native
from ...device import META
from ..table.constants import constant, data_of, on_device
from ..table.dims import axis
from ..table.op_table import composite, op
from ..table.samples import ints
from ..table.sizes import SMALL, check_size

Shape = tuple[int, ...]


def without_empty(xs: list[Any]) -> list[Any]:
    """The tensors without empty vectors, which `cat` ignores, as in PyTorch; if all are, all."""
    return [x for x in xs if x.shape != (0,)] or xs


@op(
    complex_gradients=True,
    empty_error=ValueError,
    autocast_cuda="widest",
    numpy=native.cat,
    promote="common",
    inplace=False,
    method=False,
    samples=[([(3, 4), (2, 4)],), ([(3, 4), (3, 1)], 1), ([(3,)], -1), ([(2, 0), (2, 3)], 1)],
    layout="all images tensors",
    halves="copies",
    autocast="widest",
    vmap="cat_stack",
)
def cat(xp, tensors: list[Any], /, dim=0):
    """Tensors joined along an existing dimension.

    Parameters
    ----------
    tensors : sequence of Tensor
        Of equal shapes but for their size along `dim`; empty vectors are ignored. Different dtypes
        become the common one.
    dim : int, optional
        The dimension along which they are joined.
    out : Tensor, optional
        Where the result is written.

    Returns
    -------
    Tensor
        Its size along `dim` is the sum of theirs.

    Raises
    ------
    RuntimeError
        The shapes do not match.
    ValueError
        There are no tensors.

    See Also
    --------
    stack, split, hstack, vstack

    Notes
    -----
    Copies: one (the result).

    Examples
    --------
    >>> x, y = st.tensor([[1, 2]]), st.tensor([[3, 4], [5, 6]])
    >>> st.cat([x, y])
    tensor([[1, 2],
            [3, 4],
            [5, 6]])
    >>> st.cat([x, y[:1]], dim=1)
    tensor([[1, 2, 3, 4]])
    """
    if not tensors:
        raise ValueError("cat: at least one tensor is needed: []")
    try:
        return xp.concatenate(tensors, dim)
    except ValueError:
        nonempty = without_empty(tensors)
        if nonempty[0].shape == (0,):
            return xp.concatenate(tensors)
        if len(nonempty) == len(tensors):
            raise
        return xp.concatenate(nonempty, dim)


def split_gradient(ops: Any, g: Any, shapes: list[Shape], dim: int) -> list[Any]:
    """The gradient of `cat`, split into its operands' parts."""
    parts, start = [], 0
    for shape in shapes:
        if shape == (0,):
            parts.append(ops.reshape(ops.narrow(g, dim if g.ndim > 1 else 0, 0, 0), (-1,))[:0])
            continue
        parts.append(ops.narrow(g, dim, start, shape[dim]))
        start += shape[dim]
    return parts


cat.pullback(tensors=lambda ops, g, tensors_shape, dim: split_gradient(ops, g, tensors_shape, dim))
cat.alias("concat", "concatenate")


def stack_kernel(tensors: list[Any], dim: int) -> Any:
    """The native kernel, or `cat` of the tensors with a new dimension each."""
    out = native.stack(tensors, dim)
    if out is not None:
        return out
    if not tensors:
        return stack.forward(np, tensors, dim)
    shape = tensors[0].shape
    n = len(shape) + 1
    if not -n <= dim < n or not all(x.shape == shape for x in tensors):
        return stack.forward(np, tensors, dim)
    index = (*(slice(None),) * (dim % n), None, ...)
    out = native.cat([x[index] for x in tensors], dim)
    last = all(native.suggests_channels_last(x) for x in tensors)
    return out if last else np.ascontiguousarray(out)


@op(
    complex_gradients=True,
    autocast_cuda="widest",
    numpy=stack_kernel,
    promote="common",
    inplace=False,
    method=False,
    samples=[([(3, 4), (3, 4)],), ([(3, 4), (3, 4)], -1), ([(), ()],)],
    halves="copies",
    autocast="widest",
    vmap="cat_stack",
)
def stack(xp, tensors: list[Any], /, dim=0):
    """Tensors of one shape joined along a new dimension.

    Parameters
    ----------
    tensors : sequence of Tensor
        Of one shape. Different dtypes become the common one.
    dim : int, optional
        Where the new dimension is, from -(n + 1) to n for tensors of n dimensions.
    out : Tensor, optional
        Where the result is written.

    Returns
    -------
    Tensor
        With one dimension more, whose size is the number of tensors.

    Raises
    ------
    RuntimeError
        The shapes differ, or there are no tensors.
    IndexError
        `dim` is out of range.

    See Also
    --------
    cat, unbind

    Notes
    -----
    Copies: one (the result).

    Examples
    --------
    >>> x, y = st.tensor([1, 2]), st.tensor([3, 4])
    >>> st.stack([x, y])
    tensor([[1, 2],
            [3, 4]])
    >>> st.stack([x, y], dim=1)
    tensor([[1, 3],
            [2, 4]])
    """
    if not tensors:
        raise RuntimeError("stack: at least one tensor is needed: []")
    shape = tensors[0].shape
    for x in tensors:
        if x.shape != shape:
            raise RuntimeError(f"stack: shapes must be equal: {[t.shape for t in tensors]}")
    return xp.stack(tensors, dim)


stack.pullback(tensors=lambda ops, g, dim: list(ops.unbind(g, dim)))


def at_least_nd(ops: Any, tensors: Any, n: int) -> list[Any]:
    """The tensors with at least n dimensions each."""
    return [
        ops.reshape(x, (1,) * (n - x.ndim) + tuple(x.shape)) if x.ndim < n else x for x in tensors
    ]


@composite(method=False)
def hstack(ops, tensors):
    """Tensors joined side by side: along the second dimension, vectors along the first.

    Parameters
    ----------
    tensors : sequence of Tensor
        0-d tensors count as vectors of one element.

    Returns
    -------
    Tensor
        The joined tensor.

    Raises
    ------
    RuntimeError
        The shapes do not match, or there are no tensors.

    See Also
    --------
    vstack, dstack, cat

    Notes
    -----
    Copies: one (the result).

    Examples
    --------
    >>> st.hstack([st.tensor([1, 2]), st.tensor([3])])
    tensor([1, 2, 3])
    >>> st.hstack([st.tensor([[1], [2]]), st.tensor([[3], [4]])])
    tensor([[1, 3],
            [2, 4]])
    """
    tensors = at_least_nd(ops, tensors, 1)
    if not tensors:
        raise RuntimeError("hstack: at least one tensor is needed: []")
    return ops.cat(tensors, 0 if tensors[0].ndim == 1 else 1)


@composite(method=False)
def vstack(ops, tensors):
    """Tensors joined one below the other: along the first dimension.

    Parameters
    ----------
    tensors : sequence of Tensor
        Vectors count as rows `(1, n)`.

    Returns
    -------
    Tensor
        The joined tensor, of at least two dimensions.

    Raises
    ------
    RuntimeError
        The shapes do not match.

    See Also
    --------
    hstack, dstack, cat

    Notes
    -----
    Copies: one (the result). `row_stack` is another name.

    Examples
    --------
    >>> st.vstack([st.tensor([1, 2]), st.tensor([[3, 4], [5, 6]])])
    tensor([[1, 2],
            [3, 4],
            [5, 6]])
    """
    return ops.cat(at_least_nd(ops, tensors, 2), 0)


vstack.alias("row_stack")


@composite(method=False)
def dstack(ops, tensors):
    """Tensors joined in depth: along the third dimension.

    Parameters
    ----------
    tensors : sequence of Tensor
        Matrices `(m, n)` count as `(m, n, 1)`, vectors as `(1, n, 1)`.

    Returns
    -------
    Tensor
        The joined tensor, of at least three dimensions.

    Raises
    ------
    RuntimeError
        The shapes do not match.

    See Also
    --------
    hstack, vstack, cat

    Notes
    -----
    Copies: one (the result).

    Examples
    --------
    >>> st.dstack([st.tensor([1, 2]), st.tensor([3, 4])])
    tensor([[[1, 3],
             [2, 4]]])
    """
    return ops.cat([at_least_3d(ops, x) for x in tensors], 2)


def at_least_3d(ops: Any, x: Any) -> Any:
    """x with at least three dimensions, the last one new."""
    if x.ndim >= 3:
        return x
    return ops.reshape(x, {0: (1, 1, 1), 1: (1, *x.shape, 1), 2: (*x.shape, 1)}[x.ndim])


@composite(method=False)
def column_stack(ops, tensors):
    """Tensors joined along the second dimension, where vectors are columns.

    Parameters
    ----------
    tensors : sequence of Tensor
        Vectors `(n,)` count as `(n, 1)`, 0-d tensors as `(1, 1)`.

    Returns
    -------
    Tensor
        The joined tensor.

    Raises
    ------
    RuntimeError
        The shapes do not match.

    See Also
    --------
    hstack, stack

    Notes
    -----
    Copies: one (the result).

    Examples
    --------
    >>> st.column_stack([st.tensor([1, 2]), st.tensor([3, 4])])
    tensor([[1, 3],
            [2, 4]])
    """
    return ops.cat([ops.reshape(x, (-1, 1)) if x.ndim < 2 else x for x in tensors], 1)


def map_tensors(ops: Any, tensors: Any, function: Any) -> Any:
    """The function of one tensor, or a tuple of results for several."""
    if len(tensors) == 1 and not isinstance(tensors[0], (list, tuple)):
        return function(ops, tensors[0])
    tensors = tensors[0] if len(tensors) == 1 else tensors
    return tuple(function(ops, x) for x in tensors)


@composite(method=False)
def atleast_1d(ops, *tensors):
    """Tensors with one dimension at least: 0-d ones become vectors of one element.

    Parameters
    ----------
    *tensors : Tensor
        Tensors, or one sequence of them.

    Returns
    -------
    Tensor or tuple of Tensor
        One for one tensor, a tuple for several or a sequence.

    See Also
    --------
    atleast_2d, atleast_3d

    Notes
    -----
    Copies: none.

    Examples
    --------
    >>> st.atleast_1d(st.tensor(5))
    tensor([5])
    """
    return map_tensors(ops, tensors, lambda ops, x: at_least_nd(ops, [x], 1)[0])


@composite(method=False)
def atleast_2d(ops, *tensors):
    """Tensors with two dimensions at least; new dimensions are in front.

    Parameters
    ----------
    *tensors : Tensor
        Tensors, or one sequence of them.

    Returns
    -------
    Tensor or tuple of Tensor
        One for one tensor, a tuple for several or a sequence.

    See Also
    --------
    atleast_1d, atleast_3d

    Notes
    -----
    Copies: none if the strides allow it.

    Examples
    --------
    >>> st.atleast_2d(st.tensor([1, 2]), st.tensor(5))
    (tensor([[1, 2]]), tensor([[5]]))
    """
    return map_tensors(ops, tensors, lambda ops, x: at_least_nd(ops, [x], 2)[0])


@composite(method=False)
def atleast_3d(ops, *tensors):
    """Tensors with three dimensions at least; a matrix `(m, n)` becomes `(m, n, 1)`, a vector `(1,
    n, 1)`.

    Parameters
    ----------
    *tensors : Tensor
        Tensors, or one sequence of them.

    Returns
    -------
    Tensor or tuple of Tensor
        One for one tensor, a tuple for several or a sequence.

    See Also
    --------
    atleast_1d, atleast_2d

    Notes
    -----
    Copies: none if the strides allow it.

    Examples
    --------
    >>> st.atleast_3d(st.zeros(2)).shape
    Size([1, 2, 1])
    """
    return map_tensors(ops, tensors, at_least_3d)


# ---- parts


@op(
    complex_gradients=True,
    listed=True,
    view=True,
    samples=[((5, 2), (2, 3), 0), ((3, 4), (1, 3), 1)],
    halves="copies",
    vmap="along",
)
def _split_with_sizes(xp, x, /, sizes, dim):
    """Consecutive parts of these sizes along a dimension. Copies: none."""
    dim, start, out = axis(x, dim), 0, []
    before = (slice(None),) * dim
    for size in sizes:
        out.append(x[(*before, slice(start, start + size))])
        start += size
    return out


_split_with_sizes.pullback(x=lambda ops, g, dim: ops.cat(g, dim))


@composite
def split(ops, tensor, split_size_or_sections, dim=0):
    """Consecutive parts of a tensor along a dimension, of one size or of given sizes.

    Parameters
    ----------
    tensor : Tensor
        With at least one dimension.
    split_size_or_sections : int or sequence of int
        The size of every part but the last, which may be smaller; or the size of each part.
    dim : int, optional
        The dimension that is split.

    Returns
    -------
    tuple of Tensor
        The parts, views of the tensor.

    Raises
    ------
    RuntimeError
        The sizes do not add up to the size of `dim`, or a size is negative.

    See Also
    --------
    chunk, tensor_split, cat

    Notes
    -----
    Copies: none.

    Examples
    --------
    >>> st.split(st.arange(5), 2)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    >>> st.split(st.arange(5), [1, 4])
    (tensor([0]), tensor([1, 2, 3, 4]))
    """
    if not tensor.ndim:
        raise RuntimeError("split: a 0-d tensor cannot be split: shape ()")
    size, n = split_size_or_sections, tensor.shape[axis(tensor, dim)]
    if isinstance(size, int):
        if size < 0 or (size == 0 and n):
            raise RuntimeError(f"split: the size must be positive: {size}")
        return ops._split_with_sizes(tensor, equal_sizes(n, size), dim)
    if sum(size) != n or min(size, default=0) < 0:
        raise RuntimeError(f"split: sizes must add up to {n}, dim {dim}: {list(size)}")
    return ops._split_with_sizes(tensor, tuple(size), dim)


split.alias("split_with_sizes")


def equal_sizes(n: int, size: int) -> Shape:
    """n as equal sizes; the last one is the remainder."""
    if not n:
        return (0,)
    return (size,) * (n // size) + ((n % size,) if n % size else ())


@composite
def chunk(ops, input, chunks, dim=0):
    """At most a given number of consecutive parts of a tensor along a dimension, of equal size.

    Parameters
    ----------
    input : Tensor
        With at least one dimension.
    chunks : int
        How many parts at most.
    dim : int, optional
        The dimension that is split.

    Returns
    -------
    tuple of Tensor
        Parts of the size ceil(n / chunks), the last one perhaps smaller; they may be fewer than
        `chunks`. They are views of the tensor.

    Raises
    ------
    RuntimeError
        `chunks` is less than 1.

    See Also
    --------
    split, tensor_split, cat

    Notes
    -----
    Copies: none.

    Examples
    --------
    >>> st.chunk(st.arange(5), 2)
    (tensor([0, 1, 2]), tensor([3, 4]))
    >>> len(st.chunk(st.arange(6), 4))
    3
    """
    if not input.ndim:
        raise RuntimeError("chunk: a 0-d tensor cannot be split: shape ()")
    if chunks < 1:
        raise RuntimeError(f"chunk: at least one chunk is needed: {chunks}")
    n = input.shape[axis(input, dim)]
    sizes = equal_sizes(n, -(-n // chunks)) if n else (0,) * chunks
    return ops._split_with_sizes(input, sizes, dim)


@composite
def tensor_split(ops, input, indices_or_sections, dim=0):
    """Consecutive parts of a tensor along a dimension: exactly as many as asked for, or between
    indices.

    Parameters
    ----------
    input : Tensor
        With at least one dimension.
    indices_or_sections : int, sequence of int or Tensor
        The number of parts, whose sizes differ by one at most; or the indices at which a new part
        begins.
    dim : int, optional
        The dimension that is split.

    Returns
    -------
    tuple of Tensor
        The parts, views of the tensor.

    Raises
    ------
    RuntimeError
        The number of parts is less than 1.

    See Also
    --------
    split, chunk

    Notes
    -----
    Copies: none.

    Examples
    --------
    >>> st.tensor_split(st.arange(5), 3)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    >>> st.tensor_split(st.arange(5), [1, 3])
    (tensor([0]), tensor([1, 2]), tensor([3, 4]))
    """
    if not input.ndim:
        raise RuntimeError("tensor_split: a 0-d tensor cannot be split: shape ()")
    n, sections = input.shape[axis(input, dim)], indices_or_sections
    if hasattr(sections, "tolist"):
        sections = sections.tolist()
    if isinstance(sections, int):
        if sections < 1:
            raise RuntimeError(f"tensor_split: at least one section is needed: {sections}")
        check_size("tensor_split", (sections,))
        return ops._split_with_sizes(
            input,
            (n // sections + 1,) * (n % sections) + (n // sections,) * (sections - n % sections),
            dim,
        )
    ends = [slice(None, i).indices(n)[1] for i in sections] + [n]
    starts = [0, *ends[:-1]]
    ranges = [(b, max(e - b, 0)) for b, e in zip(starts, ends, strict=True)]
    return tuple(ops.narrow(input, dim, b, size) for b, size in ranges)


# name: (least number of dimensions, where it splits, the shape of an example and of its parts)
SPLITS = {
    "hsplit": (1, "the second dimension, vectors along the first", "2, 6", "2, 3"),
    "vsplit": (2, "the first dimension", "6, 2", "3, 2"),
    "dsplit": (3, "the third dimension", "2, 2, 6", "2, 2, 3"),
}


def declare_split(name: str) -> Any:
    """hsplit, vsplit and dsplit: `tensor_split` along a fixed dimension."""
    min_ndim, where, shape, part_shape = SPLITS[name]

    def compute(ops, input, indices_or_sections):
        if input.ndim < min_ndim:
            raise RuntimeError(f"{name}: at least {min_ndim} dims are needed: {tuple(input.shape)}")
        dim = {"hsplit": min(input.ndim - 1, 1), "vsplit": 0, "dsplit": 2}[name]
        sections = indices_or_sections
        if isinstance(sections, int) and (sections < 1 or input.shape[dim] % sections):
            raise RuntimeError(
                f"{name}: sections must divide dim {dim}: {sections}, {tuple(input.shape)}"
            )
        return ops.tensor_split(input, sections, dim)

    compute.__doc__ = f"""Consecutive parts of a tensor along {where}.

    Parameters
    ----------
    input : Tensor
        With at least {min_ndim} dimension{"s" if min_ndim > 1 else ""}.
    indices_or_sections : int or sequence of int
        The number of parts, which divides the size of the dimension; or the indices at which a new
        part begins.

    Returns
    -------
    tuple of Tensor
        The parts, views of the tensor.

    Raises
    ------
    RuntimeError
        The parts would not be equal, or the tensor has too few dimensions.

    See Also
    --------
    tensor_split, split

    Notes
    -----
    Copies: none.

    Examples
    --------
    >>> [part.shape for part in st.{name}(st.zeros({shape}), 2)]
    [Size([{part_shape}]), Size([{part_shape}])]
    """
    return composite(compute, name=name)


hsplit, vsplit, dsplit = (declare_split(name) for name in SPLITS)


@op(
    complex_gradients=True,
    native=native.unbind,
    listed=True,
    view=True,
    samples=[((3, 4),), ((3, 4), 1), ((2, 3, 4), -2)],
    halves="copies",
    vmap="along",
)
def unbind(xp, x, /, dim=0):
    """The slices of a tensor along a dimension, which they lack.

    Parameters
    ----------
    input : Tensor
        With at least one dimension.
    dim : int, optional
        The dimension that is taken apart.

    Returns
    -------
    tuple of Tensor
        One view for each index of `dim`.

    Raises
    ------
    IndexError
        The tensor is 0-d, or `dim` is out of range.

    See Also
    --------
    stack, select, split

    Notes
    -----
    Copies: none.

    Examples
    --------
    >>> st.unbind(st.tensor([[1, 2], [3, 4]]))
    (tensor([1, 2]), tensor([3, 4]))
    >>> st.unbind(st.tensor([[1, 2], [3, 4]]), dim=1)
    (tensor([1, 3]), tensor([2, 4]))
    """
    if not x.ndim:
        raise IndexError("unbind: a 0-d tensor has no slices: shape ()")
    dim = axis(x, dim)
    before = (slice(None),) * dim
    return [x[(*before, i, ...)] for i in range(x.shape[dim])]


unbind.pullback(x=lambda ops, g, dim: ops.stack(g, dim))


@composite
def repeat_interleave(ops, input, repeats=None, dim=None, *, output_size=None):
    """Each element of a tensor repeated, one repetition after the other.

    Parameters
    ----------
    input : Tensor
        The tensor; without `repeats` a vector of counts.
    repeats : int or Tensor, optional
        The count of all elements, or a vector with the count of each.
    dim : int, optional
        The dimension along which slices are repeated; None: the tensor is flattened first.
    output_size : int, optional
        Accepted; has no effect.

    Returns
    -------
    Tensor
        With `repeats` missing, the numbers 0, 1, ... repeated as often as the vector says.

    Raises
    ------
    RuntimeError
        A count is negative, or there is not one for each element.

    See Also
    --------
    tile

    Notes
    -----
    Copies: one (the result). `tile` repeats the whole tensor instead.

    Examples
    --------
    >>> st.repeat_interleave(st.tensor([1, 2]), 2)
    tensor([1, 1, 2, 2])
    >>> st.repeat_interleave(st.tensor([[1, 2], [3, 4]]), st.tensor([2, 1]), dim=0)
    tensor([[1, 2],
            [1, 2],
            [3, 4]])
    """
    counts = check_repeats(input if repeats is None else repeats)
    if repeats is None:
        if not counts.ndim:
            raise RuntimeError("repeat_interleave: repeats must be a vector: shape ()")
        check_size("repeat_interleave", (total_of(counts, 1),))
        return ops._repeat_interleave(input)
    if dim is None:
        input, dim = ops.reshape(input, (-1,)), 0
    n = input.shape[axis(input, dim)] if input.ndim else 1
    if counts.ndim and counts.shape[0] not in (1, n):
        raise RuntimeError(
            f"repeat_interleave: one count for each of {n} is needed: {counts.tolist()}"
        )
    total, others = total_of(counts, n), max(math.prod(input.shape) // max(n, 1), 1)
    if total * others > SMALL:
        itemsize = np.dtype(input.dtype).itemsize
        check_size("repeat_interleave", (total,), 8)  # the indices
        check_size("repeat_interleave", (total, others), itemsize)
    if not on_device(counts):
        indices = constant(np.repeat(np.arange(n), counts), input)
    else:
        indices = ops._repeat_interleave(ops.broadcast_to(repeats, (n,)))
    return ops.index_select(input, dim, indices)


def total_of(counts: Any, n: int) -> int:
    """The sum of the counts; one count is for each of n. Exact, or at least 2**62."""
    if counts.size == 1:
        return int(counts.reshape(-1)[0]) * n
    total = float(counts.sum(dtype=np.float64))
    return int(total) if total >= 2**62 else int(counts.sum())


def check_repeats(repeats: Any) -> Any:
    """A copy of the array of `repeats`: a number, a list or a tensor."""
    data = data_of(repeats)
    if not on_device(data):
        data = native.private_index(np.asarray(data))
    elif data.device is META:
        raise NotImplementedError(
            "repeat_interleave: the shape of the result depends on values: meta tensors have no "
            "data"
        )
    message = f"{data.dtype.name} of shape {data.shape}"
    if data.ndim > 1:
        raise RuntimeError(f"repeat_interleave: repeats must be a vector: {message}")
    if data.dtype not in (np.int32, np.int64) and data.size:
        raise NotImplementedError(
            f"repeat_interleave: not implemented for {message}, hint: x.long()"
        )
    if (data < 0).any():
        raise RuntimeError(f"repeat_interleave: repeats must not be negative: {data.min()}")
    return data


@op(sized_by_values="repeat_interleave", samples=[(ints((4,), 3),)])
def _repeat_interleave(xp, x, /):
    """The numbers 0, 1, ..., each repeated x[i] times."""
    return xp.repeat(xp.arange(x.shape[0]), native.private_index(x))


@composite(method=False)
def block_diag(ops, *tensors):
    """A matrix with other matrices along its diagonal and 0 elsewhere.

    Parameters
    ----------
    *tensors : Tensor
        Matrices; vectors count as rows, 0-d tensors as `(1, 1)`.

    Returns
    -------
    Tensor
        Its sizes are the sums of theirs; of shape `(1, 0)` if there are none.

    Raises
    ------
    RuntimeError
        A tensor has more than two dimensions.

    See Also
    --------
    diag, diag_embed

    Examples
    --------
    >>> st.block_diag(st.tensor([[1, 2]]), st.tensor([[3], [4]]))
    tensor([[1, 2, 0],
            [0, 0, 3],
            [0, 0, 4]])
    """
    if not tensors:
        return ops.empty((1, 0))
    if any(x.ndim > 2 for x in tensors):
        shapes = ", ".join(str(tuple(x.shape)) for x in tensors)
        raise RuntimeError(f"block_diag: at most 2 dimensions each: {shapes}")
    blocks = at_least_nd(ops, tensors, 2)
    rows, columns = sum(b.shape[0] for b in blocks), sum(b.shape[1] for b in blocks)
    out, i, j = None, 0, 0
    for b in blocks:
        m, n = b.shape
        padded = ops._slice_backward(b, (rows, columns), (slice(i, i + m), slice(j, j + n)))
        out, i, j = padded if out is None else ops.add(out, padded), i + m, j + n
    return out
