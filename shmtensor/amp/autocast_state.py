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

    Parameters
    ----------
    device_type : str, optional
        "cpu" or "cuda".

    Returns
    -------
    bool

    Raises
    ------
    RuntimeError
        There is no autocast for the device.

    See Also
    --------
    amp.autocast

    Examples
    --------
    >>> with st.autocast("cpu"):
    ...     st.is_autocast_enabled("cpu")
    True
    """
    return check_device_type("is_autocast_enabled", device_type) in autocast.state.on


def set_autocast_enabled(device_type: str | bool, enabled: bool | None = None) -> None:
    """Turns autocast on or off in this thread.

    Parameters
    ----------
    device_type : str or bool
        "cpu" or "cuda"; a bool alone is `enabled` for "cuda".
    enabled : bool, optional
        On or off.

    Raises
    ------
    RuntimeError
        There is no autocast for the device.
    TypeError
        `enabled` is missing.

    See Also
    --------
    amp.autocast

    Examples
    --------
    >>> st.set_autocast_enabled("cpu", True)
    >>> (st.ones(2, 2) @ st.ones(2, 2)).dtype
    shmtensor.bfloat16
    >>> st.set_autocast_enabled("cpu", False)
    """
    if isinstance(device_type, bool):
        autocast.switch("cuda", device_type)
    elif enabled is None:
        raise TypeError("set_autocast_enabled: enabled is missing: (device_type, enabled)")
    else:
        autocast.switch(check_device_type("set_autocast_enabled", device_type), bool(enabled))


def get_autocast_dtype(device_type: str) -> native.dtype:
    """The lower precision of a device type.

    Parameters
    ----------
    device_type : str
        "cpu" or "cuda".

    Returns
    -------
    dtype
        By default bfloat16 for "cpu", float16 for "cuda".

    Raises
    ------
    RuntimeError
        There is no autocast for the device.

    See Also
    --------
    set_autocast_dtype

    Examples
    --------
    >>> st.get_autocast_dtype("cpu")
    shmtensor.bfloat16
    """
    return native.dtype(autocast.state.dtypes[check_device_type("get_autocast_dtype", device_type)])


def set_autocast_dtype(device_type: str, dtype: Any) -> None:
    """Sets the lower precision in this thread.

    Parameters
    ----------
    device_type : str
        "cpu" or "cuda".
    dtype : dtype
        bfloat16 or float16.

    Raises
    ------
    RuntimeError
        There is no autocast for the device.

    See Also
    --------
    get_autocast_dtype

    Examples
    --------
    >>> st.set_autocast_dtype("cpu", st.float16)
    >>> st.get_autocast_dtype("cpu")
    shmtensor.float16
    >>> st.set_autocast_dtype("cpu", st.bfloat16)
    """
    check_device_type("set_autocast_dtype", device_type)
    autocast.state.dtypes[device_type] = dtypes.as_dtype(dtype)


def is_autocast_cpu_enabled() -> bool:
    """The older form of `is_autocast_enabled("cpu")`.

    Returns
    -------
    bool

    Examples
    --------
    >>> st.is_autocast_cpu_enabled()
    False
    """
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """The older form of `set_autocast_enabled("cpu", enabled)`.

    Parameters
    ----------
    enabled : bool
        On or off.

    Examples
    --------
    >>> st.set_autocast_cpu_enabled(False)
    """
    set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype() -> native.dtype:
    """The older form of `get_autocast_dtype("cpu")`.

    Returns
    -------
    dtype

    Examples
    --------
    >>> st.get_autocast_cpu_dtype()
    shmtensor.bfloat16
    """
    return get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype: Any) -> None:
    """The older form of `set_autocast_dtype("cpu", dtype)`.

    Parameters
    ----------
    dtype : dtype
        bfloat16 or float16.

    Examples
    --------
    >>> st.set_autocast_cpu_dtype(st.bfloat16)
    """
    set_autocast_dtype("cpu", dtype)


def get_autocast_gpu_dtype() -> native.dtype:
    """The older form of `get_autocast_dtype("cuda")`.

    Returns
    -------
    dtype

    Examples
    --------
    >>> st.get_autocast_gpu_dtype()
    shmtensor.float16
    """
    return get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype: Any) -> None:
    """The older form of `set_autocast_dtype("cuda", dtype)`.

    Parameters
    ----------
    dtype : dtype
        bfloat16 or float16.

    Examples
    --------
    >>> st.set_autocast_gpu_dtype(st.float16)
    """
    set_autocast_dtype("cuda", dtype)


def is_autocast_cache_enabled() -> bool:
    """Whether casts of weights are cached until the outermost `autocast` ends.

    Returns
    -------
    bool

    Examples
    --------
    >>> st.is_autocast_cache_enabled()
    True
    """
    return autocast.state.caching


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Turns the cache of weight casts on or off in this thread.

    Parameters
    ----------
    enabled : bool
        On or off.

    Examples
    --------
    >>> st.set_autocast_cache_enabled(False)
    >>> st.is_autocast_cache_enabled()
    False
    >>> st.set_autocast_cache_enabled(True)
    """
    autocast.state.caching = bool(enabled)


def clear_autocast_cache() -> None:
    """Clears the cache of weight casts.

    See Also
    --------
    set_autocast_cache_enabled

    Examples
    --------
    >>> st.clear_autocast_cache()
    """
    autocast.state.casts.clear()


def autocast_increment_nesting() -> int:
    """Adds one to this thread's open `autocast` contexts, for custom contexts.

    Returns
    -------
    int
        The number of open contexts.

    Examples
    --------
    >>> st.autocast_increment_nesting()
    1
    >>> st.autocast_decrement_nesting()
    0
    """
    return autocast.nest(1)


def autocast_decrement_nesting() -> int:
    """Subtracts one from this thread's open `autocast` contexts; the end of the last clears the
    cache of weight casts.

    Returns
    -------
    int
        The number of open contexts.

    Examples
    --------
    >>> st.autocast_increment_nesting()
    1
    >>> st.autocast_decrement_nesting()
    0
    """
    return autocast.nest(-1)
