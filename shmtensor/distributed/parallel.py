"""DistributedDataParallel: every rank has a copy of the model; gradients are averaged meanwhile.

```
parameters, last first:   | bucket 0 | bucket 1 | bucket 2 |   a large one, or small ones of a dtype
```

A bucket is reduced as soon as the gradients of all its parameters are there and the buckets before
it are done, so that all ranks reduce in the same order. A large gradient is reduced where it lies,
warm from the cache; small ones that lie side by side too, others go through one block and back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np

from .. import native
from ..autograd import is_grad_enabled
from ..errors import CollectiveMismatch
from ..nn import Module
from .contract import ReduceOp
from .group import Array, ProcessGroup, array_of, empty_shared
from .membership import group_of

__all__ = ["DistributedDataParallel"]

LARGE = 1 << 18  # bytes of a gradient from which joining it with others no longer pays, tunable


class Bucket:
    """Parameters whose gradients are reduced together."""

    def __init__(self, parameters: list[Any]) -> None:
        self.parameters = parameters
        self.missing: set[int] = set()

    def reset(self) -> None:
        self.missing = {id(p) for p in self.parameters}

    def reduce(self, group: ProcessGroup) -> None:
        """Averages the gradients of the ranks, in place. Copies: none if they lie side by side,
        else two.
        """
        arrays = [array_of("DistributedDataParallel", p.grad) for p in self.parameters]
        joined = adjacent(arrays)
        if joined is not None:
            group.native.all_reduce(joined, ReduceOp.AVG, group.timeout)
            return
        flat = empty_shared((sum(x.size for x in arrays),), arrays[0].dtype)
        views, at = [], 0
        for x in arrays:
            views.append(flat[at : at + x.size].reshape(x.shape))
            at += x.size
            np.copyto(views[-1], x)
        group.native.all_reduce(flat, ReduceOp.AVG, group.timeout)
        for x, view in zip(arrays, views, strict=True):
            np.copyto(x, view)


def adjacent(arrays: list[Array]) -> Array | None:
    """One array over all of these, if they are contiguous, side by side and in shared memory."""
    if not all(x.flags.c_contiguous and native.is_shared(x) for x in arrays):
        return None
    spans = sorted(((x.__array_interface__["data"][0], x.nbytes, i) for i, x in enumerate(arrays)))
    for (begin, n, _), (following, _, _) in pairwise(spans):
        if begin + n != following:
            return None
    first = arrays[spans[0][2]].reshape(-1)
    if len(arrays) == 1:
        return first
    block, base = native.block_of(first), spans[0][0]
    if base + sum(n for _, n, _ in spans) > block[0] + block[1]:
        return None  # side by side by chance, in two blocks
    count = sum(x.size for x in arrays)
    return np.lib.stride_tricks.as_strided(first, (count,), first.strides)


class DistributedDataParallel(Module):
    """Wraps a module so that after `backward` every rank has the average of all ranks' gradients.

    At construction the shapes of all ranks' parameters are compared, and everybody takes over rank
    0's values. Every rank has to run the same parts of the model in every step.

    Args:
        module: the model; its parameters keep their memory, unless several ranks have them in the
        same memory (a model
            that forked children inherited): those get a copy of their own.
        broadcast_buffers: every forward in training mode begins with rank 0's buffers.
        process_group: the default one if None.
        bucket_cap_mb: small gradients that are reduced at once, in MB.

    Raises:
        CollectiveMismatch: the ranks' models differ.

    Copies: the parameters once, at construction.
    """

    def __init__(
        self,
        module: Module,
        device_ids: list[int] | None = None,
        output_device: int | None = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        init_sync: bool = True,
        process_group: ProcessGroup | None = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
    ) -> None:
        super().__init__()
        if find_unused_parameters:
            raise NotImplementedError(
                "DistributedDataParallel: find_unused_parameters is not offered: "
                "every parameter has to take part"
            )
        self.module = module
        self.process_group = group_of("DistributedDataParallel", process_group)
        self.broadcast_buffers = broadcast_buffers
        self.require_backward_grad_sync = True
        trained = [p for p in module.parameters() if p.requires_grad]
        if not trained:
            raise RuntimeError(
                "DistributedDataParallel: the module has no parameter that requires a gradient"
            )
        if init_sync:
            self._verify()
            self._take_over()
        cap = 25 if bucket_cap_mb is None else bucket_cap_mb
        self._buckets = cut(trained[::-1], int(cap * 2**20))
        self._next = len(self._buckets)
        self._bucket_of = {id(p): b for b in self._buckets for p in b.parameters}
        self._handles = [p.register_post_accumulate_grad_hook(self._arrived) for p in trained]

    # ---------------------------------------------------------------- construction
    def _verify(self) -> None:
        group = self.process_group
        kinds = [
            f"{name}: {array_of('', x).dtype} {tuple(x.shape)}"
            for name, x in [*self.module.named_parameters(), *self.module.named_buffers()]
        ]
        own = np.frombuffer(blake2b("\n".join(kinds).encode(), digest_size=32).digest(), np.uint8)
        everybody = np.empty((group.size(), 32), np.uint8)
        group.native.all_gather(list(everybody), own, group.timeout)
        if (everybody == everybody[0]).all():
            return
        from .objects import all_gather_object

        lists: list[Any] = [None] * group.size()
        all_gather_object(lists, kinds, group)
        for rank, theirs in enumerate(lists):
            for i in range(max(len(theirs), len(lists[0]))):
                ours, other = (x[i] if i < len(x) else "nothing" for x in (lists[0], theirs))
                if ours != other:
                    raise CollectiveMismatch(
                        f"DistributedDataParallel: models differ: rank 0 has {ours}, "
                        f"rank {rank} has {other}"
                    )

    def _take_over(self) -> None:
        group = self.process_group
        for x in [*self.module.parameters(), *self.module.buffers()]:
            array = array_of("DistributedDataParallel", x)
            if group.size() > 1 and is_common(group, array):
                array = empty_shared(array.shape, array.dtype)
                np.copyto(array, x.array)
                x.array = array
            staged = group.writable(array)
            group.native.broadcast(staged, 0, group.timeout)
            group.settle(array, staged)

    # ---------------------------------------------------------------- a step
    def forward(self, *inputs: Any, **named: Any) -> Any:
        if self.require_backward_grad_sync and is_grad_enabled():
            left = [len(b.missing) for b in self._buckets[self._next :]]
            if any(
                0 < n < len(b.parameters)
                for n, b in zip(left, self._buckets[self._next :], strict=True)
            ):
                raise RuntimeError(
                    f"DistributedDataParallel: the last backward left {sum(left)} parameters "
                    "without a gradient: "
                    "every parameter has to take part in every step"
                )
            for bucket in self._buckets:
                bucket.reset()
            self._next = 0
        if self.broadcast_buffers and self.training and self.require_backward_grad_sync:
            self._broadcast_buffers()
        return self.module(*inputs, **named)

    def _broadcast_buffers(self) -> None:
        group = self.process_group
        for buffer in self.module.buffers():
            staged = group.writable(buffer.array)
            group.native.broadcast(staged, 0, group.timeout)
            group.settle(buffer.array, staged)

    def _arrived(self, parameter: Any) -> None:
        if not self.require_backward_grad_sync:
            return
        self._bucket_of[id(parameter)].missing.discard(id(parameter))
        while self._next < len(self._buckets) and not self._buckets[self._next].missing:
            self._buckets[self._next].reduce(self.process_group)
            self._next += 1

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Inside, gradients only add up on each rank; the first forward and backward after it
        averages the sums.
        """
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before


def cut(parameters: list[Any], nbytes: int) -> list[Bucket]:
    """A bucket for each large gradient, which is reduced where it lies; small ones together."""
    buckets: list[list[Any]] = []
    small: list[Any] = []
    room = 0
    for p in parameters:
        if p.array.nbytes >= min(LARGE, nbytes):
            buckets.append([p])
            continue
        if not small or p.array.nbytes > room or small[0].array.dtype != p.array.dtype:
            buckets += [small] if small else []
            small, room = [], nbytes
        small.append(p)
        room -= p.array.nbytes
    buckets += [small] if small else []
    return [Bucket(each) for each in buckets]


def is_common(group: ProcessGroup, array: Array) -> bool:
    """Whether another rank of lower number has this very memory."""
    place = np.zeros(32, np.uint8)
    if native.is_shared(array) and array.nbytes:
        handle = native.export(array)
        native.acknowledge(handle)
        # slot, incarnation, block; generation (Handle in native/memory/ledger.h), and the place in
        # the block
        offset = array.__array_interface__["data"][0] - native.block_of(array)[0]
        place[:] = np.frombuffer(
            handle[16:28] + handle[32:40] + offset.to_bytes(12, "little"), np.uint8
        )
    everybody = np.empty((group.size(), place.size), np.uint8)
    group.native.all_gather(list(everybody), place, group.timeout)
    return bool(place.any() and (everybody[: group.rank()] == place).all(axis=1).any())
