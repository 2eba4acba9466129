"""Indices as PyTorch reads them, said in NumPy's words.

Tensors and lists become arrays. A number among arrays is one more array to NumPy; PyTorch selects
by it first, and only then looks where the arrays stand:

    x[0, :, [2, 1]]     NumPy    0 and [2, 1] stand apart: their dimension comes first
                        PyTorch  x[0][:, [2, 1]]: it stays where the array is
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import native

__all__ = ["as_index", "kind_of"]


def any_index(index: Any, x: Any) -> Any:
    """An index of x (a tensor or an array) without tensors in it: arrays instead; lists become
    arrays, and numbers stay.

    Raises:
        IndexError: a tensor of floats.
    """
    if not isinstance(index, tuple):
        if not stands_for_tuple(index):
            return one_index(index)
        warnings.warn(
            "Using a non-tuple sequence for multidimensional indexing is deprecated: use "
            f"x[tuple(seq)] instead of x[seq]: a list of {len(index)}",
            stacklevel=3,
        )
        index = tuple(index)
    parts = tuple([one_index(i) for i in index])
    kinds = "".join([kind_of(i) for i in parts])
    if kinds.count(".") > 1:
        parts, kinds = one_ellipsis(parts, kinds, x.ndim)
    return numbers_first(parts, kinds, x.shape) if stand_apart(kinds) else parts


def stands_for_tuple(index: Any) -> bool:
    """Whether PyTorch reads a list as the tuple of its elements: one of them is no number."""
    return (
        index.__class__ is list
        and len(index) < 32
        and any(
            i is None
            or i is Ellipsis
            or isinstance(i, (list, tuple, slice, np.ndarray, native.TensorBase))
            for i in index
        )
    )


def kind_of(part: Any) -> str:
    """n: a number, a: an array, b: a mask, `.`: `...`, `+`: None, s: a slice, ?: a truth value."""
    if part.__class__ is int:
        return "n"
    if part.__class__ is slice:
        return "s"
    if part is None:
        return "+"
    if part is Ellipsis:
        return "."
    dtype = getattr(part, "dtype", None)
    if dtype is None:
        return "?" if part.__class__ is bool else "n"
    if dtype.kind == "b":
        return "b" if part.ndim else "?"
    return "a" if part.ndim else "n"


def one_ellipsis(parts: tuple[Any, ...], kinds: str, ndim: int) -> tuple[tuple[Any, ...], str]:
    """Without the further `...`; each steps over as many dimensions as the first, so that nothing
    may follow unless that is none.

    Raises:
        IndexError: something does follow.
    """
    at = kinds.index(".")
    used = sum(p.ndim if k == "b" else k in "nsa" for p, k in zip(parts, kinds))
    if used < ndim and "." in kinds.rstrip(".")[at + 1 :]:
        raise IndexError(
            f"getitem: Dimension out of range: something follows a second `...`, which has stepped "
            f"over {ndim - used} dimensions, as the first: {ndim} dimensions"
        )
    kept = [i for i, k in enumerate(kinds) if k != "." or i == at]
    return tuple(parts[i] for i in kept), "".join(kinds[i] for i in kept)


def stand_apart(kinds: str) -> bool:
    """Whether NumPy sees a gap between numbers and arrays which the numbers alone make, behind
    something that keeps its place."""
    if "n" not in kinds or "?" in kinds or not ("a" in kinds or "b" in kinds):
        return False
    rest = kinds.replace("n", "").replace("b", "a")
    gapless = rest.strip("s+.") == "a" * rest.count("a")
    together = kinds.replace("b", "a").replace("n", "a").strip("s+.")
    return gapless and rest[0] != "a" and "a" * len(together) != together


def numbers_first(parts: tuple[Any, ...], kinds: str, shape: Sequence[int]) -> tuple[Any, ...]:
    """The same elements by arrays alone, slices among them, which say where each dimension of the
    result goes."""
    used = sum(p.ndim if k == "b" else k in "nsa" for p, k in zip(parts, kinds))
    rest = len(shape) - used
    if rest < 0 or kinds.count(".") > 1:
        return parts  # NumPy says what is wrong with it
    if "." not in kinds:
        parts, kinds = (*parts, Ellipsis), kinds + "."
    at = kinds.index(".")
    parts = (*parts[:at], *[slice(None)] * rest, *parts[at + 1 :])
    kinds = kinds[:at] + "s" * rest + kinds[at + 1 :]
    width = max(1 if k == "b" else p.ndim for p, k in zip(parts, kinds) if k in "ab")
    total = width + kinds.count("s") + kinds.count("+")
    out: list[Any] = []
    place = dim = 0  # of the result, of x
    behind = -1  # dimensions of the result behind those of the arrays
    for part, kind in zip(parts, kinds):
        if kind in "ab" and behind < 0:
            place += width
            behind = total - place
        if kind in "s+":
            place += 1
        if kind == "n":
            out.append(part)
        elif kind == "s":
            steps = np.arange(*part.indices(shape[dim]))
            out.append(steps.reshape(-1, *(1,) * (total - place)))
        elif kind == "a":
            out.append(part.reshape(*part.shape, *(1,) * behind))
        elif kind == "b":
            if part.shape != tuple(shape[dim : dim + part.ndim]):
                raise IndexError(
                    f"getitem: a mask has the shape of what it selects from: {part.shape}, "
                    f"dimensions from {dim} on of {tuple(shape)}"
                )
            out += [a.reshape(-1, *(1,) * behind) for a in part.nonzero()]
        dim += part.ndim if kind == "b" else kind in "nsa"
    out[0] = np.reshape(out[0], (1,) * (total - np.ndim(out[0])) + np.shape(out[0]))
    return tuple(out)


def one_index(index: Any) -> Any:
    cls = index.__class__
    if cls is int or index is None or index is Ellipsis or cls is bool:
        return index
    if cls is slice:
        if isinstance(index.start, native.TensorBase) or isinstance(index.stop, native.TensorBase):
            return slice(*(int(i) if isinstance(i, native.TensorBase) else i  # type: ignore[call-overload]
                           for i in (index.start, index.stop, index.step)))  # fmt: skip
        return index
    if isinstance(index, native.TensorBase):
        array = index.array
        char = array.dtype.char
        if char == "B":
            return as_mask(array)
        if char not in "lqi?":
            raise IndexError(
                f"getitem: tensors used as indices must be integers or booleans: {array.dtype}, "
                "of int64, int32, uint8 or bool"
            )
        if array.ndim == 0 and array.dtype.kind != "b":
            return int(array)
        return array
    if isinstance(index, (list, range)):
        array = np.asarray([one_index(i) for i in index])
        return array if array.size else array.astype(np.int64)
    if isinstance(index, (str, bytes)):
        raise TypeError(f"getitem: a {type(index).__name__} is no index: {index!r}")
    return index


def as_mask(array: Any) -> Any:
    """uint8 is a mask, as PyTorch has it since it had no bool."""
    warnings.warn(
        "indexing with dtype uint8 is now deprecated, please use a dtype bool instead: "
        f"shape {array.shape}",
        stacklevel=5,
    )
    return array != 0


# numbers, slices, None and `...` alone stay as they are, and no Python looks at them
as_index: Callable[[Any, Any], Any] = native.KernelOrFallback(native.basic, any_index)
