"""Tensors from existing data: lists, NumPy arrays, DLPack, buffers."""

from __future__ import annotations

import functools
import os
import reprlib
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np

from .. import dtypes, native
from ..autograd.dispatch.foreign_operands import library_of
from ..autograd.dispatch.promote_operands import as_canonical
from ..cuda_arrays import check_bfloat16, device_of, move_array
from ..device import CPU, Device, defaults, device_for_data, unspecified
from ..ops.table.python_scalars import as_element, fits_dtype
from ..profiler import profiling
from . import Tensor
from .data_elements import (
    BUILTIN,
    LISTS,
    check_depth,
    check_elements,
    check_nesting,
    container_as_array,
    explain_objects,
    has_only_numbers,
    not_an_array,
)
from .dlpack import from_dlpack, to_dlpack
from .foreign_arrays import as_numpy, on_cuda
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


# Classes whose data keeps its dtype.
ARRAYS = (native.TensorBase, np.ndarray, np.generic)


def without_tensors(convert: Any, data: Any) -> Any:
    """`convert(data)`, an array. NumPy converts most tensors in lists, but none that requires grad
    and none of bfloat16; a search for those first would cost more than the conversion.

    Raises:
        ValueError: the lists are nested deeper than an array can be, as a list that holds itself.
    """
    first = check_depth(data)
    if not isinstance(first, native.TensorBase):
        if first.__class__ not in BUILTIN:
            container_as_array(first, "tensor", RuntimeError)
        try:
            array = convert(data)
        except (RuntimeError, TypeError, ValueError):
            return convert(as_plain(data))
        if array.dtype.kind != "O":
            return array
    return convert(as_plain(data))


def convert_integers(data: Any, dtype: dtypes.Dtype, error: Exception) -> np.ndarray[Any, Any]:
    """Integers that NumPy does not convert: negative numbers wrap around in an unsigned dtype.

    Raises:
        RuntimeError: a number does not fit.
    """
    try:
        objects = np.array(data, object)
        flat = [as_element("tensor", v, dtype) for v in objects.reshape(-1).tolist()]
    except (TypeError, ValueError):
        raise not_an_array(error, data, "tensor") from None
    return native.call(np.array, np.reshape(np.array(flat, dtype), objects.shape), dtype)  # type: ignore[no-any-return]


HOST = BUILTIN | {np.ndarray}  # classes of data that is on the host and of no other library
HOST_MODULES = ("builtins", "collections", "numpy")  # modules of such classes


def element_dtypes(data: Any) -> Iterator[dtypes.Dtype]:
    """The dtypes of the elements of nested lists, for promotion."""
    for x in data:
        x = container_as_array(x, "tensor")
        if x.__class__ in (list, tuple):
            yield from element_dtypes(x)
        elif library_of(x) is not None:
            yield as_canonical(as_numpy(x, "tensor")).dtype
        elif hasattr(x, "dtype"):
            yield dtypes.as_dtype(x.dtype)
        elif isinstance(x, complex):
            yield dtypes.default_complex()
        else:
            by_class = {bool: dtypes.bool, int: dtypes.int64}
            yield by_class.get(x.__class__, dtypes.get_default_dtype())


def infer_dtype(data: Any, array: Any) -> dtypes.Dtype | None:
    """The dtype of new data by PyTorch's rules: Python floats have the default dtype. None: NumPy's
    dtype, which arrays keep.
    """
    kind = array.dtype.kind
    if kind in "fc":
        if isinstance(data, ARRAYS):
            return None
        if data.__class__ in LISTS and not has_only_numbers(data):
            return functools.reduce(dtypes.promote_types, element_dtypes(data))
        return dtypes.get_default_dtype() if kind == "f" else dtypes.default_complex()
    while data.__class__ in (list, tuple) and data:
        data = data[0]
    if array.dtype == np.uint64 and isinstance(data, int):
        raise ValueError("overflow: the number is too large for int64, hint: dtype=uint64")
    return None


def tensor(
    data: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A new tensor from data: nested lists, a number, an array or another tensor.

    Parameters
    ----------
    data : array_like
        Anything that NumPy can convert to an array; a tensor of PyTorch without history, an array
        of JAX.
    dtype : dtype, optional
        By default that of the data: Python floats have the default dtype, integers int64.
    device : Device or str, optional
        By default that of the data, if it is a tensor or an array of CuPy, or else the default
        device.
    requires_grad : bool, optional
        Whether operations on the tensor are recorded for its gradient.
    pin_memory : bool, optional
        Whether copies to a GPU may run beside the program.

    Returns
    -------
    Tensor
        A leaf in shared memory.

    Raises
    ------
    ValueError
        Nested lists differ in length.
    TypeError
        No tensor can hold the data; bfloat16 on a GPU.
    RuntimeError
        The dtype cannot hold a number; a tensor of PyTorch requires grad.
    DeviceMissing
        The device is not there.

    See Also
    --------
    as_tensor, from_numpy, asarray

    Notes
    -----
    Copies: one (into shared memory).

    Examples
    --------
    >>> st.tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    >>> st.tensor([1, 2], dtype=st.float64, requires_grad=True)
    tensor([1., 2.], dtype=shmtensor.float64, requires_grad=True)
    >>> st.tensor(np.eye(2, dtype=np.float32))
    tensor([[1., 0.],
            [0., 1.]])
    """
    began = profiling.begin() if profiling.on else 0
    target = None if dtype is None else dtypes.as_dtype(dtype)
    if data.__class__ not in HOST:
        if (array := array_on_cuda(data)) is not None:
            place = device_for_data(device, device_of(array))
            return from_cuda(array, target, place, requires_grad)
        if library_of(data) is not None:
            data = as_numpy(data, "tensor")
        data = container_as_array(data, "tensor", RuntimeError if target is None else TypeError)
    place = CPU if device is unspecified.value else device_for_data(device)
    try:
        if target is None:
            source = without_tensors(np.asarray, data)
            inferred = infer_dtype(data, source)
            array = native.call(np.array, source, inferred)
        else:
            array = without_tensors(lambda plain: native.call(np.array, plain, target), data)
    except (ValueError, TypeError, OverflowError) as error:
        check_nesting(data)
        check_elements(data, "tensor")
        if target is None or target.kind not in "iu":
            raise not_an_array(error, data, "tensor") from None
        array = convert_integers(data, target, error)
    else:
        if target is not None:
            check_elements(data, "tensor")
    if array.dtype.kind == "O":
        raise explain_objects(data, array)
    if target is None and array.dtype.kind in "mMSUT":
        check_elements(data, "tensor")
    array = array if array.dtype is target else as_canonical(array)
    result: Tensor = native.wrap(array if place.type == "cpu" else move_array(array, place))
    if pin_memory:
        result = result.pin_memory()
    if began:
        profiling.end(began, "tensor", profiling.OP)
    return result.requires_grad_() if requires_grad else result


def array_on_cuda(data: Any) -> Any:
    """The array of a tensor on a GPU, or an array of CuPy over that of another library; else None.
    Copies: none.
    """
    if isinstance(data, native.TensorBase):
        return None if isinstance(data.array, np.ndarray) else data.array
    return None if data.__class__.__module__ in HOST_MODULES else on_cuda(data)


def from_cuda(array: Any, dtype: Any, device: Device, requires_grad: bool) -> Tensor:
    """A new leaf from an array on a GPU. Copies: one."""
    copied = move_array(array, device)
    if dtype is not None and dtype is not copied.dtype:
        if device.type != "cpu" and dtype is dtypes.bfloat16:
            check_bfloat16("tensor", device)
        with nullcontext() if device.type == "cpu" else copied.device:
            copied = copied.astype(dtype)
    elif copied is array:
        with array.device:
            copied = array.copy()
    result: Tensor = native.wrap(copied)
    return result.requires_grad_() if requires_grad else result


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """Data as a tensor, without a copy where that is possible.

    Parameters
    ----------
    data : array_like
        A tensor, an array (of NumPy, CuPy, PyTorch or JAX), or what `tensor` takes.
    dtype : dtype, optional
        By default that of the data.
    device : Device or str, optional
        By default that of the data, or else the default device.

    Returns
    -------
    Tensor
        The tensor itself; a tensor over the array's memory; or a copy.

    Raises
    ------
    RuntimeError
        A tensor of PyTorch requires grad.
    DeviceMissing
        The device is not there.

    See Also
    --------
    tensor, from_numpy, asarray

    Notes
    -----
    Copies: none if the data is a tensor or an array of that dtype and on that device, else one.

    Examples
    --------
    >>> array = np.zeros(2)
    >>> x = st.as_tensor(array)
    >>> x[0] = 5
    >>> array
    array([5., 0.])
    """
    if isinstance(data, native.TensorBase):
        return as_placed(data, dtype, device)
    if data.__class__ not in HOST:
        if (array := array_on_cuda(data)) is not None:
            return as_placed(native.wrap(array), dtype, device)
        if library_of(data) is not None:
            data = as_numpy(data, "as_tensor")
    if device is not unspecified.value and device_for_data(device).type != "cpu":
        return tensor(data, dtype=dtype, device=device)
    if isinstance(data, np.ndarray) and data.dtype.kind != "O":
        array = as_canonical(data)
        if dtype is None or dtypes.as_dtype(dtype) is array.dtype:
            return native.wrap(array)  # type: ignore[no-any-return]
    return tensor(data, dtype=dtype, device=CPU)


def as_placed(x: Any, dtype: Any, device: Any) -> Tensor:
    """A tensor in a dtype and on a device, or on the default one if there is one; itself if nothing
    changes.
    """
    if device is not None or defaults.device is not None:
        x = x.to(device_for_data(device, x.device))
    return x if dtype is None else x.to(dtypes.as_dtype(dtype))  # type: ignore[no-any-return]


def asarray(
    obj: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    copy: bool | None = None,
    requires_grad: bool | None = None,
) -> Tensor:
    """A tensor from an object, over its memory if possible.

    Parameters
    ----------
    obj : object
        A tensor, an array (of NumPy, PyTorch or JAX), a DLPack capsule, a buffer (bytes, bytearray,
        memoryview, array.array), or numbers in lists.
    dtype : dtype, optional
        By default the object's; that of a buffer's elements is the default dtype.
    device : Device or str, optional
        By default that of the object.
    copy : bool, optional
        True: always a copy; False: never; None: if it is needed.
    requires_grad : bool, optional
        By default as the object; False: without history.

    Returns
    -------
    Tensor
        The tensor itself, a tensor over the memory, or a copy.

    Raises
    ------
    ValueError
        `copy=False`, but a copy is needed. For a NumPy scalar it is a RuntimeError.

    See Also
    --------
    as_tensor, frombuffer, from_dlpack

    Notes
    -----
    Copies: none or one.

    Examples
    --------
    >>> st.asarray(bytearray([1, 2, 3]), dtype=st.uint8)
    tensor([1, 2, 3], dtype=shmtensor.uint8)
    >>> array = np.zeros(2)
    >>> x = st.asarray(array, copy=True)
    >>> x[0] = 5
    >>> array
    array([0., 0.])
    """
    target = None if dtype is None else dtypes.as_dtype(dtype)
    result = alias(obj, target)
    if result is not None:
        moved = as_placed(result, None, device)
        if moved is not result and copy is False:
            raise ValueError(
                f"asarray: can't alias tensor on {result.device} on {moved.device}: a copy is "
                "needed"
            )
        copy = copy and moved is result
        result = moved
    if result is None:
        if copy is False:
            is_scalar = isinstance(obj, np.generic)
            raise (RuntimeError if is_scalar else ValueError)(
                f"asarray: can't alias {'NumPy scalars' if is_scalar else 'arbitrary sequences'}: "
                f"{reprlib.repr(obj)}"
            )
        result = tensor(obj, dtype=target, device=device)
    else:
        has_history = result.requires_grad
        if target is not None and result.dtype != target:
            if copy is False:
                raise ValueError(
                    f"asarray: can't alias tensor with dtype {result.dtype.name} into dtype "
                    f"{target}: a "
                    "copy is needed"
                )
            result = result.to(target)
        elif copy:
            result = result.clone()
        if requires_grad is None:
            requires_grad = has_history
    if requires_grad:
        return result if result.requires_grad else result.requires_grad_()
    return result.detach() if result.requires_grad else result


def alias(obj: Any, dtype: Any) -> Tensor | None:
    """A tensor over an object's memory, or None; a buffer gets the dtype."""
    if isinstance(obj, native.TensorBase):
        return obj  # type: ignore[return-value]
    if (array := array_on_cuda(obj)) is not None:
        return native.wrap(array)  # type: ignore[no-any-return]
    if obj.__class__ not in BUILTIN and library_of(obj) is not None:
        obj = as_numpy(obj, "asarray")
    if isinstance(obj, np.ndarray):
        return None if obj.dtype.kind == "O" else native.wrap(as_canonical(obj))
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
    """A tensor that shares the memory of a NumPy array.

    Parameters
    ----------
    ndarray : ndarray
        Of a dtype that a tensor can have; strides may be negative or 0.

    Returns
    -------
    Tensor
        Writes to one of the two are seen in the other; it does not require grad.

    Raises
    ------
    TypeError
        It is not an array, or no tensor can have its dtype.

    See Also
    --------
    as_tensor, tensor

    Notes
    -----
    Copies: none. The memory is the array's own: another process gets a copy of it when the tensor
    is sent.

    Examples
    --------
    >>> array = np.arange(3)
    >>> x = st.from_numpy(array)
    >>> array[0] = 7
    >>> x
    tensor([7, 1, 2])
    """
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"from_numpy: expected np.ndarray (got {type(ndarray).__name__})")
    began = profiling.begin() if profiling.on else 0
    tensor: Tensor = native.wrap(as_canonical(ndarray))
    if began:
        profiling.end(began, "from_numpy", profiling.OP)
    return tensor


def frombuffer(
    buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """A vector over the memory of an object that supports the buffer protocol.

    Parameters
    ----------
    buffer : object
        bytes, bytearray, memoryview, array.array, mmap and the like.
    dtype : dtype
        That of the elements.
    count : int, optional
        How many elements; -1: all.
    offset : int, optional
        The byte at which the first one begins.
    requires_grad : bool, optional
        Whether operations on the result are recorded for its gradient.

    Returns
    -------
    Tensor
        Read-only if the buffer is.

    Raises
    ------
    ValueError
        The buffer is empty, or too small for `count` elements.

    See Also
    --------
    from_numpy, asarray

    Notes
    -----
    Copies: none.

    Examples
    --------
    >>> st.frombuffer(bytearray([1, 0, 2, 0]), dtype=st.int16)
    tensor([1, 2], dtype=shmtensor.int16)
    """
    size = memoryview(buffer).nbytes
    if not size or not count:
        raise ValueError(f"frombuffer: nothing to read: a buffer of {size} bytes, count={count}")
    result: Tensor = native.wrap(np.frombuffer(buffer, dtypes.as_dtype(dtype), count, offset))
    return result.requires_grad_() if requires_grad else result


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
    """A vector over a file that is mapped into memory; on a GPU, of its content.

    Parameters
    ----------
    filename : str or path
        The file.
    shared : bool, optional
        True: writes go to the file, which is created if missing. Else they are private.
    size : int, optional
        The number of elements.
    dtype : dtype, optional
        Of the result; the default dtype (float32 unless set) if it is None.
    device : Device or str, optional
        Of the result; the default device if it is None.
    requires_grad : bool, optional
        Whether operations on the result are recorded for its gradient.

    Returns
    -------
    Tensor
        Of shape `(size,)`.

    Raises
    ------
    RuntimeError
        The file is too short or missing.

    See Also
    --------
    frombuffer, load

    Notes
    -----
    Copies: none; to a GPU one.

    Examples
    --------
    >>> x = st.from_file("numbers.bin", shared=True, size=3, dtype=st.int64)
    >>> x[:] = 7
    >>> st.from_file("numbers.bin", size=2, dtype=st.int64)
    tensor([7, 7])
    """
    target = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    place = device_for_data(device)
    try:
        if not shared and os.path.getsize(filename) < size * target.itemsize:
            raise ValueError(f"{os.path.getsize(filename)} bytes")
        mode: Any = "c" if not shared else "r+" if os.path.exists(filename) else "w+"
        array = np.memmap(filename, target, mode, 0, (size,)) if size else np.empty(0, target)
    except (OSError, ValueError) as error:
        raise RuntimeError(
            f"from_file: {size} elements of {target} cannot be mapped: {filename}: {error}"
        ) from None
    array = as_canonical(array)
    result: Tensor = native.wrap(array if place.type == "cpu" else move_array(array, place))
    return result.requires_grad_() if requires_grad else result


def scalar_tensor(
    s: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A 0-d tensor of a number.

    Parameters
    ----------
    s : number
        The number.
    dtype : dtype, optional
        By default the default dtype, also for integers.
    device : Device or str, optional
        Of the result; the default device if it is None.
    requires_grad : bool, optional
        Whether operations on the result are recorded for its gradient.

    Returns
    -------
    Tensor
        Of shape `()`.

    See Also
    --------
    tensor, full

    Examples
    --------
    >>> st.scalar_tensor(3)
    tensor(3.)
    """
    target = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    if isinstance(s, complex):
        fits_dtype("scalar_tensor", s, target)
    return tensor(s, dtype=target, device=device, requires_grad=requires_grad)


def is_tensor(obj: Any) -> bool:
    """Whether an object is a Tensor.

    Parameters
    ----------
    obj : object
        Anything.

    Returns
    -------
    bool
        False for arrays and numbers.

    Examples
    --------
    >>> st.is_tensor(st.ones(2)), st.is_tensor([1., 1.])
    (True, False)
    """
    return isinstance(obj, Tensor)


def is_floating_point(input: Tensor) -> bool:
    """Whether the dtype of a tensor is a floating-point one.

    Parameters
    ----------
    input : Tensor
        Any tensor.

    Returns
    -------
    bool
        False for complex dtypes.

    See Also
    --------
    is_complex

    Examples
    --------
    >>> st.is_floating_point(st.tensor([1.])), st.is_floating_point(st.tensor([1]))
    (True, False)
    """
    return input.is_floating_point()


def is_complex(input: Tensor) -> bool:
    """Whether the dtype of a tensor is a complex one.

    Parameters
    ----------
    input : Tensor
        Any tensor.

    Returns
    -------
    bool
        True for complex64 and complex128.

    See Also
    --------
    is_floating_point

    Examples
    --------
    >>> st.is_complex(st.tensor([1j]))
    True
    """
    return input.is_complex()


def is_nonzero(input: Tensor) -> bool:
    """Whether the only element of a tensor is not 0.

    Parameters
    ----------
    input : Tensor
        A tensor of one element.

    Returns
    -------
    bool
        Its truth.

    Raises
    ------
    RuntimeError
        There is not exactly one element.

    Examples
    --------
    >>> st.is_nonzero(st.tensor([0.])), st.is_nonzero(st.tensor(3))
    (False, True)
    """
    if input.numel() != 1:
        raise RuntimeError(
            f"is_nonzero: a Tensor with {input.numel()} elements is ambiguous: shape "
            f"{tuple(input.shape)}"
        )
    return bool(input.item())


def numel(input: Tensor) -> int:
    """The number of elements of a tensor.

    Parameters
    ----------
    input : Tensor
        Any tensor.

    Returns
    -------
    int
        The product of its sizes.

    Examples
    --------
    >>> st.numel(st.zeros(2, 3))
    6
    """
    return input.numel()


def result_type(tensor1: Any, tensor2: Any) -> native.dtype:
    """The dtype that arithmetic on two tensors or numbers gives.

    Parameters
    ----------
    tensor1, tensor2 : Tensor or number
        The operands.

    Returns
    -------
    dtype
        A number changes the dtype of a tensor only if it is of a higher kind: a float beside
        integers.

    See Also
    --------
    promote_types, can_cast

    Examples
    --------
    >>> st.result_type(st.tensor([1]), 1.5)
    shmtensor.float32
    >>> st.result_type(st.tensor([1.]), st.tensor([1.], dtype=st.float64))
    shmtensor.float64
    """
    from ..autograd.dispatch.promote_operands import common_dtype

    return native.dtype(common_dtype((tensor1, tensor2)))
