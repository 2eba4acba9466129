"""Subclasses of Tensor: results keep the class, and `__torch_function__` sees every op.

Only inside `__torch_function__` do ops use the memory of a subclass's tensor; otherwise they call
the class's `__torch_function__` (Note [Plain classes] in autograd/dispatch/torch_function.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import native
from ..autograd.dispatch.op_function import table
from ..autograd.dispatch.torch_function import add_plain_class, disabled, is_disabled

__all__ = ["as_class", "as_subclass", "register_if_plain", "torch_function", "with_class"]


def register_if_plain(cls: Any) -> None:
    """Registers a new subclass of Tensor as plain, if it has no behaviour of its own."""
    if not cls.keeps_class and getattr(cls.__torch_function__, "__func__", None) is torch_function:
        add_plain_class(cls)


def as_class(result: Any, cls: Any) -> Any:
    """One or several results as tensors of a subclass; those of a subclass stay."""
    if isinstance(result, (tuple, list)):
        results = [as_class(r, cls) for r in result]
        cls_of_result: Any = type(result)
        return (
            cls_of_result(*results) if hasattr(cls_of_result, "_fields") else cls_of_result(results)
        )
    if result.__class__ is not native.plain_class() or cls is result.__class__:
        return result
    return with_class(result, cls)


def with_class(tensor: Any, cls: Any) -> Any:
    """A tensor of that class with the state of another, which must have no other references."""
    result: Any = native.TensorBase.__new__(cls)
    result.array, result.node, result.base = tensor.array, tensor.node, tensor.base
    result.version = tensor.version
    return result


def as_subclass(tensor: Any, cls: Any) -> Any:
    """The same memory and history as a tensor of that class."""
    with disabled():
        return with_class(table.view_as(tensor, tensor), cls)


def torch_function(
    cls: Any, func: Callable[..., Any], types: Sequence[Any], args: Any = (), kwargs: Any = None
) -> Any:
    """Runs an op on tensors of a subclass, and converts its results to the class.

    A subclass may override it, as in PyTorch, and calls `super().__torch_function__`.
    """
    if is_disabled() or not all(issubclass(cls, t) for t in types):
        return NotImplemented  # disabled: a function that is not ours calls it again
    with disabled():
        result = function_of_same_name(func)(*args, **(kwargs or {}))
    return as_class(result, cls)


def function_of_same_name(func: Callable[..., Any]) -> Callable[..., Any]:
    """Our op of the same name, if `func` is PyTorch's: `torch.nn.functional.gelu(x)` calls the
    `__torch_function__` of our tensor x.
    """
    if (getattr(func, "__module__", None) or "").partition(".")[0] != "torch":
        return func
    function: Callable[..., Any] = getattr(table, func.__name__, func)
    return function
