"""The progress board: one shared block in which the ranks write their progress for the parent.

    rank r, 64 bytes, which only this rank writes:
      +0  word u64      2 n: its shard of the weights is complete at step n;  2 n + 1: it is being
                        updated to step n + 1. Read and written by `native.count_*`, which order
                        the weights, too (Note [Order of a count] in native/ipc/bind_futex.cc)
      +8  steps f64     of the present pass over data, as are the figures below
     +16  samples f64   trained or evaluated by this rank
     +24  loss f64      sum over its samples
     +32  correct f64   of its samples

The weights are complete at step n if every word is 2 n. Between the two barriers of a step the
words may differ: a death then leaves the weights torn, and only a snapshot restores them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import native

LINE = 8  # words of 8 bytes


class ProgressBoard:
    """The ranks' words and figures; `array` can be sent to other processes, which share its memory.

    Attributes:
        array: (ranks, 8) uint64 in shared memory.
    """

    def __init__(self, array: np.ndarray[Any, np.dtype[Any]]) -> None:
        self.array = array
        self.offsets = range(0, array.nbytes, LINE * 8)  # of the words, in bytes
        self.figures = array.view(np.float64)[:, 1:5]

    @classmethod
    def create(cls, ranks: int) -> ProgressBoard:
        block = native.allocate(ranks * LINE * 8, zero=True)
        return cls(np.ndarray((ranks, LINE), np.uint64, memoryview(block)))

    def start(self, step: int) -> None:
        """Marks all shards as complete at `step`."""
        for offset in self.offsets:
            native.count_store(self.array.data, offset, 2 * step)

    def begin_update(self, rank: int) -> None:
        """Marks the rank's shard as being updated: it may be torn."""
        native.count_add(self.array.data, self.offsets[rank], 1)

    def end_update(self, rank: int) -> None:
        """Marks the rank's shard as complete at the next step."""
        native.count_add(self.array.data, self.offsets[rank], 1)

    def complete_step(self) -> int | None:
        """The step at which all weights are complete, or None if they are torn."""
        words = self.read()
        return words[0] // 2 if words[0] % 2 == 0 and len(set(words)) == 1 else None

    def read(self) -> list[int]:
        """Every rank's word. The reader also sees everything that a rank wrote before its word."""
        return [native.count_load(self.array.data, offset) for offset in self.offsets]

    def clear_figures(self) -> None:
        self.figures[:] = 0

    def add(self, rank: int, samples: int, loss: float, correct: int) -> None:
        row = self.figures[rank]
        row += (1, samples, loss, correct)

    def totals(self) -> tuple[int, float, int]:
        """Samples, sum of losses and correct samples of all ranks, summed in rank order."""
        samples, loss, correct = 0, 0.0, 0
        for row in self.figures:
            samples, loss, correct = (
                samples + int(row[1]),
                loss + float(row[2]),
                correct + int(row[3]),
            )
        return samples, loss, correct
