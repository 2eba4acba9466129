"""PowerSGD: gradients averaged as products of two thin matrices, with error feedback
(Vogels, Karimireddy, Jaggi 2019, algorithm 1).

```
M (n, m)  + error     P = M Q   -> average, orthonormal columns
                      Q = M' P  -> average
                      M ~ P Q'    error = M - P Q'
```

All P of a bucket, and what is averaged whole, go in one collective, all Q in a second one.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt, prod
from typing import Any

import numpy as np

from ....memory.layout import empty_shared
from ...collectives.reference import ReduceOp
from ...ddp.bucket import GradBucket
from ...group.operands import Array
from ...group.process_group import ProcessGroup
from ...group.work import Future, Work
from ...group.world import group_of
from .default_hooks import allreduce_hook

__all__ = ["PowerSGDState", "batched_powerSGD_hook", "powerSGD_hook"]


class PowerSGDState:
    """What the hook keeps from step to step. Pickled, it leaves its group behind.

    Args:
        matrix_approximation_rank: columns of P and Q.
        start_powerSGD_iter: steps before that average whole gradients.
        min_compression_rate: gradients that would not shrink by that much are averaged whole.
        use_error_feedback: adds to the next gradient what this one lost.
        warm_start: Q is the one of the step before.
        random_seed: of the first Q, the same on all ranks.
        orthogonalization_epsilon, compression_stats_logging_frequency,
            batch_tensors_with_same_shape: accepted; columns of zeros do no harm, nothing is logged
            (see `compression_stats`), and all matrices of a bucket travel together anyway.

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
        """How much less was sent: the quotient; elements of the gradients; elements sent."""
        before, after = self.total_numel_before_compression, self.total_numel_after_compression
        return (before / after if after else 0.0), before, after

    def is_worth_it(self, n: int, m: int) -> bool:
        """Whether P and Q are that much smaller than the matrix."""
        rank = min(n, m, self.matrix_approximation_rank)
        return (n + m) * rank * self.min_compression_rate < n * m

    def first_q(self, key: tuple[int, int], matrix: Array) -> Array:
        """The Q to begin with."""
        found = self.q_memory_dict.get(key)
        if found is not None:
            return found
        rank = min(*matrix.shape, self.matrix_approximation_rank)
        return self.rng.standard_normal((matrix.shape[1], rank)).astype(matrix.dtype)


def averaged(group: ProcessGroup, parts: list[Array]) -> list[Array]:
    """The averages of all parts over the ranks, in one collective."""
    if not parts:
        return []
    flat = empty_shared((sum(x.size for x in parts),), parts[0].dtype)
    made, at = [], 0
    for x in parts:
        made.append(flat[at : at + x.size].reshape(x.shape))
        np.copyto(made[-1], x)
        at += x.size
    group.native.all_reduce(flat, ReduceOp.AVG, group.timeout)
    return made


def approximate(
    state: PowerSGDState, group: ProcessGroup, index: int, matrices: list[Array], whole: list[Array]
) -> list[Array]:
    """Puts averages of low rank in the place of the matrices of bucket `index`; returns those of
    `whole`.
    """
    n = len(matrices)
    keys = [(index, i) for i in range(n)]
    qs = [state.first_q(key, m) for key, m in zip(keys, matrices, strict=True)]
    told = averaged(group, [*(m @ q for m, q in zip(matrices, qs, strict=True)), *whole])
    ps = [np.linalg.qr(p)[0] for p in told[:n]]
    qs = averaged(group, [m.T @ p for m, p in zip(matrices, ps, strict=True)])
    if state.warm_start:
        state.q_memory_dict.update(zip(keys, qs, strict=True))
    state.total_numel_before_compression += sum(x.size for x in [*matrices, *whole])
    state.total_numel_after_compression += sum(x.size for x in [*ps, *qs, *whole])
    for m, p, q in zip(matrices, ps, qs, strict=True):
        m[...] = p @ q.T
    return told[n:]


def issued(state: PowerSGDState, bucket: GradBucket, work_on: Callable[..., None]) -> Future:
    """Has `work_on(group, gradients)` done, from the step on in which PowerSGD begins."""
    begins = state.iter >= state.start_powerSGD_iter
    if not begins:
        state.maybe_increase_iter(bucket)
        return allreduce_hook(state.process_group, bucket)
    group = group_of("powerSGD_hook", state.process_group)
    flat: Array = bucket.buffer().array

    def call() -> None:
        # products and QR are of at least 32 bits
        wide = flat if flat.dtype.itemsize > 2 else flat.astype(np.float32)
        work_on(group, wide)
        if wide is not flat:
            np.copyto(flat, wide, casting="unsafe")

    work = group.issue(call, True, bucket.buffer())
    assert isinstance(work, Work)
    return work.get_future()


def with_feedback(
    state: PowerSGDState, index: int, flat: Array, compress: Callable[[], list[Array]]
) -> list[Array]:
    """`compress()`, which changes `flat`, with what the last one lost added before. What it leaves
    as it is has lost nothing.
    """
    if not state.use_error_feedback:
        return compress()
    if index in state.error_dict:
        flat += state.error_dict[index]
    before = flat.copy()
    told = compress()
    state.error_dict[index] = before - flat
    return told


def powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future:
    """Averages a bucket: its large matrices approximately, the rest as it is. Every rank gets the
    same bits.
    """
    shapes = [tuple(p.array.shape) for p in bucket.parameters()]

    def work_on(group: ProcessGroup, flat: Array) -> None:
        matrices, whole, at = [], [], 0
        for shape in shapes:
            n, rows = prod(shape), shape[0] if shape else 1
            part = flat[at : at + n]
            at += n
            if len(shape) > 1 and n and state.is_worth_it(rows, n // rows):
                matrices.append(part.reshape(rows, -1))
            else:
                whole.append(part)
        index = bucket.index()
        told = with_feedback(
            state, index, flat, lambda: approximate(state, group, index, matrices, whole)
        )
        for part, mean in zip(whole, told, strict=True):
            part[...] = mean

    return issued(state, bucket, work_on)


def batched_powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future:
    """Averages a bucket as one square matrix, padded with zeros: fewer products than
    `powerSGD_hook`, and far less exact. Every rank gets the same bits.
    """

    def work_on(group: ProcessGroup, flat: Array) -> None:
        side = isqrt(max(flat.size - 1, 0)) + 1
        square = np.zeros(side * side, flat.dtype)
        square[: flat.size] = flat
        index, matrix = bucket.index(), square.reshape(side, side)
        with_feedback(state, index, square, lambda: approximate(state, group, index, [matrix], []))
        flat[...] = square[: flat.size]

    return issued(state, bucket, work_on)
