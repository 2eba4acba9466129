"""`x.to(...)`, in all its forms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .. import cupy_runtime, dtypes, native
from ..autograd.dispatch.foreign_operands import refuse_foreign
from ..autograd.dispatch.op_function import table
from ..cuda_arrays import device_of
from ..device import Device, as_device
from .strides import is_channels_last

if TYPE_CHECKING:
    from .tensor import Tensor

# The keyword arguments of `to`.
TO = {"copy", "device", "dtype", "memory_format", "non_blocking", "other"}
# The device types of PyTorch's programs; all but the first three are refused, as devices.
DEVICE_TYPES = ("cpu", "cuda", "meta", "mps", "xpu", "xla", "hpu", "mtia")


def to(tensor: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """A tensor with another dtype, on another device or in another memory format; itself if nothing
    changes.
    """
    dtype, device, copy = kwargs.get("dtype"), kwargs.get("device"), kwargs.get("copy", False)
    if unknown := kwargs.keys() - TO:
        raise TypeError(f"to: got an unexpected keyword argument: {sorted(unknown)}")
    if "other" in kwargs:
        args = (*args, kwargs["other"])
    for a in args:
        if isinstance(a, native.TensorBase):
            dtype, device = a.array.dtype, device_of(a.array)
        elif isinstance(a, Device) or (isinstance(a, str) and a.partition(":")[0] in DEVICE_TYPES):
            device = a
        elif isinstance(a, bool):
            continue  # non_blocking
        elif isinstance(a, int):
            device = a
        elif a is not None:
            refuse_foreign("to", (a,))
            dtype = dtype_named(a) if isinstance(a, str) else a
    if device is not None:
        moved = to_device(tensor, as_device(device))
        copy = copy and moved is tensor
        tensor = moved
    target = tensor.array.dtype if dtype is None else dtypes.as_dtype(dtype)
    is_same_dtype = target is tensor.array.dtype
    if is_channels_last(kwargs.get("memory_format"), tensor.array) is not None:
        result = tensor if is_same_dtype else table._to_copy(tensor, target)
        memory_format = kwargs["memory_format"]
        return (
            result.clone(memory_format=memory_format) if copy else result.contiguous(memory_format)
        )
    if is_same_dtype:
        return tensor.clone() if copy else tensor
    return table._to_copy(tensor, target)  # type: ignore[no-any-return]


def dtype_named(name: str) -> dtypes.Dtype:
    """The dtype of a name that is no device's."""
    try:
        return dtypes.as_dtype(name)
    except TypeError:
        raise TypeError(
            f"to: neither a device nor a dtype: {name!r}, a device is 'cpu', 'cuda', "
            "'cuda:<number>' or 'meta', a dtype is for example float32 or 'float32'"
        ) from None


def to_device(tensor: Tensor, device: Device) -> Tensor:
    """A tensor on a device, recorded; itself if it is there. Copies: none or one."""
    source = device_of(tensor.array)
    return tensor if source == device else table._to_device(tensor, device, source)


def to_on_stream(tensor: Tensor, device: Device, stream: Any) -> Tensor:
    """`to_device`, with the copy on a stream of a GPU, or the current one."""
    if stream is None:
        return to_device(tensor, device)
    if not tensor.is_cuda and device.type == "cpu":
        raise ValueError(f"to_device: the CPU has no streams: {stream!r}")
    cupy = cupy_runtime.initialize()
    with (
        cupy.cuda.Device(device.index if device.type == "cuda" else tensor.device.index),
        cupy.cuda.Stream.from_external(
            StreamAddress(stream) if isinstance(stream, int) else stream
        ),
    ):
        return to_device(tensor, device)


class StreamAddress:
    """The address of a stream as an object of NVIDIA's protocol for streams."""

    def __init__(self, address: int) -> None:
        self.address = address

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.address


def type_name(array: Any) -> str:
    """The old name of the type of tensors over such an array."""
    name = dtypes.NAMES_OF_TYPES[array.dtype]
    if isinstance(array, np.ndarray):
        return f"{dtypes.library}.{name}"
    return f"{dtypes.library}.{device_of(array).type}.{name}"


def to_type(tensor: Tensor, spelling: Any) -> Tensor:
    """A tensor in the dtype of an old name (`FloatTensor`, "shmtensor.cuda.LongTensor",
    "torch.cuda.LongTensor"), and on its kind of device; or in a dtype.
    """
    dtype = dtypes.of_tensor_type(spelling)
    is_cuda: bool | None = getattr(spelling, "is_cuda", None)  # None: a dtype
    if spelling.__class__ is str and spelling.endswith("Tensor") and "." in spelling:
        is_cuda = ".cuda." in spelling
    if is_cuda is not None and is_cuda is not tensor.is_cuda:
        tensor = to_device(tensor, as_device("cuda" if is_cuda else "cpu"))
    return tensor.to(dtype)
