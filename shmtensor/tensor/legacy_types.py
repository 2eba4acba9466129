"""The old names of tensors by dtype: `FloatTensor([1, 2])`, `isinstance(x, LongTensor)`."""

from __future__ import annotations

import sys
from typing import Any

from .. import dtypes
from . import Tensor, from_data

__all__ = [
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CharTensor",
    "DoubleTensor",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "ShortTensor",
    "is_storage",
    "set_default_tensor_type",
    "typename",
]


class Typed(type):
    """The class of the names: calling one makes a plain Tensor of its dtype."""

    dtype: Any

    def __call__(cls, *args: Any, **named: Any) -> Any:
        if not args or isinstance(args[0], int):
            return Tensor(*args).to(cls.dtype)
        return from_data.tensor(args[0], dtype=cls.dtype, **named)

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, Tensor) and value.dtype is cls.dtype


class FloatTensor(metaclass=Typed):
    """Tensors of float32."""

    dtype = dtypes.float32


class DoubleTensor(metaclass=Typed):
    """Tensors of float64."""

    dtype = dtypes.float64


class HalfTensor(metaclass=Typed):
    """Tensors of float16."""

    dtype = dtypes.float16


class BFloat16Tensor(metaclass=Typed):
    """Tensors of bfloat16."""

    dtype = dtypes.bfloat16


class LongTensor(metaclass=Typed):
    """Tensors of int64."""

    dtype = dtypes.int64


class IntTensor(metaclass=Typed):
    """Tensors of int32."""

    dtype = dtypes.int32


class ShortTensor(metaclass=Typed):
    """Tensors of int16."""

    dtype = dtypes.int16


class CharTensor(metaclass=Typed):
    """Tensors of int8."""

    dtype = dtypes.int8


class ByteTensor(metaclass=Typed):
    """Tensors of uint8."""

    dtype = dtypes.uint8


class BoolTensor(metaclass=Typed):
    """Tensors of bool."""

    dtype = dtypes.bool


def set_default_tensor_type(t: Any) -> None:
    """The default dtype by an old name: `FloatTensor`, "shmtensor.DoubleTensor".

    Raises:
        TypeError: a type that is not of floating point.
    """
    name = t.rpartition(".")[2] if isinstance(t, str) else getattr(t, "__name__", str(t))
    found = dtypes.TENSOR_TYPES.get(name)
    if found is None or found.kind != "f":
        raise TypeError(
            f"set_default_tensor_type: only floating-point types are supported: {name}, e.g. "
            "FloatTensor"
        )
    dtypes.set_default_dtype(found)


def typename(obj: Any) -> str:
    """The name of an object's type; of a tensor, the old name of its type."""
    if isinstance(obj, Tensor):
        return dtypes.NAMES_OF_TYPES[obj.dtype]
    own: Any = obj if isinstance(obj, type) else type(obj)
    name: str = own.__qualname__
    return name if own.__module__ == "builtins" else f"{own.__module__}.{name}"


def is_storage(obj: Any) -> bool:
    """Whether an object is a storage: what `untyped_storage()` gives."""
    found = sys.modules.get("shmtensor.storage")  # without it there is none
    return found is not None and isinstance(obj, found.UntypedStorage)
