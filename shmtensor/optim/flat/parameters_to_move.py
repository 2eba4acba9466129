"""Which parameters move into a common block, which are already in one, and which stay alone.

Note [Which parameters are moved]
Moving a parameter into a block would disconnect everything else that uses its memory: another
Parameter tied to it, a view, a NumPy array, another process. So a parameter moves only if nothing
else does: only its tensor refers to its array, only the array to its base, and so on down to the
owner of the memory (native.is_only_owner, which counts in C, so that callers' frames do not add
references), and no other process holds the block. Parameters that already follow one another in
one block (a second optimizer over the same model, a flat model received from another process) are
used in place. Each other parameter becomes a Flat of its own, over its own memory: slower, but
correct. So does a table whose gradients will be sparse tensors, which needs no block.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ... import native
from ...cuda_arrays import array_module, device_of, pointer
from ...memory.layout import aligned, array_at, offsets
from ...tensor import Tensor
from .device_flat import DeviceFlat
from .flat_parameters import Array, Flat, expects_sparse, on_device, zeros_beside


def lay_out(
    group: dict[str, Any], tensors: list[Any], outside: dict[int, dict[str, Any]]
) -> list[Flat]:
    """The flats of these parameters. Note [Which parameters are moved].

    Args:
        outside: id of a parameter whose state is the program's -> its entry in `optimizer.state`.

    Copies: one of each parameter that moves.
    """
    flats = [flat_apart(group, p, outside[id(p)]) for p in tensors if id(p) in outside]
    movable: dict[Any, list[Any]] = {}
    for run in adjacent_runs([p for p in tensors if id(p) not in outside]):
        if len(run) > 1:
            flats.append(flat_over(group, run))
        elif expects_sparse(run[0]) or not is_unshared(run[0]):
            array = run[0].array
            flat = array.reshape(-1) if array.flags.c_contiguous else array
            flats.append(new_flat(group, run, flat, [0]))
        else:
            place = run[0].array.dtype, device_of(run[0].array)
            movable.setdefault(place, []).append(run[0])
    for run in movable.values():
        flats.append(copy_to_block(group, run))
    return flats


def copy_to_block(group: dict[str, Any], tensors: list[Any]) -> Flat:
    """Moves several parameters into one block."""
    first = tensors[0].array
    starts, end = offsets((p.array.size for p in tensors), first.dtype.itemsize)
    flat = zeros_beside(first, (end,))
    with on_device(flat):
        for p, start in zip(tensors, starts, strict=True):
            view = array_at(flat, start, p.array.shape)
            view[...] = p.array
            p.array = view
    return new_flat(group, tensors, flat, starts)


def flat_over(group: dict[str, Any], tensors: list[Any]) -> Flat:
    """One array over parameters that are already at the positions of `offsets`."""
    first = tensors[0].array
    starts, end = offsets((p.array.size for p in tensors), first.itemsize)
    flat = array_module(first).lib.stride_tricks.as_strided(first, (end,), (first.itemsize,))
    return new_flat(group, tensors, flat, starts)


def flat_apart(group: dict[str, Any], p: Any, entry: dict[str, Any]) -> Flat:
    """A flat over the memory of one parameter, whose state has tensors of the program's."""
    state = [x.array for x in entry.values() if isinstance(x, Tensor) and x.shape == p.shape]
    arrays = [p.array, *state]
    is_flat = all(array.flags.c_contiguous for array in arrays)
    flat = new_flat(group, [p], p.array.reshape(-1) if is_flat else p.array, [0])
    flat.entry_outside = entry
    return flat


def new_flat(
    group: dict[str, Any], tensors: list[Any], parameter: Array, starts: list[int]
) -> Flat:
    """A flat, of the class for its device."""
    cls = Flat if isinstance(parameter, np.ndarray) else DeviceFlat
    return cls(group, tensors, parameter, starts)


def adjacent_runs(tensors: list[Any]) -> list[list[Any]]:
    """The parameters in runs that are already at the positions of `offsets`, in one memory."""
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
    if pointer(y) - pointer(x) != room * x.itemsize or owner(x) is not owner(y):
        return False
    with on_device(x):
        strided = array_module(x).lib.stride_tricks.as_strided(x, (room,), (x.itemsize,))
        return not strided[x.size :].any()  # a gap that is not zero is in use


def owner(array: Array) -> object:
    """The object that owns an array's memory: the end of its chain of bases."""
    end: Any = array
    if not isinstance(end, np.ndarray):
        return end.data.mem
    while isinstance(end, np.ndarray) and end.base is not None:
        end = end.base
    return end.obj if isinstance(end, memoryview) else end


def is_unshared(p: Any) -> bool:
    """Whether only the tensor refers to its memory, in all processes."""
    if not isinstance(p.array, np.ndarray):
        return is_alone_on_device(p)
    if not native.is_only_owner(p):
        return False
    if not native.held_elsewhere(p.array):
        return True
    native.sweep(True)  # those processes may have ended
    return not native.held_elsewhere(p.array)


def is_alone_on_device(p: Any) -> bool:
    """The same for memory of a GPU: of our allocator if it was not sent since it was allocated, or
    of CuPy's pool.

    sys.getrefcount(x) is the number of references and 1, its own argument.
    """
    if (
        p.array.base is not None
        or sys.getrefcount(p.array) > 2
        or sys.getrefcount(p.array.data) > 2
        or sys.getrefcount(p.array.data.mem) > 2
    ):
        return False
    block = getattr(getattr(p.array.data.mem, "_owner", None), "chunk", None)
    if block is None:
        return type(p.array.data.mem).__name__ in ("Memory", "PooledMemory")
    return not block.is_exported and not block.count
