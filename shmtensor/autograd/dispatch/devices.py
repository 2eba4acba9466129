"""Other devices: ops on tensors whose array is not NumPy's.

A device registers its array class and array module. An op on such a tensor leaves the fast path of
`native.OpFunction`, because the array's class is another; this costs other calls nothing. The same
form of the device's rule (`Rule.on`) is called, by C++ if it is a GPU's: an OpFunction whose kernel
is the row's forward with the device's module as `xp`, or the forward that the row has for this
device (`row.on(device_type)`), or what `DeviceType.kernel_of` gives. Its nodes run the same
pullbacks, with the table of ops on the device's arrays (`DeviceArrays`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ... import native
from ...cuda_arrays import array_modules, check_writable
from ...device import CPU
from ...dtypes import bfloat16
from ...ops.table.op_table import Row
from .plan import by_position


def run_as_is(kernel: Callable[..., Any]) -> Callable[..., Any]:
    return kernel


def pullback_of_row(row: Row, name: str) -> Callable[..., Any]:
    """The gradient of an input, as the row declares it."""
    return row.pullbacks[name].function


def assign(target: Any, source: Any) -> Any:
    """Writes source to all elements of a device's array.

    Raises:
        ValueError: several elements are one in memory, as after `expand`.
    """
    check_writable(target)
    target[...] = source
    return target


def copy(array: Any) -> Any:
    """The same values in new memory, in the same order. Copies: one."""
    return array.copy(order="K")


class DeviceType(NamedTuple):
    """A type of device.

    Attributes:
        name: its name in messages and in `row.on`, for example "cuda".
        array_class: the class of its arrays, with `dtype`, `shape`, `ndim`, `base`, `copy`,
            `astype` and item assignment, as NumPy's.
        xp: the array module for forwards.
        device_of: `device_of(array)`: the Device of an array, for example "cuda:0".
        guard: a kernel `(xp, *operands)` -> one that runs on the operands' device.
        guard_gradients: the same for the gradients of a rule, `(node, g)`.
        pullback_of: `pullback_of(row, name)`: the gradient of an input on arrays.
        assign: `assign(target, source)` writes an array, with a cast.
        copy: `copy(array)` copies an array.
        add_arrays: `add_arrays(a, b, out=None)`: the sum of two gradients on the device.
        kernel_of: `kernel_of(row)`: the kernel of a row, `(xp, inputs..., attributes...)`; None:
            its forward.
    """

    name: str
    array_class: type
    xp: Any
    device_of: Callable[[Any], Any]
    guard: Callable[[Callable[..., Any]], Callable[..., Any]] = run_as_is
    guard_gradients: Callable[[Callable[..., Any]], Callable[..., Any]] = run_as_is
    pullback_of: Callable[[Row, str], Callable[..., Any]] = pullback_of_row
    assign: Callable[[Any, Any], Any] = assign
    copy: Callable[[Any], Any] = copy
    add_arrays: Callable[..., Any] | None = None
    kernel_of: Callable[[Row], Callable[..., Any]] | None = None


class Registered:
    """The devices of this process that are not the CPU: CUDA and "meta", each at its first use.

    Attributes:
        device: that of GPUs, or None.
        types: all devices, by the class of their arrays.
        add_arrays: `add_arrays(a, b, out=None)` sums gradients, those of 16 bits in float32.
    """

    device: DeviceType | None = None
    types: ClassVar[dict[type, DeviceType]] = {}
    add_arrays: Callable[..., Any] = native.InFloat32(np.add)


registered = Registered()


def register(device: DeviceType) -> None:
    """Makes ops accept arrays of the device's class, from now on."""
    if device.name == "meta":
        native.set_meta_arrays(device.array_class)
    else:
        former = registered.device
        if former is not None and former.array_class is not device.array_class:
            raise RuntimeError(
                f"devices: one device can be registered: {former.name}, {device.name}"
            )
        native.set_device_arrays(
            device.array_class, device.guard(device.assign), device.guard(device.copy)
        )
        registered.device = device
    array_modules[device.array_class] = device.xp
    registered.types[device.array_class] = device
    registered.add_arrays = checks_out(device.guard(add_on(device, registered.add_arrays)))


def add_on(device: DeviceType, add_arrays: Callable[..., Any]) -> Callable[..., Any]:
    """`add_arrays`, by the device's own function for its arrays."""
    add_on_device = device.add_arrays
    if add_on_device is None:
        return add_arrays

    def run(a: Any, *operands: Any) -> Any:
        if a.__class__ is device.array_class:
            return add_on_device(a, *operands)
        return add_arrays(a, *operands)

    return run


def checks_out(add_arrays: Callable[..., Any]) -> Callable[..., Any]:
    """`add_arrays`, which raises ValueError if several elements of `out` are one in memory."""

    def run(a: Any, b: Any, out: Any = None) -> Any:
        if out is None:
            return add_arrays(a, b)
        check_writable(out)
        return add_arrays(a, b, out)

    return run


def kernel_of(row: Row, device: DeviceType) -> Callable[..., Any]:
    """The kernel of a row on a device: `(xp, inputs..., attributes...)`."""
    if device.kernel_of is not None:
        return device.kernel_of(row)
    forward = by_position(row, row.forward_on(device.name))
    as_it_is = row.view or row.halves in ("copies", "checks") or row.cuda_halves
    if not as_it_is:
        forward = bfloat16_in_float32(forward, device.array_class, len(row.outputs), row.comparison)
    return forward if row.between_devices else device.guard(forward)


def bfloat16_in_float32(
    kernel: Callable[..., Any], array_class: type, n_outputs: int, rounds_numbers: bool = False
) -> Callable[..., Any]:
    """A kernel that computes bfloat16 in float32 and rounds its first `n_outputs` results once, as
    `native.InFloat32` does on the CPU. float16 is computed by the kernel itself.

    Args:
        rounds_numbers: numbers among the operands are rounded to bfloat16.
    """

    def run(xp: Any, *operands: Any) -> Any:
        for x in operands:
            if x.__class__ is tuple or x.__class__ is list:
                if not x or x[0].__class__ is int:  # sizes
                    continue
                if any(getattr(v, "dtype", 0) is bfloat16 for v in x):
                    break
            elif x is bfloat16 or getattr(x, "dtype", None) is bfloat16:
                break
        else:
            return kernel(xp, *operands)
        call = Widened(array_class)
        if rounds_numbers:
            operands = tuple(map(rounded_number, operands))
        result = kernel(xp, *map(call.operand, operands))
        if not isinstance(result, (list, tuple)):
            return call.result(result)
        return tuple(call.result(r) if i < n_outputs else r for i, r in enumerate(result))

    return run


def rounded_number(x: Any) -> Any:
    """A number rounded to bfloat16; other operands, and numbers beyond a double, as they are."""
    if x.__class__ is not float and x.__class__ is not int:
        return x
    try:
        value = float(x)
    except OverflowError:
        return x
    with np.errstate(over="ignore"):
        return float(np.array(value).astype(np.float32).astype(bfloat16).astype(np.float32))


class Widened:
    """One call of `bfloat16_in_float32`: the float32 copies of its operands.

    Attributes:
        dtype: the dtype of the results that the kernel gives in float32: that of the first
            floating-point operand, or of an attribute.
    """

    def __init__(self, array_class: type) -> None:
        self.array_class = array_class
        self.dtype: Any = None
        self.copies: dict[int, tuple[Any, Any]] = {}  # id of an operand: itself, its copy

    def operand(self, x: Any) -> Any:
        if x.__class__ is self.array_class:
            return self.array(x)
        if isinstance(x, np.dtype):
            self.dtype = x
            return np.dtype(np.float32) if x is bfloat16 else x
        return type(x)(map(self.operand, x)) if type(x) in (list, tuple) else x

    def array(self, x: Any) -> Any:
        if self.dtype is None and x.dtype.kind == "f":
            self.dtype = x.dtype
        if x.dtype is not bfloat16:
            return x
        if id(x) not in self.copies:
            self.copies[id(x)] = x, x.astype(np.float32)
        return self.copies[id(x)][1]

    def result(self, y: Any) -> Any:
        """Rounds a result. That of an operand's copy, which the kernel wrote to, is the operand."""
        for x, copy in self.copies.values():
            if y is copy:
                assign(x, y)
                return x
        rounded = self.dtype is bfloat16 and getattr(y, "dtype", None) == np.float32
        return y.astype(bfloat16) if rounded else y


def tensors_in(values: Any) -> Iterator[Any]:
    """The tensors among operands, and in lists of them."""
    for value in values:
        if isinstance(value, native.TensorBase):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_in(value)


def device_of(inputs: Any) -> DeviceType | None:
    """The device of the first of an op's tensors that is not on the CPU; None: all are."""
    types = registered.types
    if types:
        for x in tensors_in(inputs):
            if type(x.array) in types:
                return types[type(x.array)]
    return None


def on_one_device(row: Row, device: DeviceType, inputs: Any, to_device: Any) -> list[Any]:
    """The operands of a call on a device. Tensors without dimensions on the CPU are moved there, by
    the op `to_device`.
    """
    like = next(x for x in tensors_in(inputs) if type(x.array) is device.array_class)

    def moved(name: str, x: Any) -> Any:
        if isinstance(x, (list, tuple)):
            return [moved(name, v) for v in x]
        if not isinstance(x, native.TensorBase) or type(x.array) is device.array_class:
            return x
        place = registered.types.get(type(x.array))
        if not x.array.ndim and place is None:
            return to_device(x, device.device_of(like.array), CPU)
        where = str(device.device_of(like.array))
        other = CPU if place is None else place.device_of(x.array)
        raise RuntimeError(
            f"{row.label}: Expected all tensors to be on the same device: one operand is on "
            f"{where}, {name} of shape {tuple(x.array.shape)} is on {other}, hint: x.to({where!r})"
        )

    return [moved(x.public, value) for x, value in zip(row.inputs, inputs)]
