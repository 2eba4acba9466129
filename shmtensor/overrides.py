"""Overriding ops by `__torch_function__`, `torch.overrides` by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .autograd.dispatch import torch_function

__all__ = ["handle_torch_function", "has_torch_function", "is_tensor_like"]


def is_tensor_like(inp: Any) -> bool:
    """Whether an object is a tensor, or of a class with a `__torch_function__`.

    Parameters
    ----------
    inp : object
        Any.

    Returns
    -------
    bool
        By the class of the object.

    Examples
    --------
    >>> st.overrides.is_tensor_like(st.ones(2)), st.overrides.is_tensor_like([1, 2])
    (True, False)
    """
    return hasattr(type(inp), "__torch_function__")


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether one of the operands overrides ops; plain tensors do not.

    Parameters
    ----------
    relevant_args : iterable
        The operands.

    Returns
    -------
    bool
        Whether `handle_torch_function` has something to call.

    Examples
    --------
    >>> st.overrides.has_torch_function((st.ones(2), 3))
    False
    """
    return bool(torch_function.overloaded_args(relevant_args))


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Calls the `__torch_function__` of the operands that override ops.

    Parameters
    ----------
    public_api : callable
        The function that was called.
    relevant_args : iterable
        Its operands that may override it.
    *args, **kwargs : object
        All its arguments.

    Returns
    -------
    object
        What the first `__torch_function__` that does not return NotImplemented returns.

    Raises
    ------
    TypeError
        All of them return NotImplemented.

    Examples
    --------
    >>> class Named:
    ...     @classmethod
    ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
    ...         return f"{func.__name__} of {len(args)}"
    >>> def area(x):
    ...     if st.overrides.has_torch_function((x,)):
    ...         return st.overrides.handle_torch_function(area, (x,), x)
    ...     return x.numel()
    >>> area(Named()), area(st.ones(2, 3))
    ('area of 1', 6)
    """
    return torch_function.call_torch_function(
        torch_function.overloaded_args(relevant_args), public_api, args, kwargs
    )
