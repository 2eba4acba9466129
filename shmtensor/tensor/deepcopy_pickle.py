"""Copies of a tensor by deepcopy and pickle."""

from __future__ import annotations

import copy
import mmap
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import native
from ..autograd.dispatch.promote_operands import as_canonical
from ..autograd.engine.accumulate_grad import AccumulateGrad
from ..cuda_arrays import copy_array, device_of, move_array, pointer
from ..device import CPU, META, as_device
from ..ops.table.sparse_gradient import SparseGradient
from ..storage import array_over, identity, owner_of
from .grad_attributes import node_name

if TYPE_CHECKING:
    from .tensor import Tensor


def deepcopy(tensor: Tensor, memo: dict[Any, Any]) -> Tensor:
    """A copy of a leaf, with its own `.grad`. Copies: one, of all the memory that the tensor is a
    view of.
    """
    if not tensor.is_leaf:
        raise RuntimeError(
            "deepcopy: Only Tensors created explicitly by the user (graph leaves) support the "
            f"deepcopy protocol: this one was computed by {node_name(tensor)}, use detach().clone()"
        )
    if id(tensor) in memo:
        return memo[id(tensor)]  # type: ignore[no-any-return]
    cls: Any = type(tensor)
    result = make_tensor(cls, copy_memory(tensor, memo), tensor.requires_grad, None)
    memo[id(tensor)] = result
    if attributes := getattr(tensor, "__dict__", None):
        result.__dict__.update(copy.deepcopy(attributes, memo))
    if tensor.grad is not None:
        result.accumulate_grad = result.accumulate_grad or AccumulateGrad(result)
        result.accumulate_grad.grad = tensor.grad.__deepcopy__(memo)
    return result


def copy_memory(tensor: Tensor, memo: dict[Any, Any]) -> Any:
    """A copy of a tensor's array. The whole memory is copied, so tensors of one deepcopy that share
    memory share the copy.
    """
    owner = full_memory(tensor)
    if owner is None:
        return native.call(copy_array, tensor.array)
    key = ("memory", *identity(owner))
    if key not in memo:
        memo[key] = native.call(copy_array, owner), owner  # the owner must outlive its id
    copied, owner = memo[key]
    return copied if tensor.array is owner else view_at(copied, *view_arguments(tensor, owner))


def full_memory(tensor: Tensor) -> Any:
    """The array of all the memory that a tensor is a view of; None if the tensor is copied alone: a
    parameter in a flat block with others, or a part of a mapped file.
    """
    owner = owner_of(tensor.array)
    is_dense = owner.flags.c_contiguous or owner.flags.f_contiguous
    is_mapped = isinstance(owner.base, mmap.mmap)
    has_grad_buffer = (
        tensor.accumulate_grad is not None and tensor.accumulate_grad.grad_buffer is not None
    )
    return owner if is_dense and not is_mapped and not has_grad_buffer else None


def view_arguments(tensor: Tensor, owner: Any) -> tuple[Any, ...]:
    """The arguments of `view_at` for a tensor's array."""
    array = tensor.array
    start = pointer(array) - pointer(owner) if array.size else 0
    return array.shape, array.dtype, start, array.strides


def reduce(tensor: Tensor) -> Any:
    """The function and arguments with which pickle rebuilds a tensor."""
    if not tensor.is_leaf:
        raise RuntimeError(
            "pickle: cannot send or store a tensor that requires grad and is not a leaf, "
            f"autograd does not cross process boundaries: shape {tuple(tensor.shape)} computed by "
            f"{node_name(tensor)}, use detach()"
        )
    grad = tensor.grad.array if isinstance(tensor.grad, native.TensorBase) else tensor.grad
    owner = full_memory(tensor)
    if owner is None:
        owner = flatten_if_dense(tensor.array)
    memory: Any = owner
    if not isinstance(owner, np.ndarray):
        memory = memory_on_device(owner, identity(owner))
        owner = memory.array
    if grad is not None and device_of(grad) is not CPU:
        grad = exactly_on_device(grad)
    arguments: tuple[Any, ...] = (type(tensor), memory, tensor.requires_grad, grad)
    if owner is not tensor.array:  # pickle stores an owner once for several tensors
        arguments += (view_arguments(tensor, owner),)
    # The third item is the state, a subclass's own attributes, which pickle restores.
    return rebuilt, arguments, getattr(tensor, "__dict__", None) or None


class MemoryOnDevice:
    """A device's array as pickle stores it: a copy on the host, and the device. CuPy's own pickle
    forgets the device.
    """

    __slots__ = ("__weakref__", "array")

    def __init__(self, array: Any) -> None:
        self.array = array

    def __reduce__(self) -> Any:
        device = device_of(self.array)
        if device is META:
            return array_without_data, (self.array.shape, np.empty(0, self.array.dtype))
        return array_on, (move_array(self.array, CPU), str(device))


# Pickle stores an object once, by its id: tensors that share memory share this.
memories: weakref.WeakValueDictionary[tuple[Any, ...], MemoryOnDevice] = (
    weakref.WeakValueDictionary()
)


def exactly_on_device(array: Any) -> MemoryOnDevice:
    """The object that stands for an array in pickles: it has the array's shape, dtype and strides,
    and is that of the memory if this has them, too.
    """
    key: tuple[Any, ...] = identity(array)
    layout = array.shape, array.dtype, array.strides
    found = memories.get(key)
    is_other = found is not None and layout != (
        found.array.shape, found.array.dtype, found.array.strides
    )  # fmt: skip
    if is_other or not array.flags.c_contiguous:
        key += layout
    return memory_on_device(array, key)


def memory_on_device(array: Any, key: tuple[Any, ...]) -> MemoryOnDevice:
    """The object that stands for an array of a device in pickles, by its key."""
    found = memories.get(key)
    if found is None:
        found = memories[key] = MemoryOnDevice(array)
    return found


def array_on(array: Any, device: str) -> Any:
    """An array on a device, from its pickle.

    Raises:
        DeviceMissing: the device is not there.
    """
    return move_array(as_canonical(array), as_device(device))


def array_without_data(shape: tuple[int, ...], like: Any) -> Any:
    """An array on the device "meta", from its pickle.

    Args:
        like: an array of its dtype.
    """
    return as_device(META).xp.empty(shape, as_canonical(like).dtype)


def flatten_if_dense(array: Any) -> Any:
    """A 1-d view in the order of memory if the elements leave no gaps (channels last); else the
    array itself, which pickle makes contiguous.
    """
    order = sorted(range(array.ndim), key=lambda d: -array.strides[d])
    permuted = array.transpose(order)
    return permuted.reshape(-1) if permuted.flags.c_contiguous else array


def view_at(
    owner: Any, shape: tuple[int, ...], dtype: Any, start: int, strides: tuple[int, ...]
) -> Any:
    """A view of an array's memory, from byte `start` on. Copies: none."""
    if not isinstance(owner, np.ndarray):
        return array_over(owner, start, shape, dtype, strides)
    flat = (owner if owner.flags.c_contiguous else owner.T).reshape(-1).view(np.uint8)
    view = np.ndarray(shape, dtype, flat, start, strides)
    if any(n > 1 and not step for n, step in zip(shape, strides)):  # read-only, as from `expand`
        view.flags.writeable = False
    return view


def make_tensor(cls: type[Tensor], array: Any, requires_grad: Any, grad: Any) -> Tensor:
    """A tensor of a class over an array, without the class's own `__new__`, which may need other
    arguments.
    """
    tensor: Tensor = native.TensorBase.__new__(cls)
    tensor.array = array
    if requires_grad:
        tensor.requires_grad_()
    if grad is not None:
        tensor.grad = grad
    return tensor


def rebuilt(
    cls: type[Tensor], array: Any, requires_grad: Any, grad: Any, place: Any = None
) -> Tensor:
    """A tensor from its pickle.

    Args:
        place: the arguments of `view_at` in `array`; None: all of it.
    """
    array = as_canonical(array if place is None else view_at(array, *place))
    tensor = make_tensor(cls, array, requires_grad, None)
    if grad is not None:
        is_dense = not isinstance(grad, SparseGradient)
        tensor.grad = native.wrap(as_canonical(grad)) if is_dense else grad
    return tensor
