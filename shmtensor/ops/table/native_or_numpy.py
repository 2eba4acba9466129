"""Kernels of rows: native code where it applies, else the forward in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from ... import native
from ...dtypes import HALVES, float32


def numpy_forward(forward: Any, takes_out: bool = False) -> Callable[..., Any]:
    """A row's forward in NumPy, with all arguments by position, and then perhaps `out`."""
    code = forward.__code__
    n, count = code.co_argcount - 1, code.co_argcount + code.co_kwonlyargcount - 1  # without xp
    names = code.co_varnames[n + 1 : count + 1]

    def run_positional(*arguments: Any) -> Any:
        with np.errstate(all="ignore"):
            return forward(np, *arguments)

    def run(*arguments: Any) -> Any:
        with np.errstate(all="ignore"):
            result = forward(np, *arguments[:n], **dict(zip(names, arguments[n:count])))
        return copy_to_out(result, arguments[count]) if len(arguments) > count else result

    return run if names or takes_out else run_positional


def kernel_or_forward(kernel: Any, forward: Callable[..., Any], takes_out: bool = False) -> Any:
    """The column `native` as a kernel: where it returns None (a rare or invalid call), the forward
    computes the result or raises the error.
    """
    if isinstance(kernel, tuple):
        return kernel_or_forward(kernel[0], forward), kernel[1]
    return native.KernelOrFallback(kernel, numpy_forward(forward, takes_out))


def real_or_forward(kernel: Callable[..., Any], forward: Callable[..., Any]) -> Callable[..., Any]:
    """The column `real` as a kernel: for all but real floating-point arrays, the forward."""
    other = numpy_forward(forward)

    def run(x: Any, *arguments: Any) -> Any:
        return kernel(x, *arguments) if x.dtype.kind == "f" else other(x, *arguments)

    return run


def write_or_compute(write: Callable[..., bool], kernel: Any, forward: Any) -> Callable[..., Any]:
    """The column `write` as a kernel: in place (one more argument, `out`, is the first input),
    `write(x, ...)` changes x and returns whether it did. Else the kernel, or without one the
    forward, computes the result. An operand that overlaps x's memory is copied first.
    """
    count = forward.__code__.co_argcount - 1  # without xp

    def run(*arguments: Any) -> Any:
        if len(arguments) > count:
            return run_in_place(*arguments)
        if kernel is not None:
            return kernel(*arguments)
        with np.errstate(all="ignore"):
            return forward(np, *arguments)

    def run_in_place(x: Any, *arguments: Any) -> Any:
        arguments = tuple(copy_if_overlapping(x, a) for a in arguments[:-1])
        return x if write(x, *arguments) else copy_to_out(run(x, *arguments), x)

    return run


def cpu_kernel(
    forward: Any, numpy: Any, native: Any, real: Any, write: Any, takes_out: bool
) -> Any:
    """The CPU's kernel of a row, from these columns of `op`; None: the forward."""
    kernel = numpy
    if native is not None:
        kernel = kernel_or_forward(native, forward, takes_out and write is None)
    elif real is not None:
        kernel = real_or_forward(real, forward)
    return kernel if write is None else write_or_compute(write, kernel, forward)


def half_kernel(half: Any, native: Any, real: Any) -> Any:
    """The kernel for 16-bit floats of a row, from these columns of `op`: by default the native one
    or the one for real numbers, if it is not written in Python.
    """
    if half is not None or real is not None:
        return half or real
    return None if isinstance(native, (FunctionType, tuple)) else native


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
