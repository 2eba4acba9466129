"""The objects that a file may construct while it is loaded. Only the user extends the list."""

from __future__ import annotations

import builtins
import collections
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..dtypes import bfloat16

__all__ = [
    "add_safe_globals",
    "clear_safe_globals",
    "find_trusted",
    "get_safe_globals",
    "is_build_allowed",
    "safe_globals",
]


PLAIN_ARRAY = ("numpy", "ndarray")  # in place of the type, which could create arrays of pointers


def rebuild_dtype(name: str, *flags: bool) -> np.dtype[Any]:
    """A dtype of numbers: NumPy's single instance of it, which BUILD does not change."""
    if name == "bfloat16":
        return bfloat16
    dtype = np.dtype(name)
    if dtype.kind not in "biufc" or dtype is not np.dtype(dtype.type):
        raise pickle.UnpicklingError(f"load: only arrays of numbers are trusted: dtype {name!r}")
    return dtype


def rebuild_array(kind: Any, shape: Any, dtype: Any) -> Any:
    """NumPy's `_reconstruct`, for plain arrays; BUILD fills them."""
    if kind is not PLAIN_ARRAY:
        raise pickle.UnpicklingError(f"load: only plain NumPy arrays are trusted: {kind!r}")
    return np.ndarray((0,), np.uint8)


def rebuild_scalar(dtype: np.dtype[Any], data: bytes | str) -> Any:
    """NumPy's `scalar`, for numbers."""
    buffer = data.encode("latin1") if isinstance(data, str) else data
    return np.frombuffer(buffer, dtype, 1)[0]


def encode(text: str, encoding: str = "latin1") -> bytes:
    """`_codecs.encode`: pickles of protocol 2 create bytes by it."""
    return text.encode(encoding)


TRUSTED: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("collections", "defaultdict"): collections.defaultdict,
    ("collections", "Counter"): collections.Counter,
    ("collections", "deque"): collections.deque,
    ("_codecs", "encode"): encode,
    ("numpy", "ndarray"): PLAIN_ARRAY,
    ("numpy", "dtype"): rebuild_dtype,
    ("shmtensor.native._core", "bfloat16"): "bfloat16",  # NumPy pickles the dtype by its class
    **{
        (module, name): function
        for module in ("numpy._core.multiarray", "numpy.core.multiarray")
        for name, function in (("_reconstruct", rebuild_array), ("scalar", rebuild_scalar))
    },
    **{
        (module, name): getattr(builtins, name)
        for module in ("builtins", "__builtin__")
        for name in [
            "set",
            "frozenset",
            "bytearray",
            "complex",
            "slice",
            "range",
            "int",
            "float",
            "bool",
            "str",
            "bytes",
            "list",
            "dict",
            "tuple",
        ]
    },
}
BUILDABLE = {
    collections.OrderedDict,
    np.ndarray,
    type(bfloat16),
    *map(type, map(np.dtype, "?bhilqBHILQefdFD")),
}
_user_globals: dict[tuple[str, str], Any] = {}


def is_build_allowed(kind: type) -> bool:
    """Whether a file may set the state of instances of `kind`. See Note [Building]."""
    return kind in BUILDABLE or any(kind is item for item in _user_globals.values())


def find_trusted(module: str, name: str) -> Any:
    """The trusted object of this name, or None."""
    return TRUSTED.get((module, name), _user_globals.get((module, name)))


def add_safe_globals(safe: list[Any]) -> None:
    """Trusts classes and functions: files loaded with `weights_only=True` may construct them.

    Args:
        safe: classes or functions, or pairs (class or function, full name in the file).
    """
    for entry in safe:
        item, full_name = entry if isinstance(entry, tuple) else (entry, None)
        module, _, name = (full_name or f"{item.__module__}.{item.__qualname__}").rpartition(".")
        _user_globals[module, name] = item


def get_safe_globals() -> list[Any]:
    """The classes and functions that the user trusts."""
    return list(_user_globals.values())


def clear_safe_globals() -> None:
    """Removes all entries of `add_safe_globals`."""
    _user_globals.clear()


@contextmanager
def safe_globals(safe: list[Any]) -> Iterator[None]:
    """`add_safe_globals` for the duration of a `with` block."""
    previous = dict(_user_globals)
    add_safe_globals(safe)
    try:
        yield
    finally:
        _user_globals.clear()
        _user_globals.update(previous)
