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
    """Tensors joined along a dimension. Copies: one (the result)."""
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
    """Tensors of one shape joined along a new dimension. Copies: one (the result)."""
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
    """Joined along the second dimension (vectors along the first)."""
    tensors = at_least_nd(ops, tensors, 1)
    if not tensors:
        raise RuntimeError("hstack: at least one tensor is needed: []")
    return ops.cat(tensors, 0 if tensors[0].ndim == 1 else 1)


@composite(method=False)
def vstack(ops, tensors):
    """Joined along the first dimension; vectors are rows."""
    return ops.cat(at_least_nd(ops, tensors, 2), 0)


vstack.alias("row_stack")


@composite(method=False)
def dstack(ops, tensors):
    """Joined along the third dimension."""
    return ops.cat([at_least_3d(ops, x) for x in tensors], 2)


def at_least_3d(ops: Any, x: Any) -> Any:
    """x with at least three dimensions, the last one new."""
    if x.ndim >= 3:
        return x
    return ops.reshape(x, {0: (1, 1, 1), 1: (1, *x.shape, 1), 2: (*x.shape, 1)}[x.ndim])


@composite(method=False)
def column_stack(ops, tensors):
    """Joined along the second dimension; vectors are columns."""
    return ops.cat([ops.reshape(x, (-1, 1)) if x.ndim < 2 else x for x in tensors], 1)


def map_tensors(ops: Any, tensors: Any, function: Any) -> Any:
    """The function of one tensor, or a tuple of results for several."""
    if len(tensors) == 1 and not isinstance(tensors[0], (list, tuple)):
        return function(ops, tensors[0])
    tensors = tensors[0] if len(tensors) == 1 else tensors
    return tuple(function(ops, x) for x in tensors)


@composite(method=False)
def atleast_1d(ops, *tensors):
    """With one dimension at least."""
    return map_tensors(ops, tensors, lambda ops, x: at_least_nd(ops, [x], 1)[0])


@composite(method=False)
def atleast_2d(ops, *tensors):
    """With two dimensions at least, new ones in front."""
    return map_tensors(ops, tensors, lambda ops, x: at_least_nd(ops, [x], 2)[0])


@composite(method=False)
def atleast_3d(ops, *tensors):
    """With three dimensions at least."""
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
    """Parts of one size (the last may be smaller), or of several sizes, along a dimension.
    Copies: none.
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
    """At most `chunks` parts of equal size (the last may be smaller) along a dimension. Copies:
    none.
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
    """A number of parts of nearly equal sizes, or parts that end at the indices, along a dimension.
    Copies: none.
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


def declare_split(name: str, min_ndim: int) -> Any:
    """hsplit, vsplit and dsplit: `tensor_split` along a fixed dimension."""

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

    compute.__doc__ = (
        f"Parts along dimension {'1' if name == 'hsplit' else '0' if name == 'vsplit' else '2'}."
    )
    return composite(compute, name=name)


hsplit, vsplit, dsplit = (
    declare_split("hsplit", 1),
    declare_split("vsplit", 2),
    declare_split("dsplit", 3),
)


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
    """The slices along a dimension, which is removed. Copies: none."""
    if not x.ndim:
        raise IndexError("unbind: a 0-d tensor has no slices: shape ()")
    dim = axis(x, dim)
    before = (slice(None),) * dim
    return [x[(*before, i, ...)] for i in range(x.shape[dim])]


unbind.pullback(x=lambda ops, g, dim: ops.stack(g, dim))


@composite
def repeat_interleave(ops, input, repeats=None, dim=None, *, output_size=None):
    """Each element repeated, along a dimension or flattened."""
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
    """Matrices along the diagonal of a large one; of shape (1, 0) if there are none."""
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
