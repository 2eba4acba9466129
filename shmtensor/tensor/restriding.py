"""In place, but of the geometry: the tensor becomes another view of memory, its values stay."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import native
from ..autograd import view
from ..autograd.dispatch import table
from ..autograd.mode import recording
from .writing import Writing

if TYPE_CHECKING:
    from typing_extensions import Self

    from .tensor import Tensor

__all__ = ["Restriding"]


class Restriding(Writing):
    """t_, transpose_, squeeze_, unsqueeze_, as_strided_, resize_, set_."""

    __slots__ = ()

    def become(self, name: str, *args: Any) -> Self:
        """The tensor takes the place of a view of itself.

        What it was stands behind it as the view's base, so that history goes on; views of it that
        were made before refer to its former geometry, and are refused when they are looked at
        after another write.
        """
        if recording.get() and view.node_of(self) is not None:
            view.may_write(self)
        former: Any = native.wrap(self.array)
        former.node, former.base = self.node, self.base
        former.version = self.version
        made = getattr(table, name)(former, *args)
        node = view.node_of(made)
        self.array = made.array
        self.version, self.node = made.version, node
        self.base = made.base if node is not None or former.base is not None else None
        if self.leaf is not None and former.node is not None:
            view.move_retained(self, former.node)
        return self

    def t_(self) -> Self:
        """`t` in place. Copies: none."""
        return self.become("t")

    def transpose_(self, dim0: int, dim1: int) -> Self:
        """`transpose` in place. Copies: none."""
        return self.become("transpose", dim0, dim1)

    swapaxes_ = swapdims_ = transpose_

    def squeeze_(self, dim: Any = None) -> Self:
        """`squeeze` in place. Copies: none."""
        return self.become("squeeze", *(() if dim is None else (dim,)))

    def unsqueeze_(self, dim: int) -> Self:
        """`unsqueeze` in place. Copies: none."""
        return self.become("unsqueeze", dim)

    def as_strided_(self, size: Any, stride: Any, storage_offset: int | None = None) -> Self:
        """`as_strided` in place. Copies: none."""
        return self.become("as_strided", size, stride, storage_offset)

    def resize_(self, *sizes: Any, memory_format: Any = None) -> Self:
        """Changes the shape; new elements, if any, are not set. Copies: none, or one if it grows.

        Raises:
            RuntimeError: it requires grad.
        """
        shape = sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
        if self.node is not None:
            raise RuntimeError(
                f"resize_: cannot resize variables that require grad: shape {tuple(self.shape)}"
            )
        n = int(np.prod(shape, dtype=np.int64))
        old = self.array
        if n <= old.size and old.flags.c_contiguous:
            self.array = old.reshape(-1)[:n].reshape(shape)
        else:
            fresh = native.call(np.empty, n, old.dtype)
            kept = min(n, old.size)
            fresh[:kept] = old.reshape(-1)[:kept]
            self.array = fresh.reshape(shape)
        return self

    def resize(self, *sizes: Any) -> Tensor:
        """A tensor of another shape: of as many elements it is `reshape`, else a copy without
        history, as far as the memory reaches (deprecated in PyTorch: `resize_`).
        """
        shape = tuple(sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes)
        if math.prod(shape) == self.array.size:
            return self.reshape(shape)
        return self.detach().clone().resize_(*sizes)

    def resize_as(self, tensor: Tensor) -> Tensor:
        """`resize` to the shape of another tensor."""
        return self.resize(*tensor.shape)

    def resize_as_(self, tensor: Tensor, memory_format: Any = None) -> Self:
        """Takes the shape of another tensor, as `resize_`."""
        return self.resize_(tensor.shape)

    def set_(
        self, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None
    ) -> Self:
        """Makes this tensor a tensor over another one's memory, or over none. Copies: none.

        Raises:
            RuntimeError: another dtype.
        """
        if source is None:
            self.array = native.call(np.empty, 0, self.dtype)
            return self
        if source.array.dtype is not self.array.dtype:
            raise RuntimeError(
                f"set_: could not set tensor of type {source.array.dtype} to a tensor of type "
                f"{self.array.dtype}"
            )
        array = source.array
        if size is not None:
            steps = stride
            if steps is None:
                steps = np.cumprod([1, *tuple(size)[:0:-1]])[::-1].tolist()
            array = table.as_strided(source.detach(), size, steps, storage_offset).array
        self.array = array
        return self
