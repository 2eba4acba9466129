"""Common functions of shared lists and dictionaries: packing and pickling.

pack(...)              -> blocks, for PackedList or PackedDict
reduce(x)              the reduction of x for pickle: arrays over its blocks; our pickler sends
                       handles of them, plain pickle their bytes
reduce_for_stdlib(x)   the same with separate handles, for the standard library's queues
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from reprlib import Repr
from typing import Any, Protocol

import numpy as np

from .. import native

__all__ = ["DICT", "LIST", "Container", "format_elements", "pack", "reduce", "reduce_for_stdlib"]

LIST, DICT = 1, 2
MAX_REPR_ELEMENTS = 5  # elements in a repr


class Container(Protocol):
    """A list or dictionary over blocks."""

    @property
    def _blocks(self) -> tuple[Any, ...]: ...

    @classmethod
    def _over(cls, blocks: Iterable[Any], *view: int) -> Any:
        """The object over existing blocks."""


def pack(where: str, kind: int, iterable: Iterable[Any], readonly: bool) -> tuple[Any, ...]:
    """Packs elements, or pairs of a dictionary, into blocks. Copies: one.

    Raises:
        OutOfSharedMemory: no room; all blocks are freed.
    """
    seed = int.from_bytes(os.urandom(8), "little")
    return native.pack(where, kind, iterable, readonly, seed, native.allocate)


def as_array(block: Any) -> np.ndarray[Any, Any]:
    """The bytes of a block, read-only. Copies: none."""
    array = np.frombuffer(block, np.uint8)
    array.flags.writeable = False
    return array


def as_shared(array: np.ndarray[Any, Any]) -> Any:
    """The array itself if it is in shared memory, else a copy there. Copies: none or one."""
    if native.is_shared(array):
        return array
    block = native.allocate(array.nbytes, False)
    np.frombuffer(block, np.uint8)[:] = array
    return block


def reduce(container: Container, *view: int) -> tuple[Any, ...]:
    """The reduction of an object for any pickler."""
    return restore, (type(container), [as_array(block) for block in container._blocks], *view)


def restore(cls: type[Container], arrays: list[np.ndarray[Any, Any]], *view: int) -> Any:
    """Rebuilds the object from a pickle."""
    return cls._over([as_shared(array) for array in arrays], *view)


def reduce_for_stdlib(container: Any) -> tuple[Any, ...]:
    """The reduction for picklers that do not know blocks: a handle for each block, in flight until
    it is received or expires. Copies: none."""
    _, (cls, arrays, *view) = container.__reduce__()
    return receive, (cls, [native.export(array) for array in arrays], *view)


def receive(cls: type[Container], handles: list[bytes], *view: int) -> Any:
    """Rebuilds the object over the blocks of these handles. Copies: none."""
    return cls._over([native.receive(handle) for handle in handles], *view)


def format_elements(parts: list[str], length: int, brackets: str, noun: str) -> str:
    """The contents of a short repr: the first elements and their number."""
    if length <= len(parts):
        return brackets[0] + ", ".join(parts) + brackets[1]
    return f"{brackets[0]}{', '.join([*parts, '...'])}{brackets[1]}, {length} {noun}"


brief = Repr()
brief.maxstring = brief.maxother = 40
