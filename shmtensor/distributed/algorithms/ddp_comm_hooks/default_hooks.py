"""Hooks that average the gradients, as they are or in half precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...bucket import GradBucket
from ...contract import ReduceOp
from ...membership import group_of
from ...work import Future, Work

__all__ = ["allreduce_hook", "fp16_compress_hook", "fp16_compress_wrapper", "noop_hook"]

Hook = Callable[[Any, GradBucket], Future]


def averaged(process_group: Any, x: Any) -> Future:
    """The Future of x averaged over the ranks, in place."""
    group = group_of("allreduce_hook", process_group)

    def call() -> None:
        staged = group.writable(x.array)
        group.native.all_reduce(staged, ReduceOp.AVG, group.timeout)
        group.settle(x.array, staged)

    work = group.issue(call, True, x)
    assert isinstance(work, Work)
    return work.get_future()


def allreduce_hook(process_group: Any, bucket: GradBucket) -> Future:
    """Averages the bucket over the ranks. `process_group`: None is the default one."""
    return averaged(process_group, bucket.buffer())


def fp16_compress_hook(process_group: Any, bucket: GradBucket) -> Future:
    """Averages the bucket in float16, for half the traffic. Copies: two."""
    wide = bucket.buffer()
    return averaged(process_group, wide.half()).then(lambda done: done.value().to(wide.dtype))


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """A hook that gives `hook` the bucket in float16, and turns its result back."""

    def compressed(state: Any, bucket: GradBucket) -> Future:
        wide = bucket.buffer()
        bucket.set_buffer(wide.half())
        return hook(state, bucket).then(lambda done: done.value().to(wide.dtype))

    return compressed


def noop_hook(state: Any, bucket: GradBucket) -> Future:
    """Reduces nothing: to see what communication costs."""
    future = Future()
    future.set_result(bucket.buffer())
    return future
