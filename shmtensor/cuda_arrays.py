"""Arrays on CUDA devices: moving them, and running kernels on the device of their operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import cupy_runtime
from .device import CPU, Device
from .dtypes import bfloat16
from .errors import explained

array_modules: dict[type, Any] = {}  # the second device's class -> its module
DEVICES: dict[int, Device] = {}


def device_of(array: Any) -> Device:
    """The device of an array of NumPy or CuPy, one object for each device."""
    if array.__class__ is np.ndarray:
        return CPU
    device = getattr(array, "device", None)
    if device is None or isinstance(device, str):  # of a subclass or a scalar of NumPy's
        return CPU
    if isinstance(device, Device):
        return device
    number = device.id
    found = DEVICES.get(number)
    return DEVICES.setdefault(number, Device("cuda", number)) if found is None else found


def array_module(array: Any) -> Any:
    """NumPy or CuPy, by the class of an array."""
    return array_modules.get(type(array), np)


def pointer(array: Any) -> int:
    """The address of an array's first element, on its device."""
    address: int = array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr
    return address


def new_array(name: str, shape: tuple[int, ...], dtype: Any, device: Device) -> Any:
    """An array on a device, by the name of NumPy's function: zeros, ones or empty."""
    if device is CPU:
        return getattr(np, name)(shape, dtype)
    xp = device.xp
    with xp.cuda.Device(device.index):
        return getattr(xp, name)(shape, dtype)


def check_bfloat16(where: str, device: Device) -> None:
    """Checks that a bfloat16 tensor can be on a GPU: Note [bfloat16 in CuPy]."""
    if not cupy_runtime.has_bfloat16():
        raise explained(
            TypeError(
                f"{where}: bfloat16 tensors cannot be on {device}: CuPy {device.xp.__version__} "
                "does not take the dtype, it must be version 14 or newer, and shmtensor must "
                "import it: call shmtensor.cuda.is_available() before `import cupy`"
            )
        )


def full_on(shape: tuple[int, ...], value: Any, dtype: Any, device: Device) -> Any:
    """An array filled with one number, on a device."""
    if device is CPU:
        return np.full(shape, value, dtype)
    xp = device.xp
    with xp.cuda.Device(device.index):
        return xp.full(shape, value, dtype)


def copy_array(array: Any) -> Any:
    """A copy on the same device, with the same strides unless there are gaps. Copies: one."""
    if isinstance(array, np.ndarray):
        return array.copy(order="K")
    with array.device:
        return array.copy(order="K")


def check_writable(array: Any) -> None:
    """Checks that an array on a GPU may be written, where no flag says so."""
    strides = array.strides
    if 0 not in strides or not array.size:
        return
    if any(not step and n > 1 for n, step in zip(array.shape, strides)):
        raise ValueError("assignment destination is read-only: it is expanded")


def dimensions_in_memory(array: Any) -> list[int] | None:
    """The dimensions from the outermost to the innermost in memory, if the elements leave no gaps
    in that order; None: in the order of the array, or with gaps.
    """
    if array.ndim < 2 or array.flags.c_contiguous:
        return None
    order = sorted(range(array.ndim), key=lambda d: -array.strides[d])
    return order if array.transpose(order).flags.c_contiguous else None


def move_array(array: Any, device: Device) -> Any:
    """An array on a device, which has an index if it is CUDA's. Copies: one, or none if the array
    is there. The strides stay if they leave no gaps.

    Raises:
        TypeError: CuPy does not take bfloat16.
        RuntimeError: the process was forked from one that had used CUDA.
    """
    source = device_of(array)
    if source == device:
        return array
    if device.type == "meta":
        return device.xp.asarray(array)
    if source.type == "meta":
        return array.refuse()
    if cupy_runtime.state.forked:
        cupy_runtime.check_fork()
    if (order := dimensions_in_memory(array)) is not None:
        moved = move_array(array.transpose(order), device)  # CuPy's copies are in C order
        return moved.transpose(np.argsort(order))
    if device.type == "cpu":
        with array.device:
            copied = array.get()
        if watch.waits:
            watch.check_waits()
        return copied
    cupy = cupy_runtime.initialize()
    if array.dtype is bfloat16:
        check_bfloat16("to", device)
    if source is not CPU:
        return copy_between(cupy, array, device.index)
    with cupy.cuda.Device(device.index):
        return cupy.asarray(array)


def copy_between(cupy: Any, array: Any, number: int | None) -> Any:
    """A copy on another CUDA device. Its current stream waits for the source's, which then waits
    for the copy: the source's memory may be written or reused after it.
    """
    with array.device:
        array = cupy.ascontiguousarray(array).reshape(array.shape)  # of no dimensions, too
        source_stream = cupy.cuda.get_current_stream()
        written = source_stream.record(cupy.cuda.Event(disable_timing=True))
    with cupy.cuda.Device(number):
        stream = cupy.cuda.get_current_stream()
        stream.wait_event(written)
        result = array.copy()
        copied = stream.record(cupy.cuda.Event(disable_timing=True))
    with array.device:
        source_stream.wait_event(copied)
    return result


def arrays_in(values: Any, cls: type, found: list[Any]) -> list[Any]:
    """Adds the arrays of a class among values, and in lists of them."""
    for value in values:
        if value.__class__ is cls:
            found.append(value)
        elif value.__class__ is list or value.__class__ is tuple:
            arrays_in(value, cls, found)
    return found


class Watch:
    """What kernels check or note of their operands' memory, set by the allocator.

    Attributes:
        has_foreign: this process has received memory of another process.
        has_streams: this process has used several streams of a device.
        check_alive: `check_alive(array)` raises if the memory's owner has died.
        waits: the works of other processes that this one's streams wait for.
        check_waits: `check_waits()` raises if one of these was lost. Whoever has waited for a GPU
            calls it.
        note_use: `note_use(array)`: the current stream uses the memory.
    """

    def __init__(self) -> None:
        self.has_foreign = False
        self.has_streams = False
        self.check_alive: Callable[[Any], None]
        self.waits: dict[Any, None] = {}
        self.check_waits: Callable[[], None]
        self.note_use: Callable[[Any], None]


watch = Watch()


def guard(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that runs on the device of its arrays, and does what `watch` says.

    Raises:
        RuntimeError: the arrays are on several devices; this process was forked.
        PeerLostError: an array is memory of a process that has died.
    """
    state = cupy_runtime.state
    if not state.initialized and not state.forked:  # the arrays are of the device "meta"
        return kernel
    cupy = cupy_runtime.initialize()
    has_several = cupy_runtime.device_count() > 1
    current, stream_of = cupy.cuda.runtime.getDevice, cupy.cuda.get_current_stream
    cls, state = cupy.ndarray, cupy_runtime.state

    def run(*operands: Any) -> Any:
        if state.forked:
            cupy_runtime.check_fork()
        if stream_of().ptr:
            watch.has_streams = True
        if not (has_several or watch.has_foreign or watch.has_streams):
            return kernel(*operands)
        arrays = arrays_in(operands, cls, [])
        if not arrays:
            return kernel(*operands)
        if watch.has_foreign:
            for array in arrays:
                watch.check_alive(array)
        if watch.has_streams:
            for array in arrays:
                watch.note_use(array)
        number = arrays[0].device.id
        for array in arrays:
            if array.device.id != number:
                raise RuntimeError(
                    "Expected all tensors to be on the same device, but found at least two "
                    f"devices, cuda:{number} (shape {arrays[0].shape}) and "
                    f"{device_of(array)} (shape {array.shape})"
                )
        if number == current():
            return kernel(*operands)
        with cupy.cuda.Device(number):
            return kernel(*operands)

    return run


def guard_gradients(gradients: Callable[..., Any]) -> Callable[..., Any]:
    """The gradients `(node, g[, nodes])` of a rule, made on the device of g."""
    if cupy_runtime.device_count() < 2:
        return gradients
    cupy = cupy_runtime.initialize()

    def run(node: Any, g: Any, *nodes: Any) -> Any:
        first = next((x for x in g if x is not None), None) if isinstance(g, list) else g
        array: Any = getattr(first, "array", first)
        if array.__class__ is not cupy.ndarray:
            return gradients(node, g, *nodes)
        with array.device:
            return gradients(node, g, *nodes)

    return run
