"""CUDA graphs, work that is recorded once and repeated: the names are there and refuse."""

from __future__ import annotations

from typing import Any

from .. import cupy_runtime
from . import absent
from .absent import cupy_for

__all__ = [
    "CUDAGraph",
    "graph",
    "graph_pool_handle",
    "is_current_stream_capturing",
    "make_graphed_callables",
]


def refuse(where: str) -> None:
    """The error of a graph."""
    absent.refuse(where, "CUDA graphs are not supported: ops allocate memory while they run")


class CUDAGraph:
    """Work that is recorded once and repeated.

    Raises:
        DeviceMissing: there is no GPU.
        NotImplementedError: graphs are not supported.
    """

    def __init__(self, keep_graph: bool = False) -> None:
        refuse("CUDAGraph")


class graph:
    """A context manager that records a graph.

    Raises:
        DeviceMissing: there is no GPU.
        NotImplementedError: graphs are not supported.
    """

    def __init__(
        self,
        cuda_graph: Any,
        pool: Any = None,
        stream: Any = None,
        capture_error_mode: str = "global",
        enable_annotations: bool = False,
        check_input_liveness: bool = False,
    ) -> None:
        refuse("graph")


def graph_pool_handle() -> Any:
    """A number for the memory of several graphs.

    Raises:
        DeviceMissing: there is no GPU.
        NotImplementedError: graphs are not supported.
    """
    refuse("graph_pool_handle")


def make_graphed_callables(
    callables: Any,
    sample_args: Any,
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: Any = None,
) -> Any:
    """Functions whose work is recorded as graphs.

    Raises:
        DeviceMissing: there is no GPU.
        NotImplementedError: graphs are not supported.
    """
    refuse("make_graphed_callables")


def is_current_stream_capturing() -> bool:
    """Whether the current stream records a graph; False without a GPU."""
    if not cupy_runtime.is_initialized():
        return False
    return bool(cupy_for("is_current_stream_capturing").cuda.get_current_stream().is_capturing())
