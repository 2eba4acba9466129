"""Which dtypes go together: operands that are not mixed, and numbers that must be fractions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def same_dtype_rule(name: str, *xs: Any) -> None:
    """Nothing, if all tensors are of one dtype; Python numbers do not count.

    Raises:
        RuntimeError: they are not.
    """
    first = None
    for x in xs:
        dtype = getattr(x, "dtype", None)
        if first is None:
            first = dtype
        elif dtype is not None and dtype is not first and dtype != first:
            shown = ", ".join(str(x.dtype) for x in xs if hasattr(x, "dtype"))
            raise RuntimeError(
                f"{name}: expected the operands to have the same dtype: {shown}, "
                "hint: convert one of them, x.to(y.dtype)"
            )


def unmixed(name: str) -> Callable[..., None]:
    """`same_dtype_rule` as a row's column `unlike`: asked only after the usual way was left."""

    def check(*inputs: Any) -> None:
        same_dtype_rule(
            name, *(x for x in inputs if hasattr(x, "array"))
        )  # NumPy's own are converted

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


def refusal(name: str, x: Any) -> Exception:
    """What says that an op is not for complex numbers, or not for bool."""
    kind = NotImplementedError if x.dtype.kind == "c" else RuntimeError
    return kind(f"{name}: not for {x.dtype}: shape {x.shape}")


def parameters_fit(name: str, x: Any, *parameters: Any) -> None:
    """Nothing, if the parameters of a normalisation are of x's dtype, or float32 beside 16 bits.

    Raises:
        NotImplementedError: x is of whole numbers.
        RuntimeError: a parameter has another dtype.
    """
    dtype = x.dtype
    if dtype.kind in "iub":
        floating(name, x)
    for p in parameters:
        if p is None or p.dtype is dtype or p.dtype == dtype:
            continue
        if dtype.itemsize != 2 or p.dtype.kind != "f" or p.dtype.itemsize != 4:
            raise RuntimeError(
                f"{name}: mixed dtypes: expected parameters of {dtype} as the input, not {p.dtype}"
            )


def not_whole(name: str) -> Callable[..., None]:
    """`fractions` of all inputs as a row's column `unlike`."""

    def check(*inputs: Any) -> None:
        for x in inputs:
            if getattr(x, "dtype", None) is not None and x.dtype.kind not in "iub":
                return
        floating(name, next(x for x in inputs if hasattr(x, "dtype")))

    return check


def fractions(name: str, x: Any, y: Any) -> None:
    """Nothing, if one of the two is of floating-point or complex numbers.

    Raises:
        NotImplementedError: both are whole numbers.
    """
    if getattr(y, "dtype", None) is None or y.dtype.kind in "iub":
        floating(name, x)


KINDS = {bool: 0, int: 1, float: 2, complex: 3}
CATEGORIES = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}
NAMED = ("bool", "whole numbers", "real numbers", "complex numbers")


def scale_fits(name: str, word: str, number: Any, *xs: Any) -> int:
    """The category of what the tensors and numbers give, which a factor of theirs may not exceed.

    Raises:
        RuntimeError: it does (1.5 among whole numbers), or is a truth value among numbers.
    """
    found = max(CATEGORIES[x.dtype.kind] if hasattr(x, "dtype") else KINDS[type(x)] for x in xs)
    of = KINDS.get(type(number), 2)
    if (of > 1 and of > found) or (of == 0 and found > 0):
        raise RuntimeError(
            f"{name}: {word} does not fit: {number!r} ({NAMED[of]}), the result is of "
            f"{NAMED[found]}"
        )
    return found


def multiple(ops: Any, name: str, x: Any, y: Any, alpha: Any) -> Any:
    """alpha * y for what is added to x; among truth values alpha is one, too."""
    if scale_fits(name, "alpha", alpha, x, y) == 0:
        return y * bool(alpha) if hasattr(y, "dtype") else y and bool(alpha)
    dtype = getattr(y, "dtype", None)
    if dtype is not None and dtype.kind == "b" and hasattr(x, "dtype"):
        y = ops._to_copy(y, x.dtype)
    return y * alpha


BY_ELEMENT = ("gather", "scatter", "scatter_add", "scatter_reduce")  # empty indices: of any dtype


def insist_on_indices(
    name: str, index: Any, kinds: str = "ilq", error: type[Exception] = RuntimeError
) -> None:
    """Nothing, if the index is a tensor of int64 or int32 (kinds "lq": of int64 alone).

    Raises:
        TypeError: it is no tensor.
        RuntimeError: it has another dtype.
    """
    dtype = getattr(index, "dtype", None)
    if dtype is None:
        raise TypeError(f"{name}: the index must be a tensor, not {type(index).__name__}")
    if dtype.char not in kinds and not (name in BY_ELEMENT and 0 in index.shape):
        wanted = "int32 or int64" if "i" in kinds else "int64"
        raise error(
            f"{name}: the index must be of whole numbers: {dtype}, use long(), expected {wanted}"
        )
