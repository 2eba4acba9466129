"""`get_worker_info`: which worker reads the data set."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ..dataset import Dataset

__all__ = ["WorkerInfo", "acting_as", "get_worker_info", "set_worker_info"]


@dataclass(frozen=True)
class WorkerInfo:
    """The worker that reads a data set.

    Attributes:
        id: 0 .. num_workers - 1.
        num_workers: how many workers share the work.
        seed: of this worker in this epoch.
        dataset: this worker's copy of the data set.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Dataset[Any] = field(repr=False)


_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """In a loader's worker: which one it is. In any other process: None.

    A resumed stream (`load_state_dict`) sees the worker that began it, whichever worker reads it.
    """
    return _info


def set_worker_info(info: WorkerInfo | None) -> None:
    """From now on this process is that worker."""
    global _info
    _info = info


@contextmanager
def acting_as(info: WorkerInfo | None) -> Iterator[None]:
    """Inside, this process is that worker."""
    before = _info
    set_worker_info(info)
    try:
        yield
    finally:
        set_worker_info(before)
