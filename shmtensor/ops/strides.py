"""Tensors by their strides: any layout over a tensor's memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import native
from .creation import default, made
from .table import composite, op

Shape = tuple[int, ...]


def owner(x: Any) -> Any:
    """All the memory that x lies in, as a vector of its dtype; None if that is not one array's.
    It can be written if x can."""
    may_write = x.flags.writeable
    while isinstance(x.base, np.ndarray) and x.base.dtype == x.dtype:
        x = x.base
    if not x.flags.c_contiguous:
        from ..storage import as_it_lies  # rarely needed

        x = as_it_lies(x)
        if not x.flags.c_contiguous:
            return None
    whole = x.reshape(-1)
    if whole.flags.writeable and not may_write:
        whole = whole.view()
        whole.flags.writeable = False
    return whole


def laid(memory: Any, size: Shape, stride: Shape, offset: int) -> Any:
    """The layout over a vector.

    Raises:
        RuntimeError: it reaches beyond the memory.
    """
    if len(size) != len(stride):
        raise RuntimeError(f"as_strided: size and stride differ in length: {size}, {stride}")
    end = offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) + 1
    if math.prod(size) and (end > memory.size or offset < 0 or min(stride, default=0) < 0):
        raise RuntimeError(
            f"as_strided: out of bounds: size={size}, stride={stride}, offset {offset}, "
            f"the memory has {memory.size} elements"
        )
    steps = tuple(s * memory.itemsize for s in stride)
    return native.relaid(memory, size, steps, offset * memory.itemsize if math.prod(size) else 0)


@op(view=True, samples=[((3, 4), (2, 2), (4, 1), 1), ((6,), (4, 3), (1, 1))])
def as_strided(xp, x, /, size, stride, storage_offset=0):
    """Another shape and strides (in elements) over the tensor's memory. Copies: none."""
    memory = owner(x)
    if memory is None:
        raise RuntimeError(f"as_strided: the memory is not one piece: strides {x.strides}")
    return laid(memory, tuple(size), tuple(stride), storage_offset or 0)


@op(method=False, function=False, samples=[((2, 2), (3, 4), (4, 1), 1)])
def strided_sum(xp, x, /, shape, stride, offset):
    """Zeros of a shape, with x added at strides over it: the gradient of `as_strided`."""
    out = xp.zeros(shape, x.dtype)
    places = laid(xp.arange(out.size), x.shape, tuple(stride), offset or 0)
    xp.add.at(out.reshape(-1), places, x)
    return out


as_strided.pullback(
    x=lambda ops, g, x_shape, stride, storage_offset: ops.strided_sum(
        g, x_shape, stride, storage_offset
    )
)
strided_sum.pullback(
    x=lambda ops, g, x_shape, stride, offset: ops.as_strided(g, x_shape, stride, offset)
)


@composite(method=False)
def as_strided_copy(ops, input, size, stride, storage_offset=0):
    """`as_strided` in memory of its own. Copies: one (the result)."""
    return ops.clone(ops.as_strided(input, size, stride, storage_offset))


@composite
def as_strided_scatter(ops, input, src, size, stride, storage_offset=0):
    """The tensor with src at strides over it. Copies: one (the result)."""
    count = math.prod(input.shape)
    places = laid(np.arange(count), tuple(size), tuple(stride), storage_offset or 0)
    if tuple(src.shape) != places.shape:
        raise RuntimeError(f"as_strided_scatter: shapes differ: {tuple(src.shape)}, {places.shape}")
    return ops.reshape(
        ops.written(ops.reshape(input, (-1,)), src, (places,), False), tuple(input.shape)
    )


@composite(method=False)
def resize_as_(ops, input, the_template, *, memory_format=None):
    """The tensor brought to another one's shape, in place: `input.resize_as_(the_template)`."""
    return input.resize_as_(the_template, memory_format=memory_format)


def blank(size: Shape, stride: Shape, dtype: Any) -> Any:
    """Memory just large enough for the strides, in their layout."""
    need = 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) if math.prod(size) else 0
    return laid(np.empty(need, dtype), size, stride, 0)


@composite(method=False)
def empty_strided(
    ops,
    size,
    stride,
    *,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
):
    """Memory as it is, with strides (in elements) as given."""
    arguments = tuple(size), tuple(stride), default(dtype)
    return made(blank, *arguments, device=device, requires_grad=requires_grad)


@composite(function=False)
def new_empty_strided(
    ops,
    input,
    size,
    stride,
    *,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
):
    """Memory as it is, with strides as given, in this tensor's dtype."""
    dtype = input.dtype if dtype is None else dtype
    return ops.empty_strided(size, stride, dtype=dtype, device=device, requires_grad=requires_grad)


@composite(method=False)
def empty_permuted(
    ops,
    size,
    physical_layout,
    *,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
):
    """Memory as it is, whose dimensions lie in the order physical_layout, slowest first."""
    order = list(physical_layout)
    if sorted(order) != list(range(len(size))):
        raise RuntimeError(
            f"empty_permuted: not an order of the dimensions: {order}, {tuple(size)}"
        )
    steps, step = [0] * len(order), 1
    for d in reversed(order):
        steps[d], step = step, step * max(size[d], 1)
    return ops.empty_strided(size, steps, dtype=dtype, device=device, requires_grad=requires_grad)
