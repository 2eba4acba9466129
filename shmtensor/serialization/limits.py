"""What one pickle may cost: how deep its objects nest, how much they copy, how much they hash."""

from __future__ import annotations

import pickle
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from typing import Any

import numpy as np

from .. import native

MAX_DEPTH = 1000  # of tuples in tuples; Python's own pickler stops at about 500
COPIES = 64  # bytes for each byte of the pickle that its constructors may copy; and 32 MiB
HASHES = 64  # elements for each byte that they may hash; and 4 Mi
STORAGE_COPIES = 4  # bytes for each byte of a storage that checks of its tensors may read
HASHES_ALLOWANCE = 1 << 22
COPIES_ALLOWANCE = 1 << 25
RECURSIVE = (defaultdict, deque)
TEXT = {str, bytes}  # Python hashes them with a secret, once, and compares them by memcmp
TEXT_SHIFT = 6  # 64 bytes of a text count as one element
INT_SHIFT = 6  # and so do 64 bits of an int
SMALL_INT = 1 << 64
FEW = 1000  # keys of which each may visit the slots of all others
FEWEST = 4  # keys of which each may equal all others in its hash
STEP = 4  # elements that one counts as which Python's own code visits
ATTRIBUTE = 16  # elements that an attribute counts as
LEAF = 0, 1  # depth and weight
FREE = np.int64(-1)  # of a slot: no hash
# What NumPy and `tensor` look up on an object: an address, or a function that gives one.
PROTOCOLS = frozenset(
    ("__array__", "__array_interface__", "__array_struct__", "__cuda_array_interface__",
     "__dlpack__", "__dlpack_device__", "__buffer__")
)  # fmt: skip


class Limits:
    """Counts what a pickle has built so far, and refuses what would be too much.

    Note [Depth]. Python hashes tuples, and frees some objects, by recursion in C that no limit
    stops: 2,000,000 tuples in one another end the process. A tuple that holds the last one twice
    doubles the work of a hash at each level. So each immutable object has a depth and a weight: the
    number of elements that its hash visits. Lists and dicts need neither, they have no hash and
    Python frees them in steps. A defaultdict or deque has no hash, too, but is freed by recursion,
    and may be filled after others refer to it: one that is in another one takes no third.

    Note [Equal hashes]. Python's hashes of numbers and tuples are no secret: a file can choose keys
    that all begin at one slot of a dict or set, or visit the same slots later, so that each key is
    compared with all others. So the slots are counted that Python visits and finds full: `Slots`
    does what its dicts and sets do, with the hashes alone. Texts, and 0, 1, 2, ... in order, need
    no count; of up to FEW keys only those of equal hash, which Python compares.
    """

    def __init__(self, nbytes: int, has_classes: bool = False) -> None:
        self.has_classes = has_classes  # of the user: their `__getattr__` may look into a dict
        self.copies = COPIES * nbytes + COPIES_ALLOWANCE
        self.hashes = HASHES * nbytes + HASHES_ALLOWANCE
        # id -> (object, depth, weight). The reference keeps the id from being used again.
        self.sizes: dict[int, tuple[Any, int, int]] = {}
        self.inner: dict[int, Any] = {}  # each RECURSIVE object that is in another one
        self.slots: dict[int, tuple[Any, Slots]] = {}  # of the dicts and sets that need a count

    def copy(self, nbytes: int) -> None:
        """Counts `nbytes` that a constructor copies, or reads to check them."""
        self.copies -= nbytes
        if self.copies < 0:
            raise pickle.UnpicklingError(
                "load: the pickle copies its objects too often: "
                f"more than {COPIES} bytes for each byte of it"
            )

    def nest(self, outer: Any, items: Collection[Any], work: int = 0) -> None:
        """Records the depth and weight of an immutable object that holds `items`.

        Args:
            work: what its own hash table costs, which a comparison visits again.
        """
        depth, weight = 0, 1 + work
        sizes = self.sizes
        for item in items:
            if type(item) is int and -SMALL_INT < item < SMALL_INT:
                weight += 1
                continue
            known = sizes.get(id(item))
            item_depth, item_weight = size_of(item) if known is None else known[1:]
            depth = item_depth if item_depth > depth else depth
            weight += item_weight
        check_depth(depth)
        # `size_of` computes that of a flat tuple of small elements
        if depth or weight != 1 + len(items) or type(outer) is not tuple:
            self.sizes[id(outer)] = outer, depth + 1, weight

    def size(self, item: Any) -> tuple[int, int]:
        """Depth and weight of an object."""
        known = self.sizes.get(id(item))
        return size_of(item) if known is None else known[1:]

    def hash(self, keys: list[Any], outer: Any, is_new: bool = False) -> int:
        """Counts the work of putting `keys` into the dict or set `outer`, before it is done.

        Args:
            is_new: `outer` is an empty one in place of what holds the keys later.

        Returns:
            What visits of slots count. See Note [Equal hashes].
        """
        if self.has_classes:
            for key in keys:
                if type(key) is str and key in PROTOCOLS:
                    raise pickle.UnpicklingError(
                        "load: a key is an attribute that NumPy looks up, and a trusted class may "
                        f"give it out: {key!r}"
                    )
        known = self.slots.get(id(outer))
        contents = contents_of(outer) if known is None else ()
        n = len(contents)
        if known is None and n + len(keys) <= FEWEST and not is_new:
            self.visited(FEWEST * sum([self.size(key)[1] for key in keys]))
            return 0
        if known is None:
            kinds = set(map(type, keys))
            if kinds <= TEXT:
                self.visited(len(keys) + (sum(map(len, keys)) >> TEXT_SHIFT))
                return 0
            if kinds == {int} and keys == list(range(n, n + len(keys))):
                self.visited(len(keys))
                return 0
        if known is None and n + len(keys) > FEW:
            known = outer, Slots(isinstance(outer, (set, frozenset)))
            keys = [*contents, *keys]
            if not is_new:
                self.slots[id(outer)] = known
        weights = self.weights(keys)
        total = sum(weights)
        self.visited(total)
        if known is None:
            work = total * (n or len(keys) - len(set(map(hash, keys))))
            self.visited(work)
            return work
        work = known[1].place(list(map(hash, keys)), weights, self.hashes)
        self.visited(work)
        return work

    def weights(self, keys: list[Any]) -> list[int]:
        if set(map(type, keys)) == {int} and max(keys) < SMALL_INT and min(keys) > -SMALL_INT:
            return [1] * len(keys)
        return [self.size(key)[1] for key in keys]

    def visited(self, count: int) -> None:
        """Counts elements that a hash or comparison visits."""
        self.hashes -= count
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
                self.hashes -= STEP
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
        check_depth(depth)
        if inner:
            self.sizes[id(outer)] = outer, max(depth, self.size(outer)[0]), 1
            self.inner.update((id(value), value) for value in inner)


def check_depth(depth: int) -> None:
    if depth >= MAX_DEPTH:
        raise pickle.UnpicklingError(
            f"load: objects are nested too deep: {depth + 1} of at most {MAX_DEPTH} levels"
        )


def contents_of(outer: Any) -> Collection[Any]:
    """The keys that a dict or set has; a class of the user may say something else."""
    if isinstance(outer, dict):
        return dict.keys(outer)
    return outer if type(outer) is set else ()


def size_of(item: Any) -> tuple[int, int]:
    """Depth and weight of an object that `Limits` has not recorded."""
    kind = type(item)
    if kind is int:
        is_small = -SMALL_INT < item < SMALL_INT
        return LEAF if is_small else (0, 1 + (item.bit_length() >> INT_SHIFT))
    if kind in TEXT:
        return 0, 1 + (len(item) >> TEXT_SHIFT)
    return (1, 1 + len(item)) if isinstance(item, tuple) else LEAF


class Slots:
    """The hash table of a dict or set, with hashes in place of keys. See Note [Equal hashes]."""

    def __init__(self, is_set: bool) -> None:
        self.is_set = is_set
        self.hashes: list[int] = []
        self.table = np.full(8, FREE)
        self.capacity = 5

    def place(self, hashes: list[int], weights: list[int], limit: int) -> int:
        """Puts in the hashes of keys.

        Returns:
            What the full slots count that Python visits, and the keys of equal hash, by their
            weights; beyond the limit the work is not completed.
        """
        work = start = 0
        while start < len(hashes) and work <= limit:
            if len(self.hashes) >= self.capacity:
                work += self.grow(limit)
            end = start + self.capacity - len(self.hashes)
            work += self.fill(hashes[start:end], weights[start:end], limit - work)
            self.hashes += hashes[start:end]
            start = end
        return work

    def grow(self, limit: int) -> int:
        """The table that CPython's `insertdict` and `set_add_entry` make when theirs is full."""
        n = len(self.hashes)
        if self.is_set:
            size = 1 << ((2 if n > 50000 else 4) * n).bit_length()
            self.capacity = (3 * (size - 1) + 4) // 5
        else:
            size = 1 << (3 * n).bit_length()
            self.capacity = 2 * size // 3
        # A set puts its keys in again in the order of the old table.
        hashes = self.table[self.table != FREE].tolist() if self.is_set else self.hashes
        self.table = np.full(size, FREE)
        return self.fill(hashes, [0] * n, limit)

    def fill(self, hashes: list[int], weights: list[int], limit: int) -> int:
        n = len(hashes)
        keys, costs = (np.fromiter(values, np.int64, n) for values in (hashes, weights))
        return native.hash_slots(self.table, keys, costs, self.is_set, max(limit, 0))


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
