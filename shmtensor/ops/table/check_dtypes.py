"""Checks of dtypes: operands that must have the same one, or a floating-point one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def check_same_dtype(name: str, *xs: Any) -> None:
    """Checks that all tensors have the same dtype; Python numbers are ignored."""
    first = None
    for x in xs:
        dtype = getattr(x, "dtype", None)
        if first is None:
            first = dtype
        elif dtype is not None and dtype is not first and dtype != first:
            dtypes = ", ".join(x.dtype.name for x in xs if hasattr(x, "dtype"))
            raise RuntimeError(
                f"{name}: expected the operands to have the same dtype: {dtypes}, "
                "hint: convert one of them, x.to(y.dtype)"
            )


def same_dtype_check(name: str) -> Callable[..., None]:
    """`check_same_dtype` as a row's `check_dtypes`, which runs on the general path only."""

    def check(*inputs: Any) -> None:
        tensors = (x for x in inputs if hasattr(x, "array"))  # NumPy's arrays are converted
        check_same_dtype(name, *tensors)

    return check


def check_floating(name: str, x: Any) -> None:
    """Checks that x is floating-point or complex."""
    if x.dtype.kind in "iub":
        raise NotImplementedError(
            f"{name}: not implemented for {x.dtype.name}: shape {tuple(x.shape)}, hint: x.float()"
        )


def unsupported_dtype(name: str, x: Any) -> Exception:
    """The error of an op that does not take x's dtype."""
    error = NotImplementedError if x.dtype.kind == "c" else RuntimeError
    return error(f"{name}: not for {x.dtype.name}: shape {x.shape}")


def check_parameter_dtypes(name: str, x: Any, *parameters: Any) -> None:
    """Checks that the parameters of a normalization have x's dtype, or float32 for 16-bit floats.

    Raises:
        NotImplementedError: x is integer or bool.
        RuntimeError: a parameter has another dtype.
    """
    dtype = x.dtype
    if dtype.kind in "iub":
        check_floating(name, x)
    for p in parameters:
        if p is None or p.dtype is dtype or p.dtype == dtype:
            continue
        if dtype.itemsize != 2 or p.dtype.kind != "f" or p.dtype.itemsize != 4:
            raise RuntimeError(
                f"{name}: mixed dtypes: expected parameters of {dtype.name} as the input, not "
                f"{p.dtype.name}"
            )


def any_floating_check(name: str) -> Callable[..., None]:
    """`check_any_floating` of all inputs as a row's `check_dtypes`."""

    def check(*inputs: Any) -> None:
        for x in inputs:
            if getattr(x, "dtype", None) is not None and x.dtype.kind not in "iub":
                return
        check_floating(name, next(x for x in inputs if hasattr(x, "dtype")))

    return check


def check_any_floating(name: str, x: Any, y: Any) -> None:
    """Checks that x or y is floating-point or complex.

    Raises:
        NotImplementedError: both are integer or bool.
    """
    if getattr(y, "dtype", None) is None or y.dtype.kind in "iub":
        check_floating(name, x)


CATEGORY_OF_NUMBER = {bool: 0, int: 1, float: 2, complex: 3}
CATEGORY_OF_KIND = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}
CATEGORY_NAMES = ("bool", "whole numbers", "real numbers", "complex numbers")


def check_scale(name: str, parameter: str, number: Any, *xs: Any) -> int:
    """The category of the tensors' and numbers' common dtype, which a factor must not exceed."""
    category = max(
        CATEGORY_OF_KIND[x.dtype.kind] if hasattr(x, "dtype") else CATEGORY_OF_NUMBER[type(x)]
        for x in xs
    )
    number_category = CATEGORY_OF_NUMBER.get(type(number), 2)
    if (number_category > 1 and number_category > category) or (
        number_category == 0 and category > 0
    ):
        raise RuntimeError(
            f"{name}: {parameter} does not fit: {number!r} ({CATEGORY_NAMES[number_category]}), "
            f"the result is of {CATEGORY_NAMES[category]}"
        )
    return category


def scaled_operand(ops: Any, name: str, x: Any, y: Any, alpha: Any) -> Any:
    """alpha * y, which is to be added to x; if both are bool, alpha is taken as a bool."""
    if check_scale(name, "alpha", alpha, x, y) == 0:
        return y * bool(alpha) if hasattr(y, "dtype") else y and bool(alpha)
    dtype = getattr(y, "dtype", None)
    if dtype is not None and dtype.kind == "b" and hasattr(x, "dtype"):
        y = ops._to_copy(y, x.dtype)
    return y * alpha


BY_ELEMENT = ("gather", "scatter", "scatter_add", "scatter_reduce")  # empty indices: of any dtype


def check_index_dtype(
    name: str, index: Any, kinds: str = "ilq", error: type[Exception] = RuntimeError
) -> None:
    """Checks that the index is a tensor of int64 or int32 (kinds "lq": of int64 only).

    Raises:
        TypeError: it is not a tensor.
        RuntimeError: it has another dtype; another error class if `error` is given.
    """
    dtype = getattr(index, "dtype", None)
    if dtype is None:
        raise TypeError(f"{name}: the index must be a tensor, not {type(index).__name__}")
    if dtype.char not in kinds and not (name in BY_ELEMENT and 0 in index.shape):
        expected = "int32 or int64" if "i" in kinds else "int64"
        raise error(
            f"{name}: the index must be of whole numbers: {dtype.name}, use long(), expected "
            f"{expected}"
        )
