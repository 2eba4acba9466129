"""What shared lists and dictionaries have in common: building, pickling, dtypes.

They are over blocks, which a pickle holds as arrays: our pickler sends handles of them, plain
pickle their bytes. The standard library's queues get handles instead (`reduce_for_stdlib`).
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable
from functools import lru_cache
from itertools import islice
from reprlib import Repr
from typing import Any

import numpy as np

from .. import native

LIST, DICT = 1, 2
MAX_REPR_ELEMENTS = 5  # elements in a repr
FIRST_USER_DTYPE = 256  # NumPy's numbers of dtypes that other libraries register

brief = Repr()
brief.maxstring = brief.maxother = 40


class Packed:
    """The common methods of SharedList and SharedDict."""

    __slots__ = ()

    @property
    def nbytes(self: Any) -> int:
        """Bytes of shared memory, of the whole list that this may be a view of."""
        return sum(memoryview(block).nbytes for block in self._blocks)

    def __reduce__(self: Any) -> tuple[Any, ...]:
        views = [memoryview(block).toreadonly() for block in self._blocks]
        return restore, (type(self), [np.frombuffer(v, np.uint8) for v in views], *self._view)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def _format(self: Any, parts: Iterable[str], brackets: str, noun: str) -> str:
        """The repr: the first elements and their number."""
        text, end = ", ".join(islice(parts, MAX_REPR_ELEMENTS)), brackets[1]
        if len(self) > MAX_REPR_ELEMENTS:
            text, end = f"{text}, ...", f"{end}, {len(self)} {noun}"
        return f"{type(self).__name__}({brackets[0]}{text}{end})"


def pack(cls: type, kind: int, iterable: Iterable[Any], readonly: bool) -> Any:
    """The list of these elements, or the dictionary of these pairs. Copies: one.

    Raises:
        OutOfSharedMemory: no room; all blocks are freed.
    """
    seed = int.from_bytes(os.urandom(8), "little")
    where = "SharedList" if kind == LIST else "SharedDict"
    return over(cls, native.pack(where, kind, iterable, readonly, seed, native.allocate))


def over(cls: type, blocks: Iterable[Any], *view: int) -> Any:
    """The list or dictionary over existing blocks."""
    base: Any = native.PackedList if issubclass(cls, native.PackedList) else native.PackedDict
    return base.__new__(cls, blocks, *view)


def restore(cls: type, blocks: list[Any], *view: int) -> Any:
    """Rebuilds the object from a pickle. Copies: none, or one of bytes that are not shared."""
    return over(cls, [as_shared(block) for block in blocks], *view)


def as_shared(block: np.ndarray[Any, Any] | bytes) -> Any:
    """The block of an array or a handle, or one with the bytes of an array that is not shared."""
    if isinstance(block, bytes):
        return native.receive(block)
    if native.is_shared(block):
        return block
    copy = native.allocate(block.nbytes, False)
    np.frombuffer(copy, np.uint8)[:] = block
    return copy


def reduce_for_stdlib(container: Any) -> tuple[Any, ...]:
    """The reduction for picklers that do not know blocks: a handle for each block, in flight until
    it is received or expires. Copies: none."""
    function, (cls, arrays, *view) = container.__reduce__()
    return function, (cls, [native.export(array) for array in arrays], *view)


@lru_cache
def describe_dtype(dtype: np.dtype[Any]) -> Any:
    """What `parse_dtype` makes this dtype of: its text, or the class of another library's; None:
    there is nothing.
    """
    words = dtype.type if dtype.num >= FIRST_USER_DTYPE else str(dtype)
    try:
        return words if parse_dtype(words) == dtype else None
    except (TypeError, ValueError, SyntaxError):  # a title that is no literal, ...
        return None


def parse_dtype(words: Any) -> Any:
    """The dtype of these words. A text may be corrupt: NumPy checks each size and offset, as it
    does not in a pickled dtype.
    """
    if isinstance(words, str):
        words = literal_dtype(words).newbyteorder("|")  # a new one: names can be changed
    return np.dtype(words)


@lru_cache
def literal_dtype(text: str) -> Any:
    """The dtype of a text. Raises what a corrupt one may: SyntaxError, TypeError, ..."""
    return np.dtype(ast.literal_eval(text) if text[:1] in ("[", "{") else text)
