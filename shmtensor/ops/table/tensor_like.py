"""New memory with a tensor's strides, or in a memory format: for the functions called `*_like`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import native

CHANNELS_LAST = {"channels_last": (0, 2, 3, 1), "channels_last_3d": (0, 2, 3, 4, 1)}


def order_of(array: Any, memory_format: Any = None) -> tuple[int, ...] | None:
    """The dimensions from the outermost to the innermost in memory; None: in C order.

    Raises:
        RuntimeError: channels_last for another number of dimensions.
    """
    name = getattr(memory_format, "name", "preserve_format")
    if name == "preserve_format":
        strides = () if array.flags.c_contiguous else array.strides
        if not strides or 0 in strides:  # an expanded tensor has no order to preserve
            return None
        return tuple(sorted(range(len(strides)), key=lambda d: -abs(strides[d])))
    return order_in(array.shape, memory_format)


def order_in(shape: tuple[int, ...], memory_format: Any) -> tuple[int, ...] | None:
    """The dimensions from the outermost to the innermost of a memory format; None: in C order."""
    name = getattr(memory_format, "name", "contiguous_format")
    order = CHANNELS_LAST.get(name)
    if order is not None and len(order) != len(shape):
        raise RuntimeError(
            f"memory_format: required rank {len(order)} tensor to use {name} format: shape {shape}"
        )
    return order


def is_contiguous(array: Any) -> bool:
    """Is it in C order, and not in channels_last order by the stride of a single channel?"""
    if not array.flags.c_contiguous or array.ndim < 4:
        return bool(array.flags.c_contiguous)
    channel, last = array.strides[1], array.strides[-1]
    return bool(channel > last or (channel == last and array.shape[1] > 1))


def allocator_like(kernel: Callable[..., Any], x: Any, memory_format: Any) -> Callable[..., Any]:
    """An allocator: a function of a shape (and more arguments) whose result has the strides of the
    tensor x, or a memory format.
    """
    like = x.array
    preserves = getattr(memory_format, "name", "preserve_format") == "preserve_format"
    if preserves and is_contiguous(like):
        return kernel
    order = order_of(like, memory_format)
    if order is None:
        return (lambda *args: native.in_layout_of(kernel(*args), like)) if preserves else kernel

    def compute(shape: tuple[int, ...], *args: Any) -> Any:
        result = kernel(tuple(shape[d] for d in order), *args).transpose(np.argsort(order))
        return native.in_layout_of(result, like) if preserves else result

    return compute
