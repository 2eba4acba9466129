"""Groups of processes and their collectives in shared memory, DistributedDataParallel, the
launcher: torch.distributed's names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .backend import *  # noqa: F403
from .collectives import *  # noqa: F403
from .contract import PremulSum as PremulSum
from .contract import ReduceOp as ReduceOp
from .exchange import all_to_all as all_to_all
from .exchange import all_to_all_single as all_to_all_single
from .group import ProcessGroup as ProcessGroup
from .membership import *  # noqa: F403
from .message import *  # noqa: F403
from .objects import *  # noqa: F403
from .store import FileStore as FileStore
from .store import HashStore as HashStore
from .store import PrefixStore as PrefixStore
from .store import Store as Store
from .subgroups import *  # noqa: F403
from .work import Future as Future
from .work import Work as Work

if TYPE_CHECKING:
    from .batchnorm import SyncBatchNorm as SyncBatchNorm
    from .bucket import GradBucket as GradBucket
    from .dataparallel import DataParallel as DataParallel
    from .device_mesh import DeviceMesh as DeviceMesh
    from .device_mesh import init_device_mesh as init_device_mesh
    from .join import Join as Join
    from .join import Joinable as Joinable
    from .join import JoinHook as JoinHook
    from .notebook import launch as launch
    from .parallel import DistributedDataParallel as DistributedDataParallel
    from .precision import MixedPrecision as MixedPrecision
    from .tcpstore import TCPStore as TCPStore
    from .zero import ZeroRedundancyOptimizer as ZeroRedundancyOptimizer

group = GroupMember  # noqa: F405 (group.WORLD, as in torch.distributed)

# What stands on nn or on the network, which a mere collective does not need.
LATER = {
    "DataParallel": "dataparallel",
    "DeviceMesh": "device_mesh",
    "DistributedDataParallel": "parallel",
    "GradBucket": "bucket",
    "Join": "join",
    "JoinHook": "join",
    "Joinable": "join",
    "MixedPrecision": "precision",
    "SyncBatchNorm": "batchnorm",
    "TCPStore": "tcpstore",
    "ZeroRedundancyOptimizer": "zero",
    "init_device_mesh": "device_mesh",
    "launch": "notebook",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in ("algorithms", "optim"):
        return import_module(f"{__name__}.{name}")
    if name in LATER:
        return getattr(import_module(f"{__name__}.{LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
