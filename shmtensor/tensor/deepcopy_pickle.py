"""Copies of a tensor as Python makes them: copy, deepcopy, pickle."""

from __future__ import annotations

import copy
import mmap
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import native
from ..autograd.dispatch.promote_operands import as_canonical
from ..autograd.engine.accumulate_grad import Leaf
from .inplace_views import Restriding
from .requires_grad import node_name

if TYPE_CHECKING:
    from .tensor import Tensor

__all__ = ["Copying", "rebuilt", "remade"]


class Copying(Restriding):
    """copy, deepcopy, pickle."""

    __slots__ = ()

    def __deepcopy__(self, memo: dict[Any, Any]) -> Tensor:
        """A leaf's copy has memory and `.grad` of its own; the copies of tensors that share memory
        share theirs. Copies: one, of all the memory that the tensor is a view of.
        """
        if not self.is_leaf:
            raise RuntimeError(
                "deepcopy: Only Tensors created explicitly by the user (graph leaves) support the "
                "deepcopy protocol: "
                f"this one was computed by {node_name(self)}, use detach().clone()"
            )
        if id(self) in memo:
            return memo[id(self)]  # type: ignore[no-any-return]
        cls: Any = type(self)
        made = remade(cls, self.copied_memory(memo), self.requires_grad, None)
        memo[id(self)] = made
        if named := getattr(self, "__dict__", None):
            made.__dict__.update(copy.deepcopy(named, memo))
        if self.grad is not None:
            made.leaf = made.leaf or Leaf(made)
            made.leaf.grad = self.grad.__deepcopy__(memo)
        return made

    def copied_memory(self, memo: dict[Any, Any]) -> Any:
        """A copy of the array. Tensors of one deepcopy that share memory share the copy, for the
        memory is copied whole.
        """
        owner = self.whole()
        if owner is None:
            return native.call(np.array, self.array)
        key = ("memory", id(owner))
        if key not in memo:
            memo[key] = native.call(np.array, owner), owner  # which has to stay as long as its id
        made = memo[key][0]
        return made if self.array is owner else part_of(made, *self.place_in(owner))

    def whole(self) -> Any:
        """The array of all the memory that this is a view of; None if the tensor is to be copied
        alone: a parameter leaves the flat block that it lies in with others, and a part of a file
        its mapping.
        """
        owner = self.array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        plain = owner.flags.c_contiguous or owner.flags.f_contiguous
        mapped = isinstance(owner.base, mmap.mmap)
        home = self.leaf is not None and self.leaf.home is not None
        return owner if plain and not mapped and not home else None

    def place_in(self, owner: Any) -> tuple[Any, ...]:
        """The arguments of `part_of` that give this tensor's array."""
        array = self.array
        start = array.ctypes.data - owner.ctypes.data if array.size else 0
        return array.shape, array.dtype, start, array.strides

    def __copy__(self) -> Tensor:
        cls: Any = type(self)
        made = remade(cls, self.array, self.requires_grad, self.grad)
        if named := getattr(self, "__dict__", None):
            made.__dict__.update(named)
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Plain pickle copies the memory whole, once for all tensors of one pickle that are views
        of it, and keeps the strides. Between processes the pickler of `multiprocessing` sends a
        handle instead.
        """
        if not self.is_leaf:
            raise RuntimeError(
                "pickle: cannot send or store a tensor that requires grad and is not a leaf, "
                "autograd does not cross "
                f"process boundaries: shape {tuple(self.shape)} computed by {node_name(self)}, use "
                f"detach()"
            )
        grad = self.grad.array if isinstance(self.grad, native.TensorBase) else self.grad
        owner = self.whole()
        if owner is None:
            owner = dense(self.array)
        parts: tuple[Any, ...] = (type(self), owner, self.requires_grad, grad)
        if owner is not self.array:  # pickle knows the owner again where another tensor names it
            parts += (self.place_in(owner),)
        # A subclass's own attributes are the third part, which pickle puts back by itself.
        return rebuilt, parts, getattr(self, "__dict__", None) or None


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
