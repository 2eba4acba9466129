"""Moves foreign memory (from_numpy, DLPack, mapped files) into shared memory, under all tensors.

Note [Moving foreign memory]
Tensors over one memory are views of each other, whichever of them is moved: so all of them move.
The garbage collector lists the tensors; those whose elements lie in overlapping ranges of addresses
move together, with their strides. What else refers to the memory (a NumPy array, another library's
tensor, a mapped file, a value saved for backward) stays behind: `Tensor.share_memory_` warns of it.
For the weights of a module it was the source of their values: `Module.share_memory` says nothing.
"""

from __future__ import annotations

import gc
import mmap
import warnings
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import native
from ..storage import owner_of

if TYPE_CHECKING:
    from .tensor import Tensor

Array = np.ndarray[Any, Any]

# Each tells whether an array is a part of the library that will use the moved tensors over it.
followers: list[Callable[[Array], bool]] = []


class Bytes:
    """Memory from an address on, as NumPy's array interface describes it."""

    def __init__(self, start: int, nbytes: int) -> None:
        self.__array_interface__ = {
            "data": (start, True),
            "shape": (nbytes,),
            "typestr": "|u1",
            "version": 3,
        }


def move_to_shared_memory(tensors: Iterable[Tensor], *, warns: bool = False) -> None:
    """Moves tensors whose memory is not shared, with all other tensors over that memory.

    Args:
        warns: warn of what else has the former memory and does not follow.

    Copies: one of the memory that they span; none of what is shared.
    """
    foreign = [x for x in tensors if not x.is_shared()]
    if not foreign:
        return
    if len(foreign) == 1 and native.is_only_owner(foreign[0]):
        everyone = foreign
    else:
        # isinstance would ask proxies of other libraries for their class.
        listed = [x for x in gc.get_objects() if issubclass(type(x), native.TensorBase)]
        everyone = list({id(x): x for x in [*foreign, *listed] if is_foreign(x)}.values())
        del listed
    wanted = set(map(id, foreign))
    left: list[Any] = []
    for group in overlapping(everyone):
        if any(id(x) in wanted for x in group):
            left += others_of(group)
            move(group)
    for what, reference, shape in left:
        if warns and reference() is not None:
            warnings.warn(
                f"share_memory_: the tensor is in shared memory now, {what} still has the former "
                f"memory: neither sees the other's writes: shape {shape}, hint: write to the "
                "tensor from now on, or share a clone()",
                UserWarning,
                stacklevel=3,  # of the caller of `share_memory_`
            )
            break


def is_foreign(tensor: Any) -> bool:
    """Whether a tensor is in memory of the CPU that is not shared."""
    try:
        array = tensor.array
    except AttributeError:  # another thread is about to make it
        return False
    return isinstance(array, np.ndarray) and not native.is_shared(array)


def overlapping(tensors: Iterable[Any]) -> list[list[Any]]:
    """The tensors in groups whose elements lie in overlapping ranges of addresses."""
    bounds = [(*bounds_of(x.array), x) for x in tensors]
    groups: list[list[Any]] = []
    end = -1
    for low, high, tensor in sorted(bounds, key=lambda each: each[:2]):
        if low >= end:
            groups.append([])
        groups[-1].append(tensor)
        end = max(end, high)
    return groups


def bounds_of(array: Array) -> tuple[int, int]:
    """The addresses of the first byte and after the last one."""
    if not array.size:
        start: int = array.__array_interface__["data"][0]
        return start, start
    return np.lib.array_utils.byte_bounds(array)


def move(group: list[Any]) -> None:
    """Moves tensors that overlap to a block of shared memory, with their strides."""
    bounds = [bounds_of(x.array) for x in group]
    low, high = min(b[0] for b in bounds), max(b[1] for b in bounds)
    start = low - low % 64  # elements stay as aligned as they were
    block = native.allocate(high - start or 1, zero=False, shared=True)
    memory = np.frombuffer(memoryview(block), np.uint8)
    if high > low:
        memory[low - start : high - start] = np.asarray(Bytes(low, high - low))
    for tensor in group:
        array = tensor.array
        begin = array.__array_interface__["data"][0] - start
        moved: Array = np.ndarray(array.shape, array.dtype, memory, begin, array.strides)
        if not array.flags.writeable and is_kept_readonly(array):
            moved.flags.writeable = False
        tensor.array = moved


def is_kept_readonly(array: Array) -> bool:
    """Whether a read-only array is read-only in memory that can be written, too: an expanded one,
    or a read-only view.
    """
    is_expanded = any(n > 1 and not s for n, s in zip(array.shape, array.strides, strict=True))
    return is_expanded or bool(owner_of(array).flags.writeable)


def others_of(group: list[Any]) -> list[tuple[str, Any, tuple[int, ...]]]:
    """What else may write to the tensors' memory, or sees their writes.

    Returns: a text, a weak reference to it, or a function that returns what is not None if weak
    references to it do not exist; and the shape of a tensor over it.
    """
    result: dict[int, tuple[str, Any, tuple[int, ...]]] = {}
    for tensor in group:
        owner = owner_of(tensor.array)
        if id(owner) in result or not owner.flags.writeable or not owner.size:
            continue
        if any(is_followed(owner) for is_followed in followers):
            continue
        what, base = "something else (a NumPy array, a value saved for backward)", owner.base
        reference: Any = weakref.ref(owner)
        if isinstance(base, memoryview):
            base = base.obj
        mode = getattr(owner, "mode", None)  # of np.memmap
        if isinstance(base, mmap.mmap) and mode != "c":  # "c": writes do not reach the file
            what, reference = "the mapped file", weakref.ref(base)
            if mode in ("r+", "w+"):
                reference = bool  # bool() is not None
        elif not isinstance(base, mmap.mmap) and base is not None:
            is_capsule = type(base).__name__ == "PyCapsule"
            name = "tensor of DLPack" if is_capsule else type(base).__name__
            what = f"the {name} that it came from"
            try:
                reference = weakref.ref(base)
            except TypeError:
                reference = bool
        result[id(owner)] = what, reference, tuple(tensor.array.shape)
    return list(result.values())
