"""The progress board: one shared block in which the ranks write what the others read.

    rank r, 128 bytes, which only this rank writes:
      +0  word u64       2 n: its shard of the weights is complete at step n;  2 n + 1: it is being
                         updated to step n + 1. Read and written by `native.count_*`, which order
                         the weights, too (Note [Order of a count] in native/ipc/bind_futex.cc)
      +8  samples f64    of this rank in the present step; in the present pass, if it evaluates;
                         so are the next three
     +16  weight f64     what the mean of the loss is divided by
     +24  loss f64       times the weight
     +32  correct f64    samples classified correctly; -1: this is no classification
     +40  missing f64    how many parameters have no gradient on this rank in this step
     +48  squares f64    the sum of the squares of its shard of the gradients, if they are clipped
     +56  checksum f64  of the names of the next
     +64  named f64[8]   figures that the training step returned, times the samples
    the last 128 bytes, which only rank 0 writes:
      +0  signals u64[2] what follows a meeting of the ranks: of meeting k in place k % 2

The weights are complete at step n if every word is 2 n. Between the two barriers of a step the
words may differ: see `Lead.recover`.
"""

from __future__ import annotations

from typing import Any
from zlib import crc32

import numpy as np

from .. import native

LINE = 16  # words of 8 bytes
NAMED = 8  # figures that a training step may return


class ProgressBoard:
    """The ranks' words and figures; `array` can be sent to other processes, which share its memory.

    Attributes:
        array: (ranks + 1, 16) uint64 in shared memory.
        signals: (2,) uint64.
    """

    def __init__(self, array: np.ndarray[Any, np.dtype[Any]]) -> None:
        self.array, self._words = array, array.data
        ranks = len(array) - 1
        self.offsets = range(0, ranks * LINE * 8, LINE * 8)  # of the words, in bytes
        self.figures = array[:ranks].view(np.float64)[:, 1:5]
        self.missing = array[:ranks].view(np.float64)[:, 5]
        self.squares = array[:ranks].view(np.float64)[:, 6]
        self.checksums = array[:ranks].view(np.float64)[:, 7]
        self.named = array[:ranks].view(np.float64)[:, 8:]
        self.signals = array[ranks, :2]

    @classmethod
    def create(cls, ranks: int) -> ProgressBoard:
        block = native.allocate((ranks + 1) * LINE * 8, zero=True)
        return cls(np.ndarray((ranks + 1, LINE), np.uint64, memoryview(block)))

    def start(self, step: int) -> None:
        """Marks all shards as complete at `step`."""
        for offset in self.offsets:
            native.count_store(self._words, offset, 2 * step)

    def begin_update(self, rank: int) -> None:
        """Marks the rank's shard as being updated: it may be torn."""
        native.count_add(self._words, self.offsets[rank], 1)

    end_update = begin_update  # marks the rank's shard as complete at the next step

    def complete_step(self) -> int | None:
        """The step at which all weights are complete, or None if they are torn."""
        words = self.read()
        return words[0] // 2 if words[0] % 2 == 0 and len(set(words)) == 1 else None

    def read(self) -> list[int]:
        """Every rank's word. The reader also sees everything that a rank wrote before its word."""
        return [native.count_load(self._words, offset) for offset in self.offsets]

    def totals(self) -> list[float]:
        """The sums of the ranks' figures, in rank order."""
        samples = weight = loss = correct = 0.0
        for row in self.figures.tolist():
            samples += row[0]
            weight += row[1]
            loss += row[2]
            correct += row[3]
        return [samples, weight, loss, correct]

    def clear_figures(self, rank: int) -> None:
        self.figures[rank] = 0
        self.clear_named(rank)

    def clear_named(self, rank: int) -> None:
        self.checksums[rank] = 0
        self.named[rank] = 0


def checksum(names: list[str]) -> int:
    """Of the names of figures; the same in every process, and not 0."""
    return crc32("\n".join(names).encode()) + 1
