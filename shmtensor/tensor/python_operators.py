"""What Python's syntax and built-in functions ask of a tensor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .. import native
from ..autograd.dispatch.op_function import table
from ..autograd.engine import views_and_inplace as view
from .deepcopy_pickle import Copying
from .printing import format_array
from .requires_grad import node_name

if TYPE_CHECKING:
    from .tensor import Tensor

__all__ = ["Language"]


class Language(Copying):
    """len, iteration, truth, numbers, text."""

    __slots__ = ()

    def __repr__(self) -> str:
        notes = []
        if view.requires_grad(self):
            try:
                is_leaf = self.is_leaf
            except RuntimeError:  # a view whose base was written
                notes.append("grad_fn=<Invalid>")
            else:
                notes.append("requires_grad=True" if is_leaf else f"grad_fn=<{node_name(self)}>")
        own = type(self) is not native.plain_class() and getattr(self, "keeps_class", False)
        prefix = f"{type(self).__name__}(" if own else "tensor("
        return format_array(self.array, prefix, tuple(notes))

    def __format__(self, spec: str) -> str:
        if self.array.ndim == 0 and type(self) is native.plain_class():  # as the number
            return format(self.item(), spec)
        return repr(self) if not spec else object.__format__(self, spec)

    def __reversed__(self) -> Tensor:
        """All dimensions turned round, as PyTorch has it; a 0-d tensor is itself."""
        same: Any = self
        return table.flip(self, tuple(range(self.array.ndim))) if self.array.ndim else same  # type: ignore[no-any-return]

    def __len__(self) -> int:
        if self.array.ndim == 0:
            raise TypeError("len: len() of a 0-d tensor")
        return self.array.shape[0]  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[Tensor]:
        if self.array.ndim == 0:
            raise TypeError("iter: iteration over a 0-d tensor")
        return iter(self.unbind(0))

    def __contains__(self, value: Any) -> Any:
        if not isinstance(value, (native.TensorBase, int, float, complex)):
            raise RuntimeError(
                f"in: Tensor.__contains__ only supports Tensor or scalar: {type(value).__name__}"
            )
        return bool((self == value).any())

    def __bool__(self) -> Any:
        if self.array.size != 1:
            raise RuntimeError(
                f"bool: Boolean value of Tensor with "
                f"{'no values' if self.array.size == 0 else 'more than one value'} "
                f"is ambiguous: shape {tuple(self.shape)}, use any() or all()"
            )
        return bool(self.array.item())

    def __int__(self) -> Any:
        return int(real_number(self, "int"))

    def __float__(self) -> Any:
        return float(real_number(self, "float"))

    def __complex__(self) -> complex:
        return complex(one_number(self, "complex"))

    def __index__(self) -> Any:
        if self.array.dtype.kind not in "iub" or self.array.size != 1:
            raise TypeError(
                "index: only integer tensors of a single element can be converted to an index: "
                f"shape {tuple(self.shape)}, dtype {self.dtype}"
            )
        return int(self.array.item())

    def __hash__(self) -> Any:
        return id(self)


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
