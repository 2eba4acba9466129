"""Tensors from data that is already somewhere: lists, NumPy arrays, DLPack, buffers."""

from __future__ import annotations

import functools
import itertools
import os
import reprlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import dtypes, native
from ..autograd.dispatch.promote_operands import as_canonical
from ..device import as_device
from ..ops.table.python_scalars import as_element, fits_dtype
from . import Tensor
from .dlpack import from_dlpack, to_dlpack
from .new_tensor import as_plain

__all__ = [
    "as_tensor",
    "asarray",
    "from_dlpack",
    "from_file",
    "from_numpy",
    "frombuffer",
    "is_complex",
    "is_floating_point",
    "is_nonzero",
    "is_tensor",
    "numel",
    "result_type",
    "scalar_tensor",
    "tensor",
    "to_dlpack",
]


# Told apart by what they are, not by what NumPy would make of them.
ARRAYS = (native.TensorBase, np.ndarray, np.generic)


def without_tensors(read: Any, data: Any) -> Any:
    """`read(data)`, an array. NumPy reads most tensors in lists by itself, but none that requires a
    gradient and none of bfloat16; looking for them first would cost more than all the rest.
    """
    first = data
    while first.__class__ in (list, tuple) and first:
        first = first[0]
    if not isinstance(first, native.TensorBase):
        try:
            array = read(data)
        except (RuntimeError, TypeError):
            return read(as_plain(data))
        if array.dtype.kind != "O":
            return array
    return read(as_plain(data))


def one_by_one(data: Any, dtype: dtypes.Dtype, error: Exception) -> np.ndarray[Any, Any]:
    """Whole numbers that NumPy does not convert: below 0 and unsigned they wrap around.

    Raises:
        RuntimeError: one does not fit.
    """
    try:
        read = np.array(data, object)
        flat = [as_element("tensor", v, dtype) for v in read.reshape(-1).tolist()]
    except (TypeError, ValueError):
        raise type(error)(f"tensor: {error}: {reprlib.repr(data)}") from None
    return native.call(np.array, np.reshape(np.array(flat, dtype), read.shape), dtype)  # type: ignore[no-any-return]


def unreadable(data: Any, array: np.ndarray[Any, Any]) -> Exception:
    """Why data gave an array of objects."""
    for value in array.reshape(-1).tolist():
        if isinstance(value, int):
            return ValueError(f"tensor: overflow, 64 bits are the most: {value}")
        if not isinstance(value, (str, bytes)):
            return RuntimeError(
                f"tensor: could not infer dtype of {type(value).__name__}: {reprlib.repr(data)}"
            )
    return TypeError(f"tensor: no tensor can hold this: {reprlib.repr(data)}")


LISTS: set[Any] = {list, tuple}
PLAIN = {bool, int, float, complex}


def holds_numbers_alone(data: Any) -> bool:
    """Whether nested lists hold Python's numbers, and no tensors, arrays or NumPy's numbers."""
    found = set(map(type, data))
    while found and found <= LISTS:
        data = list(itertools.chain.from_iterable(data))
        found = set(map(type, data))
    return found <= PLAIN


def leaf_dtypes(data: Any) -> Iterator[dtypes.Dtype]:
    """What the elements of nested lists bring into the common dtype; lists within are walked."""
    for x in data:
        if x.__class__ in (list, tuple):
            yield from leaf_dtypes(x)
        elif hasattr(x, "dtype"):
            yield dtypes.as_dtype(x.dtype)
        elif isinstance(x, complex):
            yield dtypes.default_complex()
        else:
            kinds = {bool: dtypes.bool, int: dtypes.int64}
            yield kinds.get(x.__class__, dtypes.get_default_dtype())


def inferred(data: Any, array: Any) -> dtypes.Dtype | None:
    """The dtype of new data by PyTorch's rules: Python floats are the default dtype; None: what
    NumPy read, as arrays keep theirs.
    """
    kind = array.dtype.kind
    if kind in "fc":
        if isinstance(data, ARRAYS):
            return None
        if data.__class__ in LISTS and not holds_numbers_alone(data):
            return functools.reduce(dtypes.promote_types, leaf_dtypes(data))
        return dtypes.get_default_dtype() if kind == "f" else dtypes.default_complex()
    while data.__class__ in (list, tuple) and data:
        data = data[0]
    if array.dtype == np.uint64 and isinstance(data, int):
        raise ValueError("overflow: int64 does not hold so large a number, hint: dtype=uint64")
    return None


def tensor(
    data: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A new leaf from data: nested lists, numbers, an array, a tensor. Copies: one (into shared
    memory).

    Args:
        data: anything that NumPy can make an array of.
        dtype: by default as the data: Python floats become the default dtype, integers int64.
        requires_grad: record what is computed from it.

    Raises:
        ValueError: nested lists of differing lengths.
        TypeError: data that no tensor can hold.
        RuntimeError: a number that the dtype cannot hold.
    """
    as_device(device)
    wanted = None if dtype is None else dtypes.as_dtype(dtype)
    try:
        if wanted is None:
            read = without_tensors(np.asarray, data)
            wanted = inferred(data, read)
            array = native.call(np.array, read, wanted)
        else:
            array = without_tensors(lambda plain: native.call(np.array, plain, wanted), data)
    except (ValueError, TypeError, OverflowError) as error:
        if wanted is None or wanted.kind not in "iu":
            raise type(error)(f"tensor: {error}: {reprlib.repr(data)}") from None
        array = one_by_one(data, wanted, error)
    if array.dtype.kind == "O":
        raise unreadable(data, array)
    made: Tensor = native.wrap(array if array.dtype is wanted else as_canonical(array))
    return made.requires_grad_() if requires_grad else made


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """Data as a tensor, without a copy where it is one, or an array, of that dtype. Copies: none or
    one.
    """
    as_device(device)
    if isinstance(data, native.TensorBase):
        found: Any = data
        return found if dtype is None else found.to(dtypes.as_dtype(dtype))  # type: ignore[no-any-return]
    if isinstance(data, np.ndarray):
        array = as_canonical(data)
        if dtype is None or dtypes.as_dtype(dtype) is array.dtype:
            return native.wrap(array)  # type: ignore[no-any-return]
    return tensor(data, dtype=dtype)


def asarray(
    obj: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    copy: bool | None = None,
    requires_grad: bool | None = None,
) -> Tensor:
    """A tensor of any object, over its memory where it has some: a tensor, an array, a DLPack
    capsule, a buffer (bytes, bytearray, memoryview, array.array: read as elements of the dtype); or
    of numbers in lists. Copies: none or one.

    Args:
        dtype: by default the object's; of a buffer the default dtype.
        copy: True: in any case; False: never.
        requires_grad: by default as it is; False: without history.

    Raises:
        ValueError: `copy=False` and a copy is needed. RuntimeError: the same of a NumPy scalar.
    """
    as_device(device)
    wanted = None if dtype is None else dtypes.as_dtype(dtype)
    made = over_memory(obj, wanted)
    if made is None:
        if copy is False:
            is_scalar = isinstance(obj, np.generic)
            raise (RuntimeError if is_scalar else ValueError)(
                f"asarray: can't alias {'NumPy scalars' if is_scalar else 'arbitrary sequences'}: "
                f"{reprlib.repr(obj)}"
            )
        made = tensor(obj, dtype=wanted)
    else:
        recorded = made.requires_grad
        if wanted is not None and made.dtype != wanted:
            if copy is False:
                raise ValueError(
                    f"asarray: can't alias tensor with dtype {made.dtype} into dtype {wanted}: a "
                    "copy is needed"
                )
            made = made.to(wanted)
        elif copy:
            made = made.clone()
        if requires_grad is None:
            requires_grad = recorded
    if requires_grad:
        return made if made.requires_grad else made.requires_grad_()
    return made.detach() if made.requires_grad else made


def over_memory(obj: Any, dtype: Any) -> Tensor | None:
    """A tensor over an object's memory, of the dtype for a buffer; None where it has none."""
    if isinstance(obj, native.TensorBase):
        return obj  # type: ignore[return-value]
    if isinstance(obj, np.ndarray):
        return native.wrap(as_canonical(obj))  # type: ignore[no-any-return]
    if type(obj).__name__ == "PyCapsule":
        return from_dlpack(obj)
    if isinstance(obj, np.generic):
        return None
    try:
        memoryview(obj)
    except TypeError:
        return None
    return frombuffer(obj, dtype=dtypes.get_default_dtype() if dtype is None else dtype)


def from_numpy(ndarray: Any) -> Tensor:
    """A tensor over an array's memory; a write to one is seen in the other. Copies: none."""
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"from_numpy: expected np.ndarray (got {type(ndarray).__name__})")
    return native.wrap(as_canonical(ndarray))  # type: ignore[no-any-return]


def frombuffer(
    buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """A 1-d tensor over an object's buffer. Copies: none.

    Raises:
        ValueError: there are no bytes, or not as many as `count` elements need.
    """
    size = memoryview(buffer).nbytes
    if not size or not count:
        raise ValueError(f"frombuffer: nothing to read: a buffer of {size} bytes, count={count}")
    made: Tensor = native.wrap(np.frombuffer(buffer, dtypes.as_dtype(dtype), count, offset))
    return made.requires_grad_() if requires_grad else made


def from_file(
    filename: Any,
    shared: bool | None = None,
    size: int = 0,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """A 1-d tensor over a mapped file. Copies: none.

    Args:
        shared: writes go to the file, which is made if it is not there; else they stay here.
        size: how many elements.
        dtype: by default the default dtype.

    Raises: RuntimeError, the file is too short or not there.
    """
    as_device(device)
    wanted = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    try:
        if not shared and os.path.getsize(filename) < size * wanted.itemsize:
            raise ValueError(f"{os.path.getsize(filename)} bytes")
        mode: Any = "c" if not shared else "r+" if os.path.exists(filename) else "w+"
        array = np.memmap(filename, wanted, mode, 0, (size,)) if size else np.empty(0, wanted)
    except (OSError, ValueError) as error:
        raise RuntimeError(
            f"from_file: {size} elements of {wanted} cannot be mapped: {filename}: {error}"
        ) from None
    made: Tensor = native.wrap(as_canonical(array))
    return made.requires_grad_() if requires_grad else made


def scalar_tensor(
    s: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A 0-d tensor of a number, of the default dtype."""
    wanted = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    if isinstance(s, complex):
        fits_dtype("scalar_tensor", s, wanted)
    return tensor(s, dtype=wanted, device=device, requires_grad=requires_grad)


def is_tensor(obj: Any) -> bool:
    """Whether an object is a Tensor."""
    return isinstance(obj, Tensor)


def is_floating_point(input: Tensor) -> bool:
    """Whether the dtype is a floating-point one; complex ones are not."""
    return input.is_floating_point()


def is_complex(input: Tensor) -> bool:
    """Whether the dtype is a complex one."""
    return input.is_complex()


def is_nonzero(input: Tensor) -> bool:
    """Whether a tensor of one element is not zero."""
    if input.numel() != 1:
        raise RuntimeError(
            f"is_nonzero: a Tensor with {input.numel()} elements is ambiguous: shape "
            f"{tuple(input.shape)}"
        )
    return bool(input.item())


def numel(input: Tensor) -> int:
    """The number of elements."""
    return input.numel()


def result_type(tensor1: Any, tensor2: Any) -> dtypes.Dtype:
    """The dtype that arithmetic on two tensors or numbers gives."""
    from ..autograd.dispatch.promote_operands import common_dtype

    return common_dtype((tensor1, tensor2))
