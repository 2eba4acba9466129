"""The GPUs: which one is in use, and what they are."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from .. import cupy_runtime
from ..cuda_arrays import watch
from .absent import absent, cupy_for, current_or, index_of

__all__ = [
    "can_device_access_peer",
    "current_device",
    "device",
    "device_count",
    "device_of",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_gencode_flags",
    "init",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "is_tf32_supported",
    "set_device",
    "synchronize",
]


def is_available() -> bool:
    """Whether tensors can be on a GPU: CuPy is installed, and the driver has a device.

    Returns
    -------
    bool
        It is asked once in a process, and never raises.

    Examples
    --------
    >>> device = "cuda" if st.cuda.is_available() else "cpu"
    >>> st.ones(3, device=device).sum().item()
    3.0
    """
    return cupy_runtime.is_available()


def device_count() -> int:
    """How many GPUs there are.

    Returns
    -------
    int
        0 if `is_available` is False.

    Examples
    --------
    >>> (st.cuda.device_count() > 0) == st.cuda.is_available()
    True
    """
    return cupy_runtime.device_count()


def is_initialized() -> bool:
    """Whether this process has used a GPU.

    Returns
    -------
    bool
        False without one.

    Examples
    --------
    >>> st.cuda.is_available() or not st.cuda.is_initialized()
    True
    """
    return cupy_runtime.is_initialized()


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether tensors of bfloat16 can be on a GPU: with CuPy 14 or newer that shmtensor imports.

    Parameters
    ----------
    including_emulation : bool, optional
        Accepted; has no effect.

    Returns
    -------
    bool
        False without a GPU.

    Examples
    --------
    >>> st.cuda.is_available() or not st.cuda.is_bf16_supported()
    True
    """
    return is_available() and cupy_runtime.has_bfloat16()


def is_tf32_supported() -> bool:
    """Whether the GPU in use has TF32.

    Returns
    -------
    bool
        False without a GPU.

    Notes
    -----
    Products use TF32 after `set_float32_matmul_precision("high")`, cuDNN's convolutions unless
    `backends.cudnn.allow_tf32` is False.

    Examples
    --------
    >>> st.cuda.is_available() or not st.cuda.is_tf32_supported()
    True
    """
    return is_available() and get_device_capability()[0] >= 8


def get_arch_list() -> list[str]:
    """The GPU architectures that kernels are compiled for: those of the GPUs here.

    Returns
    -------
    list of str
        As "sm_80", sorted; empty without a GPU.

    Examples
    --------
    >>> all(name.startswith("sm_") for name in st.cuda.get_arch_list())
    True
    """
    if not is_available():
        return []
    return sorted({"sm_{}{}".format(*get_device_capability(i)) for i in range(device_count())})


def get_gencode_flags() -> str:
    """nvcc's flags for `get_arch_list`.

    Returns
    -------
    str
        Empty without a GPU.

    Examples
    --------
    >>> st.cuda.get_gencode_flags().count("-gencode") == len(st.cuda.get_arch_list())
    True
    """
    return " ".join(f"-gencode compute=compute_{name[3:]},code={name}" for name in get_arch_list())


def init() -> None:
    """Begins to use CUDA; every other function does it by itself.

    Raises
    ------
    DeviceMissing
        There is no GPU.
    RuntimeError
        The process was forked from one that had used CUDA.

    Examples
    --------
    >>> if st.cuda.is_available():
    ...     st.cuda.init()
    ...     assert st.cuda.is_initialized()
    """
    cupy_for("init")


def current_device() -> int:
    """The number of the GPU in use in this thread.

    Returns
    -------
    int
        From 0.

    Raises
    ------
    DeviceMissing
        There is none.

    Examples
    --------
    >>> if st.cuda.is_available():
    ...     assert 0 <= st.cuda.current_device() < st.cuda.device_count()
    """
    return int(cupy_for("current_device").cuda.runtime.getDevice())


def set_device(device: Any) -> None:
    """Sets the GPU to use in this thread; a negative number, or "cuda", changes nothing.

    Parameters
    ----------
    device : device, int or str
        The GPU.

    Raises
    ------
    DeviceMissing
        It is not there.
    ValueError
        The device is not a GPU.

    Examples
    --------
    >>> st.cuda.set_device("cuda")
    >>> st.cuda.set_device("cpu")
    Traceback (most recent call last):
    ValueError: cuda.set_device: expected a cuda device: cpu
    >>> if st.cuda.is_available():
    ...     st.cuda.set_device(0)
    """
    if index_of("set_device", device) >= 0:
        index = current_or("set_device", device)
        cupy_for("set_device").cuda.Device(index).use()


@dataclass(frozen=True)
class DeviceProperties:
    """What a GPU is; sizes in bytes. The names are PyTorch's."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    warp_size: int
    max_threads_per_multi_processor: int
    max_threads_per_block: int
    regs_per_multiprocessor: int
    shared_memory_per_block: int
    shared_memory_per_block_optin: int
    shared_memory_per_multiprocessor: int
    L2_cache_size: int
    clock_rate: int
    memory_clock_rate: int
    memory_bus_width: int
    is_integrated: int
    is_multi_gpu_board: int
    pci_bus_id: int
    pci_device_id: int
    pci_domain_id: int
    uuid: str

    def __repr__(self) -> str:
        return (
            f"_CudaDeviceProperties(name={self.name!r}, major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory >> 20}MB, "
            f"multi_processor_count={self.multi_processor_count}, uuid={self.uuid}, "
            f"pci_bus_id={self.pci_bus_id}, pci_device_id={self.pci_device_id}, "
            f"pci_domain_id={self.pci_domain_id}, L2_cache_size={self.L2_cache_size >> 20}MB)"
        )


def get_device_properties(device: Any = None) -> DeviceProperties:
    """Name, compute capability, memory and processors of a GPU.

    Parameters
    ----------
    device : device, int or str, optional
        The GPU, by default the current one.

    Returns
    -------
    DeviceProperties
        `name`, `major`, `minor`, `total_memory`, `multi_processor_count` and others.

    Raises
    ------
    DeviceMissing
        It is not there.

    Examples
    --------
    >>> if st.cuda.is_available():
    ...     properties = st.cuda.get_device_properties()
    ...     assert properties.total_memory > 0
    """
    index = current_or("get_device_properties", device)
    p = cupy_for("get_device_properties").cuda.runtime.getDeviceProperties(index)
    return DeviceProperties(
        name=p["name"].decode(),
        major=p["major"],
        minor=p["minor"],
        total_memory=p["totalGlobalMem"],
        multi_processor_count=p["multiProcessorCount"],
        warp_size=p["warpSize"],
        max_threads_per_multi_processor=p["maxThreadsPerMultiProcessor"],
        max_threads_per_block=p["maxThreadsPerBlock"],
        regs_per_multiprocessor=p["regsPerMultiprocessor"],
        shared_memory_per_block=p["sharedMemPerBlock"],
        shared_memory_per_block_optin=p["sharedMemPerBlockOptin"],
        shared_memory_per_multiprocessor=p["sharedMemPerMultiprocessor"],
        L2_cache_size=p["l2CacheSize"],
        clock_rate=p["clockRate"],
        memory_clock_rate=p["memoryClockRate"],
        memory_bus_width=p["memoryBusWidth"],
        is_integrated=p["integrated"],
        is_multi_gpu_board=p["isMultiGpuBoard"],
        pci_bus_id=p["pciBusID"],
        pci_device_id=p["pciDeviceID"],
        pci_domain_id=p["pciDomainID"],
        uuid=str(uuid.UUID(bytes=bytes(p["uuid"])[:16].ljust(16, b"\0"))),
    )


def get_device_name(device: Any = None) -> str:
    """The name of a GPU, as its driver says.

    Parameters
    ----------
    device : device, int or str, optional
        The GPU, by default the current one.

    Returns
    -------
    str
        The name.

    Raises
    ------
    DeviceMissing
        It is not there.

    Examples
    --------
    >>> if st.cuda.is_available():
    ...     assert len(st.cuda.get_device_name(0)) > 0
    """
    if not is_available():
        raise absent("get_device_name")
    return get_device_properties(device).name


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The compute capability of a GPU: (8, 0) of an A100.

    Parameters
    ----------
    device : device, int or str, optional
        The GPU, by default the current one.

    Returns
    -------
    (major, minor) : int, int
        The version.

    Raises
    ------
    DeviceMissing
        It is not there.

    Examples
    --------
    >>> if st.cuda.is_available():
    ...     major, minor = st.cuda.get_device_capability()
    """
    if not is_available():
        raise absent("get_device_capability")
    properties = get_device_properties(device)
    return properties.major, properties.minor


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Whether one GPU reads another's memory.

    Parameters
    ----------
    device, peer_device : device, int or str
        The reader, and the other.

    Returns
    -------
    bool
        False of a GPU and itself.

    Raises
    ------
    DeviceMissing
        One is not there.

    Examples
    --------
    >>> if st.cuda.is_available():
    ...     assert not st.cuda.can_device_access_peer(0, 0)
    """
    runtime = cupy_for("can_device_access_peer").cuda.runtime
    first, second = (current_or("can_device_access_peer", d) for d in (device, peer_device))
    return first != second and bool(runtime.deviceCanAccessPeer(first, second))


def synchronize(device: Any = None) -> None:
    """Waits for all work queued on a GPU, on all of its streams.

    Parameters
    ----------
    device : device, int or str, optional
        The GPU, by default the current one.

    Raises
    ------
    DeviceMissing
        It is not there; guard the call with `is_available()`.
    PeerLostError
        A process has died before its work on a tensor that it sent had ended: results of
        this process may be wrong.

    Examples
    --------
    >>> if st.cuda.is_available():
    ...     y = st.ones(3, device="cuda") * 2
    ...     st.cuda.synchronize()
    """
    index = current_or("synchronize", device)
    cuda = cupy_for("synchronize").cuda
    with cuda.Device(index):
        cuda.runtime.deviceSynchronize()
    if watch.waits:
        watch.check_waits()


class device:
    """A context manager that sets the GPU in use.

    Parameters
    ----------
    device : device, int or str
        The GPU; None or a negative number changes nothing.

    Raises
    ------
    DeviceMissing
        On entering; it is not there.
    ValueError
        The device is not a GPU.

    Examples
    --------
    >>> with st.cuda.device(st.cuda.device_count() - 1):  # without a GPU nothing changes
    ...     x = st.ones(3)
    >>> st.cuda.device("cpu")
    Traceback (most recent call last):
    ValueError: cuda.device: expected a cuda device: cpu
    """

    def __init__(self, device: Any) -> None:
        self.idx = index_of("device", device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx >= 0:
            self.prev_idx = current_or("device", None)
            set_device(self.idx)

    def __exit__(self, *error: object) -> None:
        """Restores the GPU in use."""
        if self.prev_idx >= 0:
            set_device(self.prev_idx)
            self.prev_idx = -1


class device_of(device):
    """A context manager that uses the GPU of a tensor; a tensor on the CPU changes nothing.

    Parameters
    ----------
    obj : Tensor
        Any.

    Examples
    --------
    >>> x = st.ones(2)
    >>> with st.cuda.device_of(x):
    ...     y = x * 2
    """

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if obj.is_cuda else -1)


def ipc_collect() -> None:
    """Frees a GPU's memory that other processes have released.

    Raises
    ------
    DeviceMissing
        There is no GPU.

    Examples
    --------
    >>> if st.cuda.is_available():
    ...     st.cuda.ipc_collect()
    """
    cupy_for("ipc_collect")
    from ..memory import cuda  # imports CuPy

    cuda.poll()
