"""Hooks that average the gradients, in their own dtype or in half precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shmtensor import cupy_runtime
from shmtensor.dtypes import bfloat16, float16

from ...collectives.collectives import all_reduce
from ...collectives.reference import ReduceOp
from ...ddp.bucket import GradBucket
from ...group.work import Future

__all__ = [
    "allreduce_hook",
    "bf16_compress_hook",
    "bf16_compress_wrapper",
    "fp16_compress_hook",
    "fp16_compress_wrapper",
    "noop_hook",
]

Hook = Callable[[Any, GradBucket], Future]


def allreduce_hook(process_group: Any, bucket: GradBucket) -> Future:
    """Averages the bucket over the ranks. `process_group`: None is the default one."""
    work = all_reduce(bucket.buffer(), ReduceOp.AVG, process_group, True)
    assert work is not None
    return work.get_future().then(lambda future: future.value()[0])


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
    return wrap_in_dtype(float16, allreduce_hook)(process_group, bucket)


def bf16_compress_hook(process_group: Any, bucket: GradBucket) -> Future:
    """Averages the bucket in bfloat16: coarser than float16, with float32's range. Copies: two."""
    return wrap_in_dtype(bfloat16, allreduce_hook)(process_group, bucket)


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
