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
    """The old name of tensors of float32 on the CPU.

    Parameters
    ----------
    *args : Any
        Data as for `tensor`, or several sizes: `FloatTensor(2, 3)`, whose elements are arbitrary.
    **kwargs : Any
        `size`: the shape, in place of sizes.

    See Also
    --------
    tensor, empty

    Notes
    -----
    A call makes a plain Tensor, and `isinstance(x, FloatTensor)` asks for the dtype and the device.

    Examples
    --------
    >>> st.FloatTensor([1, 2])
    tensor([1., 2.])
    >>> isinstance(st.zeros(2, dtype=st.float32), st.FloatTensor)
    True
    """

    dtype = dtype_objects.float32


class DoubleTensor(Base, metaclass=Typed):
    """The old name of tensors of float64 on the CPU.

    Parameters
    ----------
    *args : Any
        Data as for `tensor`, or several sizes: `DoubleTensor(2, 3)`, whose elements are arbitrary.
    **kwargs : Any
        `size`: the shape, in place of sizes.

    See Also
    --------
    tensor, empty

    Notes
    -----
    A call makes a plain Tensor, and `isinstance(x, DoubleTensor)` asks for the dtype and the
    device.

    Examples
    --------
    >>> st.DoubleTensor([1, 2])
    tensor([1., 2.], dtype=shmtensor.float64)
    >>> isinstance(st.zeros(2, dtype=st.float64), st.DoubleTensor)
    True
    """

    dtype = dtype_objects.float64


class HalfTensor(Base, metaclass=Typed):
    """The old name of tensors of float16 on the CPU.

    Parameters
    ----------
    *args : Any
        Data as for `tensor`, or several sizes: `HalfTensor(2, 3)`, whose elements are arbitrary.
    **kwargs : Any
        `size`: the shape, in place of sizes.

    See Also
    --------
    tensor, empty

    Notes
    -----
    A call makes a plain Tensor, and `isinstance(x, HalfTensor)` asks for the dtype and the device.

    Examples
    --------
    >>> st.HalfTensor([1, 2])
    tensor([1., 2.], dtype=shmtensor.float16)
    >>> isinstance(st.zeros(2, dtype=st.float16), st.HalfTensor)
    True
    """

    dtype = dtype_objects.float16


class BFloat16Tensor(Base, metaclass=Typed):
    """The old name of tensors of bfloat16 on the CPU.

    Parameters
    ----------
    *args : Any
        Data as for `tensor`, or several sizes: `BFloat16Tensor(2, 3)`, whose elements are
        arbitrary.
    **kwargs : Any
        `size`: the shape, in place of sizes.

    See Also
    --------
    tensor, empty

    Notes
    -----
    A call makes a plain Tensor, and `isinstance(x, BFloat16Tensor)` asks for the dtype and the
    device.

    Examples
    --------
    >>> st.BFloat16Tensor([1, 2])
    tensor([1., 2.], dtype=shmtensor.bfloat16)
    >>> isinstance(st.zeros(2, dtype=st.bfloat16), st.BFloat16Tensor)
    True
    """

    dtype = dtype_objects.bfloat16


class LongTensor(Base, metaclass=Typed):
    """The old name of tensors of int64 on the CPU.

    Parameters
    ----------
    *args : Any
        Data as for `tensor`, or several sizes: `LongTensor(2, 3)`, whose elements are arbitrary.
    **kwargs : Any
        `size`: the shape, in place of sizes.

    See Also
    --------
    tensor, empty

    Notes
    -----
    A call makes a plain Tensor, and `isinstance(x, LongTensor)` asks for the dtype and the device.

    Examples
    --------
    >>> st.LongTensor([1, 2])
    tensor([1, 2])
    >>> isinstance(st.zeros(2, dtype=st.int64), st.LongTensor)
    True
    """

    dtype = dtype_objects.int64


class IntTensor(Base, metaclass=Typed):
    """The old name of tensors of int32 on the CPU.

    Parameters
    ----------
    *args : Any
        Data as for `tensor`, or several sizes: `IntTensor(2, 3)`, whose elements are arbitrary.
    **kwargs : Any
        `size`: the shape, in place of sizes.

    See Also
    --------
    tensor, empty

    Notes
    -----
    A call makes a plain Tensor, and `isinstance(x, IntTensor)` asks for the dtype and the device.

    Examples
    --------
    >>> st.IntTensor([1, 2])
    tensor([1, 2], dtype=shmtensor.int32)
    >>> isinstance(st.zeros(2, dtype=st.int32), st.IntTensor)
    True
    """

    dtype = dtype_objects.int32


class ShortTensor(Base, metaclass=Typed):
    """The old name of tensors of int16 on the CPU.

    Parameters
    ----------
    *args : Any
        Data as for `tensor`, or several sizes: `ShortTensor(2, 3)`, whose elements are arbitrary.
    **kwargs : Any
        `size`: the shape, in place of sizes.

    See Also
    --------
    tensor, empty

    Notes
    -----
    A call makes a plain Tensor, and `isinstance(x, ShortTensor)` asks for the dtype and the device.

    Examples
    --------
    >>> st.ShortTensor([1, 2])
    tensor([1, 2], dtype=shmtensor.int16)
    >>> isinstance(st.zeros(2, dtype=st.int16), st.ShortTensor)
    True
    """

    dtype = dtype_objects.int16


class CharTensor(Base, metaclass=Typed):
    """The old name of tensors of int8 on the CPU.

    Parameters
    ----------
    *args : Any
        Data as for `tensor`, or several sizes: `CharTensor(2, 3)`, whose elements are arbitrary.
    **kwargs : Any
        `size`: the shape, in place of sizes.

    See Also
    --------
    tensor, empty

    Notes
    -----
    A call makes a plain Tensor, and `isinstance(x, CharTensor)` asks for the dtype and the device.

    Examples
    --------
    >>> st.CharTensor([1, 2])
    tensor([1, 2], dtype=shmtensor.int8)
    >>> isinstance(st.zeros(2, dtype=st.int8), st.CharTensor)
    True
    """

    dtype = dtype_objects.int8


class ByteTensor(Base, metaclass=Typed):
    """The old name of tensors of uint8 on the CPU.

    Parameters
    ----------
    *args : Any
        Data as for `tensor`, or several sizes: `ByteTensor(2, 3)`, whose elements are arbitrary.
    **kwargs : Any
        `size`: the shape, in place of sizes.

    See Also
    --------
    tensor, empty

    Notes
    -----
    A call makes a plain Tensor, and `isinstance(x, ByteTensor)` asks for the dtype and the device.

    Examples
    --------
    >>> st.ByteTensor([1, 2])
    tensor([1, 2], dtype=shmtensor.uint8)
    >>> isinstance(st.zeros(2, dtype=st.uint8), st.ByteTensor)
    True
    """

    dtype = dtype_objects.uint8


class BoolTensor(Base, metaclass=Typed):
    """The old name of tensors of bool on the CPU.

    Parameters
    ----------
    *args : Any
        Data as for `tensor`, or several sizes: `BoolTensor(2, 3)`, whose elements are arbitrary.
    **kwargs : Any
        `size`: the shape, in place of sizes.

    See Also
    --------
    tensor, empty

    Notes
    -----
    A call makes a plain Tensor, and `isinstance(x, BoolTensor)` asks for the dtype and the device.

    Examples
    --------
    >>> st.BoolTensor([True, False])
    tensor([ True, False])
    >>> isinstance(st.zeros(2, dtype=st.bool), st.BoolTensor)
    True
    """

    dtype = dtype_objects.bool


gpu_is_default = threading.Event()  # by set_default_tensor_type


def set_default_tensor_type(t: Any) -> None:
    """Sets the default dtype, and the default device, by an old name.

    Parameters
    ----------
    t : class or str
        `FloatTensor`, "shmtensor.DoubleTensor", `cuda.FloatTensor` and the like.

    Raises
    ------
    TypeError
        It is not a floating-point type.
    DeviceMissing
        It is a type on GPUs, and there is none.

    See Also
    --------
    set_default_dtype, set_default_device

    Examples
    --------
    >>> st.set_default_tensor_type(st.DoubleTensor)
    >>> st.get_default_dtype()
    shmtensor.float64
    >>> st.set_default_tensor_type("FloatTensor")
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
    """The name of an object's type; for a tensor, the old name of its type.

    Parameters
    ----------
    obj : object
        Anything.

    Returns
    -------
    str
        With its module, unless it is built in.

    Examples
    --------
    >>> st.typename(st.zeros(2)), st.typename([])
    ('shmtensor.FloatTensor', 'list')
    """
    if isinstance(obj, Tensor):
        return type_name(obj.array)
    cls: Any = obj if isinstance(obj, type) else type(obj)
    name: str = cls.__qualname__
    return name if cls.__module__ == "builtins" else f"{cls.__module__}.{name}"


def is_storage(obj: Any) -> bool:
    """Whether an object is a storage, as `untyped_storage()` of a tensor returns.

    Parameters
    ----------
    obj : object
        Anything.

    Returns
    -------
    bool
        False for tensors.

    See Also
    --------
    storage.UntypedStorage

    Examples
    --------
    >>> st.is_storage(st.zeros(2).untyped_storage()), st.is_storage(st.zeros(2))
    (True, False)
    """
    module = sys.modules.get("shmtensor.storage")  # not imported: no storage exists
    return module is not None and isinstance(obj, module.UntypedStorage)
