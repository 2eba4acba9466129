"""Gives tensors other memory, or another part of theirs, in place: `resize_`, `set_`, and `out=` of
another size.
"""

from __future__ import annotations

import warnings
from typing import Any, NoReturn

from ... import native
from ...cuda_arrays import device_of, new_array
from ...storage import is_same_memory, resize_array
from ..grad_mode import FROZEN, enable_grad
from . import views_and_inplace
from .accumulate_grad import AccumulateGrad, renew_accumulate_grad


def resize_output(out: Any, where: str, shape: tuple[int, ...]) -> None:
    """Resizes `out` to the shape of a result, with a warning if it had elements.

    Copies: none, or one of the whole memory if that is too small.
    """
    if out.array.shape == shape:
        return
    if out.array.size:
        warnings.warn(
            f"{where}: An output with one or more elements was resized since it had shape "
            f"{out.array.shape}, which does not match the required output shape {shape}. "
            "Reuse it after out.resize_(0), which has no elements",
            stacklevel=4,
        )
    resize(out, shape)


def resize(tensor: Any, shape: tuple[int, ...], order: tuple[int, ...] | None = None) -> None:
    """Resizes the tensor within its memory, from its first element on, or over new memory if that
    is too small. Copies: none, or one of the whole memory.

    Args:
        order: the dimensions from the outermost to the innermost in memory; None: contiguous.
    """
    array = tensor.array
    if not array.size and tensor.base is not None:
        rule = tensor.base[2]
        if rule is None or not rule.row.of_memory:  # NumPy hides the address of an empty slice
            array = new_array("empty", (0,), array.dtype, device_of(array))
    set_array(tensor, resize_array(array, shape, order))


def set_array(tensor: Any, array: Any) -> None:
    """Gives a tensor another array. A view remains a view if the array is in the same memory.
    Copies: none.
    """
    shares = is_same_memory(tensor.array, array)
    base = tensor.base
    tensor.array = array
    if tensor.accumulate_grad is not None and (
        tensor.node is None or tensor.node.__class__ is AccumulateGrad
    ):
        renew_accumulate_grad(tensor)
    if base is not None:
        tensor.base = base_of(tensor) if shares else None
    if not shares and tensor.version is not None and tensor.version is not FROZEN:
        version = native.Version()  # the old version counts the writes to the old memory
        version.count = tensor.version.count
        tensor.version = version


def base_of(tensor: Any) -> tuple[Any, ...]:
    """The new `base` of a view that moved within the memory of its root."""
    root, steps = views_and_inplace.root_and_steps(tensor)
    if any(rule is None for rule, _ in steps):
        count = root.version.count
        return root, ~count if root.node is not None else count, None, ()
    with enable_grad():
        strided = views_and_inplace.ops.as_strided(
            root, tensor.shape, tensor.stride(), tensor.storage_offset()
        )
    base: tuple[Any, ...] = strided.base
    return base


class SetStorage:
    """The rule of a tensor that got other memory by `set_`, which has no gradient."""

    name = "set_"
    display_name = "NotImplemented"

    @staticmethod
    def arrays(node: Any, g: Any) -> NoReturn:
        raise RuntimeError("backward: the derivative for 'set_' is not implemented")

    tensors = arrays
