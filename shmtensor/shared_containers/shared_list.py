"""SharedList: a list in shared memory, built once and read by many processes."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from .. import native
from .packing import LIST, Packed, brief, pack


class SharedList(Packed, native.PackedList):
    """A read-only list packed into shared memory.

    An element is decoded on access: str, bytes, int (of any size), float, complex, bool, None,
    tuples, lists and dicts of these are returned as new objects; NumPy arrays and tensors as views
    of the shared memory; all other objects are pickled. An element always has its original type.
    Changing a returned object does not change the list.

    Parameters
    ----------
    iterable : iterable, optional
        The elements. Building needs the result, 64 MB and the largest element.
    readonly : bool, optional
        Whether arrays and tensors are returned read-only. With False, every process sees a write to
        one.

    Raises
    ------
    OutOfSharedMemory
        No room for it.
    pickle.PicklingError, TypeError, ...
        An element cannot be pickled.
    RuntimeError
        A non-leaf tensor requires grad, and its graph stays here.

    See Also
    --------
    SharedDict

    Notes
    -----
    Copies: one (building). Indexing copies the bytes of a string or number, slicing nothing.

    Examples
    --------
    >>> names = st.SharedList(f"image-{i}.png" for i in range(1000))
    >>> names[-1], len(names[::2])
    ('image-999.png', 500)
    """

    __slots__ = ("__weakref__",)

    def __new__(cls, iterable: Iterable[Any] = (), *, readonly: bool = True) -> SharedList:
        self: SharedList = pack(cls, LIST, iterable, readonly)
        return self

    def index(self, value: Any, start: int = 0, stop: int | None = None) -> int:
        """The first index of an element equal to `value`, from `start` and before `stop`.

        Raises:
            ValueError: no element is equal to `value`.
        """
        rest = iter(self[start:stop])
        if value in rest:  # read as far as the first that is equal
            return range(len(self))[start:stop][-1 - operator.length_hint(rest)]
        raise ValueError(f"SharedList.index: not in the list: {brief.repr(value)}")

    def count(self, value: Any) -> int:
        """How many elements are equal to `value`."""
        return operator.countOf(self, value)

    def __reversed__(self) -> Iterator[Any]:
        return iter(self[::-1])

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, (SharedList, list)):
            return NotImplemented
        if len(self) != len(other):
            return False
        return all(x is y or x == y for x, y in zip(self, other, strict=True))

    def __repr__(self) -> str:
        return self._format(map(brief.repr, self), "[]", "elements")


Sequence.register(SharedList)
