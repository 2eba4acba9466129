"""The autocast settings of this thread, by device type: PyTorch's functions."""

from __future__ import annotations

from typing import Any

from .. import dtypes, native
from ..autograd.dispatch import autocast

__all__ = [
    "autocast_decrement_nesting",
    "autocast_increment_nesting",
    "clear_autocast_cache",
    "get_autocast_cpu_dtype",
    "get_autocast_dtype",
    "get_autocast_gpu_dtype",
    "is_autocast_cache_enabled",
    "is_autocast_cpu_enabled",
    "is_autocast_enabled",
    "set_autocast_cache_enabled",
    "set_autocast_cpu_dtype",
    "set_autocast_cpu_enabled",
    "set_autocast_dtype",
    "set_autocast_enabled",
    "set_autocast_gpu_dtype",
]


def is_known(device_type: str) -> bool:
    """Whether there is autocast for a device type."""
    return device_type in autocast.state.dtypes


def check_device_type(where: str, device_type: str) -> str:
    if not is_known(device_type):
        raise RuntimeError(f"{where}: unsupported device_type: {device_type!r}, hint: 'cpu'")
    return device_type


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether autocast is on for a device type in this thread.

    Raises: RuntimeError, there is no autocast for the device.
    """
    return check_device_type("is_autocast_enabled", device_type) in autocast.state.on


def set_autocast_enabled(device_type: str | bool, enabled: bool | None = None) -> None:
    """Turns autocast on or off in this thread; `(enabled)` alone means "cuda".

    Raises: RuntimeError, there is no autocast for the device.
    """
    if isinstance(device_type, bool):
        autocast.switch("cuda", device_type)
    elif enabled is None:
        raise TypeError("set_autocast_enabled: enabled is missing: (device_type, enabled)")
    else:
        autocast.switch(check_device_type("set_autocast_enabled", device_type), bool(enabled))


def get_autocast_dtype(device_type: str) -> native.dtype:
    """The lower precision of a device type: by default bfloat16 for "cpu", float16 for "cuda".

    Raises: RuntimeError, there is no autocast for the device.
    """
    return native.dtype(autocast.state.dtypes[check_device_type("get_autocast_dtype", device_type)])


def set_autocast_dtype(device_type: str, dtype: Any) -> None:
    """Sets the lower precision in this thread.

    Raises: RuntimeError, there is no autocast for the device.
    """
    check_device_type("set_autocast_dtype", device_type)
    autocast.state.dtypes[device_type] = dtypes.as_dtype(dtype)


def is_autocast_cpu_enabled() -> bool:
    """The older form of `is_autocast_enabled("cpu")`."""
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """The older form of `set_autocast_enabled("cpu", enabled)`."""
    set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype() -> native.dtype:
    """The older form of `get_autocast_dtype("cpu")`."""
    return get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype: Any) -> None:
    """The older form of `set_autocast_dtype("cpu", dtype)`."""
    set_autocast_dtype("cpu", dtype)


def get_autocast_gpu_dtype() -> native.dtype:
    """The older form of `get_autocast_dtype("cuda")`."""
    return get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype: Any) -> None:
    """The older form of `set_autocast_dtype("cuda", dtype)`."""
    set_autocast_dtype("cuda", dtype)


def is_autocast_cache_enabled() -> bool:
    """Whether casts of weights are cached until the outermost `autocast` ends."""
    return autocast.state.caching


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Turns the cache of weight casts on or off in this thread."""
    autocast.state.caching = bool(enabled)


def clear_autocast_cache() -> None:
    """Clears the cache of weight casts."""
    autocast.state.casts.clear()


def autocast_increment_nesting() -> int:
    """Adds one to this thread's open `autocast` contexts, for custom contexts.

    Returns: the number of open contexts.
    """
    return autocast.nest(1)


def autocast_decrement_nesting() -> int:
    """Subtracts one; the end of the last clears the cache of weight casts.

    Returns: the number of open contexts.
    """
    return autocast.nest(-1)
