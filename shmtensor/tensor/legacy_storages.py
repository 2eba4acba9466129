"""The old names of storages by dtype: `FloatStorage([1, 2])`, `isinstance(s, LongStorage)`."""

from __future__ import annotations

from typing import Any

from .. import dtypes
from ..storage import TypedStorage

__all__ = [
    "BFloat16Storage",
    "BoolStorage",
    "ByteStorage",
    "CharStorage",
    "ComplexDoubleStorage",
    "ComplexFloatStorage",
    "DoubleStorage",
    "FloatStorage",
    "HalfStorage",
    "IntStorage",
    "LongStorage",
    "ShortStorage",
    "Storage",
]


class Typed(type):
    """The metaclass of the old types: calling one makes a TypedStorage of its dtype."""

    dtype: Any

    def __call__(cls, *args: Any, dtype: Any = None, **kwargs: Any) -> Any:
        if dtype is not None and dtypes.as_dtype(dtype) != cls.dtype:
            raise TypeError(f"{cls.__name__}: dtype is {cls.dtype}, not {dtypes.as_dtype(dtype)}")
        return TypedStorage(*args, dtype=cls.dtype, **kwargs)

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, TypedStorage) and bool(value.dtype == cls.dtype)

    def from_file(cls, filename: Any, shared: bool = False, size: int = 0) -> TypedStorage:
        """`TypedStorage.from_file` in its dtype. Copies: none."""
        return TypedStorage.from_file(filename, shared, size, cls.dtype)


class DoubleStorage(metaclass=Typed):
    """Storages of float64."""

    dtype = dtypes.float64


class FloatStorage(metaclass=Typed):
    """Storages of float32."""

    dtype = dtypes.float32


class HalfStorage(metaclass=Typed):
    """Storages of float16."""

    dtype = dtypes.float16


class BFloat16Storage(metaclass=Typed):
    """Storages of bfloat16."""

    dtype = dtypes.bfloat16


class ComplexDoubleStorage(metaclass=Typed):
    """Storages of complex128."""

    dtype = dtypes.complex128


class ComplexFloatStorage(metaclass=Typed):
    """Storages of complex64."""

    dtype = dtypes.complex64


class LongStorage(metaclass=Typed):
    """Storages of int64."""

    dtype = dtypes.int64


class IntStorage(metaclass=Typed):
    """Storages of int32."""

    dtype = dtypes.int32


class ShortStorage(metaclass=Typed):
    """Storages of int16."""

    dtype = dtypes.int16


class CharStorage(metaclass=Typed):
    """Storages of int8."""

    dtype = dtypes.int8


class ByteStorage(metaclass=Typed):
    """Storages of uint8."""

    dtype = dtypes.uint8


class BoolStorage(metaclass=Typed):
    """Storages of bool."""

    dtype = dtypes.bool


Storage = FloatStorage
