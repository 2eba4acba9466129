"""The names of `torch.cuda`: there is no GPU, and functions behave as in PyTorch's CPU build.

Queries return values for no GPU (`is_available` False, `device_count` 0, memory 0). Functions that
seed, empty or reset do nothing. Functions that need a GPU raise `DeviceMissing`, a RuntimeError and
an AssertionError.
"""

from __future__ import annotations

from typing import Any

from . import amp as amp
from .absent import absent, index_of
from .memory import OutOfMemoryError as OutOfMemoryError
from .memory import empty_cache as empty_cache
from .memory import get_per_process_memory_fraction as get_per_process_memory_fraction
from .memory import max_memory_allocated as max_memory_allocated
from .memory import max_memory_reserved as max_memory_reserved
from .memory import mem_get_info as mem_get_info
from .memory import memory_allocated as memory_allocated
from .memory import memory_reserved as memory_reserved
from .memory import memory_stats as memory_stats
from .memory import memory_summary as memory_summary
from .memory import reset_accumulated_memory_stats as reset_accumulated_memory_stats
from .memory import reset_max_memory_allocated as reset_max_memory_allocated
from .memory import reset_peak_memory_stats as reset_peak_memory_stats
from .memory import set_per_process_memory_fraction as set_per_process_memory_fraction
from .random import get_rng_state as get_rng_state
from .random import get_rng_state_all as get_rng_state_all
from .random import initial_seed as initial_seed
from .random import manual_seed as manual_seed
from .random import manual_seed_all as manual_seed_all
from .random import seed as seed
from .random import seed_all as seed_all
from .random import set_rng_state as set_rng_state
from .random import set_rng_state_all as set_rng_state_all
from .streams import CUDAGraph as CUDAGraph
from .streams import Event as Event
from .streams import Stream as Stream
from .streams import StreamContext as StreamContext
from .streams import current_stream as current_stream
from .streams import default_stream as default_stream
from .streams import set_stream as set_stream
from .streams import stream as stream

__all__ = [
    "CUDAGraph",
    "Event",
    "OutOfMemoryError",
    "Stream",
    "StreamContext",
    "amp",
    "can_device_access_peer",
    "current_device",
    "current_stream",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_gencode_flags",
    "get_per_process_memory_fraction",
    "get_rng_state",
    "get_rng_state_all",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "is_tf32_supported",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "synchronize",
]

default_generators: tuple[Any, ...] = ()


def is_available() -> bool:
    """Whether tensors can be on a GPU."""
    return False


def device_count() -> int:
    """How many GPUs there are."""
    return 0


def is_initialized() -> bool:
    """Whether a GPU is in use."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether a GPU computes with bfloat16."""
    return False


def is_tf32_supported() -> bool:
    """Whether a GPU computes with TF32."""
    return False


def get_arch_list() -> list[str]:
    """The GPU architectures that the package was built for: none."""
    return []


def get_gencode_flags() -> str:
    """The compiler's flags for them: none."""
    return ""


def init() -> None:
    """Begins to use the GPU.

    Raises:
        DeviceMissing: there is none.
    """
    raise absent("init")


def current_device() -> int:
    """The number of the GPU in use.

    Raises:
        DeviceMissing: there is none.
    """
    raise absent("current_device")


def set_device(device: Any) -> None:
    """Sets the GPU to use; a negative number, or "cuda", changes nothing.

    Raises:
        DeviceMissing: there is none.
        ValueError: the device is not a GPU.
    """
    if index_of("set_device", device) >= 0:
        raise absent("set_device")


def get_device_name(device: Any = None) -> str:
    """The name of a GPU.

    Raises:
        DeviceMissing: there is none.
    """
    raise absent("get_device_name")


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The compute capability of a GPU.

    Raises:
        DeviceMissing: there is none.
    """
    raise absent("get_device_capability")


def get_device_properties(device: Any = None) -> Any:
    """Name, memory and processors of a GPU.

    Raises:
        DeviceMissing: there is none.
    """
    raise absent("get_device_properties")


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Whether one GPU reads another's memory.

    Raises:
        DeviceMissing: there is none.
    """
    raise absent("can_device_access_peer")


def synchronize(device: Any = None) -> None:
    """Waits for a GPU's work.

    Raises:
        DeviceMissing: there is none; guard the call with `is_available()`.
    """
    raise absent("synchronize")


def ipc_collect() -> None:
    """Frees a GPU's memory that other processes have released.

    Raises:
        DeviceMissing: there is none.
    """
    raise absent("ipc_collect")


class device:
    """A context manager that sets the GPU in use.

    Args:
        device: the GPU; None or a negative number changes nothing.

    Raises:
        DeviceMissing: on entering; there is none.
        ValueError: the device is not a GPU.
    """

    def __init__(self, device: Any) -> None:
        self.idx = index_of("device", device)

    def __enter__(self) -> None:
        if self.idx >= 0:
            raise absent("device")

    def __exit__(self, *error: object) -> None:
        """Does nothing."""


class device_of(device):
    """A context manager that uses the GPU of a tensor; a tensor on the CPU changes nothing."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if obj.is_cuda else -1)
