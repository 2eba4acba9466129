"""SharedList: a list in shared memory that is built once and read by many processes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from .. import native
from .packing import LIST, SHOWN, brief, pack, reduce, shown

__all__ = ["SharedList"]


class SharedList(native.PackedList):
    """A read-only list packed into shared memory.

    An element is decoded when it is asked for: str, bytes, int (of any size), float, complex, bool,
    None, tuples, lists and dicts of these come back as new objects; NumPy arrays and tensors as
    views of the shared memory; anything else is pickled. What comes back is always of the same
    type. Changing it does not change the list.

    Args:
        iterable: the elements. Beyond the result it needs 64 MB and the largest element.
        readonly: arrays and tensors come back read-only. With False a write to one is seen by
            every process.

    Raises:
        OutOfSharedMemory: no room for it.
        pickle.PicklingError, TypeError, ...: what pickling an element raises.
        RuntimeError: a non-leaf tensor that requires grad, for the graph stays here.

    Copies: one (building). Indexing copies the bytes of a string or number, slices nothing.

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
        """The first place of an element equal to `value`, from `start` and before `stop`.

        Raises:
            ValueError: there is none.
        """
        start, stop, _ = slice(start, stop).indices(len(self))
        at = self._seek(value, start)
        if at >= stop:
            raise ValueError(f"SharedList.index: not in the list: {brief.repr(value)}")
        return at

    def count(self, value: Any) -> int:
        """How many elements are equal to `value`."""
        found, at = 0, self._seek(value)
        while at < len(self):
            found += 1
            at = self._seek(value, at + 1)
        return found

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
        parts = [brief.repr(x) for x in islice(self, SHOWN)]
        return f"SharedList({shown(parts, len(self), '[]', 'elements')})"

    def __reduce__(self) -> tuple[Any, ...]:
        return reduce(self, *self._view)

    def __copy__(self) -> SharedList:
        return self

    def __deepcopy__(self, memo: Any) -> SharedList:
        return self


Sequence.register(SharedList)
