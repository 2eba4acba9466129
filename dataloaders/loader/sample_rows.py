"""Large arrays of samples are copied to the batch's block one by one, as soon as each sample exists.

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
from sys import getrefcount
from typing import Any

import numpy as np

from ..collate import DESCRIBE, Leaf, default_collate_fn_map, flatten
from .batch_block import Array, BlockAllocator, Parts

__all__ = ["LARGE", "SampleRows", "sample_rows"]

LARGE = 4096  # bytes of an array below which an early copy saves nothing
CONTAINERS = (tuple, list, dict)
# References to an array that nothing else refers to, where `SampleRows.copy` counts them: the
# sample's or (of a sample that is an array) two callers', the variable's and the count's own.
IN_SAMPLE, AS_SAMPLE = 3, 4
IN_VIEW = 2  # of the array under a view: the view's and the count's own


class SampleRows:
    """The block of a batch while its samples are made.

    Attributes:
        parts: shape and dtype of each array of the batch.
        arrays: the arrays, in one block.
        kind: the type of the samples.
        size: their length if they are containers, else 0.
        fields: of each large array of a sample: its key there (None: it is the sample), the rows
            that replace it, its part of the block, its shape and dtype.
    """

    __slots__ = ("arrays", "fields", "kind", "parts", "size")

    def __init__(
        self,
        sample: Any,
        parts: Parts,
        keys: list[tuple[Any, int]],
        allocator: BlockAllocator,
    ) -> None:
        self.kind = type(sample)
        self.size = len(sample) if self.kind in CONTAINERS else 0
        self.parts = parts
        self.arrays = allocator.allocate_arrays(parts)
        self.fields: list[tuple[Any, Any, Array, tuple[int, ...], np.dtype[Any]]] = []
        for key, number in keys:
            x, part = sample if key is None else sample[key], self.arrays[number]
            rows = part if type(x) is np.ndarray else sys.modules["torch"].from_numpy(part)
            self.fields.append((key, rows, part, part.shape[1:], part.dtype))

    def copy(self, sample: Any, position: int) -> Any:
        """The sample with its large arrays copied to row `position` of the block and replaced by it.

        Copies: one (each array that nothing else refers to, to the block).
        """
        kind = self.kind
        if type(sample) is not kind or (self.size and len(sample) != self.size):
            return sample  # collation says what is wrong, or takes it as it is
        copies = []
        for key, rows, part, shape, dtype in self.fields:
            if key is None:
                x = sample
                if getrefcount(x) > AS_SAMPLE:
                    break
            else:
                if kind is dict and key not in sample:
                    break
                x = sample[key]
                if getrefcount(x) > IN_SAMPLE:
                    continue
            array = new_array(x)
            if array is not None and array.shape == shape and array.dtype is dtype:
                np.copyto(part[position], array)
                copies.append((key, rows[position]))
        if not copies:
            return sample
        if kind not in CONTAINERS:
            return copies[0][1]
        out: Any = sample.copy() if kind is dict else list(sample)
        for key, row in copies:
            out[key] = row
        return out


def new_array(x: Any) -> Array | None:
    """The memory of an array of NumPy or a tensor of PyTorch if only `x` refers to it, else None."""
    if type(x) is np.ndarray:
        if x.base is None or (type(x.base) is np.ndarray and getrefcount(x.base) <= IN_VIEW):
            return x
        return None
    if not is_torch_tensor(x) or (x._base is not None and x.is_contiguous()):
        return None  # such a view is most likely a part of the data set
    try:
        array: Array = x.numpy()
    except (TypeError, RuntimeError):  # on another device, requires grad, a dtype NumPy lacks
        return None
    return array


def is_torch_tensor(x: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and type(x) is getattr(torch, "Tensor", None)


def is_large(x: Any) -> bool:
    if type(x) is np.ndarray:
        return x.nbytes >= LARGE
    return is_torch_tensor(x) and x.numel() * x.element_size() >= LARGE


def sample_rows(sample: Any, n: int) -> SampleRows | None:
    """The block of a batch of `n` samples like this one, with the layout that `default_collate`
    gives it; None if a sample has no large array, or is none that is copied early.
    """
    kind = type(sample)
    if kind in CONTAINERS:
        items = list(sample.items() if kind is dict else enumerate(sample))
    else:
        items = [(None, sample)]
    allocator = BlockAllocator.current
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
            keys.append((key, len(parts)))
        parts += [((n, *leaf.shape[1:]), leaf.dtype) for leaf in leaves]
    return SampleRows(sample, parts, keys, allocator) if keys else None
