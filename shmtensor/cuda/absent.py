"""What is said where a GPU is needed."""

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
        ValueError: the device is no GPU.
    """
    if device is None:
        return -1
    if isinstance(device, int):
        return device
    found = Device(device)
    if found.type != "cuda":
        raise ValueError(f"cuda.{where}: expected a cuda device: {found}")
    return -1 if found.index is None else found.index
