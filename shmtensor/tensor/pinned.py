"""Page-locked copies of tensors, from which a GPU copies without the program's help, and the
streams that use a tensor's memory.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import cupy_runtime, native

if TYPE_CHECKING:
    from .tensor import Tensor


def memory() -> Any:
    """`shmtensor.memory.cuda`, which imports CuPy."""
    cupy_runtime.initialize()
    return import_module("shmtensor.memory.cuda")


def is_pinned(tensor: Tensor) -> bool:
    """Whether a tensor's memory is page-locked."""
    return cupy_runtime.is_initialized() and tensor.is_cpu and memory().is_pinned(tensor.array)


def pinned(tensor: Tensor) -> Tensor:
    """The tensor in page-locked memory; itself if it is there, or if there is no GPU. Copies: none
    or one.
    """
    if not tensor.is_cpu:
        raise RuntimeError(
            f"pin_memory: cannot pin {tensor.type()!r}, only dense CPU tensors can be pinned: "
            f"shape {tuple(tensor.shape)}"
        )
    if not cupy_runtime.is_available() or is_pinned(tensor):
        return tensor
    array = memory().pinned_empty(tuple(tensor.shape), tensor.dtype)
    np.copyto(array, tensor.array)
    return native.wrap(array)  # type: ignore[no-any-return]


def record_stream(tensor: Tensor, stream: Any) -> None:
    """Notes that work on a stream uses the memory of a tensor on a GPU."""
    if tensor.is_cpu:
        raise NotImplementedError(
            f"record_stream: only for tensors on a GPU: shape {tuple(tensor.shape)} on the CPU"
        )
    memory().note_use(tensor.array, stream.stream)
