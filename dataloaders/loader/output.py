"""Whose arrays a batch holds: shmtensor's, NumPy's, PyTorch's or JAX's.

    worker: batch ── pack ──> (batch with our tensors, their libraries) ── result queue ──> consumer
    consumer: ── unpack ──> the same batch, with arrays of these libraries over the received block

A tensor of PyTorch or an array of JAX is sent as one of ours: without a copy if it lies in shared
memory, as those of `default_collate` do, else with one, into a block.
"""

from __future__ import annotations

import sys
from itertools import repeat
from typing import Any

import numpy as np

from shmtensor import native
from shmtensor.autograd import wrap
from shmtensor.tensor import Tensor
from shmtensor.tensor.foreign_arrays import LIBRARIES, as_library, as_numpy, library_of

from ..collate import JaxTensor, map_leaves
from .batch_block import Array, allocate_parts

__all__ = ["convert", "pack", "unpack"]

# A batch, and the library of each of its arrays in the order of `map_leaves` (one name: of all of
# them; None in a list: the array stays as it is), or None if none of them is foreign.
Packed = tuple[Any, str | list[str | None] | None]


def pack(batch: Any) -> Packed:
    """A batch as it is sent, with its tensors of PyTorch and arrays of JAX as tensors of shmtensor.

    Subclasses of `torch.Tensor` stay, and are pickled.

    Raises:
        RuntimeError: a tensor of PyTorch requires grad.
        TypeError: an array that NumPy cannot view.

    Copies: none; one (into shared memory) of what lies elsewhere.
    """
    if not any(name in sys.modules for name in LIBRARIES):
        return batch, None
    torch_tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    libraries: list[str | None] = []

    def as_ours(x: Any) -> Any:
        if type(x) is JaxTensor:
            libraries.append("jax")
            return wrap(x.array)
        if isinstance(x, (Tensor, np.ndarray)):
            libraries.append(None)
            return x
        library = library_of(x)
        if library is None or (library == "torch" and type(x) is not torch_tensor):
            return x
        if library == "torch" and x.requires_grad:
            raise RuntimeError(
                "DataLoader: a tensor of PyTorch that requires grad cannot be sent to another "
                f"process, because its graph stays in the worker: shape {tuple(x.shape)}, use "
                "x.detach() in the data set or collate_fn"
            )
        libraries.append(library)
        return wrap(in_shared_memory(as_numpy(x)))

    packed = map_leaves(batch, as_ours, is_exact=True)
    kinds = set(libraries)
    if kinds <= {None}:
        return batch, None
    return packed, libraries if len(kinds) > 1 else libraries[0]


def unpack(packed: Packed, output: str | None) -> Any:
    """The batch that was packed, with arrays of the library `output` (None: as they were).

    Copies: none; what `as_library` copies.
    """
    batch, libraries = packed
    if libraries is None:
        return convert(batch, output)
    names = repeat(libraries) if isinstance(libraries, str) else iter(libraries)

    def restore(x: Any) -> Any:
        if not isinstance(x, (Tensor, np.ndarray)):
            return x
        name = next(names)
        if name is None or output is not None:
            return x
        return as_library(x.array if isinstance(x, Tensor) else x, name)

    return convert(map_leaves(batch, restore, is_exact=True), output)


def convert(batch: Any, output: str | None) -> Any:
    """A batch with arrays of the library `output`; None: as it is.

    Tensors, and arrays of numbers, become arrays of that library, without history; other objects
    stay.

    Copies: none; what `as_library` copies.
    """
    if output is None:
        return batch

    def change(x: Any) -> Any:
        library = "shmtensor" if isinstance(x, Tensor) else library_of(x)
        if library == output:
            return x
        if library == "shmtensor":
            array: Array = x.array
        elif library is not None:
            array = as_numpy(x.detach() if library == "torch" else x)
        elif isinstance(x, np.ndarray) and x.dtype.kind in "biufc":
            array = x
        else:
            return x
        if output == "numpy":
            return array
        return wrap(array) if output == "shmtensor" else as_library(array, output)

    return map_leaves(batch, change, is_exact=True)


def in_shared_memory(array: Array) -> Array:
    """The array itself if it lies in shared memory, else a copy there, of the same layout."""
    if array.size and native.is_shared(array):
        return array
    order = np.argsort([-step for step in array.strides], kind="stable")  # channels last stay so
    source = array.transpose(order)
    (copy,) = allocate_parts([(source.shape, source.dtype)])
    copy[...] = source
    return copy.transpose(np.argsort(order))
