"""How a tensor's elements lie in memory, in PyTorch's terms: strides, memory formats."""

from __future__ import annotations

from typing import Any

from ..ops.table.tensor_like import CHANNELS_LAST, order_in

__all__ = ["channels_of", "is_contiguous", "steps_of"]


def steps_of(array: Any) -> tuple[int, ...]:
    """The strides in elements. Those of dimensions of size 1 that NumPy inserted (0), and all of
    memory without elements, are as PyTorch has them: one step further than the dimension behind.
    """
    steps = tuple([step // array.itemsize for step in array.strides])
    if 0 not in steps:
        return steps
    empty = 0 in array.shape
    found: list[int] = []
    behind = 1
    for step, size in zip(reversed(steps), reversed(array.shape)):
        found.append(behind if (size == 1 or empty) and not step else step)
        behind = found[-1] * max(size, 1)
    return tuple(reversed(found))


def is_contiguous(array: Any, memory_format: Any) -> bool:
    """Whether the elements lie in the order of a memory format; None: of rows."""
    order = CHANNELS_LAST.get(getattr(memory_format, "name", ""))
    if order is None:
        return array.flags.c_contiguous  # type: ignore[no-any-return]
    return array.ndim == len(order) and bool(array.transpose(order).flags.c_contiguous)


def channels_of(memory_format: Any, array: Any) -> bool | None:
    """Whether a format has the channels last; None: the strides stay.

    Raises:
        RuntimeError: a format for another number of dimensions.
    """
    if getattr(memory_format, "name", "preserve_format") == "preserve_format":
        return None
    return order_in(array.shape, memory_format) is not None
