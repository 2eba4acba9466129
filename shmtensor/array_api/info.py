"""The capabilities of the namespace, by the array API standard."""

from __future__ import annotations

from typing import Any

from .. import dtype_objects
from ..device import CPU, Device
from ..dtype_objects import get_default_dtype, int64
from .dtypes import isdtype

__all__ = ["DTYPES", "Info", "__array_namespace_info__"]

NAMES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32",
    "float64", "complex64", "complex128",
)  # fmt: skip
DTYPES = {name: getattr(dtype_objects, name) for name in NAMES}


class Info:
    """The result of `__array_namespace_info__`."""

    def capabilities(self) -> dict[str, Any]:
        """Boolean masks and data-dependent shapes are supported."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Device:
        return CPU

    def devices(self) -> list[Device]:
        return [CPU]

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """The dtypes of new tensors."""
        return {
            "real floating": get_default_dtype(),
            "complex floating": get_default_dtype().to_complex(),
            "integral": int64, "indexing": int64,
        }  # fmt: skip

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        """The dtypes by name, of a kind if that is given."""
        return {n: d for n, d in DTYPES.items() if kind is None or isdtype(d, kind)}


def __array_namespace_info__() -> Info:
    """Devices, dtypes and capabilities."""
    return Info()
