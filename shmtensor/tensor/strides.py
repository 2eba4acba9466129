"""Strides and memory formats in PyTorch's terms."""

from __future__ import annotations

from typing import Any

from ..ops.table.tensor_like import CHANNELS_LAST, order_in


def element_strides(array: Any) -> tuple[int, ...]:
    """The strides in elements. NumPy's stride 0 of a dimension of size 1, or of an empty array,
    becomes PyTorch's: the next dimension's stride times its size.
    """
    steps = tuple([step // array.itemsize for step in array.strides])
    if 0 not in steps:
        return steps
    is_empty = 0 in array.shape
    result: list[int] = []
    next_step = 1
    for step, size in zip(reversed(steps), reversed(array.shape)):
        result.append(next_step if (size == 1 or is_empty) and not step else step)
        next_step = result[-1] * max(size, 1)
    return tuple(reversed(result))


def is_contiguous(array: Any, memory_format: Any) -> bool:
    """Whether the elements are contiguous in a memory format; None: in row order."""
    order = CHANNELS_LAST.get(getattr(memory_format, "name", ""))
    if order is None:
        return array.flags.c_contiguous  # type: ignore[no-any-return]
    return array.ndim == len(order) and bool(array.transpose(order).flags.c_contiguous)


def is_channels_last(memory_format: Any, array: Any) -> bool | None:
    """Whether a format is channels last; None: the strides stay.

    Raises:
        RuntimeError: the format is for another number of dimensions.
    """
    if getattr(memory_format, "name", "preserve_format") == "preserve_format":
        return None
    return order_in(array.shape, memory_format) is not None
