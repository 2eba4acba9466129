"""Arithmetic without warnings: NumPy warns about overflow and NaN, PyTorch never does, and `-W
error` makes it fatal.

Kernels made by `native.parallel` are quiet by themselves; a forward in plain NumPy is wrapped.
`numpy.errstate` as a
decorator does the same in twice the time, because it builds its state anew at each call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["quiet"]

try:  # where NumPy 2 keeps the state that errstate sets
    from numpy._core.umath import _extobj_contextvar, _make_extobj

    SILENT: Any = _make_extobj(all="ignore")
except ImportError:  # another NumPy: the public way
    _extobj_contextvar = None


def quiet(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with floating-point warnings off while it runs."""
    if _extobj_contextvar is None:
        return np.errstate(all="ignore")(function)
    get, put = _extobj_contextvar.get, _extobj_contextvar.set

    @functools.wraps(function)
    def silently(*args: Any, **named: Any) -> Any:
        former = get()
        put(SILENT)
        try:
            return function(*args, **named)
        finally:
            put(former)

    return silently
