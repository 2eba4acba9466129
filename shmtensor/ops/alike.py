"""Which dtypes go together: operands that are not mixed, and numbers that must be fractions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def alike(name: str, *xs: Any) -> None:
    """Nothing, if all tensors are of one dtype; Python numbers do not count.

    Raises:
        RuntimeError: they are not.
    """
    found = [x.dtype for x in xs if hasattr(x, "dtype")]
    if any(d != found[0] for d in found):
        shown = ", ".join(str(d) for d in found)
        raise RuntimeError(
            f"{name}: expected the operands to have the same dtype: {shown}, "
            "hint: convert one of them, x.to(y.dtype)"
        )


def unmixed(name: str) -> Callable[..., None]:
    """`alike` as a row's column `unlike`: it is asked only after the usual way was left."""

    def check(*inputs: Any) -> None:
        alike(name, *(x for x in inputs if hasattr(x, "array")))  # NumPy's own are converted

    return check


def floating(name: str, x: Any) -> None:
    """Nothing, if the numbers are floating-point or complex.

    Raises:
        NotImplementedError: they are whole numbers or truth values.
    """
    if x.dtype.kind in "iub":
        raise NotImplementedError(
            f"{name}: not implemented for {x.dtype}: shape {tuple(x.shape)}, hint: x.float()"
        )


def fractions(name: str, x: Any, y: Any) -> None:
    """Nothing, if one of the two is of floating-point or complex numbers.

    Raises:
        NotImplementedError: both are whole numbers.
    """
    if getattr(y, "dtype", None) is None or y.dtype.kind in "iub":
        floating(name, x)
