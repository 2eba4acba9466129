"""What each worker is at, and how much it has done: a few numbers in shared memory.

    row 0          | current epoch | 0 ...                                              |
    row 1 + worker | task + 1 | place | since | samples | batches | fetch | collate | ...|

Each row is two cache lines, written by one process and read by the consumer at any time: to name
the sample that a dead worker was at, to warn of one that takes long, and for `statistics()`. All
numbers are float64, eight aligned bytes each, so none is ever seen half written.
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
    "PLACE",
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
TASK = 0  # the number of the batch that it makes, plus 1; 0: none
PLACE = 1  # which of the batch's samples
SINCE = 2  # the monotonic clock when it began that sample; 0: none
SAMPLES, BATCHES = 3, 4  # made so far
FETCH, COLLATE, SEND, IDLE = 5, 6, 7, 8  # seconds
PEAK = 9  # its largest resident size in KiB
BLOCK = 10  # bytes of the largest block that it made


def make_progress_board(workers: int) -> Array:
    """The rows of so many workers, in shared memory."""
    (rows,) = allocate_parts([((workers + 1, COLUMNS), np.dtype(np.float64))])
    rows[...] = 0
    return rows


def row_of(board: Array, worker: int) -> Any:
    """A worker's row: indexing a memoryview takes a third of the time of an array's."""
    return memoryview(board[worker + 1])


def epoch_of(board: Array) -> int:
    """The epoch whose tasks are worth doing."""
    return int(board[0, 0])


def set_epoch(board: Array, epoch: int) -> None:
    """Makes tasks of all other epochs stale."""
    board[0, 0] = epoch
