"""Memory formats of results whose operands are not all contiguous: as in PyTorch.

Note [Memory formats] in native/kernels/shape/memory_format.h says how it is done.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import native
from ...storage import owner_of
from .constants import data_of
from .op_table import Row


def rule_of(row: Row, kernel: Any) -> str | None:
    """A row's rule for memory formats, by its name in native/kernels/shape/memory_format.h; None:
    the kernel decides.
    """
    if row.layout:
        return row.layout.partition(" ")[0]
    return "pointwise" if row.broadcast or hasattr(kernel, "nin") else None


def format_of(row: Row, kernel: Any) -> tuple[str, int, int, int, int, int] | None:
    """The format of a row's results, as `OpFunction.fill` takes it; None: the kernel's own."""
    rule = rule_of(row, kernel)
    if rule is None or isinstance(row.numpy, tuple) or row.view:
        return None
    has_xp = row.numpy is None  # the kernel is the forward, whose first argument is xp
    layout_inputs = row.layout.split()
    input_mask = sum(1 << i for i, x in enumerate(row.inputs) if x.name in layout_inputs)
    arguments = len(row.inputs) + len(row.attributes) + has_xp
    outputs = len(row.outputs) - len(row.statistics)
    return rule, int(has_xp), len(row.inputs), arguments, input_mask, outputs


def memory_of(x: Any) -> Any:
    """The array of a tensor, or the array itself; None for a batched tensor of vmap."""
    array = data_of(x)
    return array if hasattr(array, "strides") and array.ndim == x.ndim else None


def share_memory(x: Any, y: Any) -> bool:
    """Whether two arrays are views of one array."""
    if isinstance(x, np.ndarray):
        return owner_of(x) is owner_of(y)
    return (x if x.base is None else x.base) is (y if y.base is None else y.base)


def contiguous_or_clone(ops: Any, out: Any, image: Any) -> Any:
    """A composite's result, contiguous; a clone of `image` if it still shares its memory.

    Copies: none or one, which the graph records.
    """
    array, input_array = memory_of(out), memory_of(image)
    if array is None or input_array is None:
        return out
    if share_memory(array, input_array):
        return ops.clone(out)
    is_last = isinstance(array, np.ndarray) and native.suggests_channels_last(array)
    return out if array.flags.c_contiguous and not is_last else ops._contiguous(out)


def like_image(ops: Any, out: Any, image: Any) -> Any:
    """A composite's result, channels_last if PyTorch suggests that for `image`, else contiguous. It
    does not share memory with `image`.

    Copies: none or one, which the graph records.
    """
    array, input_array = memory_of(out), memory_of(image)
    if array is None or input_array is None:
        return out
    if share_memory(array, input_array):
        out = ops.clone(out)
        array = memory_of(out)
    is_on_host = isinstance(input_array, np.ndarray)  # a device's images are contiguous
    if is_on_host and native.suggests_channels_last(input_array) and array.ndim == input_array.ndim:
        last = native.suggests_channels_last(array)
        return out if last else ops._contiguous_channels_last(out)
    return out if array.flags.c_contiguous else ops._contiguous(out)
