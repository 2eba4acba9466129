"""CuPy for the functions of `shmtensor.cuda`, or the error of those that need a GPU."""

from __future__ import annotations

from typing import Any, NoReturn

from .. import cupy_runtime
from ..device import Device, DeviceMissing, as_device

__all__ = ["absent", "cupy_for", "current_or", "index_of", "refuse"]


def absent(where: str) -> DeviceMissing:
    """The error of a function that needs a GPU."""
    return DeviceMissing(
        f"cuda.{where}: there is no CUDA device: tensors are on the CPU: "
        f"{cupy_runtime.why_missing()}"
    )


def cupy_for(where: str) -> Any:
    """CuPy, with CUDA in use.

    Raises:
        DeviceMissing: there is no GPU.
        RuntimeError: the process was forked from one that had used CUDA.
    """
    if not cupy_runtime.is_available():
        raise absent(where)
    return cupy_runtime.initialize()


def refuse(where: str, reason: str) -> NoReturn:
    """Refuses a value that PyTorch takes.

    Raises:
        DeviceMissing: there is no GPU.
        NotImplementedError: there is one; with the reason, a sentence.
    """
    cupy_for(where)
    raise NotImplementedError(f"cuda.{where}: {reason}")


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


def current_or(where: str, device: Any) -> int:
    """The number of a GPU that is there; of the current one for None, "cuda" and negative numbers.

    Raises:
        DeviceMissing: there is no such GPU.
        ValueError: the device is not a GPU.
    """
    index = index_of(where, device)
    cupy = cupy_for(where)
    if index < 0:
        return int(cupy.cuda.runtime.getDevice())
    return as_device(index).index or 0
