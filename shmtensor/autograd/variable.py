"""`Variable`, which PyTorch merged with Tensor in 0.4, and the engine that it bears."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import native
from ..dtypes import get_default_dtype
from .engine.current_backward import after_backward, backward_state

__all__ = ["Variable"]


class _Engine:
    """`Variable._execution_engine`, of which programs use one method."""

    def queue_callback(self, callback: Callable[[], Any]) -> None:
        """Calls a function when the outermost backward has ended.

        Raises:
            RuntimeError: no backward runs in this thread.
        """
        if not backward_state.depth:
            raise RuntimeError(
                "queue_callback: Final callbacks can only be installed during backward pass."
            )
        after_backward(callback)


class _VariableMeta(type):
    """Every tensor is a Variable."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, native.TensorBase)


class Variable(metaclass=_VariableMeta):
    """The old name of Tensor: calling it makes a tensor that shares the memory of another one,
    without its history; `isinstance(x, Variable)` holds for all tensors.

    Parameters
    ----------
    data : Tensor, optional
        A tensor; one without elements if None.
    requires_grad : bool, optional
        Whether to record operations on the new one.
    volatile : bool, optional
        Has no effect, and warns: use `no_grad`.

    Raises
    ------
    TypeError
        `data` is not a tensor.

    Notes
    -----
    Copies: none.

    Examples
    --------
    >>> from shmtensor.autograd.variable import Variable
    >>> Variable(st.ones(2), requires_grad=True)
    tensor([1., 1.], requires_grad=True)
    """

    _execution_engine = _Engine()

    def __new__(cls, data: Any = None, requires_grad: bool = False, volatile: bool = False) -> Any:
        if volatile:
            warnings.warn(
                "volatile was removed and now has no effect. Use `with no_grad():` instead.",
                stacklevel=2,
            )
        if data is None:
            data = native.wrap(native.call(np.empty, 0, get_default_dtype()))
        elif not isinstance(data, native.TensorBase):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        result: Any = data.detach()
        return result.requires_grad_() if requires_grad else result
