"""The progress board: the current sample and the counters of each worker, in shared memory.

    row 0          | current epoch | 0 ...                                                 |
    row 1 + worker | task + 1 | position | since | samples | batches | fetch | collate | ...|

Each row is two cache lines, written by one process and read by the consumer at any time: to name
the sample of a dead worker, to warn of a slow one, and for `statistics()`. All numbers are float64,
eight aligned bytes each, so no reader sees a half-written one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .batch_block import Array, allocate_parts

__all__ = [
    "BATCHES",
    "BLOCK",
    "COLLATE",
    "FETCH",
    "IDLE",
    "PEAK",
    "POSITION",
    "SAMPLES",
    "SEND",
    "SINCE",
    "TASK",
    "epoch_of",
    "make_progress_board",
    "row_of",
    "set_epoch",
]

COLUMNS = 16
TASK = 0  # the number of its current batch, plus 1; 0: none
POSITION = 1  # the current sample's index in the batch
SINCE = 2  # the monotonic time when it began that sample; 0: none
SAMPLES, BATCHES = 3, 4  # made so far
FETCH, COLLATE, SEND, IDLE = 5, 6, 7, 8  # seconds
PEAK = 9  # its largest resident size in KiB
BLOCK = 10  # bytes of its largest block


def make_progress_board(workers: int) -> Array:
    """The rows of all workers, in shared memory."""
    (rows,) = allocate_parts([((workers + 1, COLUMNS), np.dtype(np.float64))])
    rows[...] = 0
    return rows


def row_of(board: Array, worker: int) -> Any:
    """A worker's row: indexing a memoryview takes a third of the time of an array's."""
    return memoryview(board[worker + 1])


def epoch_of(board: Array) -> int:
    """The current epoch; tasks of others are stale."""
    return int(board[0, 0])


def set_epoch(board: Array, epoch: int) -> None:
    """Makes tasks of all other epochs stale."""
    board[0, 0] = epoch
