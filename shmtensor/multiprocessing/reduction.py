"""Messages: memory that is shared is sent as a handle, everything else by value.

Tensors, numbers, text and containers of these are encoded by the codec (native/ipc/codec/codec.h),
all other objects by pickle; users see no difference. Tensors of PyTorch and arrays of JAX on the
CPU arrive as what they were, over shared memory (reduce_foreign.py).

    dumps(obj) -> (bytes, [array or Block, ...])   one entry per block, however many tensors view it
    loads(bytes, [Block, ...]) -> obj              the same order

The sender of a message (a Channel, a Pipe, a Process that starts) exports each block once.
"""

from __future__ import annotations

import copyreg
import ctypes
import functools
import io
import pickle
import threading
import warnings
from collections import ChainMap
from collections.abc import Sequence
from multiprocessing.reduction import ForkingPickler as ForkingPickler  # its name is public there
from types import FunctionType
from typing import Any

import numpy as np

from shmtensor import native
from shmtensor.cuda_arrays import array_modules
from shmtensor.tensor import Tensor, deepcopy_pickle

from . import reduce_cuda, reduce_foreign, sharedctypes
from .picklable import extra_reductions, is_main_importable
from .reduce_cuda import restore_tensor
from .shared_object import Shared

__all__ = ["dumps", "loads", "pickle_dumps", "pickle_loads", "reduce_for_stdlib", "sending_values"]

_CODEC_MARK = b"\x01"  # native/ipc/codec/codec.h; a pickle begins with 0x80

_dispatch_table: Any = ChainMap(extra_reductions, copyreg.dispatch_table)
_CTYPES = (ctypes._SimpleCData, ctypes.Array, ctypes.Structure, ctypes.Union)


class _Thread(threading.local):
    """What this thread does: the blocks of the message that it unpickles, and whether it sends
    values: nobody expects that the receiver's tensor aliases them."""

    blocks: Any = ()
    sends_values = False


_thread = _Thread()


class sending_values:
    """In this context the copy of foreign memory in a message is what the program wants: a result,
    a data set, an object of a collective. No warning says that it does not alias.
    """

    def __enter__(self) -> None:
        self.previous, _thread.sends_values = _thread.sends_values, True

    def __exit__(self, *_: object) -> None:
        _thread.sends_values = self.previous


class _ByValue(Exception):
    """The receiver cannot import a function or class: the message needs cloudpickle."""


class _Blocks:
    """The blocks of one message, without duplicates.

    Attributes:
        gpu: the handles of GPU memory; None: tensors on a GPU are copied into the message.
    """

    def __init__(self, gpu: reduce_cuda.Handles | None = None) -> None:
        self.owners: list[Any] = []
        self.index: dict[int, int] = {}
        self.gpu = gpu

    def add(self, owner: Any, base: int) -> int:
        """The index of the block at address `base`; `owner` keeps it alive."""
        i = self.index.get(base)
        if i is None:
            i = self.index[base] = len(self.owners)
            self.owners.append(owner)
        return i

    def array(self, array: np.ndarray[Any, Any], is_tensor: bool = False) -> tuple[Any, ...]:
        """Arguments of `rebuild_array`. Copies: none, or one if the memory is not shared.

        Args:
            is_tensor: it is a tensor's: a warning says that a copy does not alias it.
        """
        # An array without elements may point to the start of another block: it gets its own.
        layout = native.array_layout(array) if array.size else None
        if layout is None:
            if is_tensor and array.flags.writeable and array.size and not _thread.sends_values:
                warn_of_copy(array)
            array = share(array)
            layout = native.array_layout(array)
            assert layout is not None
        return (self.add(array, layout[0]), *layout[1:])

    def reduce(self, obj: Any, cls: type) -> Any:
        """The reduction of an object with shared memory, or NotImplemented."""
        if array_modules and reduce_cuda.is_on_gpu(obj):
            return self.on_gpu(obj, cls)
        if cls is Tensor:
            if obj.node is None and obj.accumulate_grad is None and obj.base is None:
                return rebuild_plain, self.array(obj.array, True)
            return rebuild_tensor, (cls, *self.tensor(obj))
        if cls is np.ndarray:
            if native.array_layout(obj) is None:
                return NotImplemented
            return rebuild_array, self.array(obj)
        if issubclass(cls, (native.PackedList, native.PackedDict)):
            return obj.__reduce__()  # arrays, which are reduced in turn
        if issubclass(cls, Shared):
            return rebuild_shared, (cls, self.add(obj._block, obj._block.address), obj._details())
        if issubclass(cls, Tensor):
            return rebuild_tensor, (cls, *self.tensor(obj))
        if isinstance(obj, _CTYPES) and native.is_shared(address := ctypes.addressof(obj)):
            base, _ = native.block_of(address)
            return rebuild_ctypes, (
                *sharedctypes.split(cls),
                self.add(np.frombuffer(memoryview(obj), np.uint8), base),
                address - base,
            )
        if (kind := reduce_foreign.kind_of(obj)) is not None:
            return self.foreign(obj, kind)
        return NotImplemented

    def on_gpu(self, obj: Any, cls: type) -> Any:
        """The reduction of a tensor on a GPU, or of an array of CuPy. Copies: none. A tensor
        without data is pickled.
        """
        if self.gpu is None or getattr(obj, "is_meta", False):
            return NotImplemented
        if not issubclass(cls, Tensor):
            return reduce_cuda.rebuild_cupy, (self.gpu.add(obj),)
        leaf = self.leaf(obj)
        return reduce_cuda.rebuild_cuda, (cls, self.gpu.add(obj.array), *leaf)

    def foreign(self, obj: Any, kind: str) -> Any:
        """The reduction of an array of another library. Copies: none, or one if the memory is not
        shared.
        """
        if kind == "torch":
            parts = reduce_foreign.parts_of_torch(obj)
            if parts is None:
                return NotImplemented
            array, *details = parts
            if array is None:  # sparse: its parts are tensors, which are reduced in turn
                return reduce_foreign.as_sparse, tuple(details)
            return rebuild_torch, (self.array(array), *details)
        array = reduce_foreign.parts_of_jax(obj)
        if array is None:
            return NotImplemented
        *layout, _ = self.array(array)
        return rebuild_jax, (*layout, True)  # JAX takes no memory that is marked as read-only

    def tensor(self, tensor: Tensor) -> tuple[Any, ...]:
        """Arguments of `rebuild_tensor` after the class."""
        leaf = self.leaf(tensor)  # or it is refused, before its memory is copied
        return self.array(tensor.array, True), *leaf

    def leaf(self, tensor: Tensor) -> tuple[bool, Any, Any]:
        """Whether a leaf requires grad, its gradient, and its attributes.

        Raises:
            RuntimeError: the tensor is not a leaf.
        """
        if tensor.requires_grad and not tensor.is_leaf:
            raise RuntimeError(
                "multiprocessing: a non-leaf tensor that requires grad cannot be sent to another "
                f"process, because the graph stays here: shape {tuple(tensor.shape)}; send "
                "tensor.detach() if the gradient is not needed there"
            )
        grad = tensor.grad if tensor.is_leaf else None
        state = getattr(tensor, "__dict__", None) or None
        return tensor.requires_grad, grad, state


class Pickler(pickle.Pickler):
    """The standard library's pickler with handles for shared memory."""

    def __init__(self, buffer: io.BytesIO, blocks: _Blocks) -> None:
        super().__init__(buffer, pickle.HIGHEST_PROTOCOL)
        self.dispatch_table = _dispatch_table
        self.blocks = blocks

    def reducer_override(self, obj: Any) -> Any:
        cls = type(obj)
        if cls is FunctionType or cls is type:
            if obj.__module__ == "__main__" and not is_main_importable():
                raise _ByValue
            return NotImplemented
        return self.blocks.reduce(obj, cls)


def dumps(obj: Any, gpu: reduce_cuda.Handles | None = None) -> tuple[bytes, list[Any]]:
    """An object as a message for another process of the domain: by the codec if possible, else by
    pickle.

    Args:
        gpu: takes the handles of GPU memory in the message; None: its tensors are copied.

    Returns: the bytes, and one array or Block for each block that they refer to.
    Raises: RuntimeError for a non-leaf tensor that requires grad, and for a tensor of PyTorch or
    JAX that is not strided memory of the CPU.
    Copies: none, or one for a tensor over memory that is not shared.
    """
    return native.encode(obj, gpu) or pickle_dumps(obj, gpu)


def pickle_dumps(obj: Any, gpu: reduce_cuda.Handles | None = None) -> tuple[bytes, list[Any]]:
    """As `dumps`, without the codec."""
    try:
        return _dump(Pickler, obj, gpu)
    except (_ByValue, pickle.PicklingError, AttributeError, TypeError):
        # cloudpickle takes 40 ms to import, and few messages need it.
        from .cloudpickle_closures import ClosurePickler

        reached: list[Any] = []
        try:
            return _dump(functools.partial(ClosurePickler, reached), obj, gpu)
        except Exception as error:
            explain(error, obj, reached)
            raise
    except Exception as error:
        explain(error, obj)
        raise


def explain(error: Exception, obj: Any, reached: Sequence[Any] = ()) -> None:
    """Raises an error of the same kind that names what cannot be sent, if that is found."""
    from . import unsendable

    unsendable.explain(error, obj, reached)


def _dump(cls: Any, obj: Any, gpu: reduce_cuda.Handles | None) -> tuple[bytes, list[Any]]:
    """The message by a class of picklers."""
    buffer = io.BytesIO()
    blocks = _Blocks(gpu)
    start = 0 if gpu is None else len(gpu.messages)
    try:
        cls(buffer, blocks).dump(obj)
    except BaseException:
        if gpu is not None:
            gpu.discard(start)
        raise
    return buffer.getvalue(), blocks.owners


def loads(data: Any, blocks: Any) -> Any:
    """The object of a message; `blocks` are the received blocks of `dumps`, in the same order."""
    if data[:1] == _CODEC_MARK:
        return native.decode(data, blocks)
    return pickle_loads(data, blocks)


def pickle_loads(data: Any, blocks: Any) -> Any:
    """The object of a message that `pickle_dumps` returned."""
    previous = _thread.blocks
    _thread.blocks = blocks
    try:
        return pickle.loads(data)
    finally:
        _thread.blocks = previous


def rebuild_array(block: int, *layout: Any) -> Any:
    """A view of a received block. Copies: none."""
    return native.array_at(_thread.blocks[block], *layout)


def rebuild_plain(block: int, *layout: Any) -> Any:
    """A tensor without history or gradient over a received block. Copies: none."""
    return native.wrap(native.array_at(_thread.blocks[block], *layout))


def rebuild_tensor(
    cls: type[Tensor], array: tuple[Any, ...], requires_grad: bool, grad: Tensor | None, state: Any
) -> Tensor:
    """A tensor over a received block. Copies: none."""
    return restore_tensor(cls, rebuild_array(*array), requires_grad, grad, state)


def rebuild_torch(array: tuple[Any, ...], *details: Any) -> Any:
    """A tensor of PyTorch over a received block. Copies: none."""
    return reduce_foreign.as_torch(rebuild_array(*array), *details)


def rebuild_jax(block: int, *layout: Any) -> Any:
    """An array of JAX over a received block. Copies: none, or one by JAX."""
    return reduce_foreign.as_jax(rebuild_array(block, *layout))


def rebuild_shared(cls: type[Shared], block: int, details: tuple[Any, ...]) -> Any:
    """A lock, a queue, ... over a received block."""
    return cls._attach(_thread.blocks[block], *details)


def rebuild_ctypes(cls: Any, length: int | None, block: int, offset: int) -> Any:
    """A ctypes object over a received block."""
    return sharedctypes.rebuild(cls, length, _thread.blocks[block], offset)


def warn_of_copy(array: np.ndarray[Any, Any]) -> None:
    """Warns that the receiver of a tensor gets a copy."""
    warnings.warn(
        "multiprocessing: a tensor over memory that is not shared (from_numpy, DLPack, a mapped "
        "file) is sent as a copy: neither process sees the other's writes: shape "
        f"{array.shape}, hint: share_memory_() before it is sent, or send a clone()",
        UserWarning,
        stacklevel=5,
    )


def share(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy of an array in shared memory, with its order of dimensions. Copies: one."""
    if array.dtype.hasobject:
        raise TypeError(f"multiprocessing: objects cannot be in shared memory: dtype {array.dtype}")
    block = native.allocate(max(array.nbytes, 1), zero=False, shared=True)
    memory = np.frombuffer(memoryview(block), np.uint8)[: array.nbytes]
    outermost_first = sorted(range(array.ndim), key=lambda dim: -abs(array.strides[dim]))
    shape = tuple(array.shape[dim] for dim in outermost_first)
    copy: Any = np.ndarray(shape, array.dtype, memory).transpose(np.argsort(outermost_first))
    copy[...] = array
    result: np.ndarray[Any, Any] = copy
    return result


# ---- the standard library's own queues and pipes


def reduce_for_stdlib(tensor: Tensor) -> tuple[Any, ...]:
    """The reduction that `shmtensor.tensor.register_pickling` registers. The standard library's
    pickler does not know our messages, so each tensor has its own handle, in flight until it is
    received or expires (docs/design/memory.md).
    """
    if tensor.is_meta:
        return deepcopy_pickle.reduce(tensor)  # type: ignore[no-any-return]
    blocks = _Blocks(reduce_cuda.Handles())
    if reduce_cuda.is_on_gpu(tensor):
        return blocks.on_gpu(tensor, type(tensor))  # type: ignore[no-any-return]
    (_, *layout), requires_grad, grad, state = blocks.tensor(tensor)
    handle = native.export(blocks.owners[0])
    return _rebuild_for_stdlib, (type(tensor), handle, tuple(layout), requires_grad, grad, state)


def _rebuild_for_stdlib(
    cls: type[Tensor],
    handle: bytes,
    layout: tuple[Any, ...],
    requires_grad: bool,
    grad: Any,
    state: Any,
) -> Tensor:
    array = native.array_at(native.receive(handle, True), *layout)
    return restore_tensor(cls, array, requires_grad, grad, state)
