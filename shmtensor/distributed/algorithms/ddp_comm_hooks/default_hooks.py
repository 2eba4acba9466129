"""Hooks that average the gradients, in their own dtype or in half precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shmtensor import cupy_runtime
from shmtensor.dtypes import bfloat16, float16

from ...collectives.reference import ReduceOp
from ...ddp.bucket import GradBucket
from ...group.work import Future, Work
from ...group.world import group_of

__all__ = [
    "allreduce_hook",
    "bf16_compress_hook",
    "bf16_compress_wrapper",
    "fp16_compress_hook",
    "fp16_compress_wrapper",
    "noop_hook",
]

Hook = Callable[[Any, GradBucket], Future]


def averaged_future(process_group: Any, x: Any) -> Future:
    """The Future of x averaged over the ranks, in place."""
    group = group_of("allreduce_hook", process_group)

    def call() -> None:
        staged = group.writable(x.array)
        group.native.all_reduce(staged, ReduceOp.AVG, group.timeout)
        group.copy_back(x.array, staged)

    work = group.issue(call, True, x)
    assert isinstance(work, Work)
    return work.get_future()


def allreduce_hook(process_group: Any, bucket: GradBucket) -> Future:
    """Averages the bucket over the ranks. `process_group`: None is the default one."""
    return averaged_future(process_group, bucket.buffer())


def average_in_dtype(dtype: Any, process_group: Any, bucket: GradBucket) -> Future:
    buffer = bucket.buffer()
    return averaged_future(process_group, buffer.to(dtype)).then(
        lambda future: cast(future.value(), buffer.dtype)
    )


def cast(x: Any, dtype: Any) -> Any:
    """x in another dtype, complete on return: a lane's thread has another stream than the one that
    uses the result. Copies: one.
    """
    result = x.to(dtype)
    if result.is_cuda:
        with result.array.device:
            cupy_runtime.initialize().cuda.get_current_stream().synchronize()
    return result


def wrap_in_dtype(dtype: Any, hook: Hook) -> Hook:
    def compressed_hook(state: Any, bucket: GradBucket) -> Future:
        buffer = bucket.buffer()
        bucket.set_buffer(buffer.to(dtype))
        return hook(state, bucket).then(lambda future: cast(future.value(), buffer.dtype))

    return compressed_hook


def fp16_compress_hook(process_group: Any, bucket: GradBucket) -> Future:
    """Averages the bucket in float16, for half the traffic. Copies: two."""
    return average_in_dtype(float16, process_group, bucket)


def bf16_compress_hook(process_group: Any, bucket: GradBucket) -> Future:
    """Averages the bucket in bfloat16: coarser than float16, with float32's range. Copies: two."""
    return average_in_dtype(bfloat16, process_group, bucket)


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """A hook that calls `hook` with the bucket in float16, and casts its result back."""
    return wrap_in_dtype(float16, hook)


def bf16_compress_wrapper(hook: Hook) -> Hook:
    """A hook that calls `hook` with the bucket in bfloat16, and casts its result back."""
    return wrap_in_dtype(bfloat16, hook)


def noop_hook(state: Any, bucket: GradBucket) -> Future:
    """Reduces nothing: to measure the cost of communication."""
    future = Future()
    future.set_result(bucket.buffer())
    return future
