"""Overriding ops by `__torch_function__`, `torch.overrides` by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .autograd.dispatch import torch_function

__all__ = ["handle_torch_function", "has_torch_function", "is_tensor_like"]


def is_tensor_like(inp: Any) -> bool:
    """Whether an object is a tensor, or of a class with a `__torch_function__`."""
    return hasattr(type(inp), "__torch_function__")


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether one of the operands overrides ops; plain tensors do not."""
    return bool(torch_function.overloaded_args(relevant_args))


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Calls the `__torch_function__` of the operands that override ops.

    Raises: TypeError, all of them return NotImplemented.
    """
    return torch_function.call_torch_function(
        torch_function.overloaded_args(relevant_args), public_api, args, kwargs
    )
