"""What Python's syntax and built-in functions ask of a tensor, where it is more than a line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import native
from ..autograd.engine import views_and_inplace
from .grad_attributes import node_name
from .printing import format_array

if TYPE_CHECKING:
    from .tensor import Tensor

__all__ = ["ambiguous", "contains", "index_number", "one_number", "real_number", "text"]


def text(tensor: Tensor) -> str:
    """A tensor as PyTorch prints it, with its place in the graph."""
    notes = []
    if views_and_inplace.requires_grad(tensor):
        try:
            is_leaf = tensor.is_leaf
        except RuntimeError:  # a view whose base was written
            notes.append("grad_fn=<Invalid>")
        else:
            notes.append("requires_grad=True" if is_leaf else f"grad_fn=<{node_name(tensor)}>")
    own = type(tensor) is not native.plain_class() and tensor.keeps_class
    prefix = f"{type(tensor).__name__}(" if own else "tensor("
    return format_array(tensor.array, prefix, tuple(notes))


def contains(tensor: Tensor, value: Any) -> bool:
    """Whether some element equals a value."""
    if not isinstance(value, (native.TensorBase, int, float, complex)):
        raise RuntimeError(
            f"in: Tensor.__contains__ only supports Tensor or scalar: {type(value).__name__}"
        )
    return bool((tensor == value).any())


def ambiguous(tensor: Tensor) -> RuntimeError:
    how_many = "no values" if tensor.array.size == 0 else "more than one value"
    return RuntimeError(
        f"bool: Boolean value of Tensor with {how_many} is ambiguous: shape "
        f"{tuple(tensor.shape)}, use any() or all()"
    )


def index_number(tensor: Tensor) -> int:
    """The one element, a whole number."""
    if tensor.array.dtype.kind not in "iub" or tensor.array.size != 1:
        raise TypeError(
            "index: only integer tensors of a single element can be converted to an index: "
            f"shape {tuple(tensor.shape)}, dtype {tensor.dtype}"
        )
    return int(tensor.array.item())


def one_number(x: Any, where: str) -> Any:
    """The one element.

    Raises:
        ValueError: it is not one.
    """
    if x.array.size != 1:
        raise ValueError(
            f"{where}: only one element tensors can be converted to Python scalars: "
            f"shape {tuple(x.shape)}"
        )
    return x.item()


def real_number(x: Any, where: str) -> Any:
    """The one element, which has no imaginary part.

    Raises:
        RuntimeError: it has one.
    """
    found = one_number(x, where)
    if found.__class__ is complex:
        if found.imag:
            raise RuntimeError(f"{where}: value cannot be converted without overflow: {found}")
        return found.real
    return found
