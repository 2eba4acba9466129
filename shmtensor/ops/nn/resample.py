"""Resampling: results that are weighted sums of elements, by tables for each dimension.

Interpolation, padding with an image's own elements and adaptive average pooling are tables for one
row, whose gradient is the same row with the transposed tables.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from ... import native
from ..table.op_table import op


def private(x: Any, dtype: Any) -> Any:
    """A read-only copy, which keeps no block of the heap."""
    return np.frombuffer(x.astype(dtype).tobytes(), dtype).reshape(x.shape)


class Taps:
    """The elements of each result along one dimension, and their weights.

    Args:
        n: the number of elements.
        elements: their indices (results, K).
        weights: (results, K), float64; None: ones.
        counts: how many of the K belong to each result, int64; None: all.
    """

    def __init__(self, n: int, elements: Any, weights: Any = None, counts: Any = None) -> None:
        self.n = n
        self.elements = private(elements, np.int64)
        self.weights = None if weights is None else private(weights, np.float64)
        self.counts = None if counts is None else private(counts, np.int64)
        self.arrays = self.elements, self.weights, self.counts

    def __len__(self) -> int:
        return len(self.elements)

    def is_used(self) -> Any:
        """Which of the K belong to each result: (results, K)."""
        width = self.elements.shape[1]
        counts = np.full(len(self), width) if self.counts is None else self.counts
        return np.arange(width) < counts[:, None]

    @cached_property
    def transposed(self) -> Taps:
        """The taps of the gradient: for each element the results that it is part of."""
        used = self.is_used()
        results, sources = np.nonzero(used)[0], self.elements[used]
        order = np.argsort(sources, kind="stable")
        results, sources = results[order], sources[order]
        counts = np.bincount(sources, minlength=self.n)
        rank = np.arange(len(sources)) - (np.cumsum(counts) - counts)[sources]
        elements = np.zeros((self.n, int(counts.max(initial=0))), np.int64)
        elements[sources, rank] = results
        weights = None
        if self.weights is not None:
            weights = np.zeros(elements.shape)
            weights[sources, rank] = self.weights[used][order]
        return Taps(len(self), elements, weights, counts)


def resample_along(xp: Any, x: Any, taps: Taps, dim: int) -> Any:
    """`_resample` along one dimension."""
    elements, behind = xp.asarray(taps.elements), (1,) * (x.ndim - 1 - dim)
    out = xp.zeros((*x.shape[:dim], len(taps), *x.shape[dim + 1 :]), x.dtype)
    for k in range(elements.shape[1]):
        part = x.take(elements[:, k], dim)
        if taps.weights is not None:
            part = part * xp.asarray(taps.weights[:, k].astype(x.dtype)).reshape(-1, *behind)
        if taps.counts is None and not k:
            out = part
            continue
        used = xp.asarray(taps.is_used()[:, k]).reshape(-1, *behind)
        out = xp.where(used, out + part if k else part, out)
    return out


SAMPLES = (
    Taps(4, np.array([[0, 1], [1, 2], [2, 3]]), np.array([[0.5, 0.5], [0.3, 0.7], [1, 0]])),
    Taps(3, np.array([[0], [2], [2], [1]])),
    Taps(2, np.array([[0, 1], [1, 1], [0, 0]]), np.array([[0.5, 2], [3, 1], [1, 1]]),
         np.array([2, 1, 0])),
)  # fmt: skip


@op(
    complex_gradients=True,
    native=lambda x, taps: native.resample(x, tuple(t and t.arrays for t in taps)),
    samples=[
        ((2, 1, 4), (SAMPLES[0],)),
        ((2, 2, 3, 5), (SAMPLES[1], None)),
        ((1, 2, 4, 3), SAMPLES[:2]),
        ((1, 2, 4, 3, 2), SAMPLES),
    ],
    layout="images x",
    vmap="images",
)
def _resample(xp, x, /, taps):
    """Each result is a weighted sum of elements along the last dimensions: `Taps` for each, None
    where it remains as it is.
    """
    for d, t in enumerate(taps, x.ndim - len(taps)):
        if t is not None:
            x = resample_along(xp, x, t, d)
    return x


_resample.pullback(x=lambda ops, g, taps: ops._resample(g, tuple(t and t.transposed for t in taps)))
