"""How the results of ops lie in memory, where their operands are not all in rows: as PyTorch's.

Note [Memory formats] in native/kernels/shape/memory_format.h says how it is done.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import native
from ...storage import owner_of
from .op_definition import Row

__all__ = ["format_of", "like_image"]

WORDS = (
    "pointwise",
    "images",
    "all",
    "rows",
    "like",
)  # in the order of native/kernels/shape/memory_format.h
POINTWISE = 0


def rule_of(row: Row, kernel: Any) -> int | None:
    """How a row's results lie, as a number; None: as the kernel leaves them."""
    if row.layout:
        return WORDS.index(row.layout.partition(" ")[0])
    return POINTWISE if row.broadcast or hasattr(kernel, "nin") else None


def format_of(row: Row, kernel: Any) -> tuple[int, ...] | None:
    """The format of a row's results, as `OpFunction.fill` takes it; None: the kernel's own."""
    rule = rule_of(row, kernel)
    if rule is None or isinstance(row.numpy, tuple) or row.view:
        return None
    plain = row.numpy is None  # the forward, whose first argument is the array module
    deciding = row.layout.split()
    leads = sum(1 << i for i, x in enumerate(row.inputs) if x.name in deciding)
    arguments = len(row.inputs) + len(row.attributes) + plain
    outputs = 1 if row.name == "_native_batch_norm" else len(row.outputs)
    return rule, int(plain), len(row.inputs), arguments, leads, outputs


def memory_of(x: Any) -> Any:
    """The array of a tensor, or the array itself; None of what is batched."""
    array = getattr(x, "array", x)
    return array if isinstance(array, np.ndarray) and array.ndim == x.ndim else None


def own(ops: Any, out: Any, image: Any) -> Any:
    """A composite's result in memory of its own: a copy where nothing was done to `image`.

    Copies: none or one, which is in the graph.
    """
    array, given = memory_of(out), memory_of(image)
    if array is None or given is None or owner_of(array) is not owner_of(given):
        return out
    return ops.clone(out)


def like_image(ops: Any, out: Any, image: Any) -> Any:
    """A composite's result in channels last if PyTorch takes `image` for that, else in rows, and in
    memory of its own.

    Copies: none or one, which is in the graph.
    """
    array, like = memory_of(out), memory_of(image)
    if array is None or like is None:
        return out
    if owner_of(array) is owner_of(like):
        out = ops.clone(out)
        array = memory_of(out)
    if native.suggests_channels_last(like) and array.ndim == like.ndim:
        last = native.suggests_channels_last(array)
        return out if last else ops._contiguous_channels_last(out)
    return out if array.flags.c_contiguous else ops._contiguous(out)
