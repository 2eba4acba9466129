"""Bucket: parameters whose gradients are reduced together, and how they come together.

```
home of a gradient   the optimizer's flat block (optim/flat/flat_parameters.py), else the bucket's
large gradients      one by one, where they lie
small ones           W1 ........ | b1 .. | W2 ..... | b2     in the order of the parameters, each at
                     0       offsets[1]   [2]        [3]     a multiple of 64 bytes, as in a flat
```

Note [One layout]
What is reduced is laid out alike on all ranks, whatever lies where on one of them: by the sizes of
the parameters alone. A rank whose homes lie so reduces there, and copies nothing; one whose
optimizer has other neighbours, or whose gradients are somewhere else for once, copies.
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
from ...memory.layout import array_at, offsets, zeros_shared
from ..collectives.reference import ReduceOp
from ..group.operands import Array, array_of
from ..group.process_group import ProcessGroup
from ..group.work import Future

__all__ = ["Bucket", "BuiltinCommHookType", "GradBucket", "cut"]

LARGE = 1 << 21  # bytes of a gradient from which joining it with others no longer pays, tunable


class BuiltinCommHookType(Enum):
    """Hooks for `_register_builtin_comm_hook`."""

    ALLREDUCE = 0
    FP16_COMPRESS = 1


class GradBucket:
    """What a communication hook gets: the gradients of one bucket, side by side."""

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
        """Puts another tensor of that size in its place."""
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
        missing: ids of parameters whose gradient has not come in this step.
        trigger: ids whose coming makes the bucket ready.
        offsets, total: where each gradient begins in what is reduced, and its size, in elements.
        grad_buffers: where the first gradient of each parameter goes, as seen by the last `settle`.
        gradient_block: one array over the grad buffers if they are in it as they are reduced.
        n_copied: bytes of gradients that were copied for a reduction so far, there and back.
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
        living.add(self)

    def reset(self) -> None:
        self.missing = set(self.trigger)

    def size(self) -> int:
        return sum(p.array.size for p in self.parameters)

    def dtype(self) -> np.dtype[Any]:
        dtype: np.dtype[Any] = self.parameters[0].array.dtype
        return dtype

    def settle(self) -> None:
        """Sees that every gradient has a home, and whether they lie as they are reduced."""
        homes = [p.accumulate_grad.grad_buffer for p in self.parameters]
        if homes == self.grad_buffers:
            return
        if None in homes:
            flat = zeros_shared((self.total,), self.dtype())
            for p, at in zip(self.parameters, self.offsets, strict=True):
                if p.accumulate_grad.grad_buffer is None:
                    p.accumulate_grad.grad_buffer = native.GradientBuffer(
                        array_at(flat, at, p.array.shape)
                    )
        self.grad_buffers = [p.accumulate_grad.grad_buffer for p in self.parameters]
        self.gradient_block = self.whole(self.grad_buffers)

    def forget(self) -> None:
        """For a forked child: the block is its parent's, and two processes must not write there."""
        for p in self.parameters:
            if p.accumulate_grad.grad_buffer in self.grad_buffers:
                p.accumulate_grad.grad_buffer = None
        self.grad_buffers, self.gradient_block = [], None

    def whole(self, homes: list[native.GradientBuffer]) -> Array | None:
        """One array over the homes, if they lie as they are reduced: in a block that has nothing
        else in it, so that what is between them is nobody's.
        """
        block, begin, dtype = homes[0].memory, homes[0].address, self.dtype()
        if any(home.memory is not block for home in homes) or not native.is_shared(begin):
            return None
        if [home.address - begin for home in homes] != [at * dtype.itemsize for at in self.offsets]:
            return None
        offset = begin - np.frombuffer(block, np.uint8).ctypes.data
        return np.ndarray((self.total,), dtype, block, offset)

    def contiguous_offsets(self) -> tuple[list[int], int]:
        """Where each gradient begins without gaps, and the end: what communication hooks get."""
        size = self.size()
        if size == self.total:
            return self.offsets, self.total
        return [0, *accumulate(p.array.size for p in self.parameters[:-1])], size

    def collect(self, offsets: list[int], total: int) -> tuple[Array, bool]:
        """All gradients in one shared array, and whether it is their own memory. Copies: none if
        they are at home there, else one; a missing one counts as zero.
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
        """Copies the reduced gradients where they belong.

        Args:
            used: ids of the parameters that some rank used; None: all. The others' gradients stay
                as they were.
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
            divisor: instead of the number of ranks; None: that.
            dtype: in which they are reduced; None: their own.
        """
        flat, is_own = self.collect(self.offsets, self.total)
        self.join(group, flat, divisor, dtype)
        if not is_own:
            self.copy_to_gradients(flat, self.offsets, None)

    @staticmethod
    def join(group: ProcessGroup, flat: Array, divisor: int | None, dtype: Any) -> None:
        """Averages one array over the ranks, in place."""
        moved = flat if dtype is None or dtype == flat.dtype else flat.astype(dtype)
        staged = group.writable(moved)
        op = ReduceOp.AVG if divisor is None else ReduceOp.SUM
        group.native.all_reduce(staged, op, group.timeout)
        if divisor is not None:
            np.divide(staged, divisor, out=staged, casting="unsafe")
        if staged is not flat:
            np.copyto(flat, staged, casting="unsafe")


def cut(parameters: list[Any], *caps: int) -> list[Bucket]:
    """A bucket for each large gradient, which is reduced where it lies; small ones together.

    Args:
        parameters: the last first; in a bucket they are in their own order again.
        caps: bytes of small gradients that are reduced at once, in the first bucket, in the second,
            ...; the last for all that follow.
    """
    buckets: list[list[Any]] = []
    small: list[Any] = []
    room = 0
    for p in parameters:
        if p.array.nbytes >= min(LARGE, caps[-1]):
            buckets.append([p])
            continue
        if not small or p.array.nbytes > room or small[0].array.dtype != p.array.dtype:
            buckets += [small] if small else []
            small, room = [], caps[min(len(buckets), len(caps) - 1)]
        small.append(p)
        room -= p.array.nbytes
    buckets += [small] if small else []
    return [Bucket(each[::-1]) for each in buckets]


living: weakref.WeakSet[Bucket] = weakref.WeakSet()


def _forget_grad_buffers() -> None:
    for bucket in list(living):
        bucket.forget()


os.register_at_fork(after_in_child=_forget_grad_buffers)


def asked(hook: Any, state: object, bucket: GradBucket) -> Future:
    """What a communication hook returns for a bucket.

    Raises:
        TypeError: it is no Future.
    """
    future = hook(state, bucket)
    if not hasattr(future, "wait"):
        raise TypeError(
            "DistributedDataParallel: a communication hook returns a Future of the buffer, this "
            f"one returned {type(future).__name__}: {hook!r}"
        )
    return future  # type: ignore[no-any-return]
