"""How native kernels that know floating point alone stand beside the plain forward, which knows
every dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from ... import native
from ...dtypes import HALVES, float32

__all__ = [
    "WRITES",
    "for_floats",
    "kernel_or_fallback",
    "narrowed",
    "of_halves",
    "stored",
    "widened",
    "writes",
]


def for_floats(kernel: Callable[..., Any], plain: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel for real floating-point arrays, the plain forward for all other numbers."""

    def chosen(x: Any, *arguments: Any) -> Any:
        if x.dtype.kind == "f":
            return kernel(x, *arguments)
        with np.errstate(all="ignore"):
            return plain(np, x, *arguments)

    chosen.half = kernel  # type: ignore[attr-defined]  # asked first with 16-bit floats
    return chosen


def kernel_or_fallback(kernel: Callable[..., Any], plain: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel; where it answers None (a rare case, or a wrong one) the plain forward, which does
    it or says what is wrong.
    """

    def instead(*arguments: Any) -> Any:
        with np.errstate(all="ignore"):
            return plain(np, *arguments)

    return native.KernelOrFallback(kernel, instead)


def of_halves(kernel: Any) -> Any:
    """The kernel to ask first with 16-bit floats as they lie in memory (column `halves`), or
    None: where it is native or Python code names one.
    """
    if isinstance(kernel, native.KernelOrFallback) and not isinstance(kernel.kernel, FunctionType):
        return kernel.kernel
    return getattr(kernel, "half", None)


WRITES: dict[str, Any] = {"inplace": True, "out": True, "method": False, "function": False}


def writes(write: Callable[..., bool], forward: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel of a row (`op(**WRITES)`) that changes some elements of its first input.

    In place (`out` is that input) write(x, ...) writes those alone, or answers False with nothing
    lost, and the forward's result is copied in. An operand that lies in x's memory is copied first.
    """
    count = forward.__code__.co_argcount + forward.__code__.co_kwonlyargcount - 1  # without xp

    def kernel(x: Any, *arguments: Any) -> Any:
        in_place = len(arguments) == count
        if in_place:
            arguments = tuple(apart(x, a) for a in arguments[:-1])
            if write(x, *arguments):
                return x
        with np.errstate(all="ignore"):
            return stored(forward(np, x, *arguments), x if in_place else None)

    return kernel


def apart(x: Any, operand: Any) -> Any:
    """The operand, or a copy of what of it may lie in x's memory."""
    if operand.__class__ is np.ndarray:
        return operand.copy() if np.may_share_memory(x, operand) else operand
    return tuple(apart(x, a) for a in operand) if operand.__class__ is tuple else operand


def stored(result: Any, out: Any) -> Any:
    """A result of the plain forward, copied into `out` if that is given."""
    if out is None:
        return result
    np.copyto(out, result)
    return out


def widened(ops: Any, x: Any) -> Any:
    """A 16-bit float tensor as float32, in which sums of many are formed; others as they are."""
    return ops._to_copy(x, float32) if x is not None and x.dtype in HALVES else x


def narrowed(ops: Any, x: Any, dtype: Any) -> Any:
    """A result in the dtype that was given before `widened`."""
    return ops._to_copy(x, dtype) if x.dtype == float32 and dtype in HALVES else x
