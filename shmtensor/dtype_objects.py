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
    """The dtype that something names.

    Parameters
    ----------
    spelling : dtype, class or str
        A dtype of shmtensor's or NumPy's, a class of numbers of NumPy or Python, a name.

    Returns
    -------
    dtype
        The object `st.float32` and the like.

    Raises
    ------
    TypeError
        No tensor can have it.

    See Also
    --------
    promote_types

    Examples
    --------
    >>> st.as_dtype("float32") is st.float32
    True
    >>> st.as_dtype(np.int64), st.as_dtype(bool)
    (shmtensor.int64, shmtensor.bool)
    """
    return dtype(spelling)


def get_default_dtype() -> dtype:
    """The dtype of new tensors of floating-point numbers.

    Returns
    -------
    dtype
        float32 unless `set_default_dtype` changed it.

    See Also
    --------
    set_default_dtype

    Examples
    --------
    >>> st.get_default_dtype()
    shmtensor.float32
    """
    return dtype(dtypes.default)


def promote_types(type1: Any, type2: Any) -> dtype:
    """The dtype that arithmetic on tensors of two dtypes gives.

    Parameters
    ----------
    type1, type2 : dtype
        Any spelling of a dtype.

    Returns
    -------
    dtype
        The smallest one that holds both, where a kind counts more than its size: int64 with float32
        is float32.

    Raises
    ------
    RuntimeError
        uint64 with a signed integer: no integer dtype holds both.

    See Also
    --------
    result_type, can_cast

    Examples
    --------
    >>> st.promote_types(st.int64, st.float32)
    shmtensor.float32
    >>> st.promote_types(st.float16, st.bfloat16)
    shmtensor.float32
    """
    return dtype(dtypes.promote_types(type1, type2))
