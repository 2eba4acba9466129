"""Streams and events of GPUs: none can be created."""

from __future__ import annotations

from typing import Any

from .absent import absent

__all__ = [
    "CUDAGraph",
    "Event",
    "Stream",
    "StreamContext",
    "current_stream",
    "default_stream",
    "set_stream",
    "stream",
]


class Stream:
    """A queue of work on a GPU.

    Raises:
        DeviceMissing: there is none.
    """

    def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any) -> None:
        raise absent("Stream")


class Event:
    """A marker in a stream, for waiting and for timing.

    Raises:
        DeviceMissing: there is no GPU; for times on the CPU use `time.perf_counter`.
    """

    def __init__(
        self,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
    ) -> None:
        raise absent("Event")


class CUDAGraph:
    """Work that is recorded once and repeated.

    Raises:
        DeviceMissing: there is no GPU.
    """

    def __init__(self, keep_graph: bool = False) -> None:
        raise absent("CUDAGraph")


class StreamContext:
    """A context manager that sets the stream in use; None changes nothing."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        """Does nothing: there are no streams."""

    def __exit__(self, *error: object) -> None:
        """Does nothing."""


def stream(stream: Stream | None) -> StreamContext:
    """A context manager that sets the stream in use; None changes nothing."""
    return StreamContext(stream)


def set_stream(stream: Stream | None) -> None:
    """Sets the stream in use; None changes nothing."""


def current_stream(device: Any = None) -> Stream:
    """The stream in use on a GPU.

    Raises:
        DeviceMissing: there is none.
    """
    raise absent("current_stream")


def default_stream(device: Any = None) -> Stream:
    """A GPU's default stream.

    Raises:
        DeviceMissing: there is none.
    """
    raise absent("default_stream")
