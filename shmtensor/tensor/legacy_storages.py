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
    """Storages of float64: calling it makes a TypedStorage, which is an instance of it.

    Parameters
    ----------
    *args : object
        A number of elements, or a sequence of them.
    dtype : dtype, optional
        Another one than float64 raises a TypeError.
    **kwargs : object
        Further arguments of TypedStorage.

    Examples
    --------
    >>> storage = st.DoubleStorage([1, 0])
    >>> len(storage), storage.dtype == st.float64
    (2, True)
    >>> isinstance(storage, st.DoubleStorage)
    True
    """

    dtype = dtypes.float64


class FloatStorage(metaclass=Typed):
    """Storages of float32: calling it makes a TypedStorage, which is an instance of it.

    Parameters
    ----------
    *args : object
        A number of elements, or a sequence of them.
    dtype : dtype, optional
        Another one than float32 raises a TypeError.
    **kwargs : object
        Further arguments of TypedStorage.

    Examples
    --------
    >>> storage = st.FloatStorage([1, 0])
    >>> len(storage), storage.dtype == st.float32
    (2, True)
    >>> isinstance(storage, st.FloatStorage)
    True
    """

    dtype = dtypes.float32


class HalfStorage(metaclass=Typed):
    """Storages of float16: calling it makes a TypedStorage, which is an instance of it.

    Parameters
    ----------
    *args : object
        A number of elements, or a sequence of them.
    dtype : dtype, optional
        Another one than float16 raises a TypeError.
    **kwargs : object
        Further arguments of TypedStorage.

    Examples
    --------
    >>> storage = st.HalfStorage([1, 0])
    >>> len(storage), storage.dtype == st.float16
    (2, True)
    >>> isinstance(storage, st.HalfStorage)
    True
    """

    dtype = dtypes.float16


class BFloat16Storage(metaclass=Typed):
    """Storages of bfloat16: calling it makes a TypedStorage, which is an instance of it.

    Parameters
    ----------
    *args : object
        A number of elements, or a sequence of them.
    dtype : dtype, optional
        Another one than bfloat16 raises a TypeError.
    **kwargs : object
        Further arguments of TypedStorage.

    Examples
    --------
    >>> storage = st.BFloat16Storage([1, 0])
    >>> len(storage), storage.dtype == st.bfloat16
    (2, True)
    >>> isinstance(storage, st.BFloat16Storage)
    True
    """

    dtype = dtypes.bfloat16


class ComplexDoubleStorage(metaclass=Typed):
    """Storages of complex128: calling it makes a TypedStorage, which is an instance of it.

    Parameters
    ----------
    *args : object
        A number of elements, or a sequence of them.
    dtype : dtype, optional
        Another one than complex128 raises a TypeError.
    **kwargs : object
        Further arguments of TypedStorage.

    Examples
    --------
    >>> storage = st.ComplexDoubleStorage([1, 0])
    >>> len(storage), storage.dtype == st.complex128
    (2, True)
    >>> isinstance(storage, st.ComplexDoubleStorage)
    True
    """

    dtype = dtypes.complex128


class ComplexFloatStorage(metaclass=Typed):
    """Storages of complex64: calling it makes a TypedStorage, which is an instance of it.

    Parameters
    ----------
    *args : object
        A number of elements, or a sequence of them.
    dtype : dtype, optional
        Another one than complex64 raises a TypeError.
    **kwargs : object
        Further arguments of TypedStorage.

    Examples
    --------
    >>> storage = st.ComplexFloatStorage([1, 0])
    >>> len(storage), storage.dtype == st.complex64
    (2, True)
    >>> isinstance(storage, st.ComplexFloatStorage)
    True
    """

    dtype = dtypes.complex64


class LongStorage(metaclass=Typed):
    """Storages of int64: calling it makes a TypedStorage, which is an instance of it.

    Parameters
    ----------
    *args : object
        A number of elements, or a sequence of them.
    dtype : dtype, optional
        Another one than int64 raises a TypeError.
    **kwargs : object
        Further arguments of TypedStorage.

    Examples
    --------
    >>> storage = st.LongStorage([1, 0])
    >>> len(storage), storage.dtype == st.int64
    (2, True)
    >>> isinstance(storage, st.LongStorage)
    True
    """

    dtype = dtypes.int64


class IntStorage(metaclass=Typed):
    """Storages of int32: calling it makes a TypedStorage, which is an instance of it.

    Parameters
    ----------
    *args : object
        A number of elements, or a sequence of them.
    dtype : dtype, optional
        Another one than int32 raises a TypeError.
    **kwargs : object
        Further arguments of TypedStorage.

    Examples
    --------
    >>> storage = st.IntStorage([1, 0])
    >>> len(storage), storage.dtype == st.int32
    (2, True)
    >>> isinstance(storage, st.IntStorage)
    True
    """

    dtype = dtypes.int32


class ShortStorage(metaclass=Typed):
    """Storages of int16: calling it makes a TypedStorage, which is an instance of it.

    Parameters
    ----------
    *args : object
        A number of elements, or a sequence of them.
    dtype : dtype, optional
        Another one than int16 raises a TypeError.
    **kwargs : object
        Further arguments of TypedStorage.

    Examples
    --------
    >>> storage = st.ShortStorage([1, 0])
    >>> len(storage), storage.dtype == st.int16
    (2, True)
    >>> isinstance(storage, st.ShortStorage)
    True
    """

    dtype = dtypes.int16


class CharStorage(metaclass=Typed):
    """Storages of int8: calling it makes a TypedStorage, which is an instance of it.

    Parameters
    ----------
    *args : object
        A number of elements, or a sequence of them.
    dtype : dtype, optional
        Another one than int8 raises a TypeError.
    **kwargs : object
        Further arguments of TypedStorage.

    Examples
    --------
    >>> storage = st.CharStorage([1, 0])
    >>> len(storage), storage.dtype == st.int8
    (2, True)
    >>> isinstance(storage, st.CharStorage)
    True
    """

    dtype = dtypes.int8


class ByteStorage(metaclass=Typed):
    """Storages of uint8: calling it makes a TypedStorage, which is an instance of it.

    Parameters
    ----------
    *args : object
        A number of elements, or a sequence of them.
    dtype : dtype, optional
        Another one than uint8 raises a TypeError.
    **kwargs : object
        Further arguments of TypedStorage.

    Examples
    --------
    >>> storage = st.ByteStorage([1, 0])
    >>> len(storage), storage.dtype == st.uint8
    (2, True)
    >>> isinstance(storage, st.ByteStorage)
    True
    """

    dtype = dtypes.uint8


class BoolStorage(metaclass=Typed):
    """Storages of bool: calling it makes a TypedStorage, which is an instance of it.

    Parameters
    ----------
    *args : object
        A number of elements, or a sequence of them.
    dtype : dtype, optional
        Another one than bool raises a TypeError.
    **kwargs : object
        Further arguments of TypedStorage.

    Examples
    --------
    >>> storage = st.BoolStorage([1, 0])
    >>> len(storage), storage.dtype == st.bool
    (2, True)
    >>> isinstance(storage, st.BoolStorage)
    True
    """

    dtype = dtypes.bool


Storage = FloatStorage
