"""What any file may construct: Python's containers and numbers, and NumPy's arrays of numbers.

`NAMES` has the objects by their names in a pickle, `CONSTRUCTORS` what is called in their place.
No constructor takes a size from the file: a result is as large as what the file holds, or smaller.
"""

from __future__ import annotations

import builtins
import collections
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

from ..dtypes import bfloat16
from .limits import Limits, brief

Array = np.ndarray[Any, Any]
Constructor = Callable[..., Any]

MAX_DIGITS = 4300  # of a number's text, as in Python: longer ones take quadratic time
QUADRATIC_SHIFT = 8
MAX_BITS = 1024  # of an int in a range or slice, whose hash reads it, and whose length divides it
NUMBERS = (bool, int, float, complex)
MAX_ELEMENTS = 2**58  # of an array with each size 0 replaced by 1: the bytes are an int64
ITEM_NBYTES = 64  # of an entry in the largest container, a set
ENCODINGS = ("latin1", "latin-1", "iso-8859-1", "ascii", "utf-8", "utf8")


def refused(what: str, value: object) -> pickle.UnpicklingError:
    return pickle.UnpicklingError(f"load: {what}: {brief(value)}")


# ------------------------------------------------------------------ Python
def number(kind: Any) -> Constructor:
    """The constructor of numbers, which takes numbers or their text."""

    def construct(limits: Limits, *args: Any) -> Any:
        for arg in args:
            is_text = type(arg) in (str, bytes) and len(arg) <= MAX_DIGITS
            if type(arg) not in NUMBERS and not is_text:
                raise refused(f"{kind.__name__} is constructed from what is not a number", arg)
            if is_text:  # its conversion takes quadratic time
                limits.copy(len(arg) ** 2 >> QUADRATIC_SHIFT)
            if kind is range and type(arg) is int and arg.bit_length() > MAX_BITS:
                raise refused("range is constructed from an int that is too large", arg)
        return kind(*args)

    return construct


def make_slice(limits: Limits, *args: Any) -> slice:
    for arg in args:  # slices in slices would be freed by recursion, see Note [Depth]
        if arg is not None and type(arg) not in (*NUMBERS, str, bytes):
            raise refused("slice is constructed from what is not a number", arg)
        if type(arg) is int and arg.bit_length() > MAX_BITS:
            raise refused("slice is constructed from an int that is too large", arg)
    return slice(*args)


def text_or_bytes(kind: Any) -> Constructor:
    """The constructor of str, bytes or bytearray; never from a size or a list of numbers."""

    def construct(limits: Limits, data: Any = None, encoding: str | None = None) -> Any:
        if data is None:
            return kind()
        if type(data) not in (str, bytes, bytearray):
            raise refused(f"{kind.__name__} is constructed from what is not text or bytes", data)
        limits.copy(4 * len(data))
        if isinstance(data, str):
            return data if kind is str else kind(encode(limits, data, encoding or "ascii"))
        if kind is not str:
            return kind(data)
        if encoding not in ENCODINGS:
            raise refused("the encoding of text is not trusted", encoding)
        return data.decode(encoding)

    return construct


def encode(limits: Limits, text: str, encoding: str = "latin1") -> bytes:
    """`_codecs.encode`: pickles of protocol 2 create bytes by it."""
    if type(text) is not str:
        raise refused("encode takes text", text)
    if encoding not in ENCODINGS:
        raise refused("the encoding of text is not trusted", encoding)
    limits.copy(4 * len(text))
    return text.encode(encoding)


def items_of(limits: Limits, items: Any) -> Any:
    """The elements of a container of the file; no range, no text, nothing that computes them."""
    if type(items) not in (list, tuple, set, frozenset, collections.deque):
        raise refused("a container is constructed from what is none", items)
    limits.copy(ITEM_NBYTES * len(items))
    return items


def sequence(kind: Any) -> Constructor:
    def construct(limits: Limits, items: Any = ()) -> Any:
        return kind(items_of(limits, items))

    return construct


def make_deque(limits: Limits, items: Any = (), maxlen: int | None = None) -> Any:
    result = collections.deque(items_of(limits, items), maxlen)
    limits.fill(result, result)
    return result


def make_set(limits: Limits, items: Any = ()) -> set[Any]:
    items = list(items_of(limits, items))  # a set would copy the table of another one
    limits.hash(items, set(), is_new=True)
    return set(items)


def make_frozenset(limits: Limits, items: Any = ()) -> frozenset[Any]:
    return frozen(limits, list(items_of(limits, items)))


def frozen(limits: Limits, items: list[Any]) -> frozenset[Any]:
    """A frozenset whose hash table and depth are counted."""
    work = limits.hash(items, frozenset(), is_new=True)
    result = frozenset(items)
    limits.nest(result, items, work)
    return result


def make_tuple(limits: Limits, items: Any = ()) -> tuple[Any, ...]:
    result = tuple(items_of(limits, items))
    limits.nest(result, result)
    return result


def pairs_of(limits: Limits, items: Any) -> Any:
    """A list of the pairs of a dict of the file, or of such a list, whose keys are counted."""
    if type(items) in (dict, collections.OrderedDict):
        limits.copy(ITEM_NBYTES * len(items))
        pairs = list(dict.items(items))
    else:
        pairs = items_of(limits, items)
        for pair in pairs:
            if type(pair) not in (list, tuple) or len(pair) != 2:
                raise refused("a dict is constructed from what is not a pair", pair)
    limits.hash([pair[0] for pair in pairs], {}, is_new=True)
    return pairs


def mapping(kind: Any) -> Constructor:
    def construct(limits: Limits, items: Any = ()) -> Any:
        return kind(pairs_of(limits, items))

    return construct


def make_counter(limits: Limits, counts: Any = ()) -> Any:
    result: Any = collections.Counter()
    dict.update(result, pairs_of(limits, counts))
    return result


def make_defaultdict(limits: Limits, factory: Any = None, items: Any = ()) -> Any:
    # It is called long after the file was loaded: only a class that needs no argument.
    if factory is not None and not any(factory is kind for kind in FACTORIES):
        raise refused("a defaultdict's default is not a class of numbers or containers", factory)
    result = collections.defaultdict(factory, pairs_of(limits, items))
    limits.fill(result, result.values())
    return result


FACTORIES = (int, float, complex, bool, str, bytes, bytearray, list, tuple, set, frozenset, dict,
             collections.OrderedDict, collections.Counter, collections.deque)  # fmt: skip


# ------------------------------------------------------------------ NumPy
PLAIN: list[np.dtype[Any]] = [bfloat16, *map(np.dtype, "?bhilqBHILQefdFD")]
DTYPES: dict[Any, np.dtype[Any]] = {
    **{
        spelling: np.dtype(spelling)
        for dtype in PLAIN[1:]
        for spelling in (dtype.char, dtype.str[1:], dtype.str, dtype.name)
    },
    "bfloat16": bfloat16,
    bfloat16.type: bfloat16,  # NumPy pickles the dtype by its class
}


def is_plain_dtype(dtype: Any) -> bool:
    """Whether it is one of the dtypes of numbers themselves, in this machine's byte order."""
    return any(dtype is plain for plain in PLAIN)


def rebuild_dtype(limits: Limits, name: Any, *flags: Any) -> np.dtype[Any]:
    """`np.dtype`: the single instance of a dtype of numbers. BUILD sets nothing in it."""
    dtype = DTYPES.get(name) if type(name) is str or name is bfloat16.type else None
    if dtype is None:
        raise refused("only arrays of numbers are trusted: dtype", name)
    return dtype


def check_dtype_state(dtype: np.dtype[Any], state: Any) -> None:
    """Checks the state that NumPy pickles with a dtype; it says what the name has said.

    The state is (version, byte order, subarray, names, fields, size, alignment, flags).
    """
    if type(state) is not tuple or not 5 <= len(state) <= 9:
        raise refused("not the state of a dtype", state)
    _, order, *structure = state[:5]
    if type(order) is not str or order not in ("|", "=", "<"):
        raise refused(
            f"only arrays of this machine's byte order are trusted, {dtype.name} has", order
        )
    size = state[5] if len(state) > 5 else -1
    is_plain = structure == [None, None, None] and type(size) is int
    if not is_plain_dtype(dtype) or not is_plain or size not in (-1, dtype.itemsize):
        raise pickle.UnpicklingError(
            f"load: only arrays of numbers are trusted: the state of {dtype} has fields or a size"
        )


def rebuild_array(limits: Limits, kind: Any, shape: Any = (0,), code: Any = b"b") -> Array:
    """NumPy's `_reconstruct`: an empty array that BUILD fills once."""
    if kind is not np.ndarray:
        raise refused("only plain NumPy arrays are trusted", kind)
    return np.empty((0,), np.uint8)


def fill_array(limits: Limits, array: Array, state: Any) -> None:
    """Gives an array of `rebuild_array` its state (version, shape, dtype, is Fortran order, bytes).

    NumPy would believe it: an object dtype makes pointers of bytes, a large shape reads beyond
    them. The array keeps its identity, because the file may refer to it already.
    """
    if type(state) is not tuple or len(state) != 5:
        raise refused("not the state of an array", state)
    _, shape, dtype, is_fortran, data = state
    buffer = checked_buffer(limits, shape, dtype, data)
    # Its own copy of the bytes: NumPy makes the memory of a bytes object writable.
    values: Any = (1, shape, dtype, is_fortran is True, bytes(memoryview(buffer)))
    array.__setstate__(values)


def checked_buffer(limits: Limits, shape: Any, dtype: Any, data: Any) -> bytes | bytearray:
    """The bytes of an array, after all three are checked."""
    if type(shape) is not tuple or len(shape) > 32:
        raise refused("not the shape of an array", shape)
    for size in shape:
        if type(size) is not int or not 0 <= size < 1 << 64:
            raise refused("not a size of an array", size)
    if not is_plain_dtype(dtype):
        raise refused("only arrays of numbers are trusted", dtype)
    if type(data) is str:  # bytes of Python 2
        data = encode(limits, data)
    if type(data) not in (bytes, bytearray):
        raise refused("not the bytes of an array", data)
    limits.copy(len(data))
    fits = math.prod(max(n, 1) for n in shape) <= MAX_ELEMENTS
    if not fits or math.prod(shape) * dtype.itemsize != len(data):
        raise pickle.UnpicklingError(
            f"load: an array has {len(data)} bytes, which is not shape {shape} of {dtype}"
        )
    if dtype.kind == "b" and data and (largest := int(np.frombuffer(data, np.uint8).max())) > 1:
        raise refused("a byte of a bool array is not 0 or 1", largest)
    return data  # type: ignore[no-any-return]


def rebuild_from_buffer(
    limits: Limits, data: Any, dtype: Any, shape: Any, order: Any = "C", axes: Any = None
) -> Array:
    """NumPy's `_frombuffer`, by which pickles of protocol 5 hold arrays."""
    if type(shape) is int:
        shape = (shape,)
    if order not in ("C", "F") or axes is not None:
        raise refused("not the order of an array", order)
    buffer = checked_buffer(limits, shape, dtype, data)
    return np.frombuffer(bytearray(buffer), dtype).reshape(shape, order=order)


def rebuild_scalar(limits: Limits, dtype: Any, data: Any) -> Any:
    """NumPy's `scalar`, for numbers."""
    return np.frombuffer(checked_buffer(limits, (), dtype, data), dtype)[0]


# ------------------------------------------------------------------ tables
BUILTINS: dict[str, Constructor] = {
    **{kind.__name__: number(kind) for kind in (int, float, bool, complex, range)},
    **{kind.__name__: text_or_bytes(kind) for kind in (str, bytes, bytearray)},
    "list": sequence(list),
    "tuple": make_tuple,
    "set": make_set,
    "frozenset": make_frozenset,
    "dict": mapping(dict),
    "slice": make_slice,
}
COLLECTIONS: dict[str, Constructor] = {
    "OrderedDict": mapping(collections.OrderedDict),
    "defaultdict": make_defaultdict,
    "Counter": make_counter,
    "deque": make_deque,
}
REBUILDERS: dict[str, Constructor] = {
    "_reconstruct": rebuild_array,
    "scalar": rebuild_scalar,
    "_frombuffer": rebuild_from_buffer,
}
PYTHON_2 = {"long": int, "unicode": str, "xrange": range}  # also in protocol 2 of Python 3
MODULES = {"multiarray": ("_reconstruct", "scalar"), "numeric": ("_frombuffer",)}
NAMES: dict[tuple[str, str], Any] = {
    **{(m, n): getattr(builtins, n) for m in ("builtins", "__builtin__") for n in BUILTINS},
    **{("__builtin__", old): kind for old, kind in PYTHON_2.items()},
    **{("collections", name): getattr(collections, name) for name in COLLECTIONS},
    ("_codecs", "encode"): encode,
    ("numpy", "ndarray"): np.ndarray,  # an argument of _reconstruct, never called
    ("numpy", "dtype"): np.dtype,
    (bfloat16.type.__module__, "bfloat16"): bfloat16.type,
    **{
        (f"numpy.{core}.{module}", name): REBUILDERS[name]
        for core in ("core", "_core")
        for module, names in MODULES.items()
        for name in names
    },
}
# id of an object -> what is called in its place; the objects live as long as the process.
CONSTRUCTORS: dict[int, Constructor] = {
    **{id(getattr(builtins, name)): function for name, function in BUILTINS.items()},
    **{id(getattr(collections, name)): function for name, function in COLLECTIONS.items()},
    **{id(function): function for function in (encode, *REBUILDERS.values())},
    id(np.dtype): rebuild_dtype,
}
