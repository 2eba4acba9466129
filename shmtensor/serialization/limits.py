"""What one pickle may cost: how deep its objects nest, how much they copy, how much they hash."""

from __future__ import annotations

import pickle
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

__all__ = ["Limits", "brief"]

MAX_DEPTH = 1000  # of tuples in tuples; Python's own pickler stops at about 500
COPIES = 64  # bytes for each byte of the pickle that its constructors may copy ...
HASHES = 64  # ... and elements that they may hash; each has 4 Mi more
ALLOWANCE = 1 << 22
RECURSIVE = (defaultdict, deque)
LARGE_INT = 256  # bytes


class Limits:
    """Counts what a pickle has built so far, and refuses what would be too much.

    Note [Depth]. Python hashes tuples, and frees some objects, by recursion in C that no limit
    stops: 2,000,000 tuples in one another end the process. A tuple that holds the last one twice
    doubles the work of a hash at each level. So each immutable object has a depth and a weight: the
    number of elements that its hash visits. Lists and dicts need neither, they have no hash and
    Python frees them in steps. A defaultdict or deque has no hash, too, but is freed by recursion,
    and may be filled after others refer to it: one that is in another one takes no third.
    """

    def __init__(self, nbytes: int) -> None:
        self.copies = COPIES * nbytes + ALLOWANCE
        self.hashes = HASHES * nbytes + ALLOWANCE
        # id -> (object, depth, weight). The reference keeps the id from being used again.
        self.sizes: dict[int, tuple[Any, int, int]] = {}
        self.inner: dict[int, Any] = {}  # each RECURSIVE object that is in another one

    def copy(self, nbytes: int) -> None:
        """Counts `nbytes` that a constructor copies."""
        self.copies -= nbytes
        if self.copies < 0:
            raise pickle.UnpicklingError(
                "load: the pickle copies its objects too often: "
                f"more than {COPIES} bytes for each byte of it"
            )

    def nest(self, outer: Any, items: Iterable[Any]) -> None:
        """Records the depth and weight of an immutable object that holds `items`."""
        depth, weight = 0, 1
        for item in items:
            item_depth, item_weight = self.size(item)
            depth = item_depth if item_depth > depth else depth
            weight += item_weight
        if depth >= MAX_DEPTH:
            raise pickle.UnpicklingError(
                f"load: objects are nested too deep: {depth + 1} of at most {MAX_DEPTH} levels"
            )
        if depth or type(outer) is not tuple:  # `size` computes that of a flat tuple
            self.sizes[id(outer)] = outer, depth + 1, weight

    def size(self, item: Any) -> tuple[int, int]:
        """Depth and weight of an object."""
        known = self.sizes.get(id(item))
        if known is not None:
            return known[1:]
        return (1, 1 + len(item)) if isinstance(item, tuple) else (0, 1)

    def integer(self, value: int, nbytes: int) -> None:
        """Records the weight of a large int: its hash reads all of it."""
        if nbytes > LARGE_INT:
            self.sizes[id(value)] = value, 0, nbytes

    def hash(self, keys: Iterable[Any]) -> None:
        """Counts the elements that are visited when `keys` are hashed."""
        size = self.size
        self.hashes -= sum([size(key)[1] for key in keys])
        if self.hashes < 0:
            raise pickle.UnpicklingError(
                "load: the pickle hashes its objects too often: "
                f"more than {HASHES} elements for each byte of it"
            )

    def visit(self, argument: Any) -> None:
        """Counts the elements of what the user's function gets, as often as something refers to
        them. A function may visit them all, to compare them or for the text of an error: ten lists
        that each hold the one before ten times have 10,000,000,000 elements.
        """
        levels: list[Iterator[Any]] = [iter((argument,))]
        while levels:
            inner: Iterator[Any] | None = None
            for item in levels[-1]:
                self.hashes -= 1
                if self.hashes < 0 or len(levels) > MAX_DEPTH:
                    raise pickle.UnpicklingError(
                        "load: the arguments of a call have too many elements or levels: more than "
                        f"{HASHES} elements for each byte of the pickle, or {MAX_DEPTH} levels"
                    )
                if isinstance(item, dict):
                    inner = chain(dict.keys(item), dict.values(item))
                elif isinstance(item, (list, tuple, set, frozenset, deque)):
                    inner = iter(item)
                if inner is not None:
                    break
            if inner is None:
                levels.pop()
            else:
                levels.append(inner)

    def fill(self, outer: Any, values: Iterable[Any]) -> None:
        """Checks what a container is filled with. See Note [Depth]."""
        if type(outer) not in RECURSIVE:
            return
        inner = [value for value in values if type(value) in RECURSIVE]
        if inner and (id(outer) in self.inner or any(value is outer for value in inner)):
            raise pickle.UnpicklingError(
                f"load: {brief(outer)} that is in a defaultdict or deque, or in itself, is filled "
                "with another one"
            )
        depth = max([self.size(value)[0] for value in inner], default=-1) + 1
        if depth >= MAX_DEPTH:
            raise pickle.UnpicklingError(
                f"load: objects are nested too deep: {depth + 1} of at most {MAX_DEPTH} levels"
            )
        if inner:
            self.sizes[id(outer)] = outer, max(depth, self.size(outer)[0]), 1
            self.inner.update((id(value), value) for value in inner)


def brief(value: object) -> str:
    """A value of a pickle for an error's text: of containers, which may be huge, the type."""
    if type(value) in (str, bytes):
        return repr(value[:80])  # type: ignore[index]
    if (
        value is None
        or type(value) in (bool, float)
        or (type(value) is int and -(1 << 64) < value < 1 << 64)
    ):
        return repr(value)
    return f"a {type(value).__name__}"
