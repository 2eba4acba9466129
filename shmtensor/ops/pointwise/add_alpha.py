"""A multiple of one tensor added to another in one pass: `add` and `sub` with an alpha."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import native
from ..table.check_dtypes import multiple
from ..table.op_definition import op
from .arithmetic import add, plus, sub, times


@op(
    broadcast=True,
    promote="common x y",
    method=False,
    function=False,
    inplace=True,
    out=True,
    samples=[((3, 4), (3, 4), 0.5), ((3, 1), (4,), -2)],
)
def _add_alpha(xp, x, y, /, value):
    """x + value * y."""
    return x + y * value


_add_alpha.pullback(x=lambda g: g, y=lambda g, value: g * value)


def fast_add_scaled(x: Any, y: Any, value: Any, out: Any = None) -> Any:
    """In one pass, or in two."""
    done = native.add_alpha(x, y, value, out)
    return plus(x, times(y, value), out) if done is None else done


_add_alpha.numpy = fast_add_scaled


def with_floats(x: Any, y: Any, alpha: Any) -> bool:
    """Are both real floating-point tensors of one dtype, which a real number keeps?"""
    dtype = getattr(x, "dtype", None)
    return (
        dtype in (np.float32, np.float64)
        and getattr(y, "dtype", None) == dtype
        and alpha.__class__ in (int, float)
    )


@add.rare(alpha=1)
def scaled_add(ops, x, y, /, *, alpha):
    """x + alpha * y."""
    if with_floats(x, y, alpha):
        return ops._add_alpha(x, y, alpha)
    return ops.add(x, multiple(ops, "add", x, y, alpha))


def scaled_add_in_place(ops: Any, x: Any, y: Any, /, *, alpha: Any) -> Any:
    """x += alpha * y."""
    if with_floats(x, y, alpha):
        return ops._add_alpha_(x, y, alpha)
    return ops._overwrite_(x, scaled_add(ops, x, y, alpha=alpha))


add.diverted_in_place = scaled_add_in_place


@sub.rare(alpha=1)
def scaled_sub(ops, x, y, /, *, alpha):
    """x - alpha * y."""
    if with_floats(x, y, alpha):
        return ops._add_alpha(x, y, -alpha)
    return ops.sub(x, multiple(ops, "sub", x, y, alpha))


def scaled_sub_in_place(ops: Any, x: Any, y: Any, /, *, alpha: Any) -> Any:
    """x -= alpha * y."""
    if with_floats(x, y, alpha):
        return ops._add_alpha_(x, y, -alpha)
    return ops._overwrite_(x, scaled_sub(ops, x, y, alpha=alpha))


sub.diverted_in_place = scaled_sub_in_place
