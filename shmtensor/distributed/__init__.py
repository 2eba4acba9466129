"""Groups of processes and their collectives in shared memory, DistributedDataParallel, the
launcher: torch.distributed's names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..absent_names import missing as _missing
from ..errors import QueueEmptyError as QueueEmptyError
from ..errors import ShmTensorError as _ShmTensorError
from .collectives.all_to_all import all_to_all as all_to_all
from .collectives.all_to_all import all_to_all_single as all_to_all_single
from .collectives.coalescing import _coalescing_manager as _coalescing_manager
from .collectives.coalescing import all_gather_coalesced as all_gather_coalesced
from .collectives.coalescing import all_reduce_coalesced as all_reduce_coalesced
from .collectives.collectives import *  # noqa: F403
from .collectives.object_collectives import *  # noqa: F403
from .collectives.reference import PremulSum as PremulSum
from .collectives.reference import ReduceOp as ReduceOp
from .collectives.send_recv import *  # noqa: F403
from .group.backend import *  # noqa: F403
from .group.init_process_group import *  # noqa: F403
from .group.new_subgroups import *  # noqa: F403
from .group.process_group import ProcessGroup as ProcessGroup
from .group.shrink_group import SHRINK_ABORT as SHRINK_ABORT
from .group.shrink_group import SHRINK_DEFAULT as SHRINK_DEFAULT
from .group.shrink_group import shrink_group as shrink_group
from .group.work import Future as Future
from .group.work import Work as Work
from .rendezvous.store import FileStore as FileStore
from .rendezvous.store import HashStore as HashStore
from .rendezvous.store import PrefixStore as PrefixStore
from .rendezvous.store import Store as Store

if TYPE_CHECKING:
    from . import algorithms as algorithms
    from . import distributed_c10d as distributed_c10d
    from . import elastic as elastic
    from . import optim as optim
    from .data_parallel import DataParallel as DataParallel
    from .ddp.bucket import BuiltinCommHookType as BuiltinCommHookType
    from .ddp.bucket import GradBucket as GradBucket
    from .ddp.distributed_data_parallel import DistributedDataParallel as DistributedDataParallel
    from .ddp.join import Join as Join
    from .ddp.join import Joinable as Joinable
    from .ddp.join import JoinHook as JoinHook
    from .ddp.mixed_precision import MixedPrecision as MixedPrecision
    from .ddp.sync_batch_norm import SyncBatchNorm as SyncBatchNorm
    from .ddp.zero_redundancy_optimizer import ZeroRedundancyOptimizer as ZeroRedundancyOptimizer
    from .device_mesh import DeviceMesh as DeviceMesh
    from .device_mesh import init_device_mesh as init_device_mesh
    from .launcher.debug import DebugLevel as DebugLevel
    from .launcher.debug import breakpoint as breakpoint
    from .launcher.debug import get_debug_level as get_debug_level
    from .launcher.debug import set_debug_level as set_debug_level
    from .launcher.debug import set_debug_level_from_env as set_debug_level_from_env
    from .launcher.notebook import launch as launch
    from .rendezvous.tcp_store import TCPStore as TCPStore

# What scripts for torch.distributed catch.
DistError = _ShmTensorError
DistBackendError = DistNetworkError = DistStoreError = _ShmTensorError
all_gather_single = all_gather_into_tensor  # noqa: F405
reduce_scatter_single = reduce_scatter_tensor  # noqa: F405
group = GroupMember  # noqa: F405 (group.WORLD, as in torch.distributed)

# Names whose modules import nn or the network, which a collective does not need.
LAZY = {
    "BuiltinCommHookType": "ddp.bucket",
    "DataParallel": "data_parallel",
    "DebugLevel": "launcher.debug",
    "DeviceMesh": "device_mesh",
    "DistributedDataParallel": "ddp.distributed_data_parallel",
    "GradBucket": "ddp.bucket",
    "Join": "ddp.join",
    "JoinHook": "ddp.join",
    "Joinable": "ddp.join",
    "MixedPrecision": "ddp.mixed_precision",
    "SyncBatchNorm": "ddp.sync_batch_norm",
    "TCPStore": "rendezvous.tcp_store",
    "ZeroRedundancyOptimizer": "ddp.zero_redundancy_optimizer",
    "breakpoint": "launcher.debug",
    "get_debug_level": "launcher.debug",
    "init_device_mesh": "device_mesh",
    "launch": "launcher.notebook",
    "set_debug_level": "launcher.debug",
    "set_debug_level_from_env": "launcher.debug",
}


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        from importlib import import_module

        if name in ("algorithms", "distributed_c10d", "elastic", "optim"):
            return import_module(f"{__name__}.{name}")
        if name in LAZY:
            return getattr(import_module(f"{__name__}.{LAZY[name]}"), name)
        raise _missing(__name__, name)
