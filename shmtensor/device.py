"""Device: the location of a tensor's memory, and the array module that computes there.

Higher layers never check for CUDA: they use the device's array module and `synchronize`.
"""

from __future__ import annotations

import functools
import importlib
import os
import threading
from typing import Any

from . import cupy_runtime, native
from .cupy_runtime import EXTRA, DeviceMissing

__all__ = [
    "CPU",
    "EXTRA",
    "META",
    "Device",
    "DeviceMissing",
    "as_device",
    "defaults",
    "device_for_data",
    "device_of_new",
    "get_default_device",
    "set_default_device",
    "unspecified",
]


class Device:
    """A device: "cpu", a GPU, or "meta", whose tensors have a shape and a dtype but no data.

    Parameters
    ----------
    type : str, Device or int
        `device("cpu")`, `device("cuda")`, `device("cuda:1")`, `device("meta")`; a number is that of
        a GPU.
    index : int, optional
        The number of the GPU: `device("cuda", 0)`.

    Raises
    ------
    RuntimeError
        There is no such kind of device, or the index is given twice.

    See Also
    --------
    set_default_device, get_default_device

    Notes
    -----
    The constructor does not check that the device exists; its use does. In `with st.device("cpu"):`
    it is the default device.

    Examples
    --------
    >>> st.device("cuda:1").type, st.device("cuda:1").index
    ('cuda', 1)
    >>> with st.device("meta"):
    ...     x = st.zeros(2, 3)
    >>> x.device, x.shape
    (device(type='meta'), Size([2, 3]))
    """

    __slots__ = ("index", "type")

    type: str
    index: int | None

    def __init__(self, type: str | Device | int, index: int | None = None) -> None:
        if isinstance(type, Device):
            index = type.index if index is None else index
            type = type.type
        elif isinstance(type, int):
            type = f"cuda:{type}"
        kind, colon, number = type.partition(":")
        if kind not in ("cpu", "cuda", "meta") or (colon and not number.isdigit()):
            raise RuntimeError(
                f"device: no such device: {type!r}, it is 'cpu', 'cuda', 'cuda:<number>' or 'meta'"
            )
        if colon and index is not None:
            raise RuntimeError(f"device: the index is given twice: {type!r} and {index}")
        self.type = kind
        self.index = int(number) if colon else index

    @property
    def xp(self) -> Any:
        """The array module: numpy, cupy, or that of arrays without data.

        Raises:
            DeviceMissing: CuPy or a GPU is missing; the message says what to install.
            RuntimeError: the process was forked from one that had used CUDA.
        """
        if self.type == "cpu":
            return importlib.import_module("numpy")
        if self.type == "meta":
            return importlib.import_module("shmtensor.meta_arrays").xp
        return cupy_runtime.initialize()

    def synchronize(self) -> None:
        """Waits for all work queued on the device. The CPU and "meta" have none."""
        if self.type == "cuda":
            with self.xp.cuda.Device(as_device(self).index):
                self.xp.cuda.runtime.deviceSynchronize()

    def __enter__(self) -> Device:
        """Makes it the default device of this thread in a `with`.

        Raises:
            DeviceMissing: it is not there.
        """
        device = as_device(self)
        defaults.stack.append(defaults.device)
        set_default(self)
        return device

    def __exit__(self, *error: object) -> None:
        """Restores the default device."""
        set_default(defaults.stack.pop())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Device):
            return NotImplemented
        return self.type == other.type and self.index == other.index

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type={self.type!r}{index})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Device, (self.type, self.index)


CPU = Device("cpu")
META = Device("meta")


@functools.lru_cache(256, typed=True)
def named(spelling: str | int) -> Device:
    """The device of a name or a number."""
    return Device(spelling)


def as_device(spelling: Device | str | int | None) -> Device:
    """The device of a name, number or Device, with its index if it is a GPU; None is the CPU.

    Raises:
        DeviceMissing: it is not there.
        RuntimeError: there is no such name; the process was forked from one that had used CUDA.
    """
    if spelling is None:
        return CPU
    if isinstance(spelling, Device):
        device = spelling
    else:  # what is no name has an error of its own, which may not be hashable
        device = named(spelling) if spelling.__class__ in (str, int) else Device(spelling)
    if device.type == "cpu":
        return device
    if device.type == "meta":
        importlib.import_module("shmtensor.autograd.dispatch.meta_device")  # registers it, once
        return META
    if not cupy_runtime.state.initialized:
        cupy_runtime.check_fork()
        if reason := cupy_runtime.why_missing():
            raise DeviceMissing(
                f"device: {device} cannot be used: {reason}, "
                "hint: device('cuda' if cuda.is_available() else 'cpu')"
            )
    cupy = cupy_runtime.initialize()
    if device.index is None:
        return named(cupy.cuda.runtime.getDevice())
    if not 0 <= device.index < cupy_runtime.device_count():
        count = cupy_runtime.device_count()
        raise DeviceMissing(
            f"device: {device} is not there: this process has {count} CUDA "
            f"device{'s' if count > 1 else ''}"
        )
    return device


# ---- the default device


class Defaults(threading.local):
    """A thread's default device, None for the CPU; and those outside of the `with` blocks."""

    def __init__(self) -> None:
        self.device: Device | None = None
        self.stack: list[Device | None] = []


class Unspecified:
    """What `device` is in a call that makes a tensor on the CPU because no device is named.

    Attributes:
        value: None; while some thread has a default device other than the CPU, an object that no
            argument is, so that creation functions leave their fast path and ask `device_of_new`.
            (`native.empty` and `native.arange` return None then.)
        threads: how many threads have one.
    """

    __slots__ = ("threads", "value")

    def __init__(self) -> None:
        self.value: object = None
        self.threads = 0


defaults = Defaults()
unspecified = Unspecified()
lock = threading.Lock()
os.register_at_fork(after_in_child=lock._at_fork_reinit)  # type: ignore[attr-defined]


def set_default(device: Device | None) -> None:
    """Sets this thread's default device; None is the CPU."""
    former, defaults.device = defaults.device, device
    change = (device is not None and device.type != "cpu") - (
        former is not None and former.type != "cpu"
    )
    if change:
        with lock:
            unspecified.threads += change
            unspecified.value = unspecified if unspecified.threads else None
            native.let_python_choose_device(unspecified.threads > 0)


def set_default_device(device: Device | str | int | None) -> None:
    """Sets the device of new tensors in this thread.

    Parameters
    ----------
    device : Device, str, int or None
        The device; None is the CPU.

    Raises
    ------
    DeviceMissing
        It is not there.
    RuntimeError
        There is no such name.

    See Also
    --------
    get_default_device, device

    Examples
    --------
    >>> st.set_default_device("meta")
    >>> st.zeros(2).device
    device(type='meta')
    >>> st.set_default_device(None)
    """
    if device is not None:
        as_device(device)
    set_default(None if device is None else Device(device))


def get_default_device() -> Device:
    """The device of new tensors in this thread.

    Returns
    -------
    Device
        With its index.

    See Also
    --------
    set_default_device

    Examples
    --------
    >>> st.get_default_device()
    device(type='cpu')
    """
    return CPU if defaults.device is None else as_device(defaults.device)


def device_of_new(device: Device | str | int | None, like: Device | None = None) -> Device:
    """The device of a new tensor: the one named, or that of its model `like`, or the default.

    Raises:
        DeviceMissing: it is not there.
    """
    if device is not None:
        return as_device(device)
    return get_default_device() if like is None else like


def device_for_data(device: Device | str | int | None, like: Device = CPU) -> Device:
    """The device of a tensor made of data on the device `like`: the one named, or the default if
    one was set, or that of the data.

    Raises:
        DeviceMissing: it is not there.
    """
    if device is None and defaults.device is None:
        return like
    return as_device(defaults.device if device is None else device)
