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
from collections.abc import Iterator
from enum import Enum
from itertools import accumulate
from typing import Any

import numpy as np

from ... import native
from ...autograd import wrap
from ...autograd.engine.grad_buffer import in_grad_buffer
from ...cuda_arrays import device_of, new_array
from ...memory.layout import array_at, offsets, zeros_shared
from ...nn import Embedding, EmbeddingBag, Module
from ..collectives.reference import ReduceOp
from ..collectives.sparse_all_reduce import sparse_total
from ..group.cuda_operands import assign, is_on_gpu
from ..group.operands import Array, array_of
from ..group.process_group import ProcessGroup

IN_PLACE = object()  # the result of a reduction in place
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
    """Parameters whose gradients are reduced together: `collect`, `average`, `store`.

    Attributes:
        missing: ids of parameters whose gradient has not arrived in this step.
        trigger: ids of parameters whose gradients make the bucket ready.
        offsets, total: where each gradient begins in the reduced array, and the array's size, in
            elements.
        grad_buffers: the memory of the gradients, as of the last `allocate_grad_buffers`.
        gradient_block: one array over the grad buffers if they have the layout of the reduced
            array, else None.
        reduced: the array that is being reduced, from `collect` to `store`; else None.
        parts: the part of each parameter in it; none if it is the gradients' own memory.
        n_copied: bytes of gradients copied for reductions so far, in both directions.
    """

    is_sparse = False

    def __init__(self, parameters: list[Any]) -> None:
        self.parameters = parameters
        self.trigger = {id(p) for p in parameters}
        self.missing: set[int] = set()
        self.grad_buffers: list[native.GradientBuffer] = []
        self.gradient_block: Array | None = None
        self.reduced: Any = None
        self.parts: list[Any] = []
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

    def zeros(self, has_gaps: bool = True) -> None:
        """Reduces zeros instead of gradients: what a joined rank contributes.

        Args:
            has_gaps: the layout of `offsets`; False: no gaps, as communication hooks get it.
        """
        starts, total = self.offsets, self.total
        if not has_gaps:
            *starts, total = 0, *accumulate(p.array.size for p in self.parameters)
        self.reduced = self.new_zeros(total)
        self.parts = [
            array_at(self.reduced, at, p.array.shape)
            for p, at in zip(self.parameters, starts, strict=True)
        ]

    def new_zeros(self, total: int) -> Any:
        return zeros_shared((total,), self.dtype())

    def collect(self, has_gaps: bool = True) -> None:
        """Finds all gradients in one shared array; a missing one counts as zero. Copies: none if
        they are in their grad buffers, in the layout of the reduced array, or if there is only one,
        contiguous in shared memory; else one.

        Args:
            has_gaps: as of `zeros`.
        """
        self.parts = []
        if self.gradient_block is not None and (has_gaps or self.size() == self.total):
            for p in self.parameters:
                leaf = p.accumulate_grad
                g = leaf.grad
                if g is None or not in_grad_buffer(leaf, g.array):
                    break
            else:
                self.reduced = self.gradient_block
                return
        if len(self.parameters) == 1 and (g := self.parameters[0].grad) is not None:
            array = array_of("DistributedDataParallel", g)
            if not is_on_gpu(array) and array.flags.c_contiguous and native.is_shared(array):
                self.reduced = array.reshape(-1)
                return
        self.zeros(has_gaps)
        for p, part in zip(self.parameters, self.parts, strict=True):
            if p.grad is not None:
                assign(part, array_of("DistributedDataParallel", p.grad))
                self.n_copied += part.nbytes

    def operands(self) -> list[Any]:
        """What `average` reads and writes."""
        return [self.reduced]

    def average(self, group: ProcessGroup, divisor: int | None, dtype: Any) -> None:
        """Averages the reduced array over the ranks, in place.

        Args:
            divisor: divides the sums; None: the number of ranks.
            dtype: the dtype of the reduction; None: that of the gradients.
        """
        flat = self.reduced
        cast = flat if dtype is None or dtype == flat.dtype else flat.astype(dtype)
        staged = group.writable(cast)
        op = ReduceOp.AVG if divisor is None else ReduceOp.SUM
        group.native.all_reduce(staged, op, group.timeout)
        if divisor is not None and is_on_gpu(flat):
            staged /= divisor
        elif divisor is not None:
            np.divide(staged, divisor, out=staged, casting="unsafe")
        if staged is not flat and is_on_gpu(flat):
            assign(flat, staged)
        elif staged is not flat:
            np.copyto(flat, staged, casting="unsafe")

    def store(self, used: set[int] | None = None, result: Any = IN_PLACE) -> None:
        """Copies the reduced array to the gradients if it is not their memory; once.

        Args:
            used: ids of the parameters that some rank used; None: all. The gradients of the others
                do not change.
            result: what a communication hook returned instead, a tensor or a list of it.
        """
        if result is not IN_PLACE:
            array = (result[0] if isinstance(result, (list, tuple)) else result).array
            if array is not self.reduced:
                assign(self.reduced, array.reshape(-1))
        if self.parts:
            for p, part in zip(self.parameters, self.parts, strict=True):
                if used is not None and id(p) not in used:
                    continue
                self.n_copied += part.nbytes
                if p.grad is None:
                    p.grad = wrap(part.copy())
                else:
                    assign(p.grad.array, part)
        self.reduced, self.parts = None, []

    def reduce(self, group: ProcessGroup, divisor: int | None, dtype: Any) -> None:
        """Averages the gradients of the ranks, as `average`."""
        self.collect()
        self.average(group, divisor, dtype)
        self.store()


class GpuBucket(Bucket):
    """Parameters on one GPU. Their gradients are copied to one array there, which is reduced: by
    nccl there, in other backends through shared host memory (group/cuda_operands.py).
    """

    def allocate_grad_buffers(self) -> None:
        """Does nothing: backward makes the gradients."""

    def drop_grad_buffers(self) -> None:
        """Does nothing: a forked child cannot use the GPU."""

    def new_zeros(self, total: int) -> Any:
        device = device_of(self.parameters[0].array)
        return new_array("zeros", (total,), self.dtype(), device)

    def average(self, group: ProcessGroup, divisor: int | None, dtype: Any) -> None:
        with self.reduced.device:
            super().average(group, divisor, dtype)

    def store(self, used: set[int] | None = None, result: Any = IN_PLACE) -> None:
        with self.parameters[0].array.device:
            super().store(used, result)


class SparseBucket(Bucket):
    """An embedding table whose gradients are sparse tensors: each rank gathers the rows of all
    ranks, and adds them. `reduced` is such a tensor.
    """

    is_sparse = True

    def allocate_grad_buffers(self) -> None:
        """Does nothing: sparse gradients have no grad buffers."""

    def drop_grad_buffers(self) -> None:
        """Does nothing: there are none."""

    def zeros(self, has_gaps: bool = True) -> None:
        """A tensor without elements."""
        from ...sparse import SparseTensor

        p = self.parameters[0]
        places, numbers = np.empty((1, 0), np.int64), np.empty((0, p.shape[1]), self.dtype())
        empty = SparseTensor(wrap(places), wrap(numbers), tuple(p.shape), True)
        self.reduced = empty.to(p.device)

    def collect(self, has_gaps: bool = True) -> None:
        """This rank's gradient; an empty one if it has none.

        Raises:
            RuntimeError: it is dense.
        """
        p = self.parameters[0]
        if p.grad is None:
            self.zeros()
            return
        if not p.grad.is_sparse:
            raise RuntimeError(
                "DistributedDataParallel: Expected a sparse gradient: the parameter of shape "
                f"{tuple(p.shape)} belongs to a module with sparse=True, but its gradient is "
                "dense: something else uses it too, leave sparse=False there"
            )
        self.reduced = p.grad.detach()

    def operands(self) -> list[Any]:
        """The tensor's numbers."""
        return [self.reduced._values()]

    def average(self, group: ProcessGroup, divisor: int | None, dtype: Any) -> None:
        """As `Bucket`'s; the same bits on all ranks."""
        x = self.reduced if dtype is None else self.reduced.to(dtype)
        total = sparse_total(x, ReduceOp.AVG if divisor is None else ReduceOp.SUM, group)
        if divisor is not None:
            total = total / divisor
        self.reduced = total if dtype is None else total.to(self.dtype())

    def store(self, used: set[int] | None = None, result: Any = IN_PLACE) -> None:
        """Replaces this rank's gradient by the average."""
        p = self.parameters[0]
        if self.reduced is not None and (used is None or id(p) in used):
            p.grad = self.reduced
        self.reduced = None


def sparse_parameters(module: Module) -> Iterator[int]:
    """Ids of the parameters whose gradients will be sparse tensors: of modules with sparse=True."""
    for each in module.modules():
        if isinstance(each, (Embedding, EmbeddingBag)) and each.sparse:
            yield id(each.weight)


def make_buckets(parameters: list[Any], *caps: int) -> list[Bucket]:
    """A bucket for each large gradient, which is reduced in place; small ones together.

    Args:
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
    return [(GpuBucket if each[0].is_cuda else Bucket)(each[::-1]) for each in groups]


def kind_of(parameter: Any) -> tuple[Any, Any]:
    """What the parameters of a bucket have in common: dtype and device."""
    return parameter.array.dtype, device_of(parameter.array)


buckets: weakref.WeakSet[Bucket] = weakref.WeakSet()


def _drop_grad_buffers() -> None:
    for bucket in list(buckets):
        bucket.drop_grad_buffers()


os.register_at_fork(after_in_child=_drop_grad_buffers)
