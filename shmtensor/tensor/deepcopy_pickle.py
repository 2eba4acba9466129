"""Copies of a tensor as Python makes them: deepcopy, pickle."""

from __future__ import annotations

import copy
import mmap
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import native
from ..autograd.dispatch.promote_operands import as_canonical
from ..autograd.engine.accumulate_grad import AccumulateGrad
from ..storage import owner_of
from .grad_attributes import node_name

if TYPE_CHECKING:
    from .tensor import Tensor

__all__ = ["deepcopy", "rebuilt", "reduce", "remade"]


def deepcopy(tensor: Tensor, memo: dict[Any, Any]) -> Tensor:
    """A leaf's copy, with a `.grad` of its own. Copies: one, of all the memory that the tensor is a
    view of.
    """
    if not tensor.is_leaf:
        raise RuntimeError(
            "deepcopy: Only Tensors created explicitly by the user (graph leaves) support the "
            f"deepcopy protocol: this one was computed by {node_name(tensor)}, use detach().clone()"
        )
    if id(tensor) in memo:
        return memo[id(tensor)]  # type: ignore[no-any-return]
    cls: Any = type(tensor)
    made = remade(cls, copied_memory(tensor, memo), tensor.requires_grad, None)
    memo[id(tensor)] = made
    if named := getattr(tensor, "__dict__", None):
        made.__dict__.update(copy.deepcopy(named, memo))
    if tensor.grad is not None:
        made.accumulate_grad = made.accumulate_grad or AccumulateGrad(made)
        made.accumulate_grad.grad = tensor.grad.__deepcopy__(memo)
    return made


def copied_memory(tensor: Tensor, memo: dict[Any, Any]) -> Any:
    """A copy of a tensor's array. Tensors of one deepcopy that share memory share the copy, for the
    memory is copied whole.
    """
    owner = whole(tensor)
    if owner is None:
        return native.call(np.array, tensor.array)
    key = ("memory", id(owner))
    if key not in memo:
        memo[key] = native.call(np.array, owner), owner  # which has to stay as long as its id
    made = memo[key][0]
    return made if tensor.array is owner else part_of(made, *place_in(tensor, owner))


def whole(tensor: Tensor) -> Any:
    """The array of all the memory that a tensor is a view of; None if the tensor is to be copied
    alone: a parameter leaves the flat block that it lies in with others, and a part of a file
    its mapping.
    """
    owner = owner_of(tensor.array)
    plain = owner.flags.c_contiguous or owner.flags.f_contiguous
    mapped = isinstance(owner.base, mmap.mmap)
    home = tensor.accumulate_grad is not None and tensor.accumulate_grad.grad_buffer is not None
    return owner if plain and not mapped and not home else None


def place_in(tensor: Tensor, owner: Any) -> tuple[Any, ...]:
    """The arguments of `part_of` that give a tensor's array."""
    array = tensor.array
    start = array.ctypes.data - owner.ctypes.data if array.size else 0
    return array.shape, array.dtype, start, array.strides


def reduce(tensor: Tensor) -> Any:
    """What pickle calls to make a tensor anew, and with what."""
    if not tensor.is_leaf:
        raise RuntimeError(
            "pickle: cannot send or store a tensor that requires grad and is not a leaf, "
            f"autograd does not cross process boundaries: shape {tuple(tensor.shape)} computed by "
            f"{node_name(tensor)}, use detach()"
        )
    grad = tensor.grad.array if isinstance(tensor.grad, native.TensorBase) else tensor.grad
    owner = whole(tensor)
    if owner is None:
        owner = dense(tensor.array)
    parts: tuple[Any, ...] = (type(tensor), owner, tensor.requires_grad, grad)
    if owner is not tensor.array:  # pickle knows the owner again where another tensor names it
        parts += (place_in(tensor, owner),)
    # A subclass's own attributes are the third part, which pickle puts back by itself.
    return rebuilt, parts, getattr(tensor, "__dict__", None) or None


def dense(array: Any) -> Any:
    """The elements in the order of memory if they leave no gaps (channels last): a 1-d view; else
    the array itself, which pickle packs.
    """
    order = sorted(range(array.ndim), key=lambda d: -array.strides[d])
    turned = array.transpose(order)
    return turned.reshape(-1) if turned.flags.c_contiguous else array


def part_of(
    owner: Any, shape: tuple[int, ...], dtype: Any, start: int, strides: tuple[int, ...]
) -> Any:
    """A view of an array's memory, beginning at byte `start`. Copies: none."""
    flat = (owner if owner.flags.c_contiguous else owner.T).reshape(-1).view(np.uint8)
    part = np.ndarray(shape, dtype, flat, start, strides)
    if any(n > 1 and not step for n, step in zip(shape, strides)):  # stretched: as `expand` has it
        part.flags.writeable = False
    return part


def remade(cls: type[Tensor], array: Any, requires_grad: Any, grad: Any) -> Tensor:
    """A tensor of a class over an array; the class's own `__new__` may want more than we have."""
    made: Tensor = native.TensorBase.__new__(cls)
    made.array = array
    if requires_grad:
        made.requires_grad_()
    if grad is not None:
        made.grad = grad
    return made


def rebuilt(
    cls: type[Tensor], array: Any, requires_grad: Any, grad: Any, place: Any = None
) -> Tensor:
    """A tensor from its pickle.

    Args:
        place: where it lies in `array`: the arguments of `part_of`; None: all of it.
    """
    own = as_canonical(array if place is None else part_of(array, *place))
    made = remade(cls, own, requires_grad, None)
    if grad is not None:
        is_dense = isinstance(grad, np.ndarray)
        made.grad = native.wrap(as_canonical(grad)) if is_dense else grad
    return made
