"""`add` and `sub` with an alpha, in one pass."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import native
from ..table.check_dtypes import scaled_operand
from ..table.op_table import op
from .arithmetic import add, parallel_add, parallel_multiply, sub


def add_alpha_kernel(x: Any, y: Any, value: Any, out: Any = None) -> Any:
    """One pass by the native kernel, else two."""
    result = native.add_alpha(x, y, value, out)
    return parallel_add(x, parallel_multiply(y, value), out) if result is None else result


@op(
    numpy=add_alpha_kernel,
    broadcast=True,
    promote="common x y",
    inplace=True,
    out=True,
    samples=[((3, 4), (3, 4), 0.5), ((3, 1), (4,), -2)],
)
def _add_alpha(xp, x, y, /, value):
    """x + value * y."""
    return x + y * value


_add_alpha.pullback(x=lambda g: g, y=lambda g, value: g * value)


def all_same_float(x: Any, y: Any, alpha: Any) -> bool:
    """Are both float32 or both float64 tensors, and alpha a real number?"""
    dtype = getattr(x, "dtype", None)
    return (
        dtype in (np.float32, np.float64)
        and getattr(y, "dtype", None) == dtype
        and alpha.__class__ in (int, float)
    )


@add.rare(alpha=1)
def scaled_add(ops, x, y, /, *, alpha):
    """x + alpha * y."""
    if all_same_float(x, y, alpha):
        return ops._add_alpha(x, y, alpha)
    return ops.add(x, scaled_operand(ops, "add", x, y, alpha))


@add.rare_inplace
def scaled_add_in_place(ops: Any, x: Any, y: Any, /, *, alpha: Any) -> Any:
    """x += alpha * y."""
    if all_same_float(x, y, alpha):
        return ops._add_alpha_(x, y, alpha)
    return ops._overwrite_(x, scaled_add(ops, x, y, alpha=alpha))


@sub.rare(alpha=1)
def scaled_sub(ops, x, y, /, *, alpha):
    """x - alpha * y."""
    if all_same_float(x, y, alpha):
        return ops._add_alpha(x, y, -alpha)
    return ops.sub(x, scaled_operand(ops, "sub", x, y, alpha))


@sub.rare_inplace
def scaled_sub_in_place(ops: Any, x: Any, y: Any, /, *, alpha: Any) -> Any:
    """x -= alpha * y."""
    if all_same_float(x, y, alpha):
        return ops._add_alpha_(x, y, -alpha)
    return ops._overwrite_(x, scaled_sub(ops, x, y, alpha=alpha))
