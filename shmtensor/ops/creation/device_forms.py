"""New tensors on the CPU or a GPU: the kernels of creation functions, and their forms for CuPy.

A kernel makes a NumPy array. `@on_cuda(kernel)` declares its form for a GPU: `form(cupy,
*arguments)`. Without one the array is made on the host and copied to the GPU: right for what is
small, or has no parallel form.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import native
from ...cuda_arrays import check_bfloat16, device_of
from ...cupy_runtime import on_initialize
from ...device import META, Device, device_of_new, unspecified
from ...dtypes import bfloat16
from ..table.tensor_like import allocator_like, order_of


def install_allocator(cupy: Any) -> None:
    """At the first use of CUDA: GPU memory is the domain's, so that tensors are sent by handle."""
    importlib.import_module("shmtensor.memory.cuda").install()


on_initialize(install_allocator)

CUDA_FORMS: dict[Callable[..., Any], Callable[..., Any]] = {}
META_FORMS: dict[Callable[..., Any], Callable[..., Any]] = {}


def on_cuda(
    kernel: Callable[..., Any], meta: Callable[..., Any] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declares the form of a kernel for GPUs.

    Args:
        meta: its form for the device "meta"; None: that for GPUs, with another array module.
    """

    def declare(form: Callable[..., Any]) -> Callable[..., Any]:
        CUDA_FORMS[kernel] = form
        META_FORMS[kernel] = form if meta is None else meta
        return form

    return declare


@on_cuda(np.zeros)
def zeros_on_cuda(cupy: Any, shape: Any, dtype: Any) -> Any:
    return cupy.zeros(shape, dtype)


@on_cuda(np.empty)
def empty_on_cuda(cupy: Any, shape: Any, dtype: Any) -> Any:
    return cupy.ndarray(shape, dtype)


@on_cuda(np.eye)
def eye_on_cuda(cupy: Any, n: Any, m: Any, k: int, dtype: Any) -> Any:
    return cupy.eye(n, m, k, dtype)


def run_on_cuda(kernel: Callable[..., Any], arguments: tuple[Any, ...], device: Device) -> Any:
    """The array of a kernel on a GPU, of CuPy; or on "meta".

    Raises:
        TypeError: CuPy does not take bfloat16.
    """
    if device is META:
        on_meta = META_FORMS.get(kernel)
        return (
            device.xp.asarray(kernel(*arguments))
            if on_meta is None
            else on_meta(device.xp, *arguments)
        )
    for a in arguments:
        if getattr(a, "dtype", a) is bfloat16:
            check_bfloat16("device", device)
    cupy = device.xp
    form = CUDA_FORMS.get(kernel)
    if form is not None and device.index == cupy.cuda.runtime.getDevice():
        return form(cupy, *arguments)
    with cupy.cuda.Device(device.index):
        return cupy.asarray(kernel(*arguments)) if form is None else form(cupy, *arguments)


def new_tensor(
    kernel: Any, *arguments: Any, device: Any = None, requires_grad: bool = False, like: Any = None
) -> Any:
    """A tensor of a kernel's result: allocated in shared memory, or on a GPU.

    Args:
        device: by default that of the tensor `like`, or else the default device.
    """
    array = None if like is None else like.array
    if device is unspecified.value and (array is None or isinstance(array, np.ndarray)):
        out = native.compute(kernel, *arguments)
    else:
        place = device_of_new(device, None if array is None else device_of(array))
        if place.type == "cpu":
            out = native.compute(kernel, *arguments)
        else:
            out = native.wrap(run_on_cuda(kernel, arguments, place))
    return out.requires_grad_(True) if requires_grad else out


def array_like(kernel: Any, x: Any, *arguments: Any) -> Any:
    """An array of a kernel in the shape of the array x, on its device."""
    if isinstance(x, np.ndarray):
        return kernel(tuple(x.shape), *arguments)
    return run_on_cuda(kernel, (tuple(x.shape), *arguments), device_of(x))


def new_like(
    kernel: Any,
    x: Any,
    *arguments: Any,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Any:
    """A tensor of a kernel's result in the shape of the tensor x, with its strides or in a memory
    format, and by default on its device.
    """
    array = x.array
    shape = tuple(x.shape)
    if isinstance(array, np.ndarray):
        allocator = allocator_like(kernel, x, memory_format)
        if device is None:
            out = native.compute(allocator, shape, *arguments)
            return out.requires_grad_(True) if requires_grad else out
        if device_of_new(device).type == "cpu":
            return new_tensor(
                allocator, shape, *arguments, device=device, requires_grad=requires_grad
            )
    place, order = device_of_new(device, device_of(array)), order_of(array, memory_format)
    sizes = shape if order is None else tuple(shape[d] for d in order)
    if place.type == "cpu":
        result = native.call(kernel, sizes, *arguments)
    else:
        result = run_on_cuda(kernel, (sizes, *arguments), place)
    if order is not None:
        result = result.transpose([order.index(d) for d in range(len(order))])
    out = native.wrap(result)
    return out.requires_grad_(True) if requires_grad else out
