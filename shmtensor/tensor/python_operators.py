"""Tensor's longer methods for Python's syntax and built-in functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import native
from ..autograd.dispatch.foreign_operands import refuse_foreign
from ..autograd.engine import views_and_inplace
from .grad_attributes import node_name
from .printing import format_array

if TYPE_CHECKING:
    from .tensor import Tensor


def text(tensor: Tensor) -> str:
    """A tensor as PyTorch prints it, with its grad_fn."""
    notes = []
    if views_and_inplace.requires_grad(tensor):
        try:
            is_leaf = tensor.is_leaf
        except RuntimeError:  # a view whose base was written
            notes.append("grad_fn=<Invalid>")
        else:
            notes.append("requires_grad=True" if is_leaf else f"grad_fn=<{node_name(tensor)}>")
    shows_class = type(tensor) is not native.plain_class() and tensor.keeps_class
    prefix = f"{type(tensor).__name__}(" if shows_class else "tensor("
    return format_array(tensor.array, prefix, tuple(notes))


def contains(tensor: Tensor, value: Any) -> bool:
    """Whether an element equals a value."""
    if not isinstance(value, (native.TensorBase, int, float, complex)):
        refuse_foreign("in", (value,))
        raise RuntimeError(
            f"in: Tensor.__contains__ only supports Tensor or scalar: {type(value).__name__}"
        )
    return bool((tensor == value).any())


def ambiguous(tensor: Tensor) -> RuntimeError:
    count = "no values" if tensor.array.size == 0 else "more than one value"
    return RuntimeError(
        f"bool: Boolean value of Tensor with {count} is ambiguous: shape "
        f"{tuple(tensor.shape)}, use any() or all()"
    )


def index_of_single(tensor: Tensor) -> int:
    """The single element, an integer."""
    if tensor.array.dtype.kind not in "iub" or tensor.array.size != 1:
        raise TypeError(
            "index: only integer tensors of a single element can be converted to an index: "
            f"shape {tuple(tensor.shape)}, dtype {tensor.dtype.name}"
        )
    return int(tensor.array.item())


def single_number(x: Any, where: str) -> Any:
    """The single element.

    Raises:
        ValueError: there is not exactly one.
    """
    if x.array.size != 1:
        raise ValueError(
            f"{where}: only one element tensors can be converted to Python scalars: "
            f"shape {tuple(x.shape)}"
        )
    return x.item()


def real_number(x: Any, where: str) -> Any:
    """The single element, which must be real.

    Raises:
        RuntimeError: it has an imaginary part.
    """
    number = single_number(x, where)
    if number.__class__ is complex:
        if number.imag:
            raise RuntimeError(f"{where}: value cannot be converted without overflow: {number}")
        return number.real
    return number
