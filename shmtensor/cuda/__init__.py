"""The names of `torch.cuda`: the GPUs, their streams, events, memory and random numbers.

Tensors are on GPUs through CuPy: `is_available()` says whether CuPy and a GPU are there. Without
them functions behave as in PyTorch's CPU build. Queries return values for no GPU (`device_count` 0,
memory 0). Functions that seed, empty or reset do nothing. Functions that need a GPU raise
`DeviceMissing`, a RuntimeError and an AssertionError.

A process that was forked from one that had used CUDA cannot use it: RuntimeError. The start methods
"spawn" and "forkserver" of `multiprocessing` make processes that can.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..absent_names import missing as _missing
from ..ops.random.generators import cuda_generators
from . import amp as amp
from . import comm as comm
from . import jiterator as jiterator
from . import nccl as nccl
from . import nvtx as nvtx
from . import profiler as profiler
from . import sparse as sparse
from . import tunable as tunable
from .devices import can_device_access_peer as can_device_access_peer
from .devices import current_device as current_device
from .devices import device as device
from .devices import device_count as device_count
from .devices import device_of as device_of
from .devices import get_arch_list as get_arch_list
from .devices import get_device_capability as get_device_capability
from .devices import get_device_name as get_device_name
from .devices import get_device_properties as get_device_properties
from .devices import get_gencode_flags as get_gencode_flags
from .devices import init as init
from .devices import ipc_collect as ipc_collect
from .devices import is_available as is_available
from .devices import is_bf16_supported as is_bf16_supported
from .devices import is_initialized as is_initialized
from .devices import is_tf32_supported as is_tf32_supported
from .devices import set_device as set_device
from .devices import synchronize as synchronize
from .graphs import CUDAGraph as CUDAGraph
from .graphs import graph as graph
from .graphs import graph_pool_handle as graph_pool_handle
from .graphs import is_current_stream_capturing as is_current_stream_capturing
from .graphs import make_graphed_callables as make_graphed_callables
from .management import clock_rate as clock_rate
from .management import device_memory_used as device_memory_used
from .management import list_gpu_processes as list_gpu_processes
from .management import memory_usage as memory_usage
from .management import power_draw as power_draw
from .management import temperature as temperature
from .management import utilization as utilization
from .memory import OutOfMemoryError as OutOfMemoryError
from .memory import caching_allocator_alloc as caching_allocator_alloc
from .memory import caching_allocator_delete as caching_allocator_delete
from .memory import caching_allocator_disabled as caching_allocator_disabled
from .memory import caching_allocator_enable as caching_allocator_enable
from .memory import change_current_allocator as change_current_allocator
from .memory import empty_cache as empty_cache
from .memory import get_allocator_backend as get_allocator_backend
from .memory import get_per_process_memory_fraction as get_per_process_memory_fraction
from .memory import host_memory_stats as host_memory_stats
from .memory import host_memory_stats_as_nested_dict as host_memory_stats_as_nested_dict
from .memory import max_memory_allocated as max_memory_allocated
from .memory import max_memory_cached as max_memory_cached
from .memory import max_memory_reserved as max_memory_reserved
from .memory import mem_get_info as mem_get_info
from .memory import memory_allocated as memory_allocated
from .memory import memory_cached as memory_cached
from .memory import memory_reserved as memory_reserved
from .memory import memory_snapshot as memory_snapshot
from .memory import memory_stats as memory_stats
from .memory import memory_stats_as_nested_dict as memory_stats_as_nested_dict
from .memory import memory_summary as memory_summary
from .memory import reset_accumulated_host_memory_stats as reset_accumulated_host_memory_stats
from .memory import reset_accumulated_memory_stats as reset_accumulated_memory_stats
from .memory import reset_max_memory_allocated as reset_max_memory_allocated
from .memory import reset_max_memory_cached as reset_max_memory_cached
from .memory import reset_peak_host_memory_stats as reset_peak_host_memory_stats
from .memory import reset_peak_memory_stats as reset_peak_memory_stats
from .memory import set_per_process_memory_fraction as set_per_process_memory_fraction
from .memory import use_mem_pool as use_mem_pool
from .random import get_rng_state as get_rng_state
from .random import get_rng_state_all as get_rng_state_all
from .random import initial_seed as initial_seed
from .random import manual_seed as manual_seed
from .random import manual_seed_all as manual_seed_all
from .random import seed as seed
from .random import seed_all as seed_all
from .random import set_rng_state as set_rng_state
from .random import set_rng_state_all as set_rng_state_all
from .refused import BFloat16Storage as BFloat16Storage
from .refused import BoolStorage as BoolStorage
from .refused import ByteStorage as ByteStorage
from .refused import CharStorage as CharStorage
from .refused import ComplexDoubleStorage as ComplexDoubleStorage
from .refused import ComplexFloatStorage as ComplexFloatStorage
from .refused import CUDAPluggableAllocator as CUDAPluggableAllocator
from .refused import DoubleStorage as DoubleStorage
from .refused import FloatStorage as FloatStorage
from .refused import GreenContext as GreenContext
from .refused import HalfStorage as HalfStorage
from .refused import IntStorage as IntStorage
from .refused import LongStorage as LongStorage
from .refused import MemPool as MemPool
from .refused import ShortStorage as ShortStorage
from .runtime_api import CudaError as CudaError
from .runtime_api import DeferredCudaCallError as DeferredCudaCallError
from .runtime_api import check_error as check_error
from .runtime_api import cudart as cudart
from .runtime_api import cudaStatus as cudaStatus
from .runtime_api import current_blas_handle as current_blas_handle
from .runtime_api import current_solver_handle as current_solver_handle
from .runtime_api import get_sync_debug_mode as get_sync_debug_mode
from .runtime_api import set_sync_debug_mode as set_sync_debug_mode
from .streams import Event as Event
from .streams import ExternalStream as ExternalStream
from .streams import Stream as Stream
from .streams import StreamContext as StreamContext
from .streams import current_stream as current_stream
from .streams import default_stream as default_stream
from .streams import get_stream_from_external as get_stream_from_external
from .streams import set_stream as set_stream
from .streams import stream as stream
from .tensor_types import BFloat16Tensor as BFloat16Tensor
from .tensor_types import BoolTensor as BoolTensor
from .tensor_types import ByteTensor as ByteTensor
from .tensor_types import CharTensor as CharTensor
from .tensor_types import DoubleTensor as DoubleTensor
from .tensor_types import FloatTensor as FloatTensor
from .tensor_types import HalfTensor as HalfTensor
from .tensor_types import IntTensor as IntTensor
from .tensor_types import LongTensor as LongTensor
from .tensor_types import ShortTensor as ShortTensor

__all__ = [
    "BFloat16Storage",
    "BFloat16Tensor",
    "BoolStorage",
    "BoolTensor",
    "ByteStorage",
    "ByteTensor",
    "CUDAGraph",
    "CUDAPluggableAllocator",
    "CharStorage",
    "CharTensor",
    "ComplexDoubleStorage",
    "ComplexFloatStorage",
    "CudaError",
    "DeferredCudaCallError",
    "DoubleStorage",
    "DoubleTensor",
    "Event",
    "ExternalStream",
    "FloatStorage",
    "FloatTensor",
    "GreenContext",
    "HalfStorage",
    "HalfTensor",
    "IntStorage",
    "IntTensor",
    "LongStorage",
    "LongTensor",
    "MemPool",
    "OutOfMemoryError",
    "ShortStorage",
    "ShortTensor",
    "Stream",
    "StreamContext",
    "amp",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "caching_allocator_disabled",
    "caching_allocator_enable",
    "can_device_access_peer",
    "change_current_allocator",
    "check_error",
    "clock_rate",
    "comm",
    "cudaStatus",
    "cudart",
    "current_blas_handle",
    "current_device",
    "current_solver_handle",
    "current_stream",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "device_memory_used",
    "device_of",
    "empty_cache",
    "get_allocator_backend",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_gencode_flags",
    "get_per_process_memory_fraction",
    "get_rng_state",
    "get_rng_state_all",
    "get_stream_from_external",
    "get_sync_debug_mode",
    "graph",
    "graph_pool_handle",
    "has_half",
    "has_magma",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_tf32_supported",
    "jiterator",
    "list_gpu_processes",
    "make_graphed_callables",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "memory_usage",
    "nccl",
    "nvtx",
    "power_draw",
    "profiler",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "set_sync_debug_mode",
    "sparse",
    "stream",
    "synchronize",
    "temperature",
    "tunable",
    "use_mem_pool",
    "utilization",
]

has_half = True  # tensors of float16 can be on a GPU
has_magma = False  # solvers are cuSOLVER's


if TYPE_CHECKING:
    from ..ops.random.philox import Generator as _Generator

    default_generators: tuple[_Generator, ...]
else:

    def __getattr__(name: str) -> Any:
        if name == "default_generators":  # one of each GPU
            return cuda_generators()
        raise _missing(__name__, name)
