"""Subclasses of Tensor: results keep the class, and `__torch_function__` sees every op.

Ops take a tensor of a subclass by its memory only inside `__torch_function__`; else they ask the
class (Note [Plain classes] in autograd/dispatch/torch_function.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import native
from ..autograd.dispatch.op_function import table
from ..autograd.dispatch.torch_function import add_plain_class, disabled, is_disabled

__all__ = ["as_class", "as_subclass", "settle", "torch_function"]


def settle(cls: Any) -> None:
    """A new subclass of Tensor: one without behaviour of its own is registered as plain."""
    if not cls.keeps_class and getattr(cls.__torch_function__, "__func__", None) is torch_function:
        add_plain_class(cls)


def as_class(result: Any, cls: Any) -> Any:
    """A result, or several, as tensors of a subclass; what is of a subclass already stays."""
    if isinstance(result, (tuple, list)):
        made = [as_class(r, cls) for r in result]
        kind: Any = type(result)
        return kind(*made) if hasattr(kind, "_fields") else kind(made)
    if result.__class__ is not native.plain_class() or cls is result.__class__:
        return result
    return moved(result, cls)


def moved(tensor: Any, cls: Any) -> Any:
    """Another tensor of that class in the place of one that nobody else refers to."""
    made: Any = native.TensorBase.__new__(cls)
    made.array, made.node, made.base = tensor.array, tensor.node, tensor.base
    made.version = tensor.version
    return made


def as_subclass(tensor: Any, cls: Any) -> Any:
    """The same memory and history as a tensor of that class."""
    with disabled():
        return moved(table.view_as(tensor, tensor), cls)


def torch_function(
    cls: Any, func: Callable[..., Any], types: Sequence[Any], args: Any = (), kwargs: Any = None
) -> Any:
    """What an op on tensors of a subclass does: it runs, and what it gives becomes of the class.

    A subclass may override it, as in PyTorch, and calls `super().__torch_function__`.
    """
    if is_disabled() or not all(issubclass(cls, t) for t in types):
        return NotImplemented  # off: what runs below asks again, so it is no function of ours
    with disabled():
        result = own_function(func)(*args, **(kwargs or {}))
    return as_class(result, cls)


def own_function(func: Callable[..., Any]) -> Callable[..., Any]:
    """Our op of the same name, if `func` is PyTorch's: `torch.nn.functional.gelu(x)` asks the class
    of x, and so gets here when x is one of our tensors.
    """
    if (getattr(func, "__module__", None) or "").partition(".")[0] != "torch":
        return func
    own: Callable[..., Any] = getattr(table, func.__name__, func)
    return own
