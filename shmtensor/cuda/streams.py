"""Queues of work on GPUs: none can be made."""

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
    """A mark in a stream, to wait for and to take times with.

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
    """In a `with`, the stream in use; None changes nothing."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        """Nothing is changed: a stream cannot be made."""

    def __exit__(self, *error: object) -> None:
        """Nothing was changed."""


def stream(stream: Stream | None) -> StreamContext:
    """In a `with`, the stream in use; None changes nothing."""
    return StreamContext(stream)


def set_stream(stream: Stream | None) -> None:
    """The stream in use; None changes nothing."""


def current_stream(device: Any = None) -> Stream:
    """The stream in use on a GPU.

    Raises:
        DeviceMissing: there is none.
    """
    raise absent("current_stream")


def default_stream(device: Any = None) -> Stream:
    """The stream that a GPU begins with.

    Raises:
        DeviceMissing: there is none.
    """
    raise absent("default_stream")
