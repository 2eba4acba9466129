"""Subclasses of Tensor: results keep the class, and `__torch_function__` sees every op.

Only inside `__torch_function__` do ops use the memory of a subclass's tensor; otherwise they call
the class's `__torch_function__` (Note [Plain classes] in autograd/dispatch/torch_function.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import native
from ..autograd.dispatch.foreign_operands import refuse_foreign
from ..autograd.dispatch.op_function import table
from ..autograd.dispatch.torch_function import add_plain_class, disabled, is_disabled


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

    Raises:
        TypeError: a function of PyTorch, with a tensor of PyTorch among the arguments, or without a
            function of the same name here.
    """
    if is_disabled():
        return NotImplemented  # a function that is not ours calls it again
    kwargs = kwargs or {}
    if is_of_torch(func):
        refuse_foreign(f"torch.{func.__name__}", (*args, *kwargs.values()))
    if not all(issubclass(cls, t) for t in types):
        return NotImplemented
    if is_of_torch(func):
        func = function_of_same_name(func)
    with disabled():
        result = func(*args, **kwargs)
    return as_class(result, cls)


def is_of_torch(func: Callable[..., Any]) -> bool:
    """Whether a function, or a method of a class, is PyTorch's."""
    owner = getattr(func, "__objclass__", func)  # a method that is written in C has no __module__
    return (getattr(owner, "__module__", None) or "").partition(".")[0] == "torch"


def function_of_same_name(func: Callable[..., Any]) -> Callable[..., Any]:
    """Our function with the name of one of PyTorch: `torch.nn.functional.gelu(x)` calls the
    `__torch_function__` of our tensor x.
    """
    function: Callable[..., Any] | None = getattr(table, func.__name__, None)
    if function is None or hasattr(func, "__objclass__") or func.__name__.startswith("__"):
        raise TypeError(
            f"torch.{func.__name__}: no implementation for a shmtensor.Tensor, hint: "
            "torch.from_dlpack(x) makes it a torch.Tensor over the same memory"
        )
    return function
