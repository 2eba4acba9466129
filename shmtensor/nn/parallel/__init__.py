"""Modules on several processes or threads: the names of torch.nn.parallel.

They are imported at first use from `distributed`, a higher layer.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ...absent_names import missing as _missing

__all__ = [
    "DataParallel",
    "DistributedDataParallel",
    "SyncBatchNorm",
    "data_parallel",
    "gather",
    "parallel_apply",
    "replicate",
    "scatter",
]

FILES = {
    "DistributedDataParallel": "ddp.distributed_data_parallel",
    "SyncBatchNorm": "ddp.sync_batch_norm",
}


def __getattr__(name: str) -> Any:
    if name in __all__:
        file = FILES.get(name, "data_parallel")
        return getattr(import_module(f"shmtensor.distributed.{file}"), name)
    raise _missing(__name__, name)
