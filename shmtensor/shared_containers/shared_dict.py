"""SharedDict: a dictionary in shared memory, built once and read by many processes."""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any

from .. import native
from .packing import DICT, Packed, brief, pack


class InOrder:
    """The iterators of a dictionary's views, in the order of insertion."""

    _mapping: SharedDict
    _mode: int

    def __iter__(self) -> Iterator[Any]:
        return self._mapping._iterate(self._mode, False)

    def __reversed__(self) -> Iterator[Any]:
        return self._mapping._iterate(self._mode, True)


class Keys(InOrder, KeysView[Any]):
    """The keys."""

    _mode = 0


class Values(InOrder, ValuesView[Any]):
    """The values, in the order of the keys."""

    _mode = 1


class Items(InOrder, ItemsView[Any, Any]):
    """Pairs of key and value."""

    _mode = 2


class SharedDict(Packed, native.PackedDict):
    """A read-only dictionary packed into shared memory, with a hash table beside it.

    Keys are str, bytes, numbers, None, and tuples of these; equal numbers are one key (1, 1.0,
    True); a NaN equals no key. Values are those of SharedList. The order is that of insertion; a
    repeated key has its first position and its last value.

    Parameters
    ----------
    items : mapping or iterable, optional
        A mapping, or pairs.
    readonly : bool, optional
        Whether arrays and tensors come back read-only.

    Raises
    ------
    OutOfSharedMemory
        No room for it.
    TypeError, ValueError
        An element is not a pair, or a key has another type.

    See Also
    --------
    SharedList

    Notes
    -----
    Copies: one (building). A look-up copies the bytes of a string or number.

    Examples
    --------
    >>> sizes = st.SharedDict({"train": 50_000, ("test", 1): [1, 2]})
    >>> sizes["train"], sizes.get("nothing"), list(sizes)
    (50000, None, ['train', ('test', 1)])
    """

    __slots__ = ("__weakref__",)

    def __new__(
        cls, items: Mapping[Any, Any] | Iterable[Any] = (), /, *, readonly: bool = True
    ) -> SharedDict:
        pairs = items.items() if isinstance(items, Mapping) else items
        self: SharedDict = pack(cls, DICT, pairs, readonly)
        return self

    def keys(self) -> KeysView[Any]:
        """A view of the keys. Copies: none."""
        return Keys(self)

    def values(self) -> ValuesView[Any]:
        """A view of the values. Copies: none."""
        return Values(self)

    def items(self) -> ItemsView[Any, Any]:
        """A view of the pairs. Copies: none."""
        return Items(self)

    def __reversed__(self) -> Iterator[Any]:
        return self._iterate(Keys._mode, True)

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, Mapping):
            return NotImplemented
        if len(self) != len(other):
            return False
        return all(
            key in other and (value is (match := other[key]) or value == match)
            for key, value in self.items()
        )

    def __repr__(self) -> str:
        pairs = (f"{brief.repr(key)}: {brief.repr(value)}" for key, value in self.items())
        return self._format(pairs, "{}", "pairs")


Mapping.register(SharedDict)
