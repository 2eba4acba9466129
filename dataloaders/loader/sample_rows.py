"""Large arrays of a sample are copied to the batch's block as soon as the sample exists.

    sample 0 ──copy──> row 0 of the block; its array is freed
    sample 1 ──copy──> row 1; malloc gave it the memory of sample 0, which is still in the cache
    ...                                                   collation finds the rows in their places

Note [Warm samples]: otherwise all samples of a batch exist until they are collated. Their memory
comes from the system for each batch and returns to it afterwards (glibc trims the top of its heap,
and maps large arrays one by one), so every page is faulted in again, which takes several times as
long as the samples' own work. With one sample at a time, the process needs one sample's memory.

Only arrays that nothing else refers to are copied early. A view of the data set's memory costs no
allocation, and an array that the data set keeps may be changed by a later sample. What a tensor of
PyTorch does not tell is not seen: that it is `detach()` of a kept tensor, or made by
`torch.from_numpy` over a kept array.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from shmtensor.native import copy_to_rows
from shmtensor.other_names import foreign_module
from shmtensor.tensor.foreign_arrays import as_library

from ..collate import DESCRIBE, Leaf, default_collate_fn_map, flatten
from .batch_block import Array, BlockAllocator, Parts

__all__ = ["SampleRows"]

LARGE = 16 << 10  # bytes from which an early copy saves time
Fields = list[tuple[Any, Any]]


def counts_references() -> bool:
    """Whether `copy_to_rows` tells a sample that something else refers to from one that only a
    variable refers to. It counts references, and how many a call adds differs between versions of
    Python (3.14 lends those of local variables)."""
    part = np.zeros((1, 1))
    keep: list[Any] = [(np.ones(1),)]
    sample: Any = keep[0]
    sample = copy_to_rows(sample, [(0, part)], 0, None)
    is_kept = sample is keep[0]
    sample = (np.ones(1),)
    sample = copy_to_rows(sample, [(0, part)], 0, None)
    return is_kept and type(sample) is list


# Batches without an array to copy early, after which none is looked for.
TRIES = 3 if counts_references() else 0


class SampleRows:
    """Copies samples of one fetcher early.

    Attributes:
        tries: batches until it stops to look for large new arrays.
        fields: of the current batch: key of each large array in a sample (None: it is the sample),
            and the batch's array.
        parts: shape and dtype of each array of the batch.
        arrays: these arrays, in one block.
        tensors: the keys of tensors of PyTorch.
    """

    __slots__ = ("arrays", "fields", "parts", "tensors", "tries")
    arrays: list[Array]
    fields: Fields
    parts: Parts
    tensors: list[Any]

    def __init__(self) -> None:
        self.tries = TRIES
        self.drop()

    def begin(self, sample: Any, n: int) -> bool:
        """Allocates the block of a batch of `n` samples, of which this is the first; its layout is
        that of `default_collate`.

        Returns:
            Whether there are large arrays, and memory for the block. Then `copy_to_rows(sample,
            self.fields, position, self.tensor_class)` gives samples with rows in their place, and
            `first` decides about the batch.
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
            return False
        if not all(fn in DESCRIBE for fn in default_collate_fn_map.values()):
            return False  # a function of the user's would be called with this sample alone
        parts: Parts = []
        keys = []
        for key, x in items:
            nodes: list[Any] = []
            try:
                flatten([x], default_collate_fn_map, nodes, "")
            except (TypeError, RuntimeError):  # collation raises it again, and names the samples
                return False
            leaves = [node for node in nodes if type(node) is Leaf]
            if is_large(x) and len(leaves) == 1:
                keys.append((key, len(parts), type(x) is np.ndarray))
            parts += [((n, *leaf.shape[1:]), leaf.dtype) for leaf in leaves]
        if not keys:
            return False
        try:
            self.arrays = allocator.allocate_arrays(parts)
        except MemoryError:  # collation raises it again, if all samples exist and it needs as much
            return False
        self.parts = parts
        self.fields = [(key, self.arrays[number]) for key, number, _ in keys]
        self.tensors = [key for key, _, is_numpy in keys if not is_numpy]
        return True

    @property
    def tensor_class(self) -> Any:
        """PyTorch's, if the samples have tensors of it, else None."""
        return sys.modules["torch"].Tensor if self.tensors else None

    def first(self, sample: Any, early: Any) -> tuple[Any, bool]:
        """The first sample, which `copy_to_rows` returned as `early`, and whether the others are to
        be copied early. Its rows become tensors of PyTorch where it had such: collation looks there
        for what the batch is made of.
        """
        if early is sample:  # the data set keeps its arrays
            self.drop()
            return sample, False
        for key in self.tensors:
            row = early if key is None else early[key]
            if type(row) is np.ndarray:
                row = as_library(row, "torch")
                if key is None:
                    return row, True
                early[key] = row
        return early, True

    def end(self) -> None:
        """Hands the block to collation, which comes next."""
        self.tries = TRIES
        allocator = BlockAllocator.current
        if allocator is not None:
            allocator.early = self.parts, self.arrays
        self.drop()

    def drop(self) -> None:
        """Forgets the block."""
        self.parts, self.arrays, self.fields, self.tensors = [], [], [], []


def is_large(x: Any) -> bool:
    if type(x) is np.ndarray:
        return x.nbytes >= LARGE and x.dtype.isnative
    torch = foreign_module("torch")
    is_tensor = torch is not None and type(x) is getattr(torch, "Tensor", None)
    return is_tensor and x.numel() * x.element_size() >= LARGE
