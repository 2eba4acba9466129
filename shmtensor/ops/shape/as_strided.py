"""Tensors by their strides: any layout over a tensor's memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import native
from ...cuda_arrays import device_of, pointer
from ...storage import memory_of, owner_of
from ..creation.device_forms import new_tensor
from ..creation.zeros_full_arange import dtype_or_default
from ..table.constants import array_module, constant, data_of
from ..table.op_table import composite, op

Shape = tuple[int, ...]


def memory_vector(x: Any) -> Any:
    """The full memory of x, as a vector of its dtype. It is writable if x is.

    Raises:
        RuntimeError: the memory is not contiguous.
    """
    if not isinstance(x, np.ndarray):
        return device_memory(x).view(x.dtype)
    owner = owner_of(x)
    if owner.dtype is x.dtype and owner.flags.c_contiguous:
        memory = owner.reshape(-1)
        if isinstance(x, np.ndarray) and memory.flags.writeable and not x.flags.writeable:
            memory.flags.writeable = False
        return memory
    buffer = memory_of(x)
    skipped = (pointer(x) - pointer(buffer)) % x.itemsize  # bytes before the first whole element
    return buffer[skipped : buffer.size - (buffer.size - skipped) % x.itemsize].view(x.dtype)


def device_memory(x: Any) -> Any:
    """`memory_vector` of a device's array, whose `base` is the owner of its memory."""
    owner = x if x.base is None else x.base
    if not owner.flags.c_contiguous:
        owner = owner.transpose(sorted(range(owner.ndim), key=lambda d: -owner.strides[d]))
    if not owner.flags.c_contiguous:
        raise RuntimeError(
            f"as_strided: the memory is not contiguous: shape {owner.shape}, strides "
            f"{owner.strides}"
        )
    return owner.reshape(-1)


def offset_of(x: Any) -> int:
    """The number of elements between the start of the memory and the first one of x.

    Raises:
        RuntimeError: the memory is not contiguous.
    """
    if not isinstance(x, np.ndarray):
        return int(x.data.ptr - device_memory(x).data.ptr) // int(x.itemsize)
    owner = owner_of(x)
    if owner is x and x.flags.c_contiguous:
        return 0
    memory = owner if owner.flags.c_contiguous else memory_of(x)
    return (pointer(x) - pointer(memory)) // int(x.itemsize)


def strided_view(memory: Any, size: Shape, stride: Shape, offset: int) -> Any:
    """A view of a vector with this layout."""
    if len(size) != len(stride):
        raise RuntimeError(f"as_strided: size and stride differ in length: {size}, {stride}")
    end = offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) + 1
    if math.prod(size) and (end > memory.size or offset < 0 or min(stride, default=0) < 0):
        raise RuntimeError(
            f"as_strided: out of bounds: size={size}, stride={stride}, offset {offset}, "
            f"the memory has {memory.size} elements"
        )
    steps = tuple(s * memory.itemsize for s in stride)
    if not isinstance(memory, np.ndarray):
        lib = array_module(memory).lib
        first = memory[offset if math.prod(size) else 0 :]
        return lib.stride_tricks.as_strided(first, size, steps)
    return native.as_strided(
        memory, size, steps, offset * memory.itemsize if math.prod(size) else 0
    )


# ---- Note [Strides of a view]
#
# A row does not know its operand's position in memory: its gradient, or a write to a view of it, is
# computed on other memory. So `as_strided` passes the offset from the operand's first element, and
# the operand's strides (`x_stride`), to the row `_as_strided`.


def strides_of(x: Any) -> Shape:
    """The strides in elements; 0 for sizes of 1, whose strides have no meaning."""
    size = x.itemsize
    return tuple([s // size if n > 1 else 0 for n, s in zip(x.shape, x.strides, strict=True)])


def element_offsets(size: Shape, stride: Shape, offset: int) -> Any:
    """The offset of each element from the first one of another layout."""
    offsets = np.full(size, offset)
    for d, (n, s) in enumerate(zip(size, stride, strict=True)):
        offsets += (np.arange(n) * s).reshape((-1,) + (1,) * (len(size) - 1 - d))
    return offsets


def common_memory(*layouts: Any) -> tuple[int, list[Any]]:
    """The size of the common memory of layouts (size, stride, offset), and the offsets of each
    one's elements in it.
    """
    offsets = [element_offsets(*layout) for layout in layouts]
    low = min((int(at.min()) for at in offsets if at.size), default=0)
    high = max((int(at.max()) for at in offsets if at.size), default=-1)
    return high - low + 1, [at - low for at in offsets]


@op(
    complex_gradients=True,
    of_memory=True,
    view=True,
    samples=[((3, 4), (2, 2), (4, 1), 1, (4, 1)), ((6,), (4, 3), (1, 1), 0, (1,))],
)
def _as_strided(xp, x, /, size, stride, offset, x_stride):
    """Another shape and strides (in elements) over the tensor's memory, from `offset` elements
    after its first one. Copies: none; one if x does not have the strides x_stride.
    """
    if x.ndim != len(x_stride):
        raise RuntimeError(
            f"as_strided: the tensor was given another geometry in place since: {x.shape}, it had "
            f"the strides {x_stride}"
        )
    if strides_of(x) != x_stride:
        n, (target, source) = common_memory((x.shape, x_stride, 0), (size, stride, offset))
        memory = xp.zeros(n, x.dtype)
        memory[xp.asarray(target)] = x
        return xp.asarray(memory[xp.asarray(source)])
    return strided_view(memory_vector(x), size, stride, offset_of(x) + offset)


@op(complex_gradients=True, samples=[((2, 2), (3, 4), (4, 1), (4, 1), 1)])
def _as_strided_backward(xp, x, /, shape, x_stride, stride, offset):
    """Zeros of a shape, with x added at strides over it: the gradient of `as_strided`. Elements
    that share memory share the sum.
    """
    n, (target, source) = common_memory((x.shape, stride, offset), (shape, x_stride, 0))
    target, source = xp.asarray(target), xp.asarray(source)
    memory = xp.zeros(n, x.dtype)
    xp.add.at(memory, target, x)
    if any(size > 1 and not step for size, step in zip(shape, x_stride, strict=True)):
        count = xp.bincount(source.reshape(-1), minlength=n)
        memory /= xp.maximum(count, 1).astype(x.dtype)
    return xp.asarray(memory[source])


_as_strided.pullback(
    x=lambda ops, g, x_shape, stride, offset, x_stride: ops._as_strided_backward(
        g, x_shape, x_stride, stride, offset
    )
)
_as_strided_backward.pullback(
    x=lambda ops, g, x_shape, x_stride, stride, offset: ops._as_strided(
        g, x_shape, stride, offset, x_stride
    )
)


@composite
def as_strided(ops, input, size, stride, storage_offset=None):
    """A view of the tensor's memory with any shape and strides.

    Parameters
    ----------
    input : Tensor
        Whose memory is seen.
    size : sequence of int
        The shape.
    stride : sequence of int
        For each dimension the distance of two neighbours, in elements.
    storage_offset : int, optional
        Elements between the start of the memory and the first element; by default that of `input`.

    Returns
    -------
    Tensor
        A view; its elements may overlap, and then a write changes several of them.

    Raises
    ------
    RuntimeError
        The view would leave the memory.

    See Also
    --------
    view, as_strided_scatter, empty_strided

    Notes
    -----
    Copies: none.

    Examples
    --------
    >>> x = st.arange(5)
    >>> st.as_strided(x, (3, 3), (1, 1))
    tensor([[0, 1, 2],
            [1, 2, 3],
            [2, 3, 4]])
    """
    array = data_of(input)
    offset = 0 if storage_offset is None else storage_offset - offset_of(array)
    return ops._as_strided(input, tuple(size), tuple(stride), offset, strides_of(array))


@composite(method=False)
def as_strided_copy(ops, input, size, stride, storage_offset=None):
    """A copy of a view of the tensor's memory with any shape and strides.

    Parameters
    ----------
    input : Tensor
        Whose memory is seen.
    size : sequence of int
        The shape.
    stride : sequence of int
        For each dimension the distance of two neighbours, in elements.
    storage_offset : int, optional
        Elements between the start of the memory and the first element; by default that of `input`.

    Returns
    -------
    Tensor
        Memory of its own.

    See Also
    --------
    as_strided

    Notes
    -----
    Copies: one (the result).

    Examples
    --------
    >>> st.as_strided_copy(st.arange(4), (2, 2), (1, 2))
    tensor([[0, 2],
            [1, 3]])
    """
    return ops.clone(ops.as_strided(input, size, stride, storage_offset))


@composite
def as_strided_scatter(ops, input, src, size, stride, storage_offset=0):
    """A copy of a tensor, with another written at the elements that a shape and strides give.

    Parameters
    ----------
    input : Tensor
        The tensor, read in row order.
    src : Tensor
        Of the shape `size`.
    size, stride : sequence of int
        Shape and strides over the elements, as for `as_strided`.
    storage_offset : int, optional
        The first of these elements.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Raises
    ------
    RuntimeError
        The shape of `src` is not `size`.

    See Also
    --------
    as_strided

    Notes
    -----
    Copies: one (the result).

    Examples
    --------
    >>> st.as_strided_scatter(st.zeros(2, 3), st.ones(2), (2,), (4,))
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """
    count = math.prod(input.shape)
    indices = strided_view(np.arange(count), tuple(size), tuple(stride), storage_offset or 0)
    if tuple(src.shape) != indices.shape:
        raise RuntimeError(
            f"as_strided_scatter: shapes differ: {tuple(src.shape)}, {indices.shape}"
        )
    return ops.reshape(
        ops._index_put(ops.reshape(input, (-1,)), src, (constant(indices, input),), False),
        tuple(input.shape),
    )


@composite(method=False)
def resize_as_(ops, input, the_template, *, memory_format=None):
    """Resizes the tensor to another one's shape, in place: `input.resize_as_(the_template)`."""
    return input.resize_as_(the_template, memory_format=memory_format)


def empty_strided_array(size: Shape, stride: Shape, dtype: Any) -> Any:
    """An uninitialized array with these strides, in memory of the minimal size."""
    n_elements = (
        1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) if math.prod(size) else 0
    )
    return strided_view(np.empty(n_elements, dtype), size, stride, 0)


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
    """A new tensor with given strides, whose memory is not initialized.

    Parameters
    ----------
    size : sequence of int
        The shape.
    stride : sequence of int
        For each dimension the distance of two neighbours, in elements.
    dtype : dtype, optional
        Of the result; the default dtype (float32 unless set) if it is None.
    device : Device or str, optional
        Of the result; the default device if it is None.
    requires_grad : bool, optional
        Whether operations on the result are recorded for its gradient.

    Returns
    -------
    Tensor
        Of the shape `size`; its elements are arbitrary until they are written.

    See Also
    --------
    empty, empty_permuted, as_strided

    Examples
    --------
    >>> st.empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    arguments = tuple(size), tuple(stride), dtype_or_default(dtype)
    return new_tensor(empty_strided_array, *arguments, device=device, requires_grad=requires_grad)


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
    """A new tensor with given strides, not initialized, in the dtype and on the device of this one.

    Parameters
    ----------
    size : sequence of int
        The shape.
    stride : sequence of int
        For each dimension the distance of two neighbours, in elements.
    dtype : dtype, optional
        By default that of this tensor.
    device : Device or str, optional
        By default that of this tensor.
    requires_grad : bool, optional
        Whether operations on the result are recorded for its gradient.

    Returns
    -------
    Tensor
        Of the shape `size`.

    See Also
    --------
    empty_strided

    Examples
    --------
    >>> st.zeros(1).new_empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    dtype = input.dtype if dtype is None else dtype
    if device is None:
        device = device_of(input.array)
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
    """A new tensor whose dimensions lie in memory in a given order; it is not initialized.

    Parameters
    ----------
    size : sequence of int
        The shape.
    physical_layout : sequence of int
        The dimensions, the one with the largest stride first.
    dtype : dtype, optional
        Of the result; the default dtype (float32 unless set) if it is None.
    device : Device or str, optional
        Of the result; the default device if it is None.
    requires_grad : bool, optional
        Whether operations on the result are recorded for its gradient.

    Returns
    -------
    Tensor
        Of the shape `size`; its elements are arbitrary until they are written.

    Raises
    ------
    RuntimeError
        `physical_layout` does not have each dimension once.

    See Also
    --------
    empty_strided

    Examples
    --------
    >>> st.empty_permuted((2, 3, 4), (0, 2, 1)).stride()
    (12, 1, 3)
    """
    order = list(physical_layout)
    if sorted(order) != list(range(len(size))):
        raise RuntimeError(
            f"empty_permuted: not an order of the dimensions: {order}, {tuple(size)}"
        )
    steps, step = [0] * len(order), 1
    for d in reversed(order):
        steps[d], step = step, step * max(size[d], 1)
    return ops.empty_strided(size, steps, dtype=dtype, device=device, requires_grad=requires_grad)
