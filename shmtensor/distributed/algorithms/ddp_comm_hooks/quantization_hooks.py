"""Gradients sent as 8-bit numbers: a quarter of float32's bytes, to every rank.

```
x (channels, n)   lo = min(x, 0), hi = max(x, 0) of a channel    scale = (hi - lo) / 255
                  zero = round(-lo / scale)                      q = round(x / scale) + zero
a message         scale, zero float32 for each channel | q uint8
```

Every rank adds the messages of all ranks, in rank order: the same bits on all ranks.
"""

from __future__ import annotations

import numpy as np

from ....memory.layout import empty_shared
from ...ddp.bucket import GradBucket
from ...group.gpu_operands import is_on_gpu
from ...group.operands import Array
from ...group.process_group import ProcessGroup
from ...group.work import Future, Work
from ...group.world import group_of

__all__ = ["quantization_perchannel_hook", "quantization_pertensor_hook"]


def scales_of(x: Array) -> tuple[Array, Array]:
    """Scale and zero of each row of x (channels, n), so that 0 is represented exactly."""
    lo, hi = np.minimum(x.min(1), 0), np.maximum(x.max(1), 0)
    scale = (hi - lo) / np.float32(255)
    scale[scale == 0] = 1
    return scale, np.clip(np.round(-lo / scale), 0, 255)


def average_quantized(group: ProcessGroup, x: Array) -> Array:
    """The average over the ranks of x (channels, n), quantized to 8 bits."""
    scale, zero = scales_of(x)
    n, head = len(x), 8 * len(x)
    message = empty_shared((head + x.size,), np.dtype(np.uint8))
    message[:head].view(np.float32)[...] = np.concatenate([scale, zero])
    q = np.round(x / scale[:, None]) + zero[:, None]
    message[head:].reshape(x.shape)[...] = np.clip(q, 0, 255)
    messages = [np.empty(message.size, np.uint8) for _ in range(group.size())]
    group.native.all_gather(messages, message, group.timeout)
    total = np.zeros(x.shape, np.float32)
    for each in messages:
        scale, zero = each[:head].view(np.float32).reshape(2, n, 1)
        total += scale * (each[head:].reshape(x.shape).astype(np.float32) - zero)
    return total / np.float32(group.size())


def issue_quantized(process_group: ProcessGroup | None, bucket: GradBucket, length: int) -> Future:
    """The Future of the bucket's average by 8-bit numbers; each `length` elements have a scale."""
    group = group_of("quantization_hooks", process_group)
    flat: Array = bucket.buffer().array
    if is_on_gpu(flat):
        raise NotImplementedError(
            "quantization_hooks: gradients have to be on the CPU: these are on "
            f"{bucket.buffer().device}, use fp16_compress_hook"
        )

    def call() -> None:
        x = np.zeros((-(-flat.size // length), length), np.float32)
        x.reshape(-1)[: flat.size] = flat
        with np.errstate(invalid="ignore"):  # a value that is not finite makes its channel NaN
            total = average_quantized(group, x)
        np.copyto(flat, total.reshape(-1)[: flat.size], casting="unsafe")

    work = group.issue(call, True, bucket.buffer())
    assert isinstance(work, Work)
    return work.get_future()


def quantization_pertensor_hook(process_group: ProcessGroup | None, bucket: GradBucket) -> Future:
    """Averages the bucket by 8-bit numbers with one scale on each rank. `process_group`: None is
    the default one. Copies: the bucket from every rank.
    """
    return issue_quantized(process_group, bucket, max(1, bucket.buffer().array.size))


def quantization_perchannel_hook(
    process_group: ProcessGroup | None, bucket: GradBucket, bucket_size: int = 512
) -> Future:
    """Averages the bucket by 8-bit numbers with a scale for each `bucket_size` of them. Copies: the
    bucket from every rank.
    """
    return issue_quantized(process_group, bucket, bucket_size)
