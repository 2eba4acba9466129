"""Arithmetic without warnings: NumPy warns about overflow and NaN, which `-W error` makes fatal;
PyTorch never does.

Kernels of `native.parallel` never warn; a forward in plain NumPy is wrapped. `numpy.errstate` as a
decorator does the same in twice the time, because it builds its state at each call.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

F = TypeVar("F", bound=Callable[..., Any])

try:  # NumPy 2's variable for the state of errstate
    umath: Any = importlib.import_module("numpy._core.umath")
    state, SILENT = umath._extobj_contextvar, umath._make_extobj(all="ignore")
except (ImportError, AttributeError):  # another NumPy: use errstate
    state = SILENT = None


def no_warnings(function: F) -> F:
    """The function, with floating-point warnings off while it runs."""
    if state is None:
        return np.errstate(all="ignore")(function)
    get_state, set_state = state.get, state.set

    @functools.wraps(function)
    def silently(*args: Any, **kwargs: Any) -> Any:
        former = get_state()
        set_state(SILENT)
        try:
            return function(*args, **kwargs)
        finally:
            set_state(former)

    return cast(F, silently)
