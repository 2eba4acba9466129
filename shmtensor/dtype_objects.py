"""The dtypes that users see: `shmtensor.float32`, one object of the class `dtype` per dtype.

Beside PyTorch's attributes an object has those of NumPy's dtype, and equals it. Arrays and the code
that works on them have NumPy's, from `dtypes.py`.
"""

from __future__ import annotations

from typing import Any

from . import dtypes
from .dtypes import can_cast, finfo, iinfo, set_default_dtype
from .native import dtype

__all__ = [
    "as_dtype",
    "bfloat16",
    "bool",
    "can_cast",
    "cdouble",
    "cfloat",
    "complex64",
    "complex128",
    "double",
    "dtype",
    "finfo",
    "float",
    "float16",
    "float32",
    "float64",
    "get_default_dtype",
    "half",
    "iinfo",
    "int",
    "int8",
    "int16",
    "int32",
    "int64",
    "long",
    "promote_types",
    "set_default_dtype",
    "short",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]

bool: dtype = dtype(dtypes.bool)
uint8: dtype = dtype(dtypes.uint8)
uint16: dtype = dtype(dtypes.uint16)
uint32: dtype = dtype(dtypes.uint32)
uint64: dtype = dtype(dtypes.uint64)
int8: dtype = dtype(dtypes.int8)
int16: dtype = dtype(dtypes.int16)
int32: dtype = dtype(dtypes.int32)
int64: dtype = dtype(dtypes.int64)
float16: dtype = dtype(dtypes.float16)
bfloat16: dtype = dtype(dtypes.bfloat16)
float32: dtype = dtype(dtypes.float32)
float64: dtype = dtype(dtypes.float64)
complex64: dtype = dtype(dtypes.complex64)
complex128: dtype = dtype(dtypes.complex128)
half, float, double = float16, float32, float64
short, int, long = int16, int32, int64
cfloat, cdouble = complex64, complex128


def as_dtype(spelling: Any) -> dtype:
    """The dtype of any spelling: a dtype, a NumPy scalar class, a Python class, a name.

    Raises:
        TypeError: no tensor can have it.
    """
    return dtype(spelling)


def get_default_dtype() -> dtype:
    """The dtype of new floating tensors: float32 unless set."""
    return dtype(dtypes.default)


def promote_types(type1: Any, type2: Any) -> dtype:
    """The smallest dtype that holds both as PyTorch sees it: int64 with float32 is float32."""
    return dtype(dtypes.promote_types(type1, type2))
