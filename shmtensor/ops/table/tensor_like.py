"""New memory laid out as a tensor's, or by channels: what the functions called `*_like` do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import native

__all__ = ["allocator_like", "in_rows", "order_in", "order_of"]

CHANNELS_LAST = {"channels_last": (0, 2, 3, 1), "channels_last_3d": (0, 2, 3, 4, 1)}


def order_of(array: Any, memory_format: Any = None) -> tuple[int, ...] | None:
    """The dimensions from the outermost to the innermost in memory; None: as they stand.

    Raises:
        RuntimeError: channels last of another number of dimensions.
    """
    name = getattr(memory_format, "name", "preserve_format")
    if name == "preserve_format":
        steps = () if array.flags.c_contiguous else array.strides
        if not steps or 0 in steps:  # stretched memory has no order to keep
            return None
        return tuple(sorted(range(len(steps)), key=lambda d: -abs(steps[d])))
    return order_in(array.shape, memory_format)


def order_in(shape: tuple[int, ...], memory_format: Any) -> tuple[int, ...] | None:
    """The dimensions from the outermost to the innermost of a memory format; None: as they stand.

    Raises:
        RuntimeError: channels last of another number of dimensions.
    """
    name = getattr(memory_format, "name", "contiguous_format")
    order = CHANNELS_LAST.get(name)
    if order is not None and len(order) != len(shape):
        raise RuntimeError(
            f"memory_format: required rank {len(order)} tensor to use {name} format: shape {shape}"
        )
    return order


def in_rows(array: Any) -> bool:
    """Are the elements in C order, and do no strides of sizes of 1 say that channels come last?"""
    if not array.flags.c_contiguous or array.ndim < 4:
        return bool(array.flags.c_contiguous)
    channel, last = array.strides[1], array.strides[-1]
    return bool(channel > last or (channel == last and array.shape[1] > 1))


def allocator_like(kernel: Callable[..., Any], x: Any, memory_format: Any) -> Callable[..., Any]:
    """The function of a shape (and more) that gives new memory, so that its dimensions lie as those
    of the tensor x, or as a format says.
    """
    like = x.array
    preserves = getattr(memory_format, "name", "preserve_format") == "preserve_format"
    if preserves and in_rows(like):
        return kernel
    order = order_of(like, memory_format)
    if order is None:
        return (lambda *given: native.in_layout_of(kernel(*given), like)) if preserves else kernel

    def compute(shape: tuple[int, ...], *more: Any) -> Any:
        made = kernel(tuple(shape[d] for d in order), *more).transpose(np.argsort(order))
        return native.in_layout_of(made, like) if preserves else made

    return compute
