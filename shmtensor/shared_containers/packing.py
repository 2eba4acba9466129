"""What lists and dictionaries have in common: packing, and the way to another process.

pack(...)              -> blocks, for PackedList or PackedDict
reduce(x)              how x is pickled: arrays over its blocks; our pickler sends handles of them,
                       plain pickle their bytes
reduce_for_stdlib(x)   the same with handles of its own, for the standard library's queues
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from reprlib import Repr
from typing import Any, Protocol

import numpy as np

from .. import native

__all__ = ["DICT", "LIST", "Container", "pack", "reduce", "reduce_for_stdlib", "shown"]

LIST, DICT = 1, 2
SHOWN = 5  # elements in a repr


class Container(Protocol):
    """A list or dictionary over blocks."""

    @property
    def _blocks(self) -> tuple[Any, ...]: ...

    @classmethod
    def _over(cls, blocks: Iterable[Any], *view: int) -> Any:
        """The object over blocks that are there already."""


def pack(where: str, kind: int, iterable: Iterable[Any], readonly: bool) -> tuple[Any, ...]:
    """Packs elements, or pairs of a dictionary, into blocks. Copies: one.

    Raises:
        OutOfSharedMemory: no room; nothing is left behind.
    """
    seed = int.from_bytes(os.urandom(8), "little")
    return native.pack(where, kind, iterable, readonly, seed, native.allocate)


def as_array(block: Any) -> np.ndarray[Any, Any]:
    """The bytes of a block, not to be written. Copies: none."""
    array = np.frombuffer(block, np.uint8)
    array.flags.writeable = False
    return array


def as_shared(array: np.ndarray[Any, Any]) -> Any:
    """An array in shared memory with these bytes: itself if it lies there. Copies: none or one."""
    if native.is_shared(array):
        return array
    block = native.allocate(array.nbytes, False)
    np.frombuffer(block, np.uint8)[:] = array
    return block


def reduce(packed: Container, *view: int) -> tuple[Any, ...]:
    """The reduction of an object for any pickler."""
    return restore, (type(packed), [as_array(block) for block in packed._blocks], *view)


def restore(cls: type[Container], arrays: list[np.ndarray[Any, Any]], *view: int) -> Any:
    """The object of a pickle."""
    return cls._over([as_shared(array) for array in arrays], *view)


def reduce_for_stdlib(packed: Any) -> tuple[Any, ...]:
    """The reduction for picklers that know nothing of blocks: a handle for each, pinned until it is
    received or expires. Copies: none."""
    _, (cls, arrays, *view) = packed.__reduce__()
    return receive, (cls, [native.export(array) for array in arrays], *view)


def receive(cls: type[Container], handles: list[bytes], *view: int) -> Any:
    """The object over blocks that these handles name. Copies: none."""
    return cls._over([native.receive(handle) for handle in handles], *view)


def shown(parts: list[str], length: int, brackets: str, noun: str) -> str:
    """The inside of a short repr: the first elements and how many there are."""
    if length <= len(parts):
        return brackets[0] + ", ".join(parts) + brackets[1]
    return f"{brackets[0]}{', '.join([*parts, '...'])}{brackets[1]}, {length} {noun}"


brief = Repr()
brief.maxstring = brief.maxother = 40
