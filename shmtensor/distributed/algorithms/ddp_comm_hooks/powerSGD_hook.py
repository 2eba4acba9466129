"""PowerSGD: gradients averaged as products of two thin matrices, with error feedback
(Vogels, Karimireddy, Jaggi 2019, algorithm 1).

```
M (n, m)  + error     P = M Q   -> average, orthonormal columns
                      Q = M' P  -> average
                      M ~ P Q'    error = M - P Q'
```
"""

from __future__ import annotations

import numpy as np

from ...bucket import GradBucket
from ...contract import ReduceOp
from ...group import Array, ProcessGroup, empty_shared
from ...membership import group_of
from ...work import Future, Work
from .default_hooks import allreduce_hook

__all__ = ["PowerSGDState", "powerSGD_hook"]


class PowerSGDState:
    """What the hook keeps from step to step.

    Args:
        matrix_approximation_rank: columns of P and Q.
        start_powerSGD_iter: steps before that average whole gradients.
        min_compression_rate: gradients that would not shrink by that much are averaged whole.
        use_error_feedback: adds to the next gradient what this one lost.
        warm_start: Q is the one of the step before.
        random_seed: of the first Q, the same on all ranks.
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
    ) -> None:
        self.process_group = process_group
        self.matrix_approximation_rank = matrix_approximation_rank
        self.start_powerSGD_iter = start_powerSGD_iter
        self.min_compression_rate = min_compression_rate
        self.use_error_feedback = use_error_feedback
        self.warm_start = warm_start
        self.rng = np.random.default_rng(random_seed)
        self.errors: dict[int, Array] = {}
        self.qs: dict[tuple[int, int], Array] = {}
        self.step = 0

    def is_worth_it(self, n: int, m: int) -> bool:
        """Whether P and Q are that much smaller than the matrix."""
        rank = min(n, m, self.matrix_approximation_rank)
        return (n + m) * rank * self.min_compression_rate < n * m


def powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future:
    """Averages a bucket: its large matrices approximately, the rest as it is. Every rank gets the
    same bits.
    """
    if bucket.is_last():
        state.step += 1
    if state.step < state.start_powerSGD_iter:
        return allreduce_hook(state.process_group, bucket)
    group = group_of("powerSGD_hook", state.process_group)
    flat: Array = bucket.buffer().array
    shapes = [p.array.shape for p in bucket.parameters()]

    def mean(x: Array) -> Array:
        shared = empty_shared(x.shape, x.dtype)
        np.copyto(shared, x)
        group.native.all_reduce(shared, ReduceOp.AVG, group.timeout)
        return shared

    def call() -> None:
        error = state.errors.get(bucket.index()) if state.use_error_feedback else None
        if error is not None:
            flat[...] += error
        before = flat.copy()
        whole, at = [], 0
        for i, shape in enumerate(shapes):
            n = int(np.prod(shape))
            part = flat[at : at + n]
            at += n
            rows = shape[0] if shape else 1
            if len(shape) < 2 or not state.is_worth_it(rows, n // rows):
                whole.append(part)
                continue
            matrix = part.reshape(rows, -1)
            rank = min(*matrix.shape, state.matrix_approximation_rank)
            q = state.qs.get((bucket.index(), i))
            if q is None or not state.warm_start:
                q = state.rng.standard_normal((matrix.shape[1], rank)).astype(flat.dtype)
            p = np.linalg.qr(mean(matrix @ q))[0]
            q = mean(matrix.T @ p)
            state.qs[bucket.index(), i] = q
            matrix[...] = p @ q.T
        # what was averaged whole has lost nothing
        state.errors[bucket.index()] = before - flat
        if whole:
            together = mean(np.concatenate(whole))
            at = 0
            for part in whole:
                part[...] = together[at : at + part.size]
                at += part.size

    work = group.issue(call, True, bucket.buffer())
    assert isinstance(work, Work)
    return work.get_future()
