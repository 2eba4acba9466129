"""`x.new_tensor`: a tensor from data, with the dtype of x."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .. import dtypes, native
from ..autograd.dispatch.promote_operands import as_canonical
from ..cuda_arrays import device_of, move_array
from ..device import CPU, device_of_new
from .data_elements import (
    MAX_DIMS,
    NO_ARRAYS,
    check_elements,
    container_as_array,
    not_an_array,
    too_deep,
)

if TYPE_CHECKING:
    from .tensor import Tensor


def new_tensor(data: Any, dtype: Any, device: Any = None, like: Any = None) -> Tensor:
    """A tensor of a dtype from data. Copies: one, and another to a GPU.

    Args:
        device: by default that of the array `like`.
    """
    data = container_as_array(data, "new_tensor")
    dtype = dtypes.as_dtype(dtype)
    try:
        array = as_canonical(native.call(np.array, as_plain(data), dtype))
    except (TypeError, ValueError) as error:
        raise not_an_array(error, data, "new_tensor") from None
    check_elements(data, "new_tensor")
    place = device_of_new(device, None if like is None else device_of(like))
    return native.wrap(array if place.type == "cpu" else move_array(array, place))  # type: ignore[no-any-return]


def sizes_of_constructor(args: tuple[Any, ...], size: Any = None) -> tuple[int, ...] | None:
    """The sizes that an old constructor gets: one by one, as a Size (`FloatTensor(x.size())`,
    `x.new(2, 3)`), by `size=`; None if it gets data (`FloatTensor([2, 3])`).
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
    """Data with NumPy arrays in place of tensors; those on GPUs are copied to the host. In a list,
    a tensor of one element counts as a number, as in PyTorch.

    Raises:
        ValueError: lists are nested deeper than an array can be.
    """
    if isinstance(data, native.TensorBase):
        array = move_array(data.array, CPU)
        return array.reshape(()) if depth and array.size == 1 else array
    if isinstance(data, (list, tuple)):
        if depth == MAX_DIMS:
            raise too_deep(data)
        return [as_plain(d, depth + 1) for d in data]
    if isinstance(data, NO_ARRAYS):
        raise TypeError(f"could not infer dtype of {type(data).__name__}")
    return data
