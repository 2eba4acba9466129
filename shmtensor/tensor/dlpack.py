"""DLPack: tensors over the memory of other libraries, and capsules for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .. import dtypes, native
from ..autograd.dispatch.foreign_operands import library_of
from ..autograd.dispatch.promote_operands import as_canonical
from ..autograd.engine import views_and_inplace
from ..device import as_device

if TYPE_CHECKING:
    from .tensor import Tensor

__all__ = ["capsule_of", "from_dlpack", "to_dlpack", "writable_view"]

UNSIGNED, BFLOAT = 1, 4  # DLPack's type codes


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor over the memory of any object with `__dlpack__`, or of a capsule, which can be used
    once. A capsule older than DLPack 1.0 cannot mark its memory as read-only, so it is writable;
    that of an array of JAX is read-only, because JAX relies on it. Copies: none, unless `copy`.

    Raises:
        BufferError, RuntimeError: no tensor can be a view of the memory: its dtype, its device, or
            a tensor of PyTorch that requires grad.
    """
    as_device(device)
    if type(ext_tensor).__name__ == "PyCapsule":
        ext_tensor = CapsuleHolder(ext_tensor, HOST)
    try:
        array = np.from_dlpack(probe := VersionProbe(ext_tensor))
        if probe.is_legacy and library_of(ext_tensor) != "jax":
            array = writable_view(array)
    except (BufferError, RuntimeError) as error:
        array = bfloat16_from(ext_tensor)
        if array is None:
            dtype, shape = getattr(ext_tensor, "dtype", None), getattr(ext_tensor, "shape", None)
            raise type(error)(
                f"from_dlpack: {error}: a {type(ext_tensor).__name__} of dtype {dtype}, "
                f"shape {shape}"
            ) from None
    tensor: Tensor = native.wrap(as_canonical(array))
    return tensor.clone() if copy else tensor


def export(producer: Any, **kwargs: Any) -> Any:
    """A producer's capsule.

    Raises:
        BufferError: it has none, for a reason that it says in a TypeError, as pyarrow does: NumPy
            takes a TypeError as a keyword that the producer does not know, and asks again.
    """
    try:
        return producer.__dlpack__(**kwargs)
    except TypeError as error:
        if kwargs and "keyword" in str(error):
            raise
        raise BufferError(str(error)) from error


class VersionProbe:
    """Wraps an object with `__dlpack__`, and notes whether its capsule is older than DLPack 1.0."""

    is_legacy = False

    def __init__(self, producer: Any) -> None:
        self.producer = producer

    def __dlpack__(self, **kwargs: Any) -> Any:
        capsule = export(self.producer, **kwargs)
        self.is_legacy = '"dltensor"' in repr(capsule)
        return capsule

    def __dlpack_device__(self) -> Any:
        return self.producer.__dlpack_device__()


def writable_view(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The memory of a read-only array, writable. Copies: none."""
    if dtypes.is_bfloat16(array.dtype):  # the array interface has no bfloat16
        return np.asarray(WritableView(array.view(np.uint16))).view(dtypes.bfloat16)
    return np.asarray(WritableView(array))


class WritableView:
    """Exports an array that NumPy marks as read-only as writable memory."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        interface = dict(array.__array_interface__)
        interface["data"] = interface["data"][0], False
        self.array, self.__array_interface__ = array, interface


HOST = (1, 0)  # DLPack's device of the CPU


class CapsuleHolder:
    """A capsule as the object that NumPy needs; bfloat16 is retyped as unsigned integers."""

    def __init__(self, capsule: Any, device: tuple[int, int]) -> None:
        self.capsule, self.device = capsule, device

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


def bfloat16_from(ext_tensor: Any) -> Any:
    """An array over a bfloat16 tensor's memory; None for other dtypes."""
    device = ext_tensor.__dlpack_device__()
    try:
        capsule = export(ext_tensor, max_version=(1, 0))
    except TypeError:  # the producer is older than the keyword
        capsule = ext_tensor.__dlpack__()
    if not native.retype(capsule, BFLOAT, UNSIGNED):
        return None
    array = np.from_dlpack(probe := VersionProbe(CapsuleHolder(capsule, device)))
    is_writable = probe.is_legacy and library_of(ext_tensor) != "jax"
    return (writable_view(array) if is_writable else array).view(dtypes.bfloat16)


def capsule_of(tensor: Tensor, stream: Any, kwargs: dict[str, Any]) -> Any:
    """A DLPack capsule of a tensor's memory, by the arguments of `__dlpack__`. Copies: none."""
    if stream is not None and stream != -1:  # -1: no synchronization
        raise BufferError(f"__dlpack__: stream: None is expected on the CPU: {stream!r}")
    if views_and_inplace.node_of(tensor) is not None:
        raise BufferError(
            "__dlpack__: Can't export tensors that require gradient: shape "
            f"{tuple(tensor.shape)}, use tensor.detach()"
        )
    if tensor.array.dtype is not dtypes.bfloat16:
        return tensor.array.__dlpack__(**kwargs)
    capsule = tensor.array.view(np.uint16).__dlpack__(**kwargs)
    native.retype(capsule, UNSIGNED, BFLOAT)
    return capsule


def to_dlpack(tensor: Tensor) -> Any:
    """A DLPack capsule of the tensor. Copies: none."""
    return tensor.__dlpack__()
