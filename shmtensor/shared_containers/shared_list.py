"""SharedList: a list in shared memory, built once and read by many processes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from .. import native
from .packing import LIST, MAX_REPR_ELEMENTS, brief, format_elements, pack, reduce

__all__ = ["SharedList"]


class SharedList(native.PackedList):
    """A read-only list packed into shared memory.

    An element is decoded on access: str, bytes, int (of any size), float, complex, bool, None,
    tuples, lists and dicts of these are returned as new objects; NumPy arrays and tensors as views
    of the shared memory; all other objects are pickled. An element always has its original type.
    Changing a returned object does not change the list.

    Args:
        iterable: the elements. Building needs the result, 64 MB and the largest element.
        readonly: arrays and tensors are returned read-only. With False, every process sees a write
            to one.

    Raises:
        OutOfSharedMemory: no room for it.
        pickle.PicklingError, TypeError, ...: an element cannot be pickled.
        RuntimeError: a non-leaf tensor requires grad, and its graph stays here.

    Copies: one (building). Indexing copies the bytes of a string or number, slicing nothing.

    Example:
        >>> import shmtensor as st
        >>> names = st.SharedList(f"image-{i}.png" for i in range(1000))
        >>> names[-1], len(names[::2])
        ('image-999.png', 500)
    """

    __slots__ = ("__weakref__",)

    def __new__(cls, iterable: Iterable[Any] = (), *, readonly: bool = True) -> SharedList:
        return super().__new__(cls, pack("SharedList", LIST, iterable, readonly))

    @classmethod
    def _over(cls, blocks: Iterable[Any], *view: int) -> SharedList:
        return native.PackedList.__new__(cls, blocks, *view)

    def index(self, value: Any, start: int = 0, stop: int | None = None) -> int:
        """The first index of an element equal to `value`, from `start` and before `stop`.

        Raises:
            ValueError: no element is equal to `value`.
        """
        start, stop, _ = slice(start, stop).indices(len(self))
        index = self._seek(value, start)
        if index >= stop:
            raise ValueError(f"SharedList.index: not in the list: {brief.repr(value)}")
        return index

    def count(self, value: Any) -> int:
        """How many elements are equal to `value`."""
        count, index = 0, self._seek(value)
        while index < len(self):
            count += 1
            index = self._seek(value, index + 1)
        return count

    def __reversed__(self) -> Iterator[Any]:
        return iter(self[::-1])

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, (SharedList, list)):
            return NotImplemented
        if len(self) != len(other):
            return False
        return all(x is y or x == y for x, y in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        parts = [brief.repr(x) for x in islice(self, MAX_REPR_ELEMENTS)]
        return f"SharedList({format_elements(parts, len(self), '[]', 'elements')})"

    def __reduce__(self) -> tuple[Any, ...]:
        return reduce(self, *self._view)

    def __copy__(self) -> SharedList:
        return self

    def __deepcopy__(self, memo: Any) -> SharedList:
        return self


Sequence.register(SharedList)
