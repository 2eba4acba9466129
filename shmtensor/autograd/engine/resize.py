"""Tensors that get other memory, or another part of theirs, in place: `resize_`, `set_`, and `out=`
of another size.
"""

from __future__ import annotations

import warnings
from typing import Any, NoReturn

import numpy as np

from ... import native
from ...storage import owner_of, resize_array
from ..grad_mode import FROZEN, enable_grad
from . import views_and_inplace
from .accumulate_grad import AccumulateGrad, renew_accumulate_grad

__all__ = ["SetStorage", "place", "resize", "resize_output"]


def resize_output(out: Any, where: str, shape: tuple[int, ...]) -> None:
    """`out` takes the shape of a result, with a warning if it had elements.

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
    """The tensor takes a shape, over its memory from its first element on, or over new memory where
    its own ends before. Copies: none, or one of the whole memory if that is too small.

    Args:
        order: the dimensions from the outermost to the innermost in memory; None: as they are.
    """
    array = tensor.array
    if not array.size and tensor.base is not None:
        rule = tensor.base[2]
        if rule is None or rule.name != "_as_strided":  # NumPy says not where an empty slice is
            array = np.empty(0, array.dtype)
    place(tensor, resize_array(array, shape, order))


def place(tensor: Any, array: Any) -> None:
    """Makes it a tensor over an array. One that is a view remains a view of the same tensor if the
    array lies in the same memory. Copies: none.
    """
    shares = owner_of(tensor.array) is owner_of(array)
    base = tensor.base
    tensor.array = array
    if tensor.leaf is not None and (tensor.node is None or tensor.node.__class__ is AccumulateGrad):
        renew_accumulate_grad(tensor)
    if base is not None:
        tensor.base = base_of(tensor) if shares else None
    if not shares and tensor.version is not None and tensor.version is not FROZEN:
        fresh = native.Version()  # the former one counts the writes to the former memory
        fresh.count = tensor.version.count
        tensor.version = fresh


def base_of(tensor: Any) -> tuple[Any, ...]:
    """What a view that lies elsewhere in the memory of its root refers to from now on."""
    root, steps = views_and_inplace.chain_to(tensor)
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
    """The rule of a tensor that got other memory by `set_`: it has no gradient."""

    name = "set_"
    shown = "NotImplemented"

    @staticmethod
    def arrays(node: Any, g: Any) -> NoReturn:
        raise RuntimeError("backward: the derivative for 'set_' is not implemented")

    tensors = arrays
