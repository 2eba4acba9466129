"""In place, but of the geometry: the tensor becomes another view of memory, its values stay."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import native
from ..autograd.dispatch.op_function import table
from ..autograd.engine import views_and_inplace as view
from ..autograd.engine.accumulate_grad import Leaf
from ..autograd.engine.resize import SetStorage, place, resize
from ..autograd.engine.unrecorded_views import is_unrecorded
from ..autograd.grad_mode import enable_grad, no_grad, recording
from ..ops.table.tensor_like import order_in
from . import torch_constants as formats
from .setitem_copy import Writing

if TYPE_CHECKING:
    from typing_extensions import Self

    from .tensor import Tensor

__all__ = ["Restriding"]


class Restriding(Writing):
    """t_, transpose_, squeeze_, unsqueeze_, as_strided_, resize_, set_."""

    __slots__ = ()

    def become(self, name: str, *args: Any) -> Self:
        """The tensor takes the place of a view of itself.

        What it was is its base from then on, so that its history continues, under `no_grad` too: a
        tensor that requires grad still does. A leaf remains one. It counts as a write.
        """
        view.may_change(self)
        node = view.node_of(self)
        view.may_forget(self)
        if node.__class__ is Leaf or is_unrecorded(node):
            with no_grad():
                self.array = getattr(table, name)(self.detach(), *args).array
            if node.__class__ is Leaf:
                node.describe(self.array)
            native.wrote(self)
            return self
        former: Any = native.wrap(self.array)
        former.node, former.base = self.node, self.base
        former.version = self.version
        with enable_grad():
            made = getattr(table, name)(former, *args)
        node = view.node_of(made)
        self.array = made.array
        self.version, self.node = made.version, node
        self.base = made.base if node is not None or former.base is not None else None
        native.wrote(self)
        if self.base is not None:  # it has seen that
            parent, _, *step = self.base
            self.base = (parent, self.version.count, *step)
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
        """Changes the shape: the elements are those that lie in memory from the first one on. Where
        the memory ends before, the tensor gets new memory, whose further elements are not set, and
        no longer shares any. Copies: none, or one of the whole memory if that is too small.

        Raises:
            RuntimeError: it requires grad; a size is negative.
        """
        if not sizes:
            raise TypeError("resize_: missing argument 'size'")
        view.may_change(self)
        shape = tuple(sizes[0] if len(sizes) == 1 and isinstance(sizes[0], Sequence) else sizes)
        if any(operator.index(n) < 0 for n in shape):
            raise RuntimeError(f"resize_: sizes must not be negative: {shape}")
        if view.node_of(self) is not None:
            raise RuntimeError(
                f"resize_: cannot resize variables that require grad: shape {tuple(self.shape)}"
            )
        if memory_format is formats.preserve_format:
            raise RuntimeError("resize_: unsupported memory format: preserve_format")
        order = order_in(shape, memory_format)
        if shape != self.array.shape or memory_format is not None:
            resize(self, shape, order)
            native.wrote(self)
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
        """Takes the shape of another tensor, as `resize_`.

        Args:
            memory_format: `preserve_format`: channels last where that is how the other one lies.
        """
        if memory_format is formats.preserve_format:
            last = native.suggests_channels_last(tensor.array)
            images = formats.channels_last if tensor.ndim == 4 else formats.channels_last_3d
            memory_format = images if last else None
        return self.resize_(tensor.shape, memory_format=memory_format)

    def set_(
        self, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None
    ) -> Self:
        """Makes this tensor a tensor over another one's memory, or over none. Copies: none.

        Raises:
            RuntimeError: another dtype.
        """
        view.may_change(self)
        node = view.node_of(self)
        if node.__class__ is Leaf and recording.get():
            view.may_write(self)
        if source is None:
            array = native.call(np.empty, 0, self.dtype)
        elif source.array.dtype is not self.array.dtype:
            raise RuntimeError(
                f"set_: could not set tensor of type {source.array.dtype} to a tensor of type "
                f"{self.array.dtype}"
            )
        elif size is None:
            array = source.array
        else:
            steps = stride
            if steps is None:
                steps = np.cumprod([1, *tuple(size)[:0:-1]])[::-1].tolist()
            array = table.as_strided(source.detach(), size, steps, storage_offset).array
        sources = (node, None if source is None else view.node_of(source))
        place(self, array)
        native.wrote(self)
        if recording.get() and any(sources):
            self.node = native.Node(SetStorage, sources, (), array)
        return self
