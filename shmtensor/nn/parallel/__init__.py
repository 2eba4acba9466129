"""Modules on several processes or threads: the names of torch.nn.parallel.

They are imported at first use from `distributed`, a higher layer.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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


if TYPE_CHECKING:
    from ...distributed.data_parallel import DataParallel as DataParallel
    from ...distributed.data_parallel import data_parallel as data_parallel
    from ...distributed.data_parallel import gather as gather
    from ...distributed.data_parallel import parallel_apply as parallel_apply
    from ...distributed.data_parallel import replicate as replicate
    from ...distributed.data_parallel import scatter as scatter
    from ...distributed.ddp.distributed_data_parallel import (
        DistributedDataParallel as DistributedDataParallel,
    )
    from ...distributed.ddp.sync_batch_norm import SyncBatchNorm as SyncBatchNorm
else:

    def __getattr__(name: str) -> Any:
        if name in __all__:
            file = FILES.get(name, "data_parallel")
            return getattr(import_module(f"shmtensor.distributed.{file}"), name)
        raise _missing(__name__, name)
