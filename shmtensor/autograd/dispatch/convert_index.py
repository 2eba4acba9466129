"""Converts indices with PyTorch's meaning to indices with NumPy's.

Tensors and lists become arrays. NumPy treats a number among arrays as one more array. PyTorch
selects by the number first, and only then decides where the arrays' dimensions go:

    x[0, :, [2, 1]]     NumPy    0 and [2, 1] are separated: their dimension comes first
                        PyTorch  x[0][:, [2, 1]]: the dimension stays where the array is
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import native
from ...cuda_arrays import device_of, move_array
from ...device import CPU, META, Device
from .foreign_operands import refuse_foreign

PARTS = {int, bool, slice, type(None), type(Ellipsis)}


def convert_index(index: Any, x: Any) -> Any:
    """An index of x (a tensor or an array) with arrays in place of tensors and lists, on the device
    of x.

    Raises:
        IndexError: a tensor of floats.
    """
    if isinstance(x, native.TensorBase):  # of vmap, too, which has no array
        device = device_of(x.array)
    else:
        device = device_of(x) if native.is_array(x) else CPU  # another library's is refused
    if not isinstance(index, tuple):
        if not is_tuple_like(index):
            part = convert_part(index)
            if device is not CPU:
                check_bounds((part,), x.shape)
            return moved(part, device)
        warnings.warn(
            "Using a non-tuple sequence for multidimensional indexing is deprecated: use "
            f"x[tuple(seq)] instead of x[seq]: a list of {len(index)}",
            stacklevel=3,
        )
        index = tuple(index)
    parts = tuple([convert_part(i) for i in index])
    if device is not CPU:
        check_bounds(parts, x.shape)
    parts = tuple([moved(part, device) for part in parts])
    kinds = "".join([part_kind(i) for i in parts])
    if kinds.count(".") > 1:
        parts, kinds = one_ellipsis(parts, kinds, x.ndim)
    return numbers_first(parts, kinds, x.shape) if needs_reordering(kinds) else parts


def moved(part: Any, device: Device) -> Any:
    """A part of an index with its array, if it is one, on a device."""
    if not hasattr(part, "dtype"):
        is_number = device is CPU or part.__class__ in PARTS or hasattr(part, "__index__")
        if not is_number:
            raise IndexError(
                "indexing: only integers, slices (`:`), ellipsis (`...`), None and integer or "
                f"boolean arrays are valid indices: {part!r:.80}"
            )
        return part
    place = device_of(part)
    if place is device or (place is CPU and device is META):  # a mask on the CPU has values
        return part
    if place is not CPU:
        raise RuntimeError(
            "indexing: indices should be either on cpu or on the same device as the indexed tensor "
            f"({device}): an index of shape {part.shape} is on {place}, hint: "
            f"index.to({str(device)!r})"
        )
    return move_array(np.asarray(part) if isinstance(part, np.generic) else part, device)


def check_bounds(parts: tuple[Any, ...], shape: Sequence[int]) -> None:
    """Checks the indices that are still on the host: CuPy wraps those that are out of range. Those
    on a GPU are not read, because that would wait for it.
    """
    kinds = [part_kind(part) for part in parts]
    sizes = [part.ndim if kind == "b" else int(kind in "nsa") for part, kind in zip(parts, kinds)]
    dim = 0
    for i, (part, kind) in enumerate(zip(parts, kinds)):
        if kind == "." and "." not in kinds[:i]:
            dim = len(shape) - sum(sizes[i:])
        elif kind == "a" and isinstance(part, np.ndarray) and part.size and 0 <= dim < len(shape):
            low, high, size = int(part.min()), int(part.max()), shape[dim]
            if low < -size or high >= size:
                raise IndexError(
                    f"indexing: index {high if high >= size else low} is out of bounds for "
                    f"dimension {dim} with size {size}: shape {tuple(shape)}"
                )
        dim += sizes[i]


def is_tuple_like(index: Any) -> bool:
    """Whether PyTorch treats a list as a tuple: one of its elements is not a number."""
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


def part_kind(part: Any) -> str:
    """n: a number, a: an array, b: a mask, `.`: `...`, `+`: None, s: a slice, ?: a bool."""
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
    """The parts without further `...`. Each `...` skips as many dimensions as the first, so if it
    skips any, no other part may follow.
    """
    first = kinds.index(".")
    n_indexed = sum(p.ndim if k == "b" else k in "nsa" for p, k in zip(parts, kinds))
    if n_indexed < ndim and "." in kinds.rstrip(".")[first + 1 :]:
        raise IndexError(
            f"indexing: Dimension out of range: a part follows a second `...`, which skips "
            f"{ndim - n_indexed} dimensions, as the first: {ndim} dimensions"
        )
    positions = [i for i, k in enumerate(kinds) if k != "." or i == first]
    return tuple(parts[i] for i in positions), "".join(kinds[i] for i in positions)


def needs_reordering(kinds: str) -> bool:
    """Whether NumPy treats the arrays as separated only because of numbers, and something precedes
    the arrays."""
    if "n" not in kinds or "?" in kinds or not ("a" in kinds or "b" in kinds):
        return False
    arrays_only = kinds.replace("n", "").replace("b", "a")
    gapless = arrays_only.strip("s+.") == "a" * arrays_only.count("a")
    all_arrays = kinds.replace("b", "a").replace("n", "a").strip("s+.")
    return gapless and arrays_only[0] != "a" and "a" * len(all_arrays) != all_arrays


def numbers_first(parts: tuple[Any, ...], kinds: str, shape: Sequence[int]) -> tuple[Any, ...]:
    """The same elements by arrays alone, also for slices, whose shapes place each dimension of the
    result."""
    n_indexed = sum(p.ndim if k == "b" else k in "nsa" for p, k in zip(parts, kinds))
    n_skipped = len(shape) - n_indexed
    if n_skipped < 0 or kinds.count(".") > 1:
        return parts  # NumPy explains the error
    if "." not in kinds:
        parts, kinds = (*parts, Ellipsis), kinds + "."
    at = kinds.index(".")
    parts = (*parts[:at], *[slice(None)] * n_skipped, *parts[at + 1 :])
    kinds = kinds[:at] + "s" * n_skipped + kinds[at + 1 :]
    width = max(1 if k == "b" else p.ndim for p, k in zip(parts, kinds) if k in "ab")
    total = width + kinds.count("s") + kinds.count("+")
    xp: Any = device_of(next(p for p, k in zip(parts, kinds) if k in "ab")).xp
    out: list[Any] = []
    position = dim = 0  # in the result, in x
    behind = -1  # dimensions of the result after those of the arrays
    for part, kind in zip(parts, kinds):
        if kind in "ab" and behind < 0:
            position += width
            behind = total - position
        if kind in "s+":
            position += 1
        if kind == "n":
            out.append(part)
        elif kind == "s":
            steps = xp.arange(*part.indices(shape[dim]))
            out.append(steps.reshape(-1, *(1,) * (total - position)))
        elif kind == "a":
            out.append(part.reshape(*part.shape, *(1,) * behind))
        elif kind == "b":
            if part.shape != tuple(shape[dim : dim + part.ndim]):
                raise IndexError(
                    f"indexing: a mask has the shape of what it selects from: {part.shape}, "
                    f"dimensions from {dim} on of {tuple(shape)}"
                )
            mask = native.private_index(part) if isinstance(part, np.ndarray) else part
            out += [a.reshape(-1, *(1,) * behind) for a in mask.nonzero()]
        dim += part.ndim if kind == "b" else kind in "nsa"
    first = out[0] if hasattr(out[0], "dtype") else xp.asarray(out[0])
    out[0] = first.reshape((1,) * (total - first.ndim) + first.shape)
    return tuple(out)


def convert_part(index: Any) -> Any:
    cls = index.__class__
    if cls is int or index is None or index is Ellipsis or cls is bool:
        return index
    if cls is slice:
        if isinstance(index.start, native.TensorBase) or isinstance(index.stop, native.TensorBase):
            return slice(*(int(i) if isinstance(i, native.TensorBase) else i
                           for i in (index.start, index.stop, index.step)))  # fmt: skip
        return index
    if isinstance(index, native.TensorBase):
        array = index.array
        char = array.dtype.char
        if char == "B":
            return uint8_mask(array)
        if char not in "lqi?":
            raise IndexError(
                f"indexing: tensors used as indices must be integers or booleans: {array.dtype}, "
                "of int64, int32, uint8 or bool"
            )
        if array.ndim == 0 and array.dtype.kind != "b":
            return int(array)
        return array
    if isinstance(index, (list, range)):
        array = np.asarray([convert_part(i) for i in index])
        return array if array.size else array.astype(np.int64)
    if isinstance(index, (str, bytes)):
        raise TypeError(f"indexing: a {type(index).__name__} is no index: {index!r}")
    if not isinstance(index, (np.ndarray, np.generic)):
        if isinstance(index, (dict, set, frozenset)):  # NumPy would look up protocols in it
            raise IndexError(
                "indexing: only integers, slices (`:`), ellipsis (`...`), None and integer or "
                f"boolean tensors are valid indices: got {type(index).__name__}"
            )
        refuse_foreign("indexing", (index,))
        if isinstance(index, (float, complex)):
            raise IndexError(
                "indexing: only integers, slices (`:`), ellipsis (`...`), None and integer or "
                f"boolean tensors are valid indices: {index!r}, hint: int(), or // in place of /"
            )
    return index


def uint8_mask(array: Any) -> Any:
    """A uint8 index is a mask, as in PyTorch."""
    warnings.warn(
        "indexing with dtype uint8 is now deprecated, please use a dtype bool instead: "
        f"shape {array.shape}",
        stacklevel=5,
    )
    return array != 0


# an index of numbers, slices, None and `...` alone stays, without a call of Python
as_index: Callable[[Any, Any], Any] = native.KernelOrFallback(native.basic, convert_index)
