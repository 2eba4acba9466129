"""`torch.accelerator`: the GPUs, by names that are not CUDA's; without one, PyTorch's answers.

Functions that need a GPU raise `DeviceMissing`, a RuntimeError and an AssertionError.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from . import cuda, cupy_runtime, dtypes
from .device import Device, DeviceMissing

__all__ = [
    "current_accelerator",
    "current_device_idx",
    "current_device_index",
    "current_stream",
    "device_count",
    "device_index",
    "empty_cache",
    "empty_host_cache",
    "get_device_capability",
    "get_memory_info",
    "is_available",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "set_device_idx",
    "set_device_index",
    "set_stream",
    "synchronize",
]

R = TypeVar("R")

SUPPORTED = (
    dtypes.float64, dtypes.float32, dtypes.float16, dtypes.complex128, dtypes.complex64,
    dtypes.int64, dtypes.int32, dtypes.int16, dtypes.int8, dtypes.uint8, dtypes.bool,
)  # fmt: skip


def is_available() -> bool:
    """Whether there is an accelerator, a GPU that CuPy can use.

    Returns
    -------
    bool
        It is asked once in a process, and does not raise.

    Examples
    --------
    >>> device = "cuda" if st.accelerator.is_available() else "cpu"
    >>> st.ones(3, device=device).sum().item()
    3.0
    """
    return cupy_runtime.is_available()


def device_count() -> int:
    """The number of accelerators.

    Returns
    -------
    int
        0 without any.

    Examples
    --------
    >>> st.accelerator.device_count() == st.cuda.device_count()
    True
    """
    return cupy_runtime.device_count()


def current_accelerator(check_available: bool = False) -> Device | None:
    """The kind of accelerator: `device("cuda")`, or None if there is none.

    Parameters
    ----------
    check_available : bool, optional
        Accepted; has no effect: it is always checked.

    Returns
    -------
    device or None
        Without a number.

    Examples
    --------
    >>> kind = st.accelerator.current_accelerator() or st.device("cpu")
    >>> st.ones(2, device=kind).device.type == kind.type
    True
    """
    return Device("cuda") if is_available() else None


def require(where: str) -> None:
    """Raises unless there is an accelerator."""
    if not is_available():
        raise DeviceMissing(f"{where}: there is no accelerator: tensors are on the CPU")


def current_device_index() -> int:
    """The number of the accelerator in use in this thread.

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
    >>> if st.accelerator.is_available():
    ...     number = st.accelerator.current_device_index()
    """
    require("current_device_index")
    return cuda.current_device()


def current_device_idx() -> int:
    """The old name of `current_device_index`, with a FutureWarning.

    Returns
    -------
    int
        The number of the accelerator in use.

    Raises
    ------
    DeviceMissing
        There is none.

    Examples
    --------
    >>> import warnings
    >>> if st.accelerator.is_available():
    ...     with warnings.catch_warnings():
    ...         warnings.simplefilter("ignore")
    ...         number = st.accelerator.current_device_idx()
    """
    warnings.warn("current_device_idx: use current_device_index", FutureWarning, stacklevel=2)
    return current_device_index()


def set_device_index(device: Any, /) -> None:
    """Sets the accelerator in use; a negative number changes nothing.

    Parameters
    ----------
    device : device, int or str
        A number, or a device with one as "cuda:1".

    Raises
    ------
    DeviceMissing
        It is not there.
    ValueError
        Neither a number nor a device with one.

    Examples
    --------
    >>> st.accelerator.set_device_index(-1)
    >>> st.accelerator.set_device_index(None)
    Traceback (most recent call last):
    ValueError: set_device_index: expected a number or a device with one: None
    """
    index = device if isinstance(device, int) or device is None else Device(device).index
    if index is None:
        raise ValueError(f"set_device_index: expected a number or a device with one: {device}")
    if index >= 0:
        require("set_device_index")
        cuda.set_device(index)


def set_device_idx(device: Any, /) -> None:
    """The old name of `set_device_index`, with a FutureWarning.

    Parameters
    ----------
    device : device, int or str
        A number, or a device with one.

    Raises
    ------
    DeviceMissing, ValueError
        As `set_device_index` does.

    Examples
    --------
    >>> import warnings
    >>> if st.accelerator.is_available():
    ...     with warnings.catch_warnings():
    ...         warnings.simplefilter("ignore")
    ...         st.accelerator.set_device_idx(0)
    """
    warnings.warn("set_device_idx: use set_device_index", FutureWarning, stacklevel=2)
    set_device_index(device)


class device_index:
    """In a `with`, the accelerator in use; None changes nothing.

    Parameters
    ----------
    device : int or None
        Its number.

    Raises
    ------
    DeviceMissing
        On entering; it is not there.

    Examples
    --------
    >>> last = st.accelerator.device_count() - 1
    >>> with st.accelerator.device_index(last if last >= 0 else None):
    ...     x = st.ones(3)
    """

    def __init__(self, device: int | None, /) -> None:
        self.idx = device
        self.context = cuda.device(device)

    def __enter__(self) -> None:
        if self.idx is not None:
            require("device_index")
            self.context.__enter__()

    def __exit__(self, *error: object) -> None:
        """Restores the accelerator in use."""
        self.context.__exit__(*error)


def synchronize(device: Any = None, /) -> None:
    """Waits for an accelerator; without one, or for the CPU, there is nothing to wait for.

    Parameters
    ----------
    device : device, int or str, optional
        The accelerator, by default the current one.

    Raises
    ------
    DeviceMissing
        An accelerator that is not there.

    Examples
    --------
    >>> st.accelerator.synchronize()
    >>> st.accelerator.synchronize("cpu")
    """
    if device is None and not is_available():
        return
    if str(device) != "cpu":
        require("synchronize")
        cuda.synchronize(device)


def get_device_capability(device: Any = None, /) -> dict[str, Any]:
    """What an accelerator can do: the dtypes that tensors there may have.

    Parameters
    ----------
    device : device, int or str, optional
        The accelerator, by default the current one.

    Returns
    -------
    dict
        "supported_dtypes": a set of dtypes.

    Raises
    ------
    DeviceMissing
        There is none.

    Examples
    --------
    >>> if st.accelerator.is_available():
    ...     dtypes = st.accelerator.get_device_capability()["supported_dtypes"]
    ...     assert st.float32 in dtypes
    """
    require("get_device_capability")
    cuda.get_device_properties(device)
    return {"supported_dtypes": set(SUPPORTED)}


def empty_host_cache() -> None:
    """Releases cached CPU memory for copies to an accelerator.

    Raises
    ------
    DeviceMissing
        There is none.

    Examples
    --------
    >>> if st.accelerator.is_available():
    ...     st.accelerator.empty_host_cache()
    """
    require("empty_host_cache")
    cupy_runtime.initialize().get_default_pinned_memory_pool().free_all_blocks()


def current_stream(device: Any = None, /) -> cuda.Stream:
    """The accelerator's queue of work in this thread.

    Parameters
    ----------
    device : device, int or str, optional
        The accelerator, by default the current one.

    Returns
    -------
    cuda.Stream
        As `cuda.current_stream` does.

    Raises
    ------
    DeviceMissing
        There is none.

    Examples
    --------
    >>> if st.accelerator.is_available():
    ...     st.accelerator.current_stream().synchronize()
    """
    require("current_stream")
    return cuda.current_stream(device)


def set_stream(stream: Any) -> None:
    """Sets the accelerator's queue of work in this thread, and the accelerator to the stream's.

    Parameters
    ----------
    stream : cuda.Stream
        None changes nothing.

    Raises
    ------
    DeviceMissing
        There is none.

    Examples
    --------
    >>> if st.accelerator.is_available():
    ...     st.accelerator.set_stream(st.accelerator.current_stream())
    """
    require("set_stream")
    cuda.set_stream(stream)


def empty_cache() -> None:
    """Returns an accelerator's memory that no tensor uses to the driver.

    Raises
    ------
    DeviceMissing
        There is none.

    Examples
    --------
    >>> if st.accelerator.is_available():
    ...     st.accelerator.empty_cache()
    """
    require("empty_cache")
    cuda.empty_cache()


def of_device(name: str, function: Callable[..., R], doc: str) -> Callable[..., R]:
    """A function of `cuda` that takes a device, under a name of this module."""

    def call(device_index: Any = None, /) -> R:
        require(name)
        return function(device_index)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"""{doc}

    Parameters
    ----------
    device_index : device, int or str, optional
        The accelerator, by default the current one.

    Returns
    -------
    object
        What `cuda.{function.__name__}` returns.

    Raises
    ------
    DeviceMissing
        There is none.

    Examples
    --------
    >>> if st.accelerator.is_available():
    ...     result = st.accelerator.{name}()
    """
    return call


get_memory_info = of_device("get_memory_info", cuda.mem_get_info, "Free and total bytes.")
memory_allocated = of_device(
    "memory_allocated", cuda.memory_allocated, "Bytes of tensors on an accelerator."
)
max_memory_allocated = of_device(
    "max_memory_allocated", cuda.max_memory_allocated, "The peak number of bytes of tensors."
)
memory_reserved = of_device(
    "memory_reserved", cuda.memory_reserved, "Bytes reserved, for tensors and in the cache."
)
max_memory_reserved = of_device(
    "max_memory_reserved", cuda.max_memory_reserved, "The peak number of bytes reserved."
)
memory_stats = of_device("memory_stats", cuda.memory_stats, "Memory statistics by name.")
reset_peak_memory_stats = of_device(
    "reset_peak_memory_stats", cuda.reset_peak_memory_stats, "Resets the peak numbers."
)
reset_accumulated_memory_stats = of_device(
    "reset_accumulated_memory_stats",
    cuda.reset_accumulated_memory_stats,
    "Checks the device only, as `cuda.reset_accumulated_memory_stats`.",
)
