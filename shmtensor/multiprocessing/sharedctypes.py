"""RawValue, RawArray, Value and Array: ctypes objects in blocks of shared memory."""

from __future__ import annotations

import ctypes
from multiprocessing import sharedctypes as stdlib
from multiprocessing.sharedctypes import synchronized
from typing import Any

from shmtensor import native

from .lock import RLock

__all__ = ["Array", "RawArray", "RawValue", "Value", "copy", "synchronized"]

_typecodes: dict[str, Any] = stdlib.typecode_to_type  # type: ignore[attr-defined]


def _new(type_: Any) -> Any:
    return type_.from_buffer(native.allocate(max(ctypes.sizeof(type_), 1), zero=True, shared=True))


def RawValue(typecode_or_type: Any, *args: Any) -> Any:
    """A ctypes object that processes share, without a lock.

    Parameters
    ----------
    typecode_or_type : str or ctypes type
        "i", "d", ... as of the module array, or the type.
    *args
        For its constructor.

    Returns
    -------
    ctypes object

    See Also
    --------
    Value

    Examples
    --------
    >>> from shmtensor import multiprocessing as mp
    >>> mp.RawValue("i", 2).value
    2
    """
    obj = _new(_typecodes.get(typecode_or_type, typecode_or_type))
    obj.__init__(*args)
    return obj


def RawArray(typecode_or_type: Any, size_or_initializer: Any) -> Any:
    """A ctypes array that processes share, without a lock.

    Parameters
    ----------
    typecode_or_type : str or ctypes type
        "i", "d", ... as of the module array, or the type.
    size_or_initializer : int or sequence
        How many zeros, or the elements.

    Returns
    -------
    ctypes array

    See Also
    --------
    Array

    Examples
    --------
    >>> from shmtensor import multiprocessing as mp
    >>> list(mp.RawArray("i", 2))
    [0, 0]
    """
    type_ = _typecodes.get(typecode_or_type, typecode_or_type)
    if isinstance(size_or_initializer, int):
        return _new(type_ * size_or_initializer)
    obj = _new(type_ * len(size_or_initializer))
    obj.__init__(*size_or_initializer)
    return obj


def copy(obj: Any) -> Any:
    """A new ctypes object with the same content. Copies: one."""
    result = _new(type(obj))
    ctypes.pointer(result)[0] = obj
    return result


def Value(typecode_or_type: Any, *args: Any, lock: Any = True, ctx: Any = None) -> Any:
    """A RawValue with one of our locks around each access."""
    return _with_lock(RawValue(typecode_or_type, *args), lock, ctx)


def Array(
    typecode_or_type: Any, size_or_initializer: Any, *, lock: Any = True, ctx: Any = None
) -> Any:
    """A RawArray with one of our locks around each access."""
    return _with_lock(RawArray(typecode_or_type, size_or_initializer), lock, ctx)


def _with_lock(obj: Any, lock: Any, ctx: Any) -> Any:
    if lock is False:
        return obj
    if lock is True or lock is None:
        lock = RLock()
    if not hasattr(lock, "acquire"):
        raise AttributeError(f"Value: lock has no method 'acquire': {lock!r}")
    return synchronized(obj, lock, ctx=ctx)


def split(cls: Any) -> tuple[Any, int | None]:
    """A ctypes class as (class, length), which can be pickled: array classes are created on demand
    and have no importable name."""
    if issubclass(cls, ctypes.Array):
        element, length = cls.__dict__["_type_"], cls.__dict__["_length_"]
        return element, length
    return cls, None


def rebuild(cls: Any, length: int | None, block: Any, offset: int) -> Any:
    """The object over a received block."""
    return (cls if length is None else cls * length).from_buffer(block, offset)
