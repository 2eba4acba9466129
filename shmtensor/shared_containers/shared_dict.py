"""SharedDict: a dictionary in shared memory, built once and read by many processes."""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from itertools import islice
from typing import Any

from .. import native
from .packing import DICT, MAX_REPR_ELEMENTS, brief, format_elements, pack, reduce

__all__ = ["SharedDict"]

KEYS, VALUES, PAIRS = 1, 2, 3


class Keys(KeysView[Any]):
    """The keys, in the order of their insertion."""

    _mapping: SharedDict

    def __reversed__(self) -> Iterator[Any]:
        return reversed(self._mapping)


class Values(ValuesView[Any]):
    """The values, in the order of the keys."""

    _mapping: SharedDict

    def __iter__(self) -> Iterator[Any]:
        return self._mapping._iterate(VALUES, False)

    def __reversed__(self) -> Iterator[Any]:
        return self._mapping._iterate(VALUES, True)


class Items(ItemsView[Any, Any]):
    """Pairs of key and value, in order."""

    _mapping: SharedDict

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return self._mapping._iterate(PAIRS, False)

    def __reversed__(self) -> Iterator[tuple[Any, Any]]:
        return self._mapping._iterate(PAIRS, True)


class SharedDict(native.PackedDict):
    """A read-only dictionary packed into shared memory, with a hash table beside it.

    Keys are str, bytes, numbers, None, and tuples of these; equal numbers are one key (1, 1.0,
    True); a NaN equals no key. Values are those of SharedList. The order is that of insertion; a
    repeated key has its first position and its last value.

    Args:
        items: a mapping, or an iterable of pairs.
        readonly: arrays and tensors come back read-only.

    Raises:
        OutOfSharedMemory: no room for it.
        TypeError, ValueError: an element is not a pair, or a key has another type.

    Copies: one (building). A look-up copies the bytes of a string or number.

    Example:
        >>> import shmtensor as st
        >>> sizes = st.SharedDict({"train": 50_000, ("test", 1): [1, 2]})
        >>> sizes["train"], sizes.get("nothing"), list(sizes)
        (50000, None, ['train', ('test', 1)])
    """

    __slots__ = ("__weakref__",)

    def __new__(
        cls, items: Mapping[Any, Any] | Iterable[Any] = (), /, *, readonly: bool = True
    ) -> SharedDict:
        pairs = items.items() if isinstance(items, Mapping) else items
        return super().__new__(cls, pack("SharedDict", DICT, pairs, readonly))

    @classmethod
    def _over(cls, blocks: Iterable[Any], *view: int) -> SharedDict:
        return native.PackedDict.__new__(cls, blocks, *view)

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
        return self._iterate(KEYS, True)

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, Mapping):
            return NotImplemented
        if len(self) != len(other):
            return False
        return all(
            key in other and (value is (match := other[key]) or value == match)
            for key, value in self.items()
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        parts = [
            f"{brief.repr(k)}: {brief.repr(v)}" for k, v in islice(self.items(), MAX_REPR_ELEMENTS)
        ]
        return f"SharedDict({format_elements(parts, len(self), '{}', 'pairs')})"

    def __reduce__(self) -> tuple[Any, ...]:
        return reduce(self)

    def __copy__(self) -> SharedDict:
        return self

    def __deepcopy__(self, memo: Any) -> SharedDict:
        return self


Mapping.register(SharedDict)
