"""The interface for a second device: ops on tensors whose array is not NumPy's.

A device registers its array class and its array module. An op on such a tensor leaves the fast path
of `native.OpFunction`, because the array is not a `numpy.ndarray`; this costs other calls nothing.
`general_call.call_general` then calls `compute`. The row's forward runs with the device's module as
`xp`, or the forward that the row has for this class (`row.on(device_type)`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ... import dtypes, native
from ...ops.table import named_results
from ...ops.table.op_definition import Row
from ..grad_mode import recording
from .plan import by_position
from .promote_operands import NUMBERS, common_dtype

__all__ = ["Device", "compute", "device_of", "register"]


class Device(NamedTuple):
    """A type of device.

    Attributes:
        name: its name in messages.
        array_class: the class of its arrays, with `dtype`, `shape`, `ndim`, `astype` and item
            assignment, as NumPy's.
        xp: the array module for forwards.
    """

    name: str
    array_class: type
    xp: Any


devices: dict[type, Device] = {}


def register(device: Device) -> None:
    """Makes ops accept arrays of the device's class."""
    devices[device.array_class] = device


def tensors_in(values: Any) -> Iterator[Any]:
    """The tensors among operands, and in lists of them."""
    for value in values:
        if isinstance(value, native.TensorBase):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_in(value)


def device_of(inputs: Any) -> Device | None:
    """The device of an op's tensors; None if all of them are in NumPy's memory."""
    if not devices:
        return None
    candidates = (devices.get(type(x.array)) for x in tensors_in(inputs))
    return next((device for device in candidates if device is not None), None)


def compute(op: Any, device: Device, inputs: Any, attributes: Any, in_place: bool) -> Any:
    """Calls an op on a device.

    Raises:
        RuntimeError: an operand is on another device. Numbers, and tensors without dimensions on
            the CPU, may be operands anywhere.
        NotImplementedError: an operand requires grad, and history is recorded.
    """
    row: Row = op.rule.row
    if recording.get() and any(x.node is not None for x in tensors_in(inputs)):
        raise NotImplementedError(
            f"{op.event.lstrip('_')}: there are no gradients on device {device.name} yet"
        )
    arrays = [as_device_operand(row, device, x.public, v) for x, v in zip(row.inputs, inputs)]
    arrays = in_common_dtype(row, inputs, arrays)
    forward = row.device_forwards.get(device.name.partition(":")[0])
    result = (by_position(row) if forward is None else forward)(device.xp, *arrays, *attributes)
    if in_place:
        target = inputs[0]
        target.array[...] = result[0] if isinstance(result, tuple) else result
        return native.wrote(target)
    if not isinstance(result, (tuple, list)):
        return native.wrap(result)
    outputs = [native.wrap(r) for r in (result if row.listed else result[: len(row.outputs)])]
    if row.listed:
        return tuple(outputs)
    if len(outputs) == 1:
        return outputs[0]
    return named_results.shape_of(row.label, row.outputs)(*outputs)


def as_device_operand(row: Row, device: Device, name: str, value: Any) -> Any:
    """An operand for the forward: a device's array, a number, None, or a list of arrays.

    Raises:
        RuntimeError: it is on another device.
        TypeError: it is not a tensor.
    """
    if isinstance(value, (list, tuple)):
        return [as_device_operand(row, device, name, v) for v in value]
    if value is None or isinstance(value, NUMBERS):
        return value
    if not isinstance(value, native.TensorBase):
        raise TypeError(f"{row.label}: {name} must be Tensor, not {type(value).__name__}")
    array = value.array
    if isinstance(array, device.array_class):
        return array
    other = devices.get(type(array))
    if other is None and not array.ndim:
        return array.item()
    raise RuntimeError(
        f"{row.label}: Expected all tensors to be on the same device: one operand is on "
        f"{device.name}, {name} of shape {tuple(array.shape)} is on "
        f"{'cpu' if other is None else other.name}"
    )


def in_common_dtype(row: Row, inputs: Any, arrays: list[Any]) -> list[Any]:
    """The arrays, with the promoted ones cast to PyTorch's common dtype."""
    if row.promote is None:
        return arrays
    positions = [i for i, x in enumerate(row.inputs) if x.name in row.promoted]
    operands: list[Any] = []
    for i in positions:
        operands += inputs[i] if isinstance(inputs[i], (list, tuple)) else [inputs[i]]
    dtype = common_dtype([v for v in operands if v is not None])
    if row.promote == "float" and dtype.kind not in "fc":
        dtype = dtypes.get_default_dtype()

    def cast(array: Any) -> Any:
        if isinstance(array, list):
            return [cast(a) for a in array]
        return array.astype(dtype) if getattr(array, "dtype", dtype) != dtype else array

    return [cast(a) if i in positions else a for i, a in enumerate(arrays)]
