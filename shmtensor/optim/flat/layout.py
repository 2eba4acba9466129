"""Which parameters move into a common block, which are taken as they lie, and which stay alone.

Note [Who is moved]
Moving a parameter into a block leaves behind whatever else looks at its memory: another Parameter
tied to it, a view, a NumPy array, another process. So a parameter moves only if nobody else can
tell: its tensor alone refers to its array, the array alone to what is below it, and so on down to
the owner of the memory (native.is_only_owner: counts in C, to which no frame of a caller adds), and
no other process holds the block. Parameters that already lie in this order in one block (a second
optimizer over the same model, a flat model received from another process) are taken as they lie.
Whatever remains becomes a Flat of its own, over its own memory: slower, never wrong. So does a
table whose gradients will be sparse tensors: it has no use for a block.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import native
from ...memory.layout import aligned, array_at, offsets, zeros_shared
from .flat_parameters import Array, Flat, expects_sparse

__all__ = ["lay_out"]


def lay_out(group: dict[str, Any], tensors: list[Any]) -> list[Flat]:
    """The flats of these parameters. Note [Who is moved].

    Copies: one of each parameter that moves.
    """
    flats: list[Flat] = []
    movable: dict[Any, list[Any]] = {}
    for run in adjacent_runs(tensors):
        if len(run) > 1:
            flats.append(adopt(group, run))
        elif expects_sparse(run[0]) or not is_alone(run[0]):
            array = run[0].array
            flat = array.reshape(-1) if array.flags.c_contiguous else array
            flats.append(Flat(group, run, flat, [0]))
        else:
            movable.setdefault(run[0].array.dtype, []).append(run[0])
    for run in movable.values():
        flats.append(move(group, run))
    return flats


def move(group: dict[str, Any], tensors: list[Any]) -> Flat:
    """Makes one block of several parameters."""
    dtype = tensors[0].array.dtype
    starts, end = offsets((p.array.size for p in tensors), dtype.itemsize)
    flat = zeros_shared((end,), dtype)
    for p, start in zip(tensors, starts, strict=True):
        view = array_at(flat, start, p.array.shape)
        view[...] = p.array
        p.array = view
    return Flat(group, tensors, flat, starts)


def adopt(group: dict[str, Any], tensors: list[Any]) -> Flat:
    """One array over parameters that lie as `offsets` would lay them."""
    first = tensors[0].array
    starts, end = offsets((p.array.size for p in tensors), first.itemsize)
    flat = np.lib.stride_tricks.as_strided(first, (end,), (first.itemsize,))
    return Flat(group, tensors, flat, starts)


def adjacent_runs(tensors: list[Any]) -> list[list[Any]]:
    """The parameters in runs that lie already as `offsets` would lay them, in one memory."""
    runs: list[list[Any]] = []
    for p in tensors:
        if runs and follows(runs[-1], p):
            runs[-1].append(p)
        else:
            runs.append([p])
    return runs


def follows(run: list[Any], p: Any) -> bool:
    x, y = run[-1].array, p.array
    if x.dtype is not y.dtype or not (x.flags.c_contiguous and y.flags.c_contiguous):
        return False
    room = aligned(x.size, x.itemsize)
    if address(y) - address(x) != room * x.itemsize or owner(x) is not owner(y):
        return False
    gap = np.lib.stride_tricks.as_strided(x, (room,), (x.itemsize,))[x.size :]
    return not gap.any()  # what is not zero belongs to somebody


def address(array: Array) -> int:
    pointer: int = array.__array_interface__["data"][0]
    return pointer


def owner(array: Array) -> object:
    """The object that an array's memory belongs to: the end of its chain of bases."""
    end: Any = array
    while isinstance(end, np.ndarray) and end.base is not None:
        end = end.base
    return end.obj if isinstance(end, memoryview) else end


def is_alone(p: Any) -> bool:
    """Whether nobody but the tensor refers to its memory, in this process or another."""
    if not native.is_only_owner(p):
        return False
    if not native.held_elsewhere(p.array):
        return True
    native.sweep(True)  # perhaps those were processes that have ended
    return not native.held_elsewhere(p.array)
