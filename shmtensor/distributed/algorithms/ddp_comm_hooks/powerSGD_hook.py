"""PowerSGD: gradients averaged as products of two thin matrices, with error feedback
(Vogels, Karimireddy, Jaggi 2019, algorithm 1).

```
M (n, m)  + error     P = M Q   -> average, orthonormal columns
                      Q = M' P  -> average
                      M ~ P Q'    error = M - P Q'
```

All P of a bucket, and the uncompressed gradients, go in one collective, all Q in a second one.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt, prod
from typing import Any

import numpy as np

from ....memory.layout import empty_shared
from ...collectives.reference import ReduceOp
from ...ddp.bucket import GradBucket
from ...group.gpu_operands import is_on_gpu
from ...group.operands import Array
from ...group.process_group import ProcessGroup
from ...group.work import Future, Work
from ...group.world import group_of
from .default_hooks import allreduce_hook

__all__ = ["PowerSGDState", "batched_powerSGD_hook", "powerSGD_hook"]


class PowerSGDState:
    """The state of the hook between steps. Its pickle omits the group.

    Args:
        matrix_approximation_rank: columns of P and Q.
        start_powerSGD_iter: earlier steps do not compress gradients.
        min_compression_rate: gradients that would shrink by less are not compressed.
        use_error_feedback: adds the compression error to the next gradient.
        warm_start: begins with the Q of the previous step.
        random_seed: of the first Q, the same on all ranks.
        orthogonalization_epsilon, compression_stats_logging_frequency,
            batch_tensors_with_same_shape: accepted; columns of zeros do no harm, nothing is logged
            (see `compression_stats`), and all matrices of a bucket are always sent together.

    Attributes:
        iter: steps so far, up to start_powerSGD_iter.
    """

    def __init__(
        self,
        process_group: ProcessGroup | None,
        matrix_approximation_rank: int = 1,
        start_powerSGD_iter: int = 1_000,
        min_compression_rate: float = 2,
        use_error_feedback: bool = True,
        warm_start: bool = True,
        orthogonalization_epsilon: float = 0,
        random_seed: int = 0,
        compression_stats_logging_frequency: int = 10_000,
        batch_tensors_with_same_shape: bool = False,
    ) -> None:
        self.process_group: ProcessGroup | None = process_group
        self.matrix_approximation_rank = matrix_approximation_rank
        self.start_powerSGD_iter = start_powerSGD_iter
        self.min_compression_rate = min_compression_rate
        self.use_error_feedback = use_error_feedback
        self.warm_start = warm_start
        self.rng = np.random.default_rng(random_seed)
        self.error_dict: dict[int, Array] = {}
        self.q_memory_dict: dict[tuple[int, int], Array] = {}
        self.iter = 0
        self.total_numel_before_compression = 0
        self.total_numel_after_compression = 0

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "process_group": None}

    def maybe_increase_iter(self, bucket: GradBucket) -> None:
        """Counts a step with its last bucket."""
        self.iter += bucket.is_last()

    def compression_stats(self) -> tuple[float, int, int]:
        """The compression rate, the number of elements of the gradients, and of elements sent."""
        before, after = self.total_numel_before_compression, self.total_numel_after_compression
        return (before / after if after else 0.0), before, after

    def is_worth_it(self, n: int, m: int) -> bool:
        """Whether P and Q are smaller than the matrix by `min_compression_rate`."""
        rank = min(n, m, self.matrix_approximation_rank)
        return (n + m) * rank * self.min_compression_rate < n * m

    def first_q(self, key: tuple[int, int], matrix: Array) -> Array:
        """The first Q: that of the previous step, or a random one."""
        previous = self.q_memory_dict.get(key)
        if previous is not None:
            return previous
        rank = min(*matrix.shape, self.matrix_approximation_rank)
        return self.rng.standard_normal((matrix.shape[1], rank)).astype(matrix.dtype)


def average(group: ProcessGroup, parts: list[Array]) -> list[Array]:
    """The averages of all parts over the ranks, in one collective."""
    if not parts:
        return []
    flat = empty_shared((sum(x.size for x in parts),), parts[0].dtype)
    averages, at = [], 0
    for x in parts:
        averages.append(flat[at : at + x.size].reshape(x.shape))
        np.copyto(averages[-1], x)
        at += x.size
    group.native.all_reduce(flat, ReduceOp.AVG, group.timeout)
    return averages


def compress_matrices(
    state: PowerSGDState,
    group: ProcessGroup,
    index: int,
    matrices: list[Array],
    uncompressed: list[Array],
) -> list[Array]:
    """Replaces the matrices of bucket `index` by averages of low rank; returns the averages of
    `uncompressed`.
    """
    n = len(matrices)
    keys = [(index, i) for i in range(n)]
    qs = [state.first_q(key, m) for key, m in zip(keys, matrices, strict=True)]
    averages = average(group, [*(m @ q for m, q in zip(matrices, qs, strict=True)), *uncompressed])
    ps = [np.linalg.qr(p)[0] for p in averages[:n]]
    qs = average(group, [m.T @ p for m, p in zip(matrices, ps, strict=True)])
    if state.warm_start:
        state.q_memory_dict.update(zip(keys, qs, strict=True))
    state.total_numel_before_compression += sum(x.size for x in [*matrices, *uncompressed])
    state.total_numel_after_compression += sum(x.size for x in [*ps, *qs, *uncompressed])
    for m, p, q in zip(matrices, ps, qs, strict=True):
        m[...] = p @ q.T
    return averages[n:]


def issue(state: PowerSGDState, bucket: GradBucket, compress_bucket: Callable[..., None]) -> Future:
    """Issues `compress_bucket(group, gradients)`, or an allreduce in the steps before PowerSGD."""
    compresses = state.iter >= state.start_powerSGD_iter
    if not compresses:
        state.maybe_increase_iter(bucket)
        return allreduce_hook(state.process_group, bucket)
    group = group_of("powerSGD_hook", state.process_group)
    flat: Array = bucket.buffer().array
    if is_on_gpu(flat):
        raise NotImplementedError(
            "powerSGD_hook: gradients have to be on the CPU: these are on "
            f"{bucket.buffer().device}, use fp16_compress_hook"
        )

    def call() -> None:
        # products and QR need at least 32 bits
        wide = flat if flat.dtype.itemsize > 2 else flat.astype(np.float32)
        compress_bucket(group, wide)
        if wide is not flat:
            np.copyto(flat, wide, casting="unsafe")

    work = group.issue(call, True, bucket.buffer())
    assert isinstance(work, Work)
    return work.get_future()


def with_feedback(
    state: PowerSGDState, index: int, flat: Array, compress: Callable[[], list[Array]]
) -> list[Array]:
    """Adds the error of the last step to `flat`, calls `compress()`, which changes `flat`, and
    stores the new error. It is 0 for elements that do not change.
    """
    if not state.use_error_feedback:
        return compress()
    if index in state.error_dict:
        flat += state.error_dict[index]
    before = flat.copy()
    averages = compress()
    state.error_dict[index] = before - flat
    return averages


def powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future:
    """Averages a bucket: large matrices approximately, other gradients exactly. Every rank gets the
    same bits.
    """
    shapes = [tuple(p.array.shape) for p in bucket.parameters()]

    def compress_bucket(group: ProcessGroup, flat: Array) -> None:
        matrices, uncompressed, at = [], [], 0
        for shape in shapes:
            n, rows = prod(shape), shape[0] if shape else 1
            part = flat[at : at + n]
            at += n
            if len(shape) > 1 and n and state.is_worth_it(rows, n // rows):
                matrices.append(part.reshape(rows, -1))
            else:
                uncompressed.append(part)
        index = bucket.index()
        averages = with_feedback(
            state,
            index,
            flat,
            lambda: compress_matrices(state, group, index, matrices, uncompressed),
        )
        for part, mean in zip(uncompressed, averages, strict=True):
            part[...] = mean

    return issue(state, bucket, compress_bucket)


def batched_powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future:
    """Averages a bucket as one square matrix, padded with zeros: fewer products than
    `powerSGD_hook`, and far less exact. Every rank gets the same bits.
    """

    def compress_bucket(group: ProcessGroup, flat: Array) -> None:
        side = isqrt(max(flat.size - 1, 0)) + 1
        square = np.zeros(side * side, flat.dtype)
        square[: flat.size] = flat
        index, matrix = bucket.index(), square.reshape(side, side)
        with_feedback(
            state, index, square, lambda: compress_matrices(state, group, index, [matrix], [])
        )
        flat[...] = square[: flat.size]

    return issue(state, bucket, compress_bucket)
