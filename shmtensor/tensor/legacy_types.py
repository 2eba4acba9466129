"""The old names of tensors by dtype: `FloatTensor([1, 2])`, `isinstance(x, LongTensor)`."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import dtype_objects, dtypes, native
from ..device import set_default_device
from . import Tensor, from_data
from .new_tensor import sizes_of_constructor
from .to_dtype import type_name

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


if TYPE_CHECKING:
    Base = Tensor  # what a call makes
else:
    Base = object


class Typed(type):
    """The metaclass of the old types: calling one makes a plain Tensor of its dtype."""

    dtype: Any
    is_cuda = False

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        size = kwargs.pop("size", None)
        sizes = sizes_of_constructor(args, size)
        if sizes is None:
            same = isinstance(args[0], Tensor) and args[0].dtype is cls.dtype
            result = (
                args[0].detach() if same else from_data.tensor(args[0], dtype=cls.dtype, **kwargs)
            )
        else:
            result = native.wrap(native.call(np.empty, sizes, cls.dtype))
        return result.cuda() if cls.is_cuda else result

    def __instancecheck__(cls, value: Any) -> bool:
        return (
            isinstance(value, Tensor) and value.dtype is cls.dtype and value.is_cuda is cls.is_cuda
        )


class FloatTensor(Base, metaclass=Typed):
    """Tensors of float32."""

    dtype = dtype_objects.float32


class DoubleTensor(Base, metaclass=Typed):
    """Tensors of float64."""

    dtype = dtype_objects.float64


class HalfTensor(Base, metaclass=Typed):
    """Tensors of float16."""

    dtype = dtype_objects.float16


class BFloat16Tensor(Base, metaclass=Typed):
    """Tensors of bfloat16."""

    dtype = dtype_objects.bfloat16


class LongTensor(Base, metaclass=Typed):
    """Tensors of int64."""

    dtype = dtype_objects.int64


class IntTensor(Base, metaclass=Typed):
    """Tensors of int32."""

    dtype = dtype_objects.int32


class ShortTensor(Base, metaclass=Typed):
    """Tensors of int16."""

    dtype = dtype_objects.int16


class CharTensor(Base, metaclass=Typed):
    """Tensors of int8."""

    dtype = dtype_objects.int8


class ByteTensor(Base, metaclass=Typed):
    """Tensors of uint8."""

    dtype = dtype_objects.uint8


class BoolTensor(Base, metaclass=Typed):
    """Tensors of bool."""

    dtype = dtype_objects.bool


gpu_is_default = threading.Event()  # by set_default_tensor_type


def set_default_tensor_type(t: Any) -> None:
    """The default dtype, and the default device, by an old name: `FloatTensor`,
    "shmtensor.DoubleTensor", `cuda.FloatTensor`.

    Raises:
        TypeError: not a floating-point type.
        DeviceMissing: a type on GPUs, and there is none.
    """
    name = t.rpartition(".")[2] if isinstance(t, str) else getattr(t, "__name__", str(t))
    is_cuda = ".cuda." in t if isinstance(t, str) else getattr(t, "is_cuda", False)
    dtype = dtypes.TENSOR_TYPES.get(name)
    if dtype is None or dtype.kind != "f":
        raise TypeError(
            f"set_default_tensor_type: only floating-point types are supported: {name}, e.g. "
            "FloatTensor"
        )
    if is_cuda is not gpu_is_default.is_set():  # one set by set_default_device stays
        set_default_device("cuda" if is_cuda else None)
        (gpu_is_default.set if is_cuda else gpu_is_default.clear)()
    dtypes.set_default_dtype(dtype)


def typename(obj: Any) -> str:
    """The name of an object's type; for a tensor, the old name of its type."""
    if isinstance(obj, Tensor):
        return type_name(obj.array)
    cls: Any = obj if isinstance(obj, type) else type(obj)
    name: str = cls.__qualname__
    return name if cls.__module__ == "builtins" else f"{cls.__module__}.{name}"


def is_storage(obj: Any) -> bool:
    """Whether an object is a storage, as from `untyped_storage()`."""
    module = sys.modules.get("shmtensor.storage")  # not imported: no storage exists
    return module is not None and isinstance(obj, module.UntypedStorage)
