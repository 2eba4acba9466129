"""Storages: the memory that several tensors may be views of, `torch.UntypedStorage` by name.

A tensor's memory has no object of its own but NumPy's array; a storage here is a name for it, made
when it is asked for.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from . import native

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["TypedStorage", "UntypedStorage"]


def as_it_lies(array: Any) -> Any:
    """The array with its dimensions in the order in which they lie in memory. Copies: none."""
    steps = array.strides
    if array.flags.c_contiguous or 0 in steps:
        return array
    return array.transpose(sorted(range(array.ndim), key=lambda d: -abs(steps[d])))


def owner_of(array: Any) -> Any:
    """The array that all others over the same memory are views of."""
    while array.base.__class__ is np.ndarray:
        array = array.base
    while isinstance(array.base, np.ndarray):  # of a subclass: a mapped file
        array = array.base
    return array


def memory_of(array: Any) -> Any:
    """The whole memory that an array is a view of, as bytes, which can be written if the array can.
    Copies: none.
    """
    owner = owner_of(array)
    low, high = np.lib.array_utils.byte_bounds(owner)
    whole = as_it_lies(owner)
    if not whole.flags.c_contiguous:
        raise RuntimeError(
            f"storage: the memory is not one piece: shape {owner.shape}, strides {owner.strides}"
        )
    flat = whole.reshape(-1).view(np.uint8)
    assert flat.nbytes == high - low
    if not array.flags.writeable:
        flat.flags.writeable = False
    return flat


def resized(array: Any, shape: tuple[int, ...], order: tuple[int, ...] | None = None) -> Any:
    """An array of a shape over the memory that this one is a view of, from its first element on.
    Where the memory ends before, over new memory that begins with what the old one holds. Copies:
    none, or one of the whole memory.

    Args:
        order: the dimensions from the outermost to the innermost in memory; None: as they are.
    """
    try:
        memory = memory_of(array)
        start = array.ctypes.data - memory.ctypes.data
    except RuntimeError:  # the memory is not one piece
        memory, start = native.call(np.ravel, array).view(np.uint8), 0
    if not 0 <= start <= memory.nbytes:  # of no elements: it may be anywhere
        start = 0
    end = start + math.prod(shape) * array.itemsize
    if end > memory.nbytes:
        fresh = native.call(np.empty, end, np.uint8)
        fresh[: memory.nbytes] = memory
        memory = fresh
    if order is None:
        return np.ndarray(shape, array.dtype, memory, start)
    laid = np.ndarray([shape[d] for d in order], array.dtype, memory, start)
    return laid.transpose(np.argsort(order))


def _of_tensor(cls: Any, tensor: Any) -> Any:
    """The storage of a tensor that arrived."""
    return cls(tensor.array)


class UntypedStorage:
    """The bytes of a tensor's memory, seen by all its views.

    Example:
        >>> import shmtensor as st
        >>> x = st.zeros(4)
        >>> x[1:].untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
        True
    """

    def __init__(self, array: Any) -> None:
        self.bytes = memory_of(array)

    def __len__(self) -> int:
        return int(self.bytes.size)

    def nbytes(self) -> int:
        """The number of bytes."""
        return len(self)

    size = nbytes

    def data_ptr(self) -> int:
        """The address of the first byte."""
        return int(self.bytes.ctypes.data)

    def is_shared(self) -> bool:
        """Whether the memory lies in the domain."""
        return bool(native.is_shared(self.bytes))

    def share_memory_(self) -> Self:
        """Itself, if the memory lies in the domain, as that of every tensor made here does.

        Raises: RuntimeError, the memory is from outside: its tensors cannot all be moved from here.
        """
        if not self.is_shared():
            raise RuntimeError(
                f"share_memory_: {self!r} lies in memory from outside: "
                "a tensor is moved by its own share_memory_()"
            )
        return self

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, nbytes: int = 0) -> Self:
        """The memory of a mapped file. Copies: none.

        Args:
            shared: writes go to the file, which is made if it is not there; else they stay here.
            nbytes: how many bytes of it.

        Raises: OSError or ValueError, the file is not there or too short.
        """
        mode: Any = "c" if not shared else "r+" if os.path.exists(filename) else "w+"
        return cls(np.memmap(filename, np.uint8, mode, 0, (nbytes,)))

    def __reduce__(self) -> Any:
        # As a tensor, which every road to another process knows how to carry.
        return _of_tensor, (type(self), native.wrap(np.asarray(self.bytes)))

    def element_size(self) -> int:
        return 1

    @property
    def device(self) -> Any:
        from .device import CPU

        return CPU

    def __getitem__(self, index: Any) -> Any:
        found = self.bytes[index]
        return int(found) if isinstance(found, np.integer) else found

    def __setitem__(self, index: Any, value: Any) -> None:
        if not self.bytes.flags.writeable:
            raise RuntimeError(f"storage: the memory cannot be written: {self!r}")
        self.bytes[index] = value

    def __iter__(self) -> Iterator[int]:
        return iter(self.bytes.tolist())

    def tolist(self) -> list[int]:
        """The bytes as numbers."""
        found: list[int] = self.bytes.tolist()
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and (
            self.data_ptr() == other.data_ptr() and len(self) == len(other)
        )

    def __hash__(self) -> int:
        return hash((self.data_ptr(), len(self)))

    def __repr__(self) -> str:
        return f"{type(self).__name__} of {len(self)} at {self.data_ptr():#x}"


class TypedStorage(UntypedStorage):
    """The numbers of a tensor's memory, seen by all its views."""

    def __init__(self, array: Any) -> None:
        super().__init__(array)
        self.bytes = self.bytes.view(array.dtype)

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
        return self.bytes.dtype

    def untyped(self) -> UntypedStorage:
        """The same memory as bytes."""
        return UntypedStorage(self.bytes)

    def __getitem__(self, index: Any) -> Any:
        found = self.bytes[index]
        return found.item() if isinstance(found, np.generic) else found
