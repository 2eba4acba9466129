"""`get_worker_info`: which worker reads the data set, for shmtensor's data sets and PyTorch's.

A stream written for PyTorch divides its samples by `torch.utils.data.get_worker_info()`, so in our
workers that function answers, too. PyTorch is never imported for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from shmtensor.other_names import foreign_module

from ..dataset import Dataset


@dataclass(frozen=True)
class WorkerInfo:
    """The worker that reads a data set, as `get_worker_info` returns it.

    Parameters
    ----------
    id : int
        0 .. num_workers - 1.
    num_workers : int
        How many workers share the work.
    seed : int
        Of this worker in this epoch.
    dataset : Dataset
        This worker's copy of the loader's data set; of a frame, table or column the data set of its
        rows.

    Examples
    --------
    >>> from shmtensor.dataloaders import WorkerInfo
    >>> WorkerInfo(id=0, num_workers=2, seed=5, dataset=range(3)).num_workers
    2
    """

    id: int
    num_workers: int
    seed: int
    dataset: Dataset[Any] = field(repr=False)


_info: WorkerInfo | None = None
_is_worker_process = False


def get_worker_info() -> WorkerInfo | None:
    """In a loader's worker: which one it is. In any other process: None.

    A resumed stream (`load_state_dict`) sees the worker that began it, whichever worker reads it.

    Returns
    -------
    WorkerInfo or None

    See Also
    --------
    IterableDataset

    Examples
    --------
    >>> from shmtensor.dataloaders import get_worker_info
    >>> get_worker_info() is None
    True
    """
    return _info


def set_worker_info(info: WorkerInfo | None) -> None:
    """From now on this process is that worker, and only that."""
    global _is_worker_process
    _is_worker_process = True
    assign(info, None)


def is_worker_process() -> bool:
    """Whether this process is a loader's worker, and not one that only acts as a worker."""
    return _is_worker_process


@contextmanager
def acting_as(info: WorkerInfo | None) -> Iterator[None]:
    """Inside, this process is that worker."""
    before, torch_before = _info, getattr(module_of_torch(), "_worker_info", None)
    assign(info, None)
    try:
        yield
    finally:
        assign(before, torch_before)


# ------------------------------------------------------------------ PyTorch
_torch_info: tuple[WorkerInfo, Any] | None = None  # the latest one, and the same for PyTorch


def assign(info: WorkerInfo | None, torch_info: Any) -> None:
    """Makes both `get_worker_info` answer `info`; without one, PyTorch's answers `torch_info`."""
    global _info, _torch_info
    _info = info
    module = module_of_torch()
    if module is None:
        return
    if info is not None:
        if _torch_info is None or _torch_info[0] is not info:
            names = ("id", "num_workers", "seed", "dataset")
            made = module.WorkerInfo(**{name: getattr(info, name) for name in names})
            _torch_info = info, made
        torch_info = _torch_info[1]
    module._worker_info = torch_info


def module_of_torch() -> Any:
    """The module with PyTorch's worker info; None if it is not imported, or being imported."""
    module = foreign_module("torch.utils.data._utils.worker")
    return module if hasattr(module, "WorkerInfo") else None
