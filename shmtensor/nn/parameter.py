"""Parameter: a tensor that a Module counts as its own."""

from __future__ import annotations

from typing import Any

from ..registration import enter, reduce_tensor
from ..tensor import Tensor

__all__ = ["Buffer", "Parameter"]


class Parameter(Tensor):
    """A tensor that becomes a parameter of the Module to which it is assigned.

    Copies: none (the parameter is the memory of `data`).

    Args:
        data: the tensor, of any shape; None stands for an empty one.
        requires_grad: whether gradients are computed for it.
    """

    keeps_class = False  # what is computed from parameters are plain tensors

    # No __slots__: people hang attributes on their parameters (weight.is_shared_expert = True).

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Parameter:
        if data is None:
            data = Tensor([])
        if not isinstance(data, Tensor):
            raise TypeError(
                f"Parameter: data must be a Tensor: got {type(data).__name__}, "
                "hint: tensor(data) makes one"
            )
        if requires_grad and data.dtype.kind not in "fc":
            raise RuntimeError(
                "Parameter: only floating-point and complex tensors can require gradients: "
                f"got dtype {data.dtype}, hint: pass requires_grad=False"
            )
        self = Tensor.__new__(cls)
        self.array = data.array
        self.node = self.version = self.base = self.leaf = None
        if requires_grad:
            self.requires_grad_(True)
        return self

    def __init__(self, data: Any = None, requires_grad: bool = True) -> None:
        pass

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.detach().clone(), self.requires_grad)
        copied: Parameter = memo[id(self)]
        return copied

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()


class Buffer(Tensor):
    """A tensor that becomes a buffer of the Module to which it is assigned.

    Args:
        data: the tensor; None stands for an empty one.
        persistent: whether it is part of `state_dict`.
    """

    keeps_class = False
    persistent: bool

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Buffer:
        self = Tensor.__new__(cls)
        self.array = (Tensor([]) if data is None else data).array
        self.node = self.version = self.base = self.leaf = None
        self.persistent = persistent
        return self

    def __init__(self, data: Any = None, *, persistent: bool = True) -> None:
        pass


enter(Parameter, reduce_tensor)
