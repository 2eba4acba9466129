"""Host arrays to device memory and back, by pinned memory, for one NCCL operation.

A tensor lies in memory that the ranks share and the GPU's driver does not know; what the driver
copies by itself comes from pinned memory. Both kinds come from CuPy's pools.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...group.operands import Array
from .communicator import Communicator

__all__ = ["Staging"]


class Staging:
    """Device memory with its twin in pinned memory, to be kept until the stream has done its work.

    Attributes:
        copied: bytes that went to the GPU.
    """

    def __init__(self, communicator: Communicator) -> None:
        self.cuda = communicator.cupy.cuda
        self.stream = communicator.stream
        self.memory: list[tuple[Any, Array, int]] = []  # on the device, its twin, its address
        self.results: list[tuple[Array, Array]] = []  # where they will lie, where they belong
        self.copied = 0

    def take(self, nbytes: int) -> int:
        """The address of so much device memory."""
        with self.stream:  # what CuPy's pool lends again was last used by this stream
            on_device = self.cuda.alloc(nbytes)
        twin = np.frombuffer(self.cuda.alloc_pinned_memory(nbytes), np.uint8, nbytes)
        self.memory.append((on_device, twin, int(on_device.ptr)))
        return int(on_device.ptr)

    def twin(self, at: int, nbytes: int) -> Array:
        """The pinned bytes that belong to device memory."""
        for _, twin, first in self.memory:
            if first <= at and at + nbytes <= first + twin.nbytes:
                return twin[at - first : at - first + nbytes]
        raise ValueError(f"nccl: no device memory was taken at this address: {at}, {nbytes} bytes")

    def put(self, at: int, x: Array) -> None:
        """A host array into device memory."""
        if not x.nbytes:
            return
        twin, runtime = self.twin(at, x.nbytes), self.cuda.runtime
        twin[:] = x.reshape(-1).view(np.uint8)
        runtime.memcpyAsync(
            at, twin.ctypes.data, x.nbytes, runtime.memcpyHostToDevice, self.stream.ptr
        )
        self.copied += x.nbytes

    def get(self, at: int, out: Array) -> None:
        """Device memory into a host array, which has it after `settle()`."""
        if not out.nbytes:
            return
        twin, runtime = self.twin(at, out.nbytes), self.cuda.runtime
        runtime.memcpyAsync(
            twin.ctypes.data, at, out.nbytes, runtime.memcpyDeviceToHost, self.stream.ptr
        )
        self.results.append((twin, out))

    def settle(self) -> None:
        """Writes the results, once the stream has done its work."""
        for twin, out in self.results:
            out.reshape(-1).view(np.uint8)[:] = twin
