"""The elements of data that becomes a tensor: which containers keep their dtype, and which elements
no tensor holds."""

from __future__ import annotations

import datetime
import itertools
import reprlib
from typing import Any

import numpy as np

from .. import native

LISTS: set[Any] = {list, tuple}
PLAIN = {bool, int, float, complex}
BUILTIN = LISTS | PLAIN
# NumPy looks up protocols in their instances, whose attributes may come from a file.
NO_ARRAYS = (dict, set, frozenset)
MAX_DIMS = 64  # of a NumPy array
NUMBERS = (native.TensorBase, np.ndarray, np.number, np.bool, *PLAIN)
# NumPy converts dates and durations to numbers of their unit, None to NaN, and digits to numbers.
NOT_NUMBERS = (str, bytes, type(None), datetime.date, datetime.time, datetime.timedelta)
CONVERSIONS = ("__float__", "__index__", "__int__", "__complex__")  # of a Decimal, a Fraction


def has_only_numbers(data: Any) -> bool:
    """Whether nested lists hold only Python's numbers, no tensors, arrays or NumPy scalars."""
    types = set(map(type, data))
    while types and types <= LISTS:
        data = list(itertools.chain.from_iterable(data))
        types = set(map(type, data))
    return types <= PLAIN


def container_as_array(data: Any, where: str, error: type[Exception] = TypeError) -> Any:
    """The array of a container that has one (of pandas, pyarrow, h5py), so that the dtype is kept;
    other data as it is. Copies: none, or one that the container makes.

    Args:
        error: what is raised for a dict or a set.
    """
    if isinstance(data, NO_ARRAYS):
        raise error(
            f"{where}: could not infer dtype of {type(data).__name__}: {reprlib.repr(data)}"
        )
    if (
        data.__class__ in BUILTIN
        or isinstance(data, (native.TensorBase, np.ndarray, np.generic, type))
        or not hasattr(data, "__array__")
    ):
        return data
    if missing := count_missing(data):
        raise ValueError(
            f"{where}: no tensor can hold missing values: {missing} NA in a {type(data).__name__}, "
            "hint: fillna, dropna, or to_numpy(float, na_value=np.nan)"
        )
    return np.asarray(data)


def count_missing(data: Any) -> int:
    """How many values of a container of pandas or pyarrow are NA. A NaN among floats is none."""
    nulls = getattr(data, "null_count", None)
    if isinstance(nulls, int):  # pyarrow's
        return nulls
    if hasattr(data, "iloc") and getattr(data, "ndim", 1) == 2:
        own = [i for i, d in enumerate(data.dtypes) if not isinstance(d, np.dtype)]
        return sum(count_missing(data.iloc[:, i]) for i in own)
    dtype = getattr(data, "dtype", None)
    if isinstance(dtype, np.dtype) or hasattr(dtype, "fill_value") or not hasattr(data, "isna"):
        return 0  # NumPy's dtypes and sparse ones have no NA
    if getattr(dtype, "kind", "O") in "OmM":  # refused whatever is missing
        return 0
    return int(np.asarray(data.isna()).sum())


def check_elements(data: Any, where: str) -> None:
    """Checks data for which NumPy made an array of a given dtype: whether it had to reinterpret
    dates, durations, None, text, records or other objects as numbers.

    Raises:
        TypeError: it had to.
        ValueError: a value is missing.
    """
    cls = data.__class__
    if cls in PLAIN or (cls in LISTS and has_only_numbers(data)):
        return
    if cls is np.ndarray and data.dtype.kind in "biufc":
        return
    remaining = [data]
    while remaining:
        value = remaining.pop()
        if value.__class__ in LISTS:
            if not set(map(type, value)) <= PLAIN:
                remaining += value[::-1]
            continue
        if value.__class__ in PLAIN or isinstance(value, native.TensorBase):
            continue
        if isinstance(value, NOT_NUMBERS):
            raise not_a_number(type(value).__name__, data, where)
        array = np.asarray(container_as_array(value, where))
        if array.dtype.kind == "O":
            elements = array.reshape(-1).tolist()
            if array.ndim or elements[0] is not value:
                remaining += elements[::-1]
            elif not any(hasattr(type(value), name) for name in CONVERSIONS):
                raise not_a_number(type(value).__name__, data, where)
        elif array.dtype.kind in "mMSUT" or array.dtype.type is np.void:
            raise not_a_number(str(array.dtype), data, where)


def not_a_number(culprit: str, data: Any, where: str) -> TypeError:
    hint = (
        f", hint: view('int64') has the numbers of the unit of {culprit}"
        if "64[" in culprit
        else ""
    )
    return TypeError(f"{where}: no tensor can hold a {culprit}: {reprlib.repr(data)}{hint}")


def is_ragged(data: Any) -> bool:
    """Whether nested lists, or the arrays in them, differ in length."""
    level = [data]
    for _ in range(MAX_DIMS):  # a list may hold itself, and twice
        if not level or any(value.__class__ not in LISTS for value in level):
            break
        if len({len(value) for value in level}) > 1:
            return True
        level = list({id(value): value for each in level for value in each}.values())
    shapes = {None if value.__class__ in LISTS else getattr(value, "shape", ()) for value in level}
    return len(shapes) > 1


def not_an_array(error: Exception, data: Any, where: str) -> Exception:
    """The error for data that NumPy made no array of, without its words for nested lists."""
    text = "nested lists differ in length" if is_ragged(data) else error
    return type(error)(f"{where}: {text}: {reprlib.repr(data)}")


def explain_objects(data: Any, array: np.ndarray[Any, Any]) -> Exception:
    """The error for data that gave an array of objects."""
    values = array.reshape(-1).tolist()
    for value in values:
        if isinstance(value, NUMBERS) and not isinstance(value, np.timedelta64):
            continue
        if isinstance(value, (str, bytes)):
            return not_a_number(type(value).__name__, data, "tensor")
        return RuntimeError(
            f"tensor: could not infer dtype of {type(value).__name__}: {reprlib.repr(data)}"
        )
    for value in values:
        if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
            return ValueError(f"tensor: overflow, the integer has more than 64 bits: {value}")
    if isinstance(data, np.ndarray):
        return TypeError(
            f"tensor: no tensor can hold an object array: {reprlib.repr(data)}, hint: "
            "a.astype(float)"
        )
    return TypeError(f"tensor: no tensor can hold this: {reprlib.repr(data)}")


# Note [Nested lists]: NumPy spins on a list that begins with itself, and crashes on some lists that
# hold themselves elsewhere if they become objects. `check_depth` finds the first kind at once;
# `check_nesting` reads all lists, for conversions to objects.
def check_depth(data: Any) -> Any:
    """The innermost first element of nested lists.

    Raises:
        ValueError: it is nested deeper than an array can be, as in a list that begins with itself.
    """
    first, depth = data, 0
    while first.__class__ in (list, tuple) and first:
        first, depth = first[0], depth + 1
        if depth > MAX_DIMS:
            raise too_deep(data)
    return first


def check_nesting(data: Any) -> None:
    """Checks the depth of all elements of nested lists.

    Raises:
        ValueError: one is nested deeper than an array can be, as in a list that holds itself.
    """
    remaining = [(data, 0)]
    while remaining:
        value, depth = remaining.pop()
        if depth > MAX_DIMS:
            raise too_deep(data)
        if isinstance(value, (list, tuple)):
            remaining += [(v, depth + 1) for v in value if isinstance(v, (list, tuple))]


def too_deep(data: Any) -> ValueError:
    """The error for lists that are nested too deeply, or hold themselves."""
    return ValueError(
        f"too many dimensions {type(data).__name__!r}: lists are nested more than {MAX_DIMS} deep"
    )
