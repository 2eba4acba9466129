"""Large arrays of a sample are copied to the batch's block as soon as the sample exists.

    sample 0 ──copy──> row 0 of the block; its array is freed
    sample 1 ──copy──> row 1; malloc gave it the memory of sample 0, which is still in the cache
    ...                                                   collation finds the rows in their places

Note [Warm samples]: otherwise all samples of a batch exist until they are collated. Their memory
comes from the system for each batch and returns to it afterwards (glibc trims the top of its heap,
and maps large arrays one by one), so every page is faulted in again, which takes several times as
long as the samples' own work. With one sample at a time, the process needs one sample's memory.

Only arrays that nothing else refers to are copied early. A view of the data set's memory costs no
allocation, and an array that the data set keeps may be changed by a later sample.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from sys import getrefcount
from typing import Any

import numpy as np

from shmtensor import native

from ..collate import DESCRIBE, Leaf, default_collate_fn_map, flatten
from .batch_block import Array, BlockAllocator, Parts

__all__ = ["SampleRows"]

# Bytes from which an early copy saves time, if memory would be faulted in again. For a tensor of
# PyTorch it takes 3 us more: only those are copied early that glibc maps one by one.
LARGE, LARGE_TENSOR = 16 << 10, 128 << 10
TRIES = 3  # batches without an array to copy early, after which none is looked for
IN_SAMPLE = 3  # references to a tensor that only its sample has: that, a variable's, the count's
Fields = list[tuple[Any, Any]]


class SampleRows:
    """Copies samples of one fetcher early.

    Attributes:
        tries: batches until it stops to look for large new arrays.
        fields: of the current batch: key of each large array in a sample (None: it is the sample),
            and the batch's array.
        parts: shape and dtype of each array of the batch.
        arrays: these arrays, in one block.
    """

    __slots__ = ("arrays", "fields", "parts", "tries")
    arrays: list[Array]
    fields: Fields
    parts: Parts

    def __init__(self) -> None:
        self.tries = TRIES
        self.drop()

    def begin(self, sample: Any, n: int) -> Callable[[Any, Fields, int], Any] | None:
        """Allocates the block of a batch of `n` samples, of which this is the first; its layout is
        that of `default_collate`.

        Returns:
            A function(sample, fields, position) that returns the sample with rows of the block in
            the place of its large arrays; None if it has no large arrays.
        """
        kind = type(sample)
        allocator = BlockAllocator.current
        items: list[tuple[Any, Any]] = [(None, sample)]
        if kind is tuple or kind is list:
            items = list(enumerate(sample))
        elif kind is dict:
            items = list(sample.items())
        self.tries -= 1
        if allocator is None or n < 2 or not any(is_large(x) for _, x in items):
            return None
        if not all(fn in DESCRIBE for fn in default_collate_fn_map.values()):
            return None  # a function of the user's would be called with this sample alone
        parts: Parts = []
        keys = []
        for key, x in items:
            nodes: list[Any] = []
            try:
                flatten([x], default_collate_fn_map, nodes, "")
            except (TypeError, RuntimeError):  # collation raises it again, and names the samples
                return None
            leaves = [node for node in nodes if type(node) is Leaf]
            if is_large(x) and len(leaves) == 1:
                keys.append((key, len(parts), type(x) is np.ndarray))
            parts += [((n, *leaf.shape[1:]), leaf.dtype) for leaf in leaves]
        if not keys:
            return None
        self.parts, self.arrays = parts, allocator.allocate_arrays(parts)
        self.fields = [(key, self.arrays[number]) for key, number, _ in keys]
        is_numpy = all(is_numpy for _, _, is_numpy in keys)
        return native.copy_to_rows if is_numpy else copy_tensors_to_rows

    def end(self) -> None:
        """Hands the block to collation, which comes next."""
        self.tries = TRIES
        allocator = BlockAllocator.current
        if allocator is not None:
            allocator.early = self.parts, self.arrays
        self.drop()

    def drop(self) -> None:
        """Forgets the block."""
        self.parts, self.arrays, self.fields = [], [], []


def is_large(x: Any) -> bool:
    if type(x) is np.ndarray:
        return x.nbytes >= LARGE and x.dtype.isnative
    return is_torch_tensor(x) and x.numel() * x.element_size() >= LARGE_TENSOR


def is_torch_tensor(x: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and type(x) is getattr(torch, "Tensor", None)


def copy_tensors_to_rows(sample: Any, fields: Fields, position: int) -> Any:
    """As `native.copy_to_rows`, for samples that have tensors of PyTorch."""
    kind = type(sample)
    copies = []
    for key, part in fields:
        x = sample
        if key is not None:
            if kind is not tuple and kind is not list and kind is not dict:
                return sample
            if key not in (sample if kind is dict else range(len(sample))):
                return sample
            x = sample[key]
            if getrefcount(x) > IN_SAMPLE:
                continue
        array = array_of(x)
        if array is not None and array.shape == part.shape[1:] and array.dtype is part.dtype:
            row = part[position]
            np.copyto(row, array)
            copies.append((key, row if array is x else sys.modules["torch"].from_numpy(row)))
    if not copies:
        return sample
    if copies[0][0] is None:
        return copies[0][1]
    out: Any = sample.copy() if kind is dict else list(sample)
    for key, row in copies:
        out[key] = row
    return out


def array_of(x: Any) -> Array | None:
    """The memory of an array of NumPy or a tensor of PyTorch; None of a part of another array."""
    if type(x) is np.ndarray:
        return x if x.base is None else None
    if not is_torch_tensor(x) or (x._base is not None and x.is_contiguous()):
        return None
    try:
        array: Array = x.numpy()
    except (TypeError, RuntimeError):  # on another device, requires grad, a dtype NumPy lacks
        return None
    return array
