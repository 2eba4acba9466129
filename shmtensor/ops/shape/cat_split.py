"""Several tensors made one, and one made several."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import native
from ..table.dims import axis
from ..table.native_or_numpy import kernel_or_fallback
from ..table.op_definition import composite, op
from ..table.samples import ints

Shape = tuple[int, ...]


def filled(xs: list[Any]) -> list[Any]:
    """Without the empty vectors, which join with anything (PyTorch's custom); all if there is
    nothing else.
    """
    return [x for x in xs if x.shape != (0,)] or xs


@op(
    numpy=native.cat,
    promote="common",
    inplace=False,
    method=False,
    samples=[([(3, 4), (2, 4)],), ([(3, 4), (3, 1)], 1), ([(3,)], -1), ([(2, 0), (2, 3)], 1)],
    layout="all images tensors",
    halves="moved",
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
        left = filled(tensors)
        if len(left) == len(tensors):
            raise
        return xp.concatenate(left, dim)


def split_gradient(ops: Any, g: Any, shapes: list[Shape], dim: int) -> list[Any]:
    """A gradient cut into the parts that were joined."""
    parts, start = [], 0
    for shape in shapes:
        if shape == (0,) and g.ndim != 1:
            parts.append(ops.reshape(ops.narrow(g, dim, 0, 0), (-1,))[:0])
            continue
        parts.append(ops.narrow(g, dim, start, shape[dim]))
        start += shape[dim]
    return parts


cat.pullback(tensors=lambda ops, g, tensors_shape, dim: split_gradient(ops, g, tensors_shape, dim))
cat.alias("concat", "concatenate")


def fast_stack(tensors: list[Any], dim: int) -> Any:
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
    numpy=fast_stack,
    promote="common",
    inplace=False,
    method=False,
    samples=[([(3, 4), (3, 4)],), ([(3, 4), (3, 4)], -1), ([(), ()],)],
    halves="moved",
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


def raised(ops: Any, tensors: Any, n: int) -> list[Any]:
    """At least n dimensions each."""
    return [
        ops.reshape(x, (1,) * (n - x.ndim) + tuple(x.shape)) if x.ndim < n else x for x in tensors
    ]


@composite(method=False)
def hstack(ops, tensors):
    """Joined along the second dimension (vectors along the first)."""
    tensors = raised(ops, tensors, 1)
    if not tensors:
        raise RuntimeError("hstack: at least one tensor is needed: []")
    return ops.cat(tensors, 0 if tensors[0].ndim == 1 else 1)


@composite(method=False)
def vstack(ops, tensors):
    """Joined along the first dimension; vectors are rows."""
    return ops.cat(raised(ops, tensors, 2), 0)


vstack.alias("row_stack")


@composite(method=False)
def dstack(ops, tensors):
    """Joined along the third dimension."""
    return ops.cat([deep(ops, x) for x in tensors], 2)


def deep(ops: Any, x: Any) -> Any:
    """At least three dimensions, the last one new."""
    if x.ndim >= 3:
        return x
    return ops.reshape(x, {0: (1, 1, 1), 1: (1, *x.shape, 1), 2: (*x.shape, 1)}[x.ndim])


@composite(method=False)
def column_stack(ops, tensors):
    """Joined along the second dimension; vectors are columns."""
    return ops.cat([ops.reshape(x, (-1, 1)) if x.ndim < 2 else x for x in tensors], 1)


def each(ops: Any, tensors: Any, make: Any) -> Any:
    """Of one tensor the result, of several a tuple."""
    if len(tensors) == 1 and not isinstance(tensors[0], (list, tuple)):
        return make(ops, tensors[0])
    tensors = tensors[0] if len(tensors) == 1 else tensors
    return tuple(make(ops, x) for x in tensors)


@composite(method=False)
def atleast_1d(ops, *tensors):
    """With one dimension at least."""
    return each(ops, tensors, lambda ops, x: raised(ops, [x], 1)[0])


@composite(method=False)
def atleast_2d(ops, *tensors):
    """With two dimensions at least, new ones in front."""
    return each(ops, tensors, lambda ops, x: raised(ops, [x], 2)[0])


@composite(method=False)
def atleast_3d(ops, *tensors):
    """With three dimensions at least."""
    return each(ops, tensors, deep)


# ---- parts


@op(
    listed=True,
    view=True,
    method=False,
    function=False,
    samples=[((5, 2), (2, 3), 0), ((3, 4), (1, 3), 1)],
    halves="moved",
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
    """Parts of one size (the last may be smaller), or of the sizes given, along a dimension.
    Copies: none.
    """
    if not tensor.ndim:
        raise RuntimeError("split: a 0-d tensor cannot be split: shape ()")
    size, n = split_size_or_sections, tensor.shape[axis(tensor, dim)]
    if isinstance(size, int):
        if size < 0 or (size == 0 and n):
            raise RuntimeError(f"split: the size must be positive: {size}")
        return ops._split_with_sizes(tensor, even(n, size), dim)
    if sum(size) != n or min(size, default=0) < 0:
        raise RuntimeError(f"split: sizes must add up to {n}, dim {dim}: {list(size)}")
    return ops._split_with_sizes(tensor, tuple(size), dim)


split.alias("split_with_sizes")


def even(n: int, size: int) -> Shape:
    """n cut into pieces of a size; the last has what is left."""
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
    sizes = even(n, -(-n // chunks)) if n else (0,) * chunks
    return ops._split_with_sizes(input, sizes, dim)


@composite
def tensor_split(ops, input, indices_or_sections, dim=0):
    """So many parts, as equal as can be, or parts ending at the indices, along a dimension. Copies:
    none.
    """
    if not input.ndim:
        raise RuntimeError("tensor_split: a 0-d tensor cannot be split: shape ()")
    n, at = input.shape[axis(input, dim)], indices_or_sections
    if hasattr(at, "tolist"):
        at = at.tolist()
    if isinstance(at, int):
        if at < 1:
            raise RuntimeError(f"tensor_split: at least one section is needed: {at}")
        return ops._split_with_sizes(
            input, (n // at + 1,) * (n % at) + (n // at,) * (at - n % at), dim
        )
    ends = [slice(None, i).indices(n)[1] for i in at] + [n]
    starts = [0, *ends[:-1]]
    pieces = [(b, max(e - b, 0)) for b, e in zip(starts, ends, strict=True)]
    return tuple(ops.narrow(input, dim, b, size) for b, size in pieces)


def along(name: str, least: int) -> Any:
    """hsplit, vsplit and dsplit: `tensor_split` along a fixed dimension."""

    def compute(ops, input, indices_or_sections):
        if input.ndim < least:
            raise RuntimeError(f"{name}: at least {least} dims are needed: {tuple(input.shape)}")
        dim = {"hsplit": min(input.ndim - 1, 1), "vsplit": 0, "dsplit": 2}[name]
        at = indices_or_sections
        if isinstance(at, int) and (at < 1 or input.shape[dim] % at):
            raise RuntimeError(
                f"{name}: sections must divide dim {dim}: {at}, {tuple(input.shape)}"
            )
        return ops.tensor_split(input, at, dim)

    compute.__doc__ = (
        f"Parts along dimension {'1' if name == 'hsplit' else '0' if name == 'vsplit' else '2'}."
    )
    return composite(compute, name=name)


hsplit, vsplit, dsplit = along("hsplit", 1), along("vsplit", 2), along("dsplit", 3)


@op(
    listed=True,
    view=True,
    samples=[((3, 4),), ((3, 4), 1), ((2, 3, 4), -2)],
    halves="moved",
    vmap="along",
)
def unbind(xp, x, /, dim=0):
    """The slices along a dimension, which goes. Copies: none."""
    if not x.ndim:
        raise IndexError("unbind: a 0-d tensor has no slices: shape ()")
    dim = axis(x, dim)
    before = (slice(None),) * dim
    return [x[(*before, i, ...)] for i in range(x.shape[dim])]


unbind.numpy = kernel_or_fallback(native.unbind, unbind.forward)
unbind.pullback(x=lambda ops, g, dim: ops.stack(g, dim))


@composite
def repeat_interleave(ops, input, repeats=None, dim=None, *, output_size=None):
    """Each element so many times in a row, along a dimension or flattened."""
    counts = insist_on_counts(input if repeats is None else repeats)
    if repeats is None:
        if not counts.ndim:
            raise RuntimeError("repeat_interleave: repeats must be a vector: shape ()")
        return ops._repeat_interleave(input)
    if dim is None:
        input, dim = ops.reshape(input, (-1,)), 0
    n = input.shape[axis(input, dim)] if input.ndim else 1
    if counts.ndim and counts.shape[0] not in (1, n):
        raise RuntimeError(
            f"repeat_interleave: one count for each of {n} is needed: {counts.tolist()}"
        )
    return ops.index_select(input, dim, np.repeat(np.arange(n), counts))


def insist_on_counts(counts: Any) -> Any:
    """The array of a number, a list or a tensor that says how often each is repeated.

    Raises:
        RuntimeError: a number is negative, or there is more than one dimension.
        NotImplementedError: they are not int32 or int64.
    """
    data = np.asarray(getattr(counts, "array", counts))
    shown = f"{data.dtype} of shape {data.shape}"
    if data.ndim > 1:
        raise RuntimeError(f"repeat_interleave: repeats must be a vector: {shown}")
    if data.dtype not in (np.int32, np.int64) and data.size:
        raise NotImplementedError(f"repeat_interleave: not implemented for {shown}, hint: x.long()")
    if (data < 0).any():
        raise RuntimeError(f"repeat_interleave: repeats must not be negative: {data.min()}")
    return data


@op(method=False, function=False, samples=[(ints((4,), 3),)])
def _repeat_interleave(xp, x, /):
    """The numbers 0, 1, ... each as often as x says."""
    return xp.repeat(xp.arange(x.shape[0]), x)


@composite(method=False)
def block_diag(ops, *tensors):
    """Matrices along the diagonal of a large one."""
    if any(x.ndim > 2 for x in tensors):
        shown = ", ".join(str(tuple(x.shape)) for x in tensors)
        raise RuntimeError(f"block_diag: at most 2 dimensions each: {shown}")
    blocks = raised(ops, tensors, 2)
    rows, columns = sum(b.shape[0] for b in blocks), sum(b.shape[1] for b in blocks)
    out, i, j = None, 0, 0
    for b in blocks:
        m, n = b.shape
        placed = ops._slice_backward(b, (rows, columns), (slice(i, i + m), slice(j, j + n)))
        out, i, j = placed if out is None else ops.add(out, placed), i + m, j + n
    return out
