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
    """True."""
    return True


def is_initialized() -> bool:
    """True."""
    return True


def device_count() -> int:
    """1: the CPUs of a machine are one device."""
    return 1


def current_device() -> str:
    """ "cpu"."""
    return "cpu"


def set_device(device: Any) -> None:
    """Does nothing."""


def synchronize(device: Any = None) -> None:
    """Does nothing: an op has ended when it returns."""


class Stream:
    """A queue of work: it is empty, as ops on the CPU have ended when they return.

    Args:
        priority: has no effect.
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

    Args:
        enable_timing: has no effect.
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
    """The stream of the innermost `with stream(...)`, or the default one."""
    return selected.stream


class StreamContext:
    """Selects a stream in a `with`; None changes nothing."""

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
    """Selects a stream in a `with`: `StreamContext`."""
    return StreamContext(stream)


def get_capabilities() -> Mapping[str, Any]:
    """What the CPU has: its instructions by name (True), as `avx2` and `avx512_f`; `architecture`,
    `cpu_name` and `num_logical_cores`.
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
