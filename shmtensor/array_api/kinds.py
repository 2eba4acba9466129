"""Dtypes, by the array API standard."""

from __future__ import annotations

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
    """Whether a dtype's values all fit into another one by promotion."""
    wanted = dtypes.as_dtype(to)
    return dtypes.promote_types(getattr(from_, "dtype", from_), wanted) is wanted


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
