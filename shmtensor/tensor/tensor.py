"""Tensor: an array in memory that other processes can see, with its place in the graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes, native
from ..autograd.dispatch.op_function import rule_of
from .python_operators import Language
from .subclass import as_subclass, settle, torch_function

__all__ = ["Size", "Tensor"]

Size = native.Size


class Tensor(Language):
    """A multi-dimensional array of one dtype. Made by `tensor`, `zeros`, `from_numpy` and the like.

    Its memory is seen by every process that has the tensor: a write is seen by all, as between
    threads.
    """

    __slots__ = ()
    __module__ = "shmtensor"

    keeps_class = True  # of a subclass: its ops give tensors of the subclass

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        settle(cls)

    __torch_function__ = classmethod(torch_function)

    def as_subclass(self, cls: Any) -> Any:
        """The same memory and history as a tensor of a subclass. Copies: none."""
        return as_subclass(self, cls)

    @staticmethod
    def _make_subclass(cls: Any, data: Tensor, require_grad: bool = False) -> Any:
        made = as_subclass(data.detach(), cls)
        return made.requires_grad_() if require_grad else made

    def __new__(cls, data: Any = None, *sizes: int, **named: Any) -> Any:
        made: Any = super().__new__(cls)
        if data is None:
            made.array = native.call(np.empty, 0, dtypes.get_default_dtype())
        elif isinstance(data, int):
            made.array = native.call(np.empty, (data, *sizes), dtypes.get_default_dtype())
        elif isinstance(data, native.TensorBase):
            made.array = data.array
        else:
            made.array = native.call(np.array, data, dtypes.get_default_dtype())
        return made


native.set_tensor_class(Tensor)
setattr(Tensor, "__getitem__", rule_of("getitem").public)  # noqa: B010
