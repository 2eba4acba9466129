"""A bucket of parameters on a GPU: the gradients are copied to one array there, which is reduced.

In the backend nccl the reduction reads and writes that array; in others it goes through shared host
memory (group/gpu_operands.py).
"""

from __future__ import annotations

from typing import Any

from ...autograd import wrap
from ...cuda_arrays import device_of, new_array
from ..collectives.reference import ReduceOp
from ..group.gpu_operands import assign
from ..group.operands import array_of
from ..group.process_group import ProcessGroup
from .bucket import Bucket

__all__ = ["GpuBucket"]


class GpuBucket(Bucket):
    """Parameters on one GPU whose gradients are reduced together."""

    def allocate_grad_buffers(self) -> None:
        """Does nothing: backward makes the gradients."""

    def drop_grad_buffers(self) -> None:
        """Does nothing: a forked child cannot use the GPU."""

    def parts(self, flat: Any, offsets: list[int]) -> list[Any]:
        """The part of each parameter in a reduced array. Copies: none."""
        return [
            flat[at : at + p.array.size].reshape(p.array.shape)
            for p, at in zip(self.parameters, offsets, strict=True)
        ]

    def zeros(self, total: int) -> Any:
        """Zeros on the GPU of the parameters."""
        device = device_of(self.parameters[0].array)
        return new_array("zeros", (total,), self.dtype(), device)

    def collect(self, offsets: list[int], total: int) -> tuple[Any, bool]:
        """All gradients in one array on the GPU, and False: it is not their own memory. Copies:
        one.
        """
        flat = self.zeros(total)
        for p, part in zip(self.parameters, self.parts(flat, offsets), strict=True):
            if p.grad is not None:
                assign(part, array_of("DistributedDataParallel", p.grad))
                self.n_copied += part.nbytes
        return flat, False

    def copy_to_gradients(self, flat: Any, offsets: list[int], used: set[int] | None) -> None:
        """Copies the reduced gradients back to the parameters, as `Bucket`'s."""
        for p, part in zip(self.parameters, self.parts(flat, offsets), strict=True):
            if used is not None and id(p) not in used:
                continue
            self.n_copied += part.nbytes
            if p.grad is None:
                with part.device:
                    p.grad = wrap(part.copy())
            else:
                assign(p.grad.array, part)

    @staticmethod
    def average(group: ProcessGroup, flat: Any, divisor: int | None, dtype: Any) -> None:
        """Averages one array over the ranks, in place."""
        with flat.device:
            cast = flat if dtype is None or dtype == flat.dtype else flat.astype(dtype)
            staged = group.writable(cast)
            op = ReduceOp.AVG if divisor is None else ReduceOp.SUM
            group.native.all_reduce(staged, op, group.timeout)
            if divisor is not None:
                staged /= divisor
            if staged is not flat:
                assign(flat, staged)
