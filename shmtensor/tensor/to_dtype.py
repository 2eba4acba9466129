"""`x.to(...)`: its forms, and what they ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import dtypes, native
from ..autograd.dispatch.op_function import table
from ..device import Device, as_device
from .strides import channels_of

if TYPE_CHECKING:
    from .tensor import Tensor

__all__ = ["to"]

# What `to` takes by name.
TO = {"copy", "device", "dtype", "memory_format", "non_blocking", "other"}


def to(tensor: Tensor, args: tuple[Any, ...], named: dict[str, Any]) -> Tensor:
    """A tensor with another dtype, on another device or in another order; itself if nothing
    changes.
    """
    dtype, device, copy = named.get("dtype"), named.get("device"), named.get("copy", False)
    if unknown := named.keys() - TO:
        raise TypeError(f"to: got an unexpected keyword argument: {sorted(unknown)}")
    if "other" in named:
        args = (*args, named["other"])
    for a in args:
        if isinstance(a, native.TensorBase):
            dtype = a.array.dtype
        elif isinstance(a, Device) or (
            isinstance(a, str) and a.partition(":")[0] in ("cpu", "cuda")
        ):
            device = a
        elif isinstance(a, bool):
            continue  # non_blocking
        elif isinstance(a, int):
            device = a
        elif a is not None:
            dtype = a
    as_device(device)
    wanted = tensor.array.dtype if dtype is None else dtypes.as_dtype(dtype)
    same = wanted is tensor.array.dtype
    if channels_of(named.get("memory_format"), tensor.array) is not None:
        made = tensor if same else table._to_copy(tensor, wanted)
        form = named["memory_format"]
        return made.clone(memory_format=form) if copy else made.contiguous(form)
    if same:
        return tensor.clone() if copy else tensor
    return table._to_copy(tensor, wanted)  # type: ignore[no-any-return]
