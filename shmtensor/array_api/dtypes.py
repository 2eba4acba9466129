"""Dtypes, by the array API standard."""

from __future__ import annotations

import functools
from typing import Any

from .. import dtypes
from ..tensor import Tensor

__all__ = ["astype", "can_cast", "isdtype", "result_type"]


def astype(x: Tensor, dtype: Any, /, *, copy: Any = True, device: Any = None) -> Tensor:
    """The values in another dtype. Copies: one, or none if nothing changes and not `copy`."""
    return x.to(device, dtype, copy=copy)


def result_type(*arrays_and_dtypes: Any) -> dtypes.Dtype:
    """The dtype that arithmetic on them gives."""
    found = [getattr(a, "dtype", a) for a in arrays_and_dtypes]
    result = dtypes.as_dtype(found[0])
    for d in found[1:]:
        result = dtypes.promote_types(result, d)
    return result


def can_cast(from_: Any, to: Any, /) -> Any:
    """Whether a dtype's values all fit into another one by promotion; the standard has none between
    bool, integers and floating dtypes."""
    own, wanted = dtypes.as_dtype(getattr(from_, "dtype", from_)), dtypes.as_dtype(to)
    kinds = [k for k in ("b", "iu", "fc") if own.kind in k and wanted.kind in k]
    return bool(kinds) and promotion(own, wanted) is wanted


def promotion(a: dtypes.Dtype, b: dtypes.Dtype) -> dtypes.Dtype | None:
    """The common dtype; None of uint64 and signed integers, which have none."""
    signed = {a.kind, b.kind} == {"i", "u"} and dtypes.uint64 in (a, b)
    return None if signed else dtypes.promote_types(a, b)


def same_category(function: Any) -> Any:
    """A function of two tensors whose dtypes count alike, however many dimensions they have; of
    PyTorch's functions a tensor without dimensions gives way to others."""

    @functools.wraps(function)
    def on_common(x1: Any, x2: Any, /) -> Any:
        if isinstance(x1, Tensor) and isinstance(x2, Tensor) and x1.dtype is not x2.dtype:
            common = dtypes.promote_types(x1.dtype, x2.dtype)
            x1, x2 = x1.to(common), x2.to(common)
        return function(x1, x2)

    return on_common


def isdtype(dtype: Any, kind: Any) -> Any:
    """Whether a dtype is of a kind: another dtype, a name of the standard, or a tuple of them."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    own = dtypes.as_dtype(dtype)
    kinds = {
        "bool": "b", "signed integer": "i", "unsigned integer": "u", "integral": "iu",
        "real floating": "f", "complex floating": "c", "numeric": "iufc",
    }  # fmt: skip
    if isinstance(kind, str) and kind not in kinds:
        raise ValueError(f"isdtype: no such kind: {kind!r}, one of {sorted(kinds)}")
    return own.kind in kinds[kind] if isinstance(kind, str) else own is dtypes.as_dtype(kind)
