"""The names of `torch.cpu`: those of `cuda` for the CPU, whose one queue of work is always done."""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any

from ..device import Device

__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "current_device",
    "current_stream",
    "device_count",
    "get_capabilities",
    "is_available",
    "is_initialized",
    "set_device",
    "stream",
    "synchronize",
]

# Of Linux's flags, those that PyTorch names differently.
RENAMED = {"abm": "lzcnt", "fma": "fma3", "pni": "sse3", "sha_ni": "sha"}


def is_available() -> bool:
    """True: there is a CPU.

    Returns
    -------
    bool
        True.

    Examples
    --------
    >>> st.cpu.is_available()
    True
    """
    return True


def is_initialized() -> bool:
    """True: there is nothing to initialize.

    Returns
    -------
    bool
        True.

    Examples
    --------
    >>> st.cpu.is_initialized()
    True
    """
    return True


def device_count() -> int:
    """1: the CPUs of a machine are one device.

    Returns
    -------
    int
        1.

    Examples
    --------
    >>> st.cpu.device_count()
    1
    """
    return 1


def current_device() -> str:
    """The name of the device: "cpu".

    Returns
    -------
    str
        "cpu".

    Examples
    --------
    >>> st.cpu.current_device()
    'cpu'
    """
    return "cpu"


def set_device(device: Any) -> None:
    """Does nothing: there is one device.

    Parameters
    ----------
    device : device
        Accepted; has no effect.

    Examples
    --------
    >>> st.cpu.set_device("cpu")
    """


def synchronize(device: Any = None) -> None:
    """Does nothing: an op has ended when it returns.

    Parameters
    ----------
    device : device, optional
        Accepted; has no effect.

    Examples
    --------
    >>> st.cpu.synchronize()
    """


class Stream:
    """A queue of work: it is empty, as ops on the CPU have ended when they return.

    Parameters
    ----------
    priority : int, optional
        Accepted; kept as an attribute, without effect.

    Examples
    --------
    >>> side = st.cpu.Stream()
    >>> with st.cpu.stream(side):
    ...     x = st.ones(2) * 2
    >>> st.cpu.current_stream().wait_stream(side)
    >>> side.query()
    True
    """

    def __init__(self, priority: int = -1) -> None:
        self.priority = priority
        self.device = Device("cpu")

    def wait_stream(self, stream: Any) -> None:
        """Does nothing."""

    def wait_event(self, event: Any) -> None:
        """Does nothing."""

    def record_event(self, event: Any = None) -> Event:
        """An event, which has occurred."""
        return Event() if event is None else event

    def synchronize(self) -> None:
        """Does nothing."""

    def query(self) -> bool:
        """True: its work is done."""
        return True


class Event:
    """A mark in a queue of work: it has occurred.

    Parameters
    ----------
    enable_timing : bool, optional
        Accepted; has no effect.

    Examples
    --------
    >>> event = st.cpu.Event()
    >>> event.record()
    >>> event.query()
    True
    """

    def __init__(self, enable_timing: bool = False) -> None:
        pass

    def query(self) -> bool:
        """True: it has occurred."""
        return True

    def record(self, stream: Any = None) -> None:
        """Does nothing."""

    def synchronize(self) -> None:
        """Does nothing."""

    def wait(self, stream: Any = None) -> None:
        """Does nothing."""


class Selected(threading.local):
    """The stream of a thread."""

    stream = Stream()


selected = Selected()


def current_stream(device: Any = None) -> Stream:
    """The stream of the innermost `with stream(...)`, or the default one.

    Parameters
    ----------
    device : device, optional
        Accepted; has no effect.

    Returns
    -------
    Stream
        Whose work is done.

    Examples
    --------
    >>> st.cpu.current_stream().query()
    True
    """
    return selected.stream


class StreamContext:
    """Selects a stream in a `with`; None changes nothing.

    Parameters
    ----------
    stream : Stream or None
        What `current_stream` returns within.

    Examples
    --------
    >>> side = st.cpu.Stream()
    >>> with st.cpu.StreamContext(side):
    ...     st.cpu.current_stream() is side
    True
    """

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream
        self.former: list[Stream] = []

    def __enter__(self) -> None:
        self.former.append(selected.stream)
        if self.stream is not None:
            selected.stream = self.stream

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        selected.stream = self.former.pop()


def stream(stream: Stream | None) -> StreamContext:
    """Selects a stream in a `with`: `StreamContext`.

    Parameters
    ----------
    stream : Stream or None
        What `current_stream` returns within; None changes nothing.

    Returns
    -------
    StreamContext
        The context manager.

    Examples
    --------
    >>> with st.cpu.stream(st.cpu.Stream()):
    ...     x = st.ones(2)
    """
    return StreamContext(stream)


def get_capabilities() -> Mapping[str, Any]:
    """What the CPU has: its instructions by name, its kind and its cores.

    Returns
    -------
    mapping of str to object
        True for each instruction set, as `avx2` and `avx512_f`; `architecture`, `cpu_name` (where
        the kernel says it) and `num_logical_cores`. It cannot be changed.

    Examples
    --------
    >>> has = st.cpu.get_capabilities()
    >>> has["num_logical_cores"] >= 1, "architecture" in has
    (True, True)
    >>> has.get("not_an_instruction", False)
    False
    """
    result: dict[str, Any] = {}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):  # of one core after the other
            result.update((name_of(flag), True) for flag in value.split())
        elif key.strip() == "model name":
            result["cpu_name"] = value.strip()
    result["architecture"] = platform.machine()
    result["num_logical_cores"] = os.cpu_count()
    return MappingProxyType(result)


def name_of(flag: str) -> str:
    """PyTorch's name of a flag of Linux: "avx512f" is "avx512_f"."""
    if flag in RENAMED:
        return RENAMED[flag]
    return f"avx512_{flag[6:]}" if flag.startswith("avx512") and "_" not in flag else flag


if TYPE_CHECKING:
    from . import amp as amp
else:

    def __getattr__(name: str) -> Any:
        from importlib import import_module

        from ..absent_names import missing

        if name == "amp":  # imported on first access
            return import_module(f"{__name__}.amp")
        raise missing(__name__, name)
