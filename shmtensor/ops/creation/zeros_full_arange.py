"""New tensors: filled with a number, and shaped like others."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import native
from ...device import as_device
from ...dtypes import as_dtype, get_default_dtype, of_number
from ..table.op_definition import composite
from ..table.python_scalars import as_element
from ..table.tensor_like import allocator_like

Shape = tuple[int, ...]


def made(kernel: Any, *arguments: Any, device: Any = None, requires_grad: bool = False) -> Any:
    """A tensor of what a NumPy function gives, born in shared memory."""
    if device is not None:
        as_device(device)
    out = native.compute(kernel, *arguments)
    return out.requires_grad_(True) if requires_grad else out


def shaped(name: str, size: tuple[Any, ...]) -> Shape:
    """A shape given as one sequence or as several numbers."""
    if len(size) == 1 and not isinstance(size[0], (int, np.integer)):
        size = tuple(size[0])
    shape = tuple(int(n) for n in size)
    if min(shape, default=0) < 0:
        raise RuntimeError(f"{name}: sizes must not be negative: {shape}")
    return shape


def default(dtype: Any) -> Any:
    """The canonical dtype; the default one if none is given."""
    return get_default_dtype() if dtype is None else as_dtype(dtype)


def dtype_of(value: Any, dtype: Any) -> Any:
    """The given dtype, or the one that a Python number has as a tensor."""
    if dtype is not None:
        return as_dtype(dtype)
    if isinstance(value, float):
        return get_default_dtype()
    if hasattr(value, "dtype"):
        return value.dtype
    return of_number(type(value))


def number(value: Any) -> Any:
    """A Python number, of a number or a tensor with one element."""
    return value.item() if hasattr(value, "item") else value


def dtype_or_out(name: str, out: Any, dtype: Any) -> Any:
    """The dtype that is asked for; that of `out` if there is one.

    Raises:
        RuntimeError: they differ. TypeError: `out` is no tensor.
    """
    if out is None:
        return dtype
    if not isinstance(out, native.TensorBase):
        raise TypeError(f"{name}: argument 'out' must be Tensor, not {type(out).__name__}")
    found = out.array.dtype
    if dtype is not None and as_dtype(dtype) is not found:
        raise RuntimeError(
            f"{name}: dtype {as_dtype(dtype)} does not match dtype of out parameter ({found})"
        )
    return found


def into(out: Any, value: Any, keeps_shape: bool = False) -> Any:
    """The value, or `out` with the value copied in; it takes the value's shape.

    Args:
        keeps_shape: not if it has as many elements: the value is written in order.
    """
    if out is None:
        return value
    fresh = value.detach()
    if keeps_shape and out.numel() == fresh.numel():
        fresh = fresh.view(out.shape)
    elif out.shape != fresh.shape:
        out.resize_(fresh.shape)
    out.copy_(fresh)
    return out.requires_grad_() if value.requires_grad else out


@composite(method=False)
def zeros(
    ops,
    *size,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
):
    """A tensor of zeros."""
    if out is dtype is layout is device is None and not (requires_grad or pin_memory):
        plain = native.empty(size, get_default_dtype(), 1)
        if plain is not None:
            return plain
    shape, dtype = shaped("zeros", size), dtype_or_out("zeros", out, dtype)
    return into(
        out, made(np.zeros, shape, default(dtype), device=device, requires_grad=requires_grad)
    )


@composite(method=False)
def ones(
    ops,
    *size,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
):
    """A tensor of ones."""
    if out is dtype is layout is device is None and not (requires_grad or pin_memory):
        plain = native.empty(size, get_default_dtype(), 2)
        if plain is not None:
            return plain
    shape, dtype = shaped("ones", size), dtype_or_out("ones", out, dtype)
    return into(
        out,
        made(of_one_number, shape, 1, default(dtype), device=device, requires_grad=requires_grad),
    )


@composite(method=False)
def empty(
    ops,
    *size,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
    memory_format=None,
):
    """A tensor whose elements are whatever the memory held."""
    if memory_format is out is dtype is layout is device is None and not (
        requires_grad or pin_memory
    ):
        plain = native.empty(size, get_default_dtype(), 0)
        if plain is not None:
            return plain
    shape, dtype = shaped("empty", size), dtype_or_out("empty", out, dtype)
    if out is not None:
        out.resize_(shape)
        return out.requires_grad_() if requires_grad else out
    return made(np.empty, shape, default(dtype), device=device, requires_grad=requires_grad)


def full_of(size: Any, fill_value: Any) -> Any:
    """Memory filled with a Python float, of the default dtype; None where `full` has more to do."""
    if fill_value.__class__ is not float or size.__class__ is not tuple:
        return None
    if not -1e38 < fill_value < 1e38:  # perhaps more than the dtype holds
        return None
    out = native.empty(size, get_default_dtype(), 0)
    if out is None or out.array.size > 4096:
        return None
    out.array.fill(fill_value)
    return out


@composite(method=False)
def full(
    ops, size, fill_value, *, out=None, dtype=None, layout=None, device=None, requires_grad=False
):
    """A tensor of one number; its dtype is the number's."""
    if out is dtype is layout is device is None and not requires_grad:
        plain = full_of(size, fill_value)
        if plain is not None:
            return plain
    dtype = dtype_of(fill_value, dtype_or_out("full", out, dtype))
    shape = shaped("full", (size,))
    value = number(fill_value)
    return into(out, made(filled, shape, value, dtype, device=device, requires_grad=requires_grad))


def filled(shape: Any, value: Any, dtype: Any) -> Any:
    """An array of one number; numbers below 0 wrap around where they are unsigned."""
    if value:
        value = as_element("full", value, dtype)
    return of_one_number(shape, value, dtype)


def of_one_number(shape: Any, value: Any, dtype: Any) -> Any:
    """`numpy.full`, large ones by all threads."""
    out = np.empty(shape, dtype)
    if out.size > 4096 and native.copy_into(out, np.full((), value, dtype)):
        return out
    out.fill(value)
    return out


def like(name: str, kernel: Any, doc: str) -> Any:
    """zeros_like and its kin."""

    def compute(
        ops, input, *, dtype=None, layout=None, device=None, requires_grad=False, memory_format=None
    ):
        dtype = input.dtype if dtype is None else as_dtype(dtype)
        if not hasattr(input, "requires_grad"):
            return kernel(tuple(input.shape), dtype)
        kind = allocator_like(kernel, input, memory_format)
        return made(kind, tuple(input.shape), dtype, device=device, requires_grad=requires_grad)

    compute.__doc__ = doc
    return composite(compute, name=name, method=False)


def ones_of(shape: Shape, dtype: Any) -> Any:
    """np.ones, without its detour through a Python function for the fill."""
    return np.full(shape, 1, dtype)


zeros_like = like("zeros_like", np.zeros, "Zeros in the shape and dtype of a tensor.")
ones_like = like("ones_like", ones_of, "Ones in the shape and dtype of a tensor.")
empty_like = like("empty_like", np.empty, "Memory as it is, in the shape and dtype of a tensor.")


@composite(method=False)
def full_like(
    ops,
    input,
    fill_value,
    *,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    memory_format=None,
):
    """One number in the shape and dtype of a tensor."""
    dtype = input.dtype if dtype is None else as_dtype(dtype)
    value = number(fill_value)
    kind = allocator_like(filled, input, memory_format)
    return made(kind, tuple(input.shape), value, dtype, device=device, requires_grad=requires_grad)


def new(name: str, kernel: Any, doc: str) -> Any:
    """new_zeros and its kin."""

    def compute(
        ops,
        input,
        *size,
        dtype=None,
        device=None,
        requires_grad=False,
        layout=None,
        pin_memory=False,
    ):
        dtype = input.dtype if dtype is None else as_dtype(dtype)
        shape = shaped(name, size)
        return made(kernel, shape, dtype, device=device, requires_grad=requires_grad)

    compute.__doc__ = doc
    return composite(compute, name=name, function=False)


new_zeros = new("new_zeros", np.zeros, "Zeros of a shape, in this tensor's dtype.")
new_ones = new("new_ones", ones_of, "Ones of a shape, in this tensor's dtype.")
new_empty = new("new_empty", np.empty, "Memory as it is, in this tensor's dtype.")


@composite(function=False)
def new_full(
    ops,
    input,
    size,
    fill_value,
    *,
    dtype=None,
    device=None,
    requires_grad=False,
    layout=None,
    pin_memory=False,
):
    """One number in a shape, in this tensor's dtype."""
    dtype = input.dtype if dtype is None else as_dtype(dtype)
    value = number(fill_value)
    return made(
        filled,
        shaped("new_full", (size,)),
        value,
        dtype,
        device=device,
        requires_grad=requires_grad,
    )


@composite(method=False)
def eye(ops, n, m=None, *, out=None, dtype=None, layout=None, device=None, requires_grad=False):
    """n rows and m columns (as many, if not given), 1 on the diagonal and 0 elsewhere."""
    if n < 0 or (m is not None and m < 0):
        raise RuntimeError(f"eye: sizes must not be negative: {n}, {m}")
    dtype = dtype_or_out("eye", out, dtype)
    unit = made(np.eye, n, m, 0, default(dtype), device=device, requires_grad=requires_grad)
    return into(out, unit)
