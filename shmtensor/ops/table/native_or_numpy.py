"""Kernels of rows: native code where it applies, else the forward in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from ... import native
from ...dtypes import HALVES, float32


def floating_kernel(kernel: Callable[..., Any], plain: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel for real floating-point arrays, the plain forward for all other numbers."""

    def kernel_or_plain(x: Any, *arguments: Any) -> Any:
        if x.dtype.kind == "f":
            return kernel(x, *arguments)
        with np.errstate(all="ignore"):
            return plain(np, x, *arguments)

    kernel_or_plain.half = kernel  # type: ignore[attr-defined]  # tried first with 16-bit floats
    return kernel_or_plain


def kernel_or_fallback(kernel: Callable[..., Any], plain: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel; where it returns None (a rare or invalid call) the plain forward, which computes
    the result or raises the error.
    """

    def fallback(*arguments: Any) -> Any:
        with np.errstate(all="ignore"):
            return plain(np, *arguments)

    return native.KernelOrFallback(kernel, fallback)


def half_kernel_of(kernel: Any) -> Any:
    """The kernel that is tried first on 16-bit floats without a cast to float32 (column `halves`):
    the native one, or the attribute `half` of a Python kernel; else None.
    """
    if isinstance(kernel, native.KernelOrFallback) and not isinstance(kernel.kernel, FunctionType):
        return kernel.kernel
    return getattr(kernel, "half", None)


INPLACE_COLUMNS: dict[str, Any] = {"inplace": True, "out": True}


def inplace_kernel(write: Callable[..., bool], forward: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel of a row (`op(**INPLACE_COLUMNS)`) that changes some elements of its first input.

    In place (`out` is that input) write(x, ...) writes only those. If it returns False, the
    forward's result is copied in. An operand that overlaps x's memory is copied first.
    """
    count = forward.__code__.co_argcount + forward.__code__.co_kwonlyargcount - 1  # without xp

    def kernel(x: Any, *arguments: Any) -> Any:
        in_place = len(arguments) == count
        if in_place:
            arguments = tuple(copy_if_overlapping(x, a) for a in arguments[:-1])
            if write(x, *arguments):
                return x
        with np.errstate(all="ignore"):
            return copy_to_out(forward(np, x, *arguments), x if in_place else None)

    return kernel


def copy_if_overlapping(x: Any, operand: Any) -> Any:
    """The operand, or a copy if it may share memory with x."""
    if operand.__class__ is np.ndarray:
        return operand.copy() if np.may_share_memory(x, operand) else operand
    return (
        tuple(copy_if_overlapping(x, a) for a in operand) if operand.__class__ is tuple else operand
    )


def copy_to_out(result: Any, out: Any) -> Any:
    """The result, or `out` with the result copied in."""
    if out is None:
        return result
    np.copyto(out, result)
    return out


def is_host_array(x: Any) -> bool:
    """Whether a tensor's elements are in NumPy's memory."""
    return isinstance(getattr(x, "array", x), np.ndarray)


def upcast_half(ops: Any, x: Any) -> Any:
    """A 16-bit float tensor as float32, for sums of many elements; other tensors unchanged."""
    return ops._to_copy(x, float32) if x is not None and x.dtype in HALVES else x


def restore_half(ops: Any, x: Any, dtype: Any) -> Any:
    """A result of `upcast_half` operands in their dtype."""
    return ops._to_copy(x, dtype) if x.dtype == float32 and dtype in HALVES else x
