"""Operands to device memory and back, for one NCCL operation: host arrays by pinned memory, arrays
on the GPU by a copy there.

A host tensor is in shared memory, which the GPU's driver does not know; the driver copies
asynchronously only from pinned memory. Device and pinned memory come from CuPy's pools.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....cuda_arrays import pointer
from ...group.gpu_operands import is_on_gpu
from ...group.operands import Array
from .communicator import Communicator

__all__ = ["Staging"]


class Staging:
    """Device memory, each block with a block of pinned memory, kept until the stream has finished.

    Attributes:
        bytes_copied: bytes copied to the GPU.
    """

    def __init__(self, communicator: Communicator) -> None:
        self.cuda = communicator.cupy.cuda
        self.stream = communicator.stream
        self.memory: list[tuple[Any, Array, int]] = []  # device, pinned, address
        self.results: list[tuple[Array, Array]] = []  # pinned, host array
        self.bytes_copied = 0

    def allocate(self, nbytes: int) -> int:
        """The address of `nbytes` new bytes of device memory."""
        with self.stream:  # CuPy's pool reuses memory in the order of this stream
            on_device = self.cuda.alloc(nbytes)
        pinned = np.frombuffer(self.cuda.alloc_pinned_memory(nbytes), np.uint8, nbytes)
        self.memory.append((on_device, pinned, int(on_device.ptr)))
        return int(on_device.ptr)

    def pinned(self, at: int, nbytes: int) -> Array:
        """The pinned bytes that belong to device memory."""
        for _, pinned, first in self.memory:
            if first <= at and at + nbytes <= first + pinned.nbytes:
                return pinned[at - first : at - first + nbytes]
        raise ValueError(f"nccl: no device memory is allocated there: {at}, {nbytes} bytes")

    def copy_to_device(self, at: int, x: Array) -> None:
        """Copies a host array into device memory."""
        if not x.nbytes:
            return
        runtime = self.cuda.runtime
        if is_on_gpu(x):
            self.follow(x)
            runtime.memcpyAsync(
                at, pointer(x), x.nbytes, runtime.memcpyDeviceToDevice, self.stream.ptr
            )
            return
        pinned = self.pinned(at, x.nbytes)
        pinned[:] = x.reshape(-1).view(np.uint8)
        runtime.memcpyAsync(
            at, pinned.ctypes.data, x.nbytes, runtime.memcpyHostToDevice, self.stream.ptr
        )
        self.bytes_copied += x.nbytes

    def copy_to_host(self, at: int, out: Array) -> None:
        """Copies device memory into a host array, which has it after `write_results()`."""
        if not out.nbytes:
            return
        runtime = self.cuda.runtime
        if is_on_gpu(out):
            self.follow(out)
            runtime.memcpyAsync(
                pointer(out), at, out.nbytes, runtime.memcpyDeviceToDevice, self.stream.ptr
            )
            return
        pinned = self.pinned(at, out.nbytes)
        runtime.memcpyAsync(
            pinned.ctypes.data, at, out.nbytes, runtime.memcpyDeviceToHost, self.stream.ptr
        )
        self.results.append((pinned, out))

    def follow(self, array: Any) -> None:
        """The stream waits for the work that is queued on the array now."""
        with array.device:
            event = self.cuda.get_current_stream().record(self.cuda.Event(disable_timing=True))
        self.stream.wait_event(event)

    def write_results(self) -> None:
        """Writes the results; called when the stream has finished."""
        for pinned, out in self.results:
            out.reshape(-1).view(np.uint8)[:] = pinned
