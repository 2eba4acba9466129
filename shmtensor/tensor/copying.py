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
        """A leaf's copy has memory and `.grad` of its own. Copies: one."""
        if not self.is_leaf:
            raise RuntimeError(
                "deepcopy: Only Tensors created explicitly by the user (graph leaves) support the "
                "deepcopy protocol: "
                f"this one was computed by {node_name(self)}, use detach().clone()"
            )
        if id(self) in memo:
            return memo[id(self)]  # type: ignore[no-any-return]
        cls: Any = type(self)
        made = remade(cls, native.call(np.array, self.array), self.requires_grad, None)
        memo[id(self)] = made
        if named := getattr(self, "__dict__", None):
            made.__dict__.update(copy.deepcopy(named, memo))
        if self.grad is not None:
            made.leaf = made.leaf or Leaf(made)
            made.leaf.grad = self.grad.__deepcopy__(memo)
        return made

    def __copy__(self) -> Tensor:
        cls: Any = type(self)
        return remade(cls, self.array, self.requires_grad, self.grad)

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
