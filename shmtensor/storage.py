"""Storages: the memory that several tensors may be views of, as `torch.UntypedStorage`.

NumPy's array owns a tensor's memory; a storage is an object over it that is created on demand.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from . import native
from .cuda_arrays import device_of, move_array, new_array, pointer
from .device import CPU, as_device, device_of_new
from .dtypes import as_dtype, get_default_dtype

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["TypedStorage", "UntypedStorage"]


def device_context(array: Any) -> AbstractContextManager[Any]:
    """In it an array's device is the current one; of NumPy's it does nothing."""
    return nullcontext() if isinstance(array, np.ndarray) else array.device


def in_memory_order(array: Any) -> Any:
    """The array with its dimensions in the order of their strides. Copies: none."""
    strides = array.strides
    if array.flags.c_contiguous or 0 in strides:
        return array
    return array.transpose(sorted(range(array.ndim), key=lambda d: -abs(strides[d])))


def owner_of(array: Any) -> Any:
    """The array whose views all other arrays over the same memory are."""
    while native.is_array(array.base):
        array = array.base
    while isinstance(array.base, np.ndarray):  # a subclass: np.memmap
        array = array.base
    return array if isinstance(array, np.ndarray) else allocation_of(array)


def allocation_of(array: Any) -> Any:
    """The array at the start of an allocation on a device: `array`, which no other one is the base
    of, or all bytes, if it is a view without a base, as from `as_strided`. The allocation may be
    longer than what was asked for: CuPy's pool rounds up.
    """
    memory = array.data.mem
    if not array.size:
        return array
    is_dense = in_memory_order(array).flags.c_contiguous
    if is_dense and (array.data.ptr == memory.ptr or memory.size < array.nbytes):
        return array
    start = array.data - (array.data.ptr - memory.ptr)
    return type(array)((memory.size,), np.dtype(np.uint8), start)


def identity(owner: Any) -> tuple[int, ...]:
    """A key of the memory of an owner while it lives. Several arrays of a device may be owners of
    the same memory: those that have no base.
    """
    if isinstance(owner, np.ndarray):
        return (id(owner),)
    return id(owner.data.mem), owner.data.ptr, owner.nbytes


def is_same_memory(a: Any, b: Any) -> bool:
    """Whether two arrays have the same owner."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return owner_of(a) is owner_of(b)
    return a.data.mem is b.data.mem


def array_over(
    memory: Any,
    start: int,
    shape: tuple[int, ...],
    dtype: Any,
    strides: tuple[int, ...] | None = None,
) -> Any:
    """An array of a shape over the memory of another one, from a byte on. Copies: none.

    Args:
        strides: in bytes; None: in order.
    """
    if isinstance(memory, np.ndarray):
        return np.ndarray(shape, dtype, memory, start, strides)
    if strides is None:
        steps = [dtype.itemsize]
        for size in shape[:0:-1]:
            steps.append(steps[-1] * max(size, 1))
        strides = tuple(reversed(steps))[len(steps) - len(shape) :]
    view = device_bytes(memory)[start : start + dtype.itemsize]
    if view.size < dtype.itemsize:  # no elements, at the end
        return type(memory)(shape, dtype, memory.data, strides)
    view = view.view(dtype)
    view._set_shape_and_strides(shape, strides, True, True)  # a constructed one has no base
    return view


def device_bytes(array: Any) -> Any:
    """A device's array without gaps as bytes, in the order of memory. Copies: none."""
    return in_memory_order(array).reshape(-1).view(np.uint8)


def memory_of(array: Any) -> Any:
    """The entire memory that an array is a view of, as bytes; writeable if the array is. Copies:
    none.
    """
    owner = owner_of(array)
    if not isinstance(owner, np.ndarray):
        return device_bytes(owner)
    low, high = np.lib.array_utils.byte_bounds(owner)
    ordered = in_memory_order(owner)
    if not ordered.flags.c_contiguous:
        raise RuntimeError(
            f"storage: the memory is not contiguous: shape {owner.shape}, strides {owner.strides}"
        )
    flat = ordered.reshape(-1).view(np.uint8)
    assert flat.nbytes == high - low
    if not array.flags.writeable:
        flat.flags.writeable = False
    return flat


def resize_array(array: Any, shape: tuple[int, ...], order: tuple[int, ...] | None = None) -> Any:
    """An array of a shape over the same memory as `array`, from its first element on. If the memory
    is too short, the result is over new memory that begins with a copy of the old one. Copies:
    none, or one of the entire memory.

    Args:
        order: the dimensions from the outermost to the innermost in memory; None: in order.
    """
    try:
        memory = memory_of(array)
        start = pointer(array) - pointer(memory)
    except RuntimeError:  # the memory is not contiguous
        memory, start = native.call(np.ravel, array).view(np.uint8), 0
    if not 0 <= start <= memory.nbytes:  # an array without elements may point anywhere
        start = 0
    end = start + math.prod(shape) * array.itemsize
    if end > memory.nbytes:
        larger = native.call(new_array, "empty", (end,), np.uint8, device_of(array))
        with device_context(larger):
            larger[: memory.nbytes] = memory
        memory = larger
    if order is None:
        return array_over(memory, start, shape, array.dtype)
    result = array_over(memory, start, tuple(shape[d] for d in order), array.dtype)
    return result.transpose(np.argsort(order))


def new_memory(data: Any, dtype: Any, device: Any) -> Any:
    """An array of a number of elements, uninitialized, or of the elements of a sequence.

    Raises:
        TypeError: neither.
    """
    place = device_of_new(device)
    if isinstance(data, (int, np.integer)):
        if place.type == "cpu":
            return native.call(np.empty, (int(data),), dtype)
        return native.call(new_array, "empty", (int(data),), dtype, place)
    if not isinstance(data, Sequence) or isinstance(data, (str, bytes)):
        raise TypeError(
            f"storage: a number of elements, or a sequence of them, is needed: "
            f"{type(data).__name__}"
        )
    return native.call(move_array, native.call(np.array, data, dtype), place)


def _of_tensor(cls: Any, tensor: Any) -> Any:
    """Rebuilds a storage from the tensor that it was pickled as."""
    return cls(tensor.array)


class UntypedStorage:
    """The bytes of a tensor's memory, seen by all its views.

    Parameters
    ----------
    array : ndarray, int or sequence of int, optional
        An array: the memory that it is a view of. A number of bytes, or the bytes themselves: new
        memory.
    device : Device or str, optional
        Of new memory.

    See Also
    --------
    storage.TypedStorage

    Notes
    -----
    Copies: none of an array.

    Examples
    --------
    >>> x = st.zeros(4)
    >>> x[1:].untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    True
    >>> x.untyped_storage().nbytes()
    16
    """

    bytes: Any

    def __init__(self, array: Any = 0, *, device: Any = None) -> None:
        if not native.is_array(array):
            array = new_memory(array, np.dtype(np.uint8), device)
        self.bytes = memory_of(array)

    def __len__(self) -> int:
        return int(self.bytes.size)

    def nbytes(self) -> int:
        """The number of bytes; `size` is another name.

        Returns
        -------
        int
            The length.

        Examples
        --------
        >>> st.zeros(4).untyped_storage().nbytes()
        16
        """
        return len(self)

    size = nbytes

    def data_ptr(self) -> int:
        """The address of the first byte.

        Returns
        -------
        int
            On the CPU or on the GPU.

        Examples
        --------
        >>> x = st.zeros(4)
        >>> x.untyped_storage().data_ptr() == x.data_ptr()
        True
        """
        return pointer(self.bytes)

    def is_shared(self) -> bool:
        """Whether the memory is shared, as all memory on GPUs is.

        Returns
        -------
        bool
            As `Tensor.is_shared`.

        Examples
        --------
        >>> st.zeros(4).untyped_storage().is_shared()
        True
        """
        return not isinstance(self.bytes, np.ndarray) or bool(native.is_shared(self.bytes))

    def share_memory_(self) -> Self:
        """Moves the memory into shared memory, unless it is there, with all tensors over it.

        Returns
        -------
        UntypedStorage
            The storage itself.

        Notes
        -----
        Copies: none or one.

        Examples
        --------
        >>> st.zeros(4).untyped_storage().share_memory_().is_shared()
        True
        """
        if not self.is_shared():
            tensor = native.wrap(self.bytes)
            del self.bytes  # a reference that `share_memory_` would take for another program's
            try:
                tensor.share_memory_()
            finally:
                self.bytes = tensor.array
        return self

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, nbytes: int = 0) -> Self:
        """The memory of a mapped file.

        Parameters
        ----------
        filename : str or path
            The file.
        shared : bool, optional
            True: writes go to the file, which is created if it does not exist; False: writes stay
            in this process.
        nbytes : int, optional
            How many bytes of the file.

        Returns
        -------
        UntypedStorage
            Over the file's content.

        Raises
        ------
        OSError, ValueError
            The file does not exist or is too short.

        Notes
        -----
        Copies: none.

        Examples
        --------
        >>> storage = st.storage.UntypedStorage.from_file("bytes.bin", shared=True, nbytes=3)
        >>> storage.fill_(7).tolist()
        [7, 7, 7]
        """
        mode: Any = "c" if not shared else "r+" if os.path.exists(filename) else "w+"
        return cls(np.memmap(filename, np.uint8, mode, 0, (nbytes,)))

    def __reduce__(self) -> Any:
        # As a tensor, which every transport to another process can send.
        return _of_tensor, (type(self), native.wrap(self.bytes))

    def element_size(self) -> int:
        return 1

    @property
    def device(self) -> Any:
        """The device of the memory."""
        return device_of(self.bytes)

    @property
    def filename(self) -> str | None:
        """The file that the memory is, by `from_file(shared=True)`; None for other memory."""
        array = self.bytes
        while isinstance(array, np.ndarray):
            if isinstance(array, np.memmap) and array.filename is not None:
                return None if array.mode == "c" else str(array.filename)
            array = array.base
        return None

    is_sparse = is_sparse_csr = False

    def get_device(self) -> int:
        """The number of the GPU; -1 on the CPU."""
        index = self.device.index
        return -1 if index is None else int(index)

    def is_pinned(self, device: Any = None) -> bool:
        """Whether copies to a GPU may run beside the program."""
        return bool(native.wrap(self.bytes).is_pinned())

    def clone(self) -> Self:
        """New memory with the same content.

        Returns
        -------
        UntypedStorage
            A copy.

        Notes
        -----
        Copies: one.

        Examples
        --------
        >>> st.storage.UntypedStorage([1, 2]).clone().tolist()
        [1, 2]
        """
        return type(self)(native.call(np.copy, self.bytes))

    def fill_(self, value: Any) -> Self:
        """Writes a number to all elements.

        Parameters
        ----------
        value : number
            The number.

        Returns
        -------
        UntypedStorage
            The storage itself.

        Examples
        --------
        >>> st.storage.UntypedStorage(2).fill_(7).tolist()
        [7, 7]
        """
        self[:] = value
        return self

    def copy_(self, source: UntypedStorage, non_blocking: bool | None = None) -> Self:
        """Writes the elements of another storage.

        Parameters
        ----------
        source : UntypedStorage
            Of the same size.
        non_blocking : bool, optional
            Accepted; has no effect.

        Returns
        -------
        UntypedStorage
            The storage itself.

        Raises
        ------
        RuntimeError
            The sizes differ.

        Notes
        -----
        Copies: one.

        Examples
        --------
        >>> st.storage.UntypedStorage(2).copy_(st.storage.UntypedStorage([5, 6])).tolist()
        [5, 6]
        """
        if len(source) != len(self):
            raise RuntimeError(f"copy_: sizes differ: {len(source)} and {len(self)} elements")
        self[:] = source.moved_to(self.device).bytes
        return self

    def resize_(self, size: int) -> None:
        """Does nothing for the size that it has.

        Parameters
        ----------
        size : int
            The size.

        Raises
        ------
        RuntimeError
            It is another size: a storage cannot move its tensors.

        Examples
        --------
        >>> st.storage.UntypedStorage(2).resize_(2)
        """
        if size != len(self):
            raise RuntimeError(
                f"resize_: {self!r} cannot have {size} elements: it cannot move its tensors, "
                "hint: resize_ of the tensor"
            )

    def new(self) -> Self:
        """A storage without elements."""
        return type(self)(self.bytes[:0].copy())

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """The name of its class; in a dtype, a storage of these numbers. Copies: none or one."""
        if dtype is not None:
            return self.to_dtype(dtype)
        return f"{self.__module__}.{self.__class__.__name__}"

    def to_dtype(self, dtype: Any) -> TypedStorage:
        """A storage of the same numbers in another dtype.

        Parameters
        ----------
        dtype : dtype
            The dtype.

        Returns
        -------
        TypedStorage
            New memory.

        Notes
        -----
        Copies: one.

        Examples
        --------
        >>> st.storage.UntypedStorage([1, 2]).to_dtype(st.float32)[1]
        2.0
        """
        with device_context(self.bytes):
            return TypedStorage(native.call(self.bytes.astype, as_dtype(dtype)))

    @property
    def is_cuda(self) -> bool:
        """Whether the memory is on a GPU."""
        return not isinstance(self.bytes, np.ndarray)

    def cpu(self) -> Self:
        """The same content on the CPU; itself if it is there. Copies: none or one."""
        return self.moved_to(CPU)

    def cuda(self, device: Any = None) -> Self:
        """The same content on a GPU, by default the current one; itself if it is there. Copies:
        none or one.
        """
        return self.moved_to(as_device("cuda" if device is None else device))

    def moved_to(self, device: Any) -> Self:
        """The same content on a device; itself if it is there. Copies: none or one."""
        if device_of(self.bytes) == device:
            return self
        return type(self)(native.call(move_array, self.bytes, device))

    def __getitem__(self, index: Any) -> Any:
        with device_context(self.bytes):
            item = self.bytes[index]
            return item if item.ndim else int(item)

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(self.bytes, np.ndarray) and not self.bytes.flags.writeable:
            raise RuntimeError(f"storage: the memory cannot be written: {self!r}")
        with device_context(self.bytes):
            self.bytes[index] = value

    def __iter__(self) -> Iterator[int]:
        return iter(self.bytes.tolist())

    def tolist(self) -> list[int]:
        """The elements as Python numbers.

        Returns
        -------
        list
            One number for each.

        Notes
        -----
        Copies: one.

        Examples
        --------
        >>> st.storage.UntypedStorage([1, 2]).tolist()
        [1, 2]
        """
        result: list[int] = self.bytes.tolist()
        return result

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and (
            self.data_ptr() == other.data_ptr() and len(self) == len(other)
        )

    def __hash__(self) -> int:
        return hash((self.data_ptr(), len(self)))

    def __repr__(self) -> str:
        return f"{type(self).__name__} of {len(self)} at {self.data_ptr():#x}"


class TypedStorage(UntypedStorage):
    """The numbers of a tensor's memory, seen by all its views.

    Parameters
    ----------
    array : ndarray, int or sequence, optional
        An array: the memory that it is a view of. A number of elements, or the elements themselves:
        new memory.
    dtype : dtype, optional
        Of new memory, or to see `wrap_storage` in; by default the default dtype.
    device : Device or str, optional
        Of new memory.
    wrap_storage : UntypedStorage, optional
        The memory that this one is.

    See Also
    --------
    storage.UntypedStorage

    Notes
    -----
    Copies: none of an array or a storage.

    Examples
    --------
    >>> storage = st.storage.TypedStorage([1., 2.])
    >>> len(storage), storage.nbytes(), storage[1]
    (2, 8, 2.0)
    """

    bytes: Any

    def __init__(
        self, array: Any = 0, *, dtype: Any = None, device: Any = None, wrap_storage: Any = None
    ) -> None:
        target = None if dtype is None else as_dtype(dtype)
        if wrap_storage is not None:
            array = wrap_storage.bytes
            target = get_default_dtype() if target is None else target
        elif not native.is_array(array):
            target = get_default_dtype() if target is None else target
            array = new_memory(array, target, device)
        super().__init__(array)
        self.bytes = self.bytes.view(array.dtype if target is None else target)

    @classmethod
    def from_file(
        cls, filename: Any, shared: bool = False, size: int = 0, dtype: Any = None
    ) -> Self:
        """The numbers of a mapped file.

        Parameters
        ----------
        filename : str or path
            The file.
        shared : bool, optional
            True: writes go to the file, which is created if it does not exist; False: writes stay
            in this process.
        size : int, optional
            How many elements.
        dtype : dtype, optional
            By default the default dtype.

        Returns
        -------
        TypedStorage
            Over the file's content.

        Raises
        ------
        OSError, ValueError
            The file does not exist or is too short.

        Notes
        -----
        Copies: none.

        Examples
        --------
        >>> storage = st.storage.TypedStorage.from_file("numbers.bin", shared=True, size=2)
        >>> storage.fill_(7).tolist()
        [7.0, 7.0]
        """
        target = get_default_dtype() if dtype is None else as_dtype(dtype)
        memory = UntypedStorage.from_file(filename, shared, size * target.itemsize)
        return cls(dtype=target, wrap_storage=memory)

    def pickle_storage_type(self) -> str:
        """The old name of its type, as "FloatStorage"."""
        return f"{OLD_NAMES[str(self.bytes.dtype)]}Storage"

    def nbytes(self) -> int:
        return int(self.bytes.nbytes)

    def size(self) -> int:
        """The number of elements."""
        return len(self)

    def element_size(self) -> int:
        """Bytes of one element."""
        return int(self.bytes.itemsize)

    @property
    def dtype(self) -> Any:
        """The dtype of the elements."""
        return native.dtype(self.bytes.dtype)

    def untyped(self) -> UntypedStorage:
        """The same memory as bytes.

        Returns
        -------
        UntypedStorage
            Over the same memory.

        Notes
        -----
        Copies: none.

        Examples
        --------
        >>> st.storage.TypedStorage([1., 2.]).untyped().nbytes()
        8
        """
        return UntypedStorage(self.bytes)

    def __getitem__(self, index: Any) -> Any:
        with device_context(self.bytes):
            item = self.bytes[index]
            return item if item.ndim else item.item()


# Old names of types, by dtype; the methods that convert, by dtype.
OLD_NAMES = {
    "float64": "Double", "float32": "Float", "float16": "Half", "bfloat16": "BFloat16",
    "complex128": "ComplexDouble", "complex64": "ComplexFloat", "int64": "Long", "int32": "Int",
    "int16": "Short", "int8": "Char", "uint8": "Byte", "bool": "Bool",
}  # fmt: skip


def _conversion(dtype: str) -> Any:
    def convert(self: UntypedStorage) -> TypedStorage:
        return self.to_dtype(dtype)

    convert.__doc__ = f"The same numbers in {dtype}. Copies: one."
    return convert


for _dtype, _name in OLD_NAMES.items():
    _method = {"ComplexDouble": "complex_double", "ComplexFloat": "complex_float"}.get(_name)
    setattr(UntypedStorage, _method or _name.lower(), _conversion(_dtype))
