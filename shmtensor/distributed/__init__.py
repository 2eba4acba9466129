"""Groups of processes and their collectives in shared memory, DistributedDataParallel, the
launcher: torch.distributed's names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import QueueEmptyError as QueueEmptyError
from ..errors import ShmTensorError as DistError  # what scripts for torch.distributed catch
from .backend import *  # noqa: F403
from .coalesced import _coalescing_manager as _coalescing_manager
from .coalesced import all_gather_coalesced as all_gather_coalesced
from .coalesced import all_reduce_coalesced as all_reduce_coalesced
from .collectives import *  # noqa: F403
from .contract import PremulSum as PremulSum
from .contract import ReduceOp as ReduceOp
from .exchange import all_to_all as all_to_all
from .exchange import all_to_all_single as all_to_all_single
from .group import ProcessGroup as ProcessGroup
from .membership import *  # noqa: F403
from .message import *  # noqa: F403
from .objects import *  # noqa: F403
from .shrink import SHRINK_ABORT as SHRINK_ABORT
from .shrink import SHRINK_DEFAULT as SHRINK_DEFAULT
from .shrink import shrink_group as shrink_group
from .store import FileStore as FileStore
from .store import HashStore as HashStore
from .store import PrefixStore as PrefixStore
from .store import Store as Store
from .subgroups import *  # noqa: F403
from .work import Future as Future
from .work import Work as Work

if TYPE_CHECKING:
    from .batchnorm import SyncBatchNorm as SyncBatchNorm
    from .bucket import BuiltinCommHookType as BuiltinCommHookType
    from .bucket import GradBucket as GradBucket
    from .dataparallel import DataParallel as DataParallel
    from .debug import DebugLevel as DebugLevel
    from .debug import breakpoint as breakpoint
    from .debug import get_debug_level as get_debug_level
    from .debug import set_debug_level as set_debug_level
    from .debug import set_debug_level_from_env as set_debug_level_from_env
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

DistBackendError = DistNetworkError = DistStoreError = DistError
all_gather_single = all_gather_into_tensor  # noqa: F405
reduce_scatter_single = reduce_scatter_tensor  # noqa: F405
group = GroupMember  # noqa: F405 (group.WORLD, as in torch.distributed)

# What stands on nn or on the network, which a mere collective does not need.
LATER = {
    "BuiltinCommHookType": "bucket",
    "DataParallel": "dataparallel",
    "DebugLevel": "debug",
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
    "breakpoint": "debug",
    "get_debug_level": "debug",
    "init_device_mesh": "device_mesh",
    "launch": "notebook",
    "set_debug_level": "debug",
    "set_debug_level_from_env": "debug",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in ("algorithms", "distributed_c10d", "elastic", "optim"):
        return import_module(f"{__name__}.{name}")
    if name in LATER:
        return getattr(import_module(f"{__name__}.{LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
