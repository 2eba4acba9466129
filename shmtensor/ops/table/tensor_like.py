"""New memory with a tensor's strides, or in a memory format: for the functions called `*_like`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import native
from ...cuda_arrays import array_module

__all__ = ["allocator_like", "is_contiguous", "kernel_on", "order_in", "order_of"]

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
    """The dimensions from the outermost to the innermost of a memory format; None: in C order.

    Raises:
        RuntimeError: channels_last for another number of dimensions.
    """
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


def kernel_on(xp: Any, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A NumPy function with another array module: its attribute `on_device`, a function `(xp,
    arguments...)`, or the module's function of this name; else its result is copied to the device.
    """
    if xp is np:
        return kernel
    other = getattr(kernel, "on_device", None)
    if other is not None:
        return functools.partial(other, xp)
    name = getattr(kernel, "__name__", "")
    if getattr(np, name, None) is kernel:
        return getattr(xp, name)  # type: ignore[no-any-return]
    return lambda *args: xp.asarray(kernel(*args))


def allocator_like(kernel: Callable[..., Any], x: Any, memory_format: Any) -> Callable[..., Any]:
    """An allocator: a function of a shape (and more arguments) whose result has the strides of the
    tensor x, or a memory format.
    """
    like = x.array
    if array_module(like) is not np:
        return device_allocator_like(kernel, like, memory_format)
    preserves = getattr(memory_format, "name", "preserve_format") == "preserve_format"
    if preserves and is_contiguous(like):
        return kernel
    order = order_of(like, memory_format)
    if order is None and not preserves:
        return kernel

    def compute(shape: tuple[int, ...], *args: Any) -> Any:
        if order is None:
            result = kernel(shape, *args)
        else:
            result = kernel(tuple(shape[d] for d in order), *args).transpose(np.argsort(order))
        return native.in_layout_of(result, like) if preserves else result

    compute.on_device = device_kernel(kernel, order)  # type: ignore[attr-defined]
    return compute


def device_kernel(kernel: Callable[..., Any], order: tuple[int, ...] | None) -> Callable[..., Any]:
    """The kernel with another array module, `(xp, shape, arguments...)`; the dimensions of its
    result have this order in memory.
    """

    def compute(xp: Any, shape: tuple[int, ...], *args: Any) -> Any:
        if order is None:
            return kernel_on(xp, kernel)(shape, *args)
        result = kernel_on(xp, kernel)(tuple(shape[d] for d in order), *args)
        return result.transpose(np.argsort(order).tolist())

    return compute


def device_allocator_like(
    kernel: Callable[..., Any], like: Any, memory_format: Any
) -> Callable[..., Any]:
    """`allocator_like` of an array on a device."""
    order = order_of(like, memory_format)
    if order is None:
        return kernel

    def compute(*args: Any) -> Any:
        return device_kernel(kernel, order)(np, *args)

    compute.on_device = device_kernel(kernel, order)  # type: ignore[attr-defined]
    return compute
