"""Dtypes, by the array API standard."""

from __future__ import annotations

import functools
from typing import Any

from .. import dtypes, native
from ..tensor import Tensor

__all__ = ["astype", "can_cast", "isdtype", "result_type"]


def astype(x: Tensor, dtype: Any, /, *, copy: Any = True, device: Any = None) -> Tensor:
    """The values in another dtype. Copies: one, or none if nothing changes and not `copy`."""
    return x.to(device, dtype, copy=copy)


def result_type(*arrays_and_dtypes: Any) -> native.dtype:
    """The result dtype of arithmetic on them."""
    operands = [getattr(a, "dtype", a) for a in arrays_and_dtypes]
    result = dtypes.as_dtype(operands[0])
    for d in operands[1:]:
        result = dtypes.promote_types(result, d)
    return native.dtype(result)


def can_cast(from_: Any, to: Any, /) -> Any:
    """Whether a dtype can be promoted to another; the standard has no promotion between bool,
    integers and floating dtypes.
    """
    source, target = dtypes.as_dtype(getattr(from_, "dtype", from_)), dtypes.as_dtype(to)
    categories = [k for k in ("b", "iu", "fc") if source.kind in k and target.kind in k]
    return bool(categories) and promoted_dtype(source, target) is target


def promoted_dtype(a: dtypes.Dtype, b: dtypes.Dtype) -> dtypes.Dtype | None:
    """The common dtype; None for uint64 and signed integers, which have none."""
    is_mixed = {a.kind, b.kind} == {"i", "u"} and dtypes.uint64 in (a, b)
    return None if is_mixed else dtypes.promote_types(a, b)


def same_category(function: Any) -> Any:
    """A function of two tensors that promotes their dtypes whatever their numbers of dimensions. In
    PyTorch's functions a 0-d tensor does not promote others of its category."""

    @functools.wraps(function)
    def with_common_dtype(x1: Any, x2: Any, /) -> Any:
        if isinstance(x1, Tensor) and isinstance(x2, Tensor) and x1.dtype is not x2.dtype:
            common = dtypes.promote_types(x1.dtype, x2.dtype)
            x1, x2 = x1.to(common), x2.to(common)
        return function(x1, x2)

    return with_common_dtype


def isdtype(dtype: Any, kind: Any) -> Any:
    """Whether a dtype is of a kind: another dtype, a name in the standard, or a tuple of them."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    dtype = dtypes.as_dtype(dtype)
    codes = {
        "bool": "b", "signed integer": "i", "unsigned integer": "u", "integral": "iu",
        "real floating": "f", "complex floating": "c", "numeric": "iufc",
    }  # fmt: skip
    if isinstance(kind, str) and kind not in codes:
        raise ValueError(f"isdtype: no such kind: {kind!r}, one of {sorted(codes)}")
    return dtype.kind in codes[kind] if isinstance(kind, str) else dtype is dtypes.as_dtype(kind)
