"""Arithmetic without warnings: NumPy warns about overflow and NaN, PyTorch never does, and `-W
error` makes it fatal.

Kernels made by `native.parallel` are quiet by themselves; a forward in plain NumPy is wrapped.
`numpy.errstate` as a decorator does the same in twice the time, because it builds its state anew at
each call.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

__all__ = ["no_warnings"]

F = TypeVar("F", bound=Callable[..., Any])

try:  # where NumPy 2 keeps the state that errstate sets
    umath: Any = importlib.import_module("numpy._core.umath")
    state, SILENT = umath._extobj_contextvar, umath._make_extobj(all="ignore")
except (ImportError, AttributeError):  # another NumPy: the public way
    state = SILENT = None


def no_warnings(function: F) -> F:
    """The function, with floating-point warnings off while it runs."""
    if state is None:
        return np.errstate(all="ignore")(function)
    get, put = state.get, state.set

    @functools.wraps(function)
    def silently(*args: Any, **named: Any) -> Any:
        former = get()
        put(SILENT)
        try:
            return function(*args, **named)
        finally:
            put(former)

    return cast(F, silently)
