"""Bucket: parameters whose gradients are reduced together, and how they are collected.

```
grad buffers         in the optimizer's flat block (optim/flat/flat_parameters.py), else in a block
                     of the bucket
large gradients      one by one, in place
small ones           W1 ........ | b1 .. | W2 ..... | b2     in the order of the parameters, each at
                     0       offsets[1]   [2]        [3]     a multiple of 64 bytes, as in a flat
```

Note [One layout]
The reduced array has the same layout on all ranks, which depends on the sizes of the parameters
alone. A rank whose grad buffers have this layout reduces in place and copies nothing. A rank copies
if its optimizer lays out the parameters otherwise, or if its gradients are in other memory.
"""

from __future__ import annotations

import os
import weakref
from enum import Enum
from itertools import accumulate
from typing import Any

import numpy as np

from ... import native
from ...autograd import wrap
from ...autograd.engine.grad_buffer import in_grad_buffer
from ...cuda_arrays import device_of
from ...memory.layout import array_at, offsets, zeros_shared
from ..collectives.reference import ReduceOp
from ..group.operands import Array, array_of
from ..group.process_group import ProcessGroup
from ..group.work import Future

__all__ = ["Bucket", "BuiltinCommHookType", "GradBucket", "make_buckets"]

LARGE = 1 << 21  # bytes from which a gradient has a bucket of its own, tunable


class BuiltinCommHookType(Enum):
    """Hooks for `_register_builtin_comm_hook`."""

    ALLREDUCE = 0
    FP16_COMPRESS = 1


class GradBucket:
    """The argument of a communication hook: the gradients of one bucket, concatenated."""

    def __init__(self, index: int, buffer: Any, parameters: list[Any], is_last: bool) -> None:
        self._index = index
        self._buffer = buffer
        self._parameters = parameters
        self._is_last = is_last

    def index(self) -> int:
        """The number of the bucket, in the order of reduction."""
        return self._index

    def buffer(self) -> Any:
        """All gradients in one tensor of one dimension."""
        return self._buffer

    def set_buffer(self, buffer: Any) -> None:
        """Replaces the buffer by another tensor of its size."""
        self._buffer = buffer

    def gradients(self) -> list[Any]:
        """The gradients, views of the buffer in the shapes of their parameters."""
        views, at = [], 0
        for p in self._parameters:
            n = p.array.size
            views.append(self._buffer[at : at + n].reshape(p.array.shape))
            at += n
        return views

    def parameters(self) -> list[Any]:
        """The parameters, in the order of the buffer."""
        return list(self._parameters)

    def is_last(self) -> bool:
        """Whether no bucket comes after this one in a step."""
        return self._is_last


class Bucket:
    """Parameters whose gradients are reduced together.

    Attributes:
        missing: ids of parameters whose gradient has not arrived in this step.
        trigger: ids of parameters whose gradients make the bucket ready.
        offsets, total: where each gradient begins in the reduced array, and the array's size, in
            elements.
        grad_buffers: the memory of the gradients, as of the last `allocate_grad_buffers`.
        gradient_block: one array over the grad buffers if they have the layout of the reduced
            array, else None.
        n_copied: bytes of gradients copied for reductions so far, in both directions.
    """

    is_sparse = False

    def __init__(self, parameters: list[Any], trigger: set[int] | None = None) -> None:
        self.parameters = parameters
        self.trigger = {id(p) for p in parameters} if trigger is None else trigger
        self.missing: set[int] = set()
        self.grad_buffers: list[native.GradientBuffer] = []
        self.gradient_block: Array | None = None
        self.n_copied = 0
        sizes = (p.array.size for p in parameters)
        self.offsets, self.total = offsets(sizes, self.dtype().itemsize)
        buckets.add(self)

    def reset(self) -> None:
        self.missing = set(self.trigger)

    def size(self) -> int:
        return sum(p.array.size for p in self.parameters)

    def dtype(self) -> np.dtype[Any]:
        dtype: np.dtype[Any] = self.parameters[0].array.dtype
        return dtype

    def allocate_grad_buffers(self) -> None:
        """Gives every parameter a grad buffer, and finds the block that contains them."""
        grad_buffers = [p.accumulate_grad.grad_buffer for p in self.parameters]
        if grad_buffers == self.grad_buffers:
            return
        if None in grad_buffers:
            flat = zeros_shared((self.total,), self.dtype())
            for p, at in zip(self.parameters, self.offsets, strict=True):
                if p.accumulate_grad.grad_buffer is None:
                    p.accumulate_grad.grad_buffer = native.GradientBuffer(
                        array_at(flat, at, p.array.shape)
                    )
        self.grad_buffers = [p.accumulate_grad.grad_buffer for p in self.parameters]
        self.gradient_block = self.block_over(self.grad_buffers)

    def drop_grad_buffers(self) -> None:
        """For a forked child: the block is its parent's, and two processes must not write to it."""
        for p in self.parameters:
            if p.accumulate_grad.grad_buffer in self.grad_buffers:
                p.accumulate_grad.grad_buffer = None
        self.grad_buffers, self.gradient_block = [], None

    def block_over(self, buffers: list[native.GradientBuffer]) -> Array | None:
        """One array over the grad buffers, if they have the layout of the reduced array. They are
        in one block then, which contains nothing else, so the gaps may be written.
        """
        block, begin, dtype = buffers[0].memory, buffers[0].address, self.dtype()
        if any(each.memory is not block for each in buffers) or not native.is_shared(begin):
            return None
        if [b.address - begin for b in buffers] != [at * dtype.itemsize for at in self.offsets]:
            return None
        offset = begin - np.frombuffer(block, np.uint8).ctypes.data
        return np.ndarray((self.total,), dtype, block, offset)

    def contiguous_offsets(self) -> tuple[list[int], int]:
        """The offsets and total size without gaps, as communication hooks get them."""
        size = self.size()
        if size == self.total:
            return self.offsets, self.total
        return [0, *accumulate(p.array.size for p in self.parameters[:-1])], size

    def zeros(self, total: int) -> Array:
        """Zeros that can be reduced with the other ranks' gradients."""
        return zeros_shared((total,), self.dtype())

    def collect(self, offsets: list[int], total: int) -> tuple[Array, bool]:
        """All gradients in one shared array, and whether it is their own memory; a missing gradient
        counts as zero. Copies: none if they are in their grad buffers, in the layout of the
        reduced array, or if there is only one, contiguous in shared memory; else one.
        """
        if offsets is self.offsets and self.gradient_block is not None:
            for p in self.parameters:
                leaf = p.accumulate_grad
                g = leaf.grad
                if g is None or not in_grad_buffer(leaf, g.array):
                    break
            else:
                return self.gradient_block, True
        if len(self.parameters) == 1 and (g := self.parameters[0].grad) is not None:
            array = array_of("DistributedDataParallel", g)
            if array.flags.c_contiguous and native.is_shared(array):
                return array.reshape(-1), True
        flat = zeros_shared((total,), self.dtype())
        for p, at in zip(self.parameters, offsets, strict=True):
            if p.grad is not None:
                part = array_at(flat, at, p.array.shape)
                np.copyto(part, array_of("DistributedDataParallel", p.grad))
                self.n_copied += part.nbytes
        return flat, False

    def copy_to_gradients(self, flat: Array, offsets: list[int], used: set[int] | None) -> None:
        """Copies the reduced gradients back to the parameters.

        Args:
            used: ids of the parameters that some rank used; None: all. The gradients of the others
                do not change.
        """
        for p, at in zip(self.parameters, offsets, strict=True):
            if used is not None and id(p) not in used:
                continue
            part = array_at(flat, at, p.array.shape)
            self.n_copied += part.nbytes
            if p.grad is None:
                p.grad = wrap(np.array(part))
            else:
                np.copyto(p.grad.array, part)

    def reduce(self, group: ProcessGroup, divisor: int | None, dtype: Any) -> None:
        """Averages the gradients of the ranks.

        Args:
            divisor: divides the sums; None: the number of ranks.
            dtype: the dtype of the reduction; None: that of the gradients.
        """
        flat, in_place = self.collect(self.offsets, self.total)
        self.average(group, flat, divisor, dtype)
        if not in_place:
            self.copy_to_gradients(flat, self.offsets, None)

    @staticmethod
    def average(group: ProcessGroup, flat: Array, divisor: int | None, dtype: Any) -> None:
        """Averages one array over the ranks, in place."""
        cast = flat if dtype is None or dtype == flat.dtype else flat.astype(dtype)
        staged = group.writable(cast)
        op = ReduceOp.AVG if divisor is None else ReduceOp.SUM
        group.native.all_reduce(staged, op, group.timeout)
        if divisor is not None:
            np.divide(staged, divisor, out=staged, casting="unsafe")
        if staged is not flat:
            np.copyto(flat, staged, casting="unsafe")


def make_buckets(make: Any, parameters: list[Any], *caps: int) -> list[Bucket]:
    """A bucket for each large gradient, which is reduced in place; small ones together.

    Args:
        make: makes a bucket of parameters, which are on one device.
        parameters: in reverse order; a bucket has them in their original order.
        caps: bytes of small gradients in the first bucket, in the second, ...; the last cap is for
            all further buckets.
    """
    groups: list[list[Any]] = []
    small: list[Any] = []
    remaining = 0
    for p in parameters:
        if p.array.nbytes >= min(LARGE, caps[-1]):
            groups.append([p])
            continue
        if not small or p.array.nbytes > remaining or kind_of(small[0]) != kind_of(p):
            groups += [small] if small else []
            small, remaining = [], caps[min(len(groups), len(caps) - 1)]
        small.append(p)
        remaining -= p.array.nbytes
    groups += [small] if small else []
    return [make(each[::-1]) for each in groups]


def kind_of(parameter: Any) -> tuple[Any, Any]:
    """What the parameters of a bucket have in common: dtype and device."""
    return parameter.array.dtype, device_of(parameter.array)


buckets: weakref.WeakSet[Bucket] = weakref.WeakSet()


def _drop_grad_buffers() -> None:
    for bucket in list(buckets):
        bucket.drop_grad_buffers()


os.register_at_fork(after_in_child=_drop_grad_buffers)


def call_hook(hook: Any, state: object, bucket: GradBucket) -> Future:
    """The Future that a communication hook returns for a bucket.

    Raises:
        TypeError: it returned something else.
    """
    future = hook(state, bucket)
    if not hasattr(future, "wait"):
        raise TypeError(
            "DistributedDataParallel: a communication hook returns a Future of the buffer, this "
            f"one returned {type(future).__name__}: {hook!r}"
        )
    return future  # type: ignore[no-any-return]
