"""Copies of a tensor as Python makes them: copy, deepcopy, pickle."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import native
from ..autograd.leaf import Leaf
from ..autograd.operands import as_canonical
from .history import node_name
from .restriding import Restriding

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
        memory is copied whole; but a parameter that lies in a flat block with others leaves it.
        """
        owner = self.array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        plain = owner.flags.c_contiguous or owner.flags.f_contiguous
        if not plain or (self.leaf is not None and self.leaf.home is not None):
            return native.call(np.array, self.array)
        key = ("memory", id(owner))
        if key not in memo:
            memo[key] = native.call(np.array, owner), owner  # which has to stay as long as its id
        made = memo[key][0]
        if self.array is owner:
            return made
        flat = (made if made.flags.c_contiguous else made.T).reshape(-1).view(np.uint8)
        start = self.array.ctypes.data - owner.ctypes.data
        return np.ndarray(self.array.shape, self.array.dtype, flat, start, self.array.strides)

    def __copy__(self) -> Tensor:
        cls: Any = type(self)
        made = remade(cls, self.array, self.requires_grad, self.grad)
        if named := getattr(self, "__dict__", None):
            made.__dict__.update(named)
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Plain pickle copies the bytes. Between processes the pickler of `multiprocessing` sends a
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
        # A subclass's own attributes are the third part, which pickle puts back by itself.
        return (
            rebuilt,
            (type(self), self.array, self.requires_grad, grad),
            getattr(self, "__dict__", None) or None,
        )


def remade(cls: type[Tensor], array: Any, requires_grad: Any, grad: Any) -> Tensor:
    """A tensor of a class over an array."""
    made: Tensor = cls.__new__(cls, native.wrap(array))
    made.array = array
    if requires_grad:
        made.requires_grad_()
    if grad is not None:
        made.grad = grad
    return made


def rebuilt(cls: type[Tensor], array: Any, requires_grad: Any, grad: Any) -> Tensor:
    """A tensor from its pickle."""
    made = remade(cls, as_canonical(array), requires_grad, None)
    if grad is not None:
        is_dense = isinstance(grad, np.ndarray)
        made.grad = native.wrap(as_canonical(grad)) if is_dense else grad
    return made
