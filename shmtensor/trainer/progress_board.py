"""The board: one shared block in which the ranks note how far they are, and the parent reads along.

    rank r, 64 bytes, written by it alone:
      +0  word u64      2 n: its shard of the weights is whole at step n;  2 n + 1: it is being
      changed to step n + 1; read and written by `native.count_*`, so that the weights behind it
      are seen in its order (Note [Order of a count] in native/ipc/bind_futex.cc)
      +8  steps f64     since the begin of the epoch, as are
     +16  samples f64   trained or evaluated by this rank
     +24  loss f64      sum over its samples
     +32  correct f64   of its samples

The weights are whole at step n if every word is 2 n. Between the two barriers of a step the words
differ; a death there leaves them torn, and only a snapshot brings them back.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import native

__all__ = ["ProgressBoard"]

LINE = 8  # words of 8 bytes


class ProgressBoard:
    """The ranks' words; `array` is what travels to other processes (its memory is shared).

    Attributes:
        array: (ranks, 8) uint64 in shared memory.
    """

    def __init__(self, array: np.ndarray[Any, np.dtype[Any]]) -> None:
        self.array = array
        self.words = range(0, array.nbytes, LINE * 8)  # offsets
        self.figures = array.view(np.float64)[:, 1:5]

    @classmethod
    def create(cls, ranks: int) -> ProgressBoard:
        block = native.allocate(ranks * LINE * 8, zero=True)
        return cls(np.ndarray((ranks, LINE), np.uint64, memoryview(block)))

    def start(self, step: int) -> None:
        """All shards are whole at `step`."""
        for offset in self.words:
            native.count_store(self.array.data, offset, 2 * step)

    def begin_update(self, rank: int) -> None:
        """From now on the rank's shard may be torn."""
        native.count_add(self.array.data, self.words[rank], 1)

    def end_update(self, rank: int) -> None:
        """The rank's shard is whole again, one step further."""
        native.count_add(self.array.data, self.words[rank], 1)

    def whole_at(self) -> int | None:
        """The step at which all weights are whole, or None if they are torn."""
        words = self.read()
        return words[0] // 2 if words[0] % 2 == 0 and len(set(words)) == 1 else None

    def read(self) -> list[int]:
        """Every rank's word; what a rank wrote before its word is seen by whoever read it."""
        return [native.count_load(self.array.data, offset) for offset in self.words]

    def clear_figures(self) -> None:
        self.figures[:] = 0

    def add(self, rank: int, samples: int, loss: float, correct: int) -> None:
        row = self.figures[rank]
        row += (1, samples, loss, correct)

    def totals(self) -> tuple[int, float, int]:
        """Samples, sum of losses and correct ones of all ranks, summed in rank order."""
        samples, loss, correct = 0, 0.0, 0
        for row in self.figures:
            samples, loss, correct = (
                samples + int(row[1]),
                loss + float(row[2]),
                correct + int(row[3]),
            )
        return samples, loss, correct
