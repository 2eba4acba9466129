"""Devices other than the CPU, `torch.accelerator` by name: there is none yet."""

from __future__ import annotations

from typing import Any

from .device import Device

__all__ = [
    "current_accelerator",
    "current_device_index",
    "device_count",
    "is_available",
    "set_device_index",
    "synchronize",
]


def is_available() -> bool:
    """Whether there is an accelerator."""
    return False


def device_count() -> int:
    """How many there are."""
    return 0


def current_accelerator(check_available: bool = False) -> Device | None:
    """The kind of accelerator in use, or None."""
    return None


def absent(where: str) -> RuntimeError:
    return RuntimeError(f"{where}: there is no accelerator: tensors are on the CPU")


def current_device_index() -> int:
    """The number of the accelerator in use.

    Raises: RuntimeError, there is none.
    """
    raise absent("current_device_index")


def set_device_index(device: Any, /) -> None:
    """Which accelerator to use; a negative number changes nothing.

    Raises: RuntimeError, there is none.
    """
    if not isinstance(device, int) or device >= 0:
        raise absent("set_device_index")


def synchronize(device: Any = None, /) -> None:
    """Waits for an accelerator; ops on the CPU are done when they return.

    Raises: RuntimeError, a device other than the CPU.
    """
    if device is not None and str(device) != "cpu":
        raise absent("synchronize")
