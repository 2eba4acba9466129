"""The scale of a GradScaler: a number in the host's memory, or in that of the GPU of the losses.

A flag says whether gradients had an infinity or NaN: a bool for those on the CPU, for those of a
GPU an array of one float32 number there, which is not 0 if they had.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtypes
from ..autograd import wrap
from ..cuda_arrays import device_of, full_on, move_array
from ..device import CPU, Device
from ..functions import full
from ..tensor import Tensor

__all__ = [
    "DeviceScale",
    "HostScale",
    "as_float32",
    "combined",
    "device_of_flags",
    "kernels",
    "scale_for",
]

LARGEST = float(np.finfo(np.float32).max)


def kernels() -> Any:
    """The kernels of scalers; imported at the first use of a GPU."""
    return importlib.import_module("shmtensor.ops.cuda.unscale")


def as_float32(scale: float) -> float:
    """Rounds to float32."""
    return float(np.float32(scale))


def combined(flags: Sequence[Any], device: Device) -> Any:
    """One flag of several, on a device; of the CPU a bool. Reads arrays only for the CPU."""
    if device is CPU:
        return any(map(bool, flags))
    arrays = [
        move_array(flag, device) if not isinstance(flag, bool) else flag_on(flag, device)
        for flag in flags
    ]
    with arrays[0].device:
        return functools.reduce(lambda x, y: x + y, arrays)


def flag_on(found: bool, device: Device) -> Any:
    return full_on((1,), float(found), dtypes.float32, device)


class HostScale:
    """The scale of losses on the CPU: a Python float with float32's precision.

    Attributes:
        value: the scale.
        tracker: good steps since it changed.
        device: the CPU.
    """

    device = CPU

    def __init__(self, value: float, tracker: int) -> None:
        self.set(value)
        self.tracker = tracker

    def set(self, value: Any) -> None:
        """Sets the scale to a number or a tensor of one."""
        self.value = as_float32(float(value))
        self.tensors: dict[Device, Any] = {}

    def set_tracker(self, tracker: int) -> None:
        self.tracker = tracker

    def on(self, device: Device) -> Any:
        """The scale as a tensor on a device."""
        scale = self.tensors.get(device)
        if scale is None:
            scale = full((), self.value, dtype=dtypes.float32, device=device)
            self.tensors[device] = scale
        return scale

    def inverse(self) -> float:
        """The inverse in float32's precision."""
        return as_float32(1 / self.value)

    def inverse_on(self, device: Device) -> Any:
        """The inverse as an array of one number on a GPU."""
        return full_on((1,), self.inverse(), dtypes.float32, device)

    def update(self, flags: Sequence[Any], growth: float, backoff: float, interval: int) -> None:
        """The scale after a step with these flags. Reads those of GPUs."""
        if any(map(bool, flags)):
            self.set(self.value * backoff)
            self.tracker = 0
            return
        self.tracker += 1
        if self.tracker == interval:
            if self.value * growth <= LARGEST:
                self.set(self.value * growth)
            self.tracker = 0

    def read(self) -> tuple[float, int]:
        """The scale and the tracker."""
        return self.value, self.tracker


class DeviceScale:
    """The scale of losses on a GPU, in its memory: nothing but `read` and the inverse for gradients
    on the CPU waits for the GPU.

    Attributes:
        scale, tracker: arrays of no dimensions, float32 and int32. `update` makes new ones, so that
            a graph that has saved the scale keeps its value.
        device: the GPU.
    """

    def __init__(self, device: Device, value: float, tracker: int) -> None:
        self.device = device
        self.set(value)
        self.set_tracker(tracker)

    def set(self, value: Any) -> None:
        """Sets the scale to a number or a tensor of one."""
        if isinstance(value, Tensor):
            array = move_array(value.detach().to(dtypes.float32).array, self.device)
            with array.device:
                self.hold(array.reshape(()).copy())
        else:
            self.hold(full_on((), as_float32(value), dtypes.float32, self.device))

    def set_tracker(self, tracker: int) -> None:
        self.tracker = full_on((), tracker, dtypes.int32, self.device)

    def hold(self, scale: Any) -> None:
        self.scale = scale
        self.tensors: dict[Device, Any] = {self.device: wrap(scale)}
        self.inverses: dict[Device, Any] = {}

    def on(self, device: Device) -> Any:
        """The scale as a tensor on a device."""
        scale = self.tensors.get(device)
        if scale is None:
            scale = self.tensors[device] = wrap(move_array(self.scale, device))
        return scale

    def inverse(self) -> float:
        """The inverse as a number, for gradients on the CPU. Waits for the GPU."""
        return as_float32(1 / float(move_array(self.scale, CPU)))

    def inverse_on(self, device: Device) -> Any:
        """The inverse as an array of one number on a GPU."""
        inverse = self.inverses.get(self.device)
        if inverse is None:
            inverse = self.inverses[self.device] = kernels().invert(self.scale)
        if device != self.device and device not in self.inverses:
            self.inverses[device] = move_array(inverse, device)
        return self.inverses[device]

    def update(self, flags: Sequence[Any], growth: float, backoff: float, interval: int) -> None:
        """The scale after a step with these flags."""
        found = combined(flags, self.device)
        scale, self.tracker = kernels().update_scale(
            self.scale, self.tracker, found, growth, backoff, interval
        )
        self.hold(scale)

    def read(self) -> tuple[float, int]:
        """The scale and the tracker. Waits for the GPU."""
        return float(move_array(self.scale, CPU)), int(move_array(self.tracker, CPU))


def scale_for(device: Device, value: float, tracker: int) -> HostScale | DeviceScale:
    """The scale for losses on a device."""
    return HostScale(value, tracker) if device is CPU else DeviceScale(device, value, tracker)


def device_of_flags(flags: Sequence[Any]) -> Device:
    """The device of the first flag that is an array; the CPU if none is."""
    return next((device_of(flag) for flag in flags if not isinstance(flag, bool)), CPU)
