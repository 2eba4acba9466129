"""The error of functions that need a GPU."""

from __future__ import annotations

from typing import Any

from ..device import Device, DeviceMissing

__all__ = ["absent", "index_of"]


def absent(where: str) -> DeviceMissing:
    """The error of a function that needs a GPU."""
    return DeviceMissing(f"cuda.{where}: there is no CUDA device: tensors are on the CPU")


def index_of(where: str, device: Any) -> int:
    """The number of a GPU by any spelling; -1 for None and "cuda".

    Raises:
        ValueError: the device is not a GPU.
    """
    if device is None:
        return -1
    if isinstance(device, int):
        return device
    parsed = Device(device)
    if parsed.type != "cuda":
        raise ValueError(f"cuda.{where}: expected a cuda device: {parsed}")
    return -1 if parsed.index is None else parsed.index
