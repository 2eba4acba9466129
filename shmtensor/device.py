"""Device: where a tensor's memory lies, and the array module that computes there.

Nothing above this file asks "is it CUDA?": it asks the device for its array module, and to
synchronise.
"""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["CPU", "Device", "as_device"]

EXTRA = 'pip install "shmtensor[cuda12]" (or cuda13), which installs CuPy'


class Device:
    """A place for tensors: `Device("cpu")`, `Device("cuda", 0)`, `Device("cuda:1")`.

    Making one asks nothing of the machine; using it does.
    """

    __slots__ = ("index", "type")

    type: str
    index: int | None

    def __init__(self, type: str | Device, index: int | None = None) -> None:
        if isinstance(type, Device):
            index = type.index if index is None else index
            type = type.type
        kind, colon, number = type.partition(":")
        if kind not in ("cpu", "cuda") or (colon and not number.isdigit()):
            raise RuntimeError(
                f"device: no such device: {type!r}, it is 'cpu', 'cuda' or 'cuda:<number>'"
            )
        if colon and index is not None:
            raise RuntimeError(f"device: the index is given twice: {type!r} and {index}")
        self.type = kind
        self.index = int(number) if colon else index

    @property
    def xp(self) -> Any:
        """The array module: numpy, or cupy.

        Raises:
            RuntimeError: CuPy or a GPU is missing; the message says what to install.
        """
        if self.type == "cpu":
            return importlib.import_module("numpy")
        try:
            return importlib.import_module("cupy")
        except ImportError as error:
            raise RuntimeError(
                f"device: CUDA tensors need CuPy, and it cannot be imported: {error}; {EXTRA}"
            ) from error

    def synchronize(self) -> None:
        """Waits for all work queued on the device. The CPU has none."""
        if self.type != "cpu":
            self.xp.cuda.runtime.deviceSynchronize()

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


def as_device(spelling: Device | str | int | None) -> Device:
    """The device for any spelling; None is the CPU.

    Raises:
        RuntimeError: CUDA without CuPy: tensors cannot be made there.
    """
    if spelling is None:
        return CPU
    if isinstance(spelling, int):
        spelling = f"cuda:{spelling}"
    device = spelling if isinstance(spelling, Device) else Device(spelling)
    if device.type != "cpu":
        _ = device.xp
        raise RuntimeError(
            f"device: tensors on {device} are not there yet: only 'cpu' works in this version"
        )
    return device
