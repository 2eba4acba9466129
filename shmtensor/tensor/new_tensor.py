"""`x.new_tensor`: a tensor from data, with the dtype of x."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .. import dtypes, native
from ..autograd.dispatch.promote_operands import as_canonical
from ..cuda_arrays import device_of, move_array
from ..device import CPU, device_of_new
from .data_elements import check_elements, container_as_array

if TYPE_CHECKING:
    from .tensor import Tensor

__all__ = [
    "MAX_DIMS",
    "as_plain",
    "check_depth",
    "check_nesting",
    "new_tensor",
    "sizes_of_constructor",
]

MAX_DIMS = 64  # of a NumPy array


def new_tensor(data: Any, dtype: Any, device: Any = None, like: Any = None) -> Tensor:
    """A tensor of a dtype from data. Copies: one, and another to a GPU.

    Args:
        device: by default that of the array `like`.
    """
    data = container_as_array(data, "new_tensor")
    array = as_canonical(native.call(np.array, as_plain(data), dtypes.as_dtype(dtype)))
    check_elements(data, "new_tensor")
    place = device_of_new(device, None if like is None else device_of(like))
    return native.wrap(array if place.type == "cpu" else move_array(array, place))  # type: ignore[no-any-return]


def sizes_of_constructor(args: tuple[Any, ...], size: Any = None) -> tuple[int, ...] | None:
    """The sizes that an old constructor gets: one by one, as a Size (`FloatTensor(x.size())`,
    `x.new(2, 3)`), by `size=`; None if it gets data (`FloatTensor([2, 3])`).

    Raises:
        TypeError: data that is neither a tensor nor a sequence.
    """
    if size is not None:
        return tuple(size)
    if not args:
        return (0,)
    data = args[0]
    if isinstance(data, native.Size):
        return tuple(data)
    if isinstance(data, (int, np.integer)):
        return args
    if not hasattr(data, "__len__") and not hasattr(data, "__array__"):
        raise TypeError(f"new(): data must be a sequence: {data!r:.80}")
    return None


def as_plain(data: Any, depth: int = 0) -> Any:
    """Data with NumPy arrays in place of tensors; those on GPUs are copied to the host.

    Raises:
        ValueError: lists are nested deeper than an array can be.
    """
    if isinstance(data, native.TensorBase):
        return move_array(data.array, CPU)
    if isinstance(data, (list, tuple)):
        if depth == MAX_DIMS:
            raise too_deep(data)
        return [as_plain(d, depth + 1) for d in data]
    return data


# Note [Nested lists]: NumPy spins on a list that begins with itself, and crashes on some lists that
# hold themselves elsewhere if they become objects. `check_depth` finds the first kind at once;
# `check_nesting` reads all lists, for conversions to objects.
def check_depth(data: Any) -> Any:
    """The innermost first element of nested lists.

    Raises:
        ValueError: it is nested deeper than an array can be, as in a list that begins with itself.
    """
    first, depth = data, 0
    while first.__class__ in (list, tuple) and first:
        first, depth = first[0], depth + 1
        if depth > MAX_DIMS:
            raise too_deep(data)
    return first


def check_nesting(data: Any) -> None:
    """Checks the depth of all elements of nested lists.

    Raises:
        ValueError: one is nested deeper than an array can be, as in a list that holds itself.
    """
    remaining = [(data, 0)]
    while remaining:
        value, depth = remaining.pop()
        if depth > MAX_DIMS:
            raise too_deep(data)
        if isinstance(value, (list, tuple)):
            remaining += [(v, depth + 1) for v in value if isinstance(v, (list, tuple))]


def too_deep(data: Any) -> ValueError:
    """The error for lists that are nested too deeply, or hold themselves."""
    return ValueError(
        f"too many dimensions {type(data).__name__!r}: lists are nested more than {MAX_DIMS} deep"
    )
