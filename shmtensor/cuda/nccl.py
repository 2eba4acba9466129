"""Collectives over the GPUs of one process, `torch.cuda.nccl`: refused but for `version`."""

from __future__ import annotations

from typing import Any

from .absent import cupy_for, refuse

__all__ = [
    "all_gather",
    "all_reduce",
    "broadcast",
    "is_available",
    "reduce",
    "reduce_scatter",
    "version",
]

REASON = (
    "NCCL is used between processes only, hint: shmtensor.distributed, or cuda.comm in one process"
)


def version() -> tuple[int, int, int]:
    """NCCL's version.

    Raises:
        DeviceMissing: there is no GPU.
        ModuleNotFoundError: CuPy finds no NCCL.
    """
    cupy = cupy_for("nccl.version")
    if not getattr(cupy.cuda.nccl, "available", False):
        raise ModuleNotFoundError("cuda.nccl.version: CuPy finds no NCCL")
    number = int(cupy.cuda.nccl.get_version())
    return number // 10000, number // 100 % 100, number % 100


def is_available(tensors: Any) -> bool:
    """Whether NCCL's collectives take these tensors: False, see `all_reduce`."""
    return False


def all_reduce(
    inputs: Any, outputs: Any = None, op: int = 0, streams: Any = None, comms: Any = None
) -> None:
    """Sums of tensors, one on each GPU.

    Raises:
        DeviceMissing: there is no GPU.
        NotImplementedError: it is not supported.
    """
    refuse("nccl.all_reduce", REASON)


def reduce(
    inputs: Any,
    output: Any = None,
    root: int = 0,
    op: int = 0,
    streams: Any = None,
    comms: Any = None,
) -> None:
    """The sum of tensors, on one GPU.

    Raises:
        DeviceMissing: there is no GPU.
        NotImplementedError: it is not supported.
    """
    refuse("nccl.reduce", REASON)


def broadcast(inputs: Any, root: int = 0, streams: Any = None, comms: Any = None) -> None:
    """One tensor to all GPUs.

    Raises:
        DeviceMissing: there is no GPU.
        NotImplementedError: it is not supported.
    """
    refuse("nccl.broadcast", REASON)


def all_gather(inputs: Any, outputs: Any, streams: Any = None, comms: Any = None) -> None:
    """All tensors on each GPU.

    Raises:
        DeviceMissing: there is no GPU.
        NotImplementedError: it is not supported.
    """
    refuse("nccl.all_gather", REASON)


def reduce_scatter(
    inputs: Any, outputs: Any, op: int = 0, streams: Any = None, comms: Any = None
) -> None:
    """Parts of the sum, one on each GPU.

    Raises:
        DeviceMissing: there is no GPU.
        NotImplementedError: it is not supported.
    """
    refuse("nccl.reduce_scatter", REASON)
