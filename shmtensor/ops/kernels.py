"""How native kernels that know floating point alone stand beside the plain forward, which knows
every dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["for_floats"]


def for_floats(kernel: Callable[..., Any], plain: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel for real floating-point arrays, the plain forward for all other numbers."""

    def chosen(x: Any, *arguments: Any) -> Any:
        if x.dtype.kind == "f":
            return kernel(x, *arguments)
        with np.errstate(all="ignore"):
            return plain(np, x, *arguments)

    return chosen
