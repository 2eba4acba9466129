"""Device: the location of a tensor's memory, and the array module that computes there.

Higher layers never check for CUDA: they use the device's array module and `synchronize`.
"""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["CPU", "Device", "DeviceMissing", "as_device"]

EXTRA = 'pip install "shmtensor[cuda12]" (or cuda13), which installs CuPy'


class DeviceMissing(RuntimeError, AssertionError):
    """There is no GPU: of both classes that PyTorch raises, depending on its build."""


class Device:
    """A device: `Device("cpu")`, `Device("cuda", 0)`, `Device("cuda:1")`, `Device(1)`.

    The constructor does not check that the device exists; its use does, as in `with
    Device("cpu"):`.
    """

    __slots__ = ("index", "type")

    type: str
    index: int | None

    def __init__(self, type: str | Device | int, index: int | None = None) -> None:
        if isinstance(type, Device):
            index = type.index if index is None else index
            type = type.type
        elif isinstance(type, int):
            type = f"cuda:{type}"
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
            DeviceMissing: CuPy or a GPU is missing; the message says what to install.
        """
        if self.type == "cpu":
            return importlib.import_module("numpy")
        try:
            return importlib.import_module("cupy")
        except ImportError as error:
            raise DeviceMissing(
                f"device: CUDA tensors need CuPy, and it cannot be imported: {error}; {EXTRA}"
            ) from error

    def synchronize(self) -> None:
        """Waits for all work queued on the device. The CPU has none."""
        if self.type != "cpu":
            self.xp.cuda.runtime.deviceSynchronize()

    def __enter__(self) -> Device:
        """Makes it the device of new tensors in a `with`; only the CPU, the default, is possible.

        Raises:
            DeviceMissing: tensors cannot be made there.
        """
        return as_device(self)

    def __exit__(self, *error: object) -> None:
        """Nothing was changed."""

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
    """The device of a name, number or Device; None is the CPU.

    Raises:
        DeviceMissing: tensors cannot be made there.
    """
    if spelling is None:
        return CPU
    device = spelling if isinstance(spelling, Device) else Device(spelling)
    if device.type != "cpu":
        raise DeviceMissing(
            f"device: tensors on {device} are not supported yet: only 'cpu' works in this version, "
            "hint: device('cuda' if cuda.is_available() else 'cpu')"
        )
    return device
