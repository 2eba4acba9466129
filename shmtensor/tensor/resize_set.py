"""Changes a tensor's shape and strides in place: it becomes another view of memory."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from .. import native
from ..autograd.dispatch.foreign_operands import refuse_foreign
from ..autograd.dispatch.op_function import table
from ..autograd.engine import views_and_inplace
from ..autograd.engine.accumulate_grad import AccumulateGrad
from ..autograd.engine.resize import SetStorage, resize, set_array
from ..autograd.engine.unrecorded_views import is_unrecorded
from ..autograd.grad_mode import enable_grad, no_grad, recording
from ..cuda_arrays import new_array
from ..ops.table.tensor_like import order_in
from ..storage import TypedStorage, UntypedStorage
from . import torch_constants

if TYPE_CHECKING:
    from .tensor import Tensor

T = TypeVar("T", bound="Tensor")


def become_view(tensor: T, name: str, *args: Any) -> T:
    """Turns a tensor into a view of itself, by the op that makes the view.

    Its former self becomes its base, so its history continues: a tensor that requires grad still
    does, under `no_grad`, too. A leaf remains a leaf. The change counts as a write.
    """
    views_and_inplace.check_inference_write(tensor)
    node = views_and_inplace.node_of(tensor)
    views_and_inplace.check_unrecorded_write(tensor)
    if node.__class__ is AccumulateGrad or is_unrecorded(node):
        with no_grad():
            tensor.array = getattr(table, name)(tensor.detach(), *args).array
        if node.__class__ is AccumulateGrad:
            node.describe(tensor.array)
        native.wrote(tensor)
        return tensor
    old: Any = native.wrap(tensor.array)
    old.node, old.base = tensor.node, tensor.base
    old.version = tensor.version
    with enable_grad():
        view = getattr(table, name)(old, *args)
    node = views_and_inplace.node_of(view)
    tensor.array = view.array
    tensor.version, tensor.node = view.version, node
    tensor.base = view.base if node is not None or old.base is not None else None
    native.wrote(tensor)
    if tensor.base is not None:  # it is up to date
        parent, _, *step = tensor.base
        tensor.base = (parent, tensor.version.count, *step)
    if tensor.accumulate_grad is not None and old.node is not None:
        views_and_inplace.move_retain_grad(tensor, old.node)
    return tensor


def resize_(tensor: T, sizes: tuple[Any, ...], memory_format: Any) -> T:
    """Resizes a tensor; its elements are those in memory from the first one on."""
    if not sizes:
        raise TypeError("resize_: missing argument 'size'")
    views_and_inplace.check_inference_write(tensor)
    shape = tuple(sizes[0] if len(sizes) == 1 and isinstance(sizes[0], Sequence) else sizes)
    if any(operator.index(n) < 0 for n in shape):
        raise RuntimeError(f"resize_: sizes must not be negative: {shape}")
    if views_and_inplace.node_of(tensor) is not None:
        raise RuntimeError(
            f"resize_: cannot resize variables that require grad: shape {tuple(tensor.shape)}"
        )
    if memory_format is torch_constants.preserve_format:
        raise RuntimeError("resize_: unsupported memory format: preserve_format")
    order = order_in(shape, memory_format)
    if shape != tensor.array.shape or memory_format is not None:
        resize(tensor, shape, order)
        native.wrote(tensor)
    return tensor


def storage_as_tensor(storage: UntypedStorage, dtype: Any) -> Any:
    """A tensor over the memory of a storage; over bytes, in the given dtype. Copies: none."""
    memory = storage.bytes
    if not isinstance(storage, TypedStorage):
        memory = memory[: memory.nbytes // dtype.itemsize * dtype.itemsize].view(dtype)
    return native.wrap(memory)


def set_(tensor: T, source: Any, storage_offset: int, size: Any, stride: Any) -> T:
    """Makes a tensor use another one's memory, or none. Copies: none."""
    views_and_inplace.check_inference_write(tensor)
    node = views_and_inplace.node_of(tensor)
    if node.__class__ is AccumulateGrad and recording.get():
        views_and_inplace.check_recorded_write(tensor)
    refuse_foreign("set_", (source,))
    if isinstance(source, UntypedStorage):
        source = storage_as_tensor(source, tensor.array.dtype)
        size = [source.array.size - storage_offset] if size is None else size
    if source is None:
        array = native.call(new_array, "empty", (0,), tensor.dtype, tensor.device)
    elif source.array.dtype is not tensor.array.dtype:
        raise RuntimeError(
            f"set_: could not set tensor of type {source.array.dtype} to a tensor of type "
            f"{tensor.array.dtype}"
        )
    elif size is None:
        array = source.array
    else:
        steps = stride
        if steps is None:
            steps = np.cumprod([1, *tuple(size)[:0:-1]])[::-1].tolist()
        array = table.as_strided(source.detach(), size, steps, storage_offset).array
    sources = (node, None if source is None else views_and_inplace.node_of(source))
    set_array(tensor, array)
    native.wrote(tensor)
    if recording.get() and any(sources):
        tensor.node = native.Node(SetStorage, sources, (), array)
    return tensor
