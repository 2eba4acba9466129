"""DLPack: tensors over the memory of other libraries, and capsules for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .. import dtypes, native
from ..autograd.dispatch.promote_operands import as_canonical
from ..autograd.engine import views_and_inplace
from ..device import as_device

if TYPE_CHECKING:
    from .tensor import Tensor

__all__ = ["capsule_of", "from_dlpack", "to_dlpack"]

UNSIGNED, BFLOAT = 1, 4  # DLPack's type codes


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor over the memory of any object that speaks DLPack, or of a capsule that such a one
    gave, which serves once (one older than DLPack 1.0 cannot say that its memory is read-only: it
    is written to then). Copies: none, unless `copy`.
    """
    as_device(device)
    if type(ext_tensor).__name__ == "PyCapsule":
        ext_tensor = Bits(ext_tensor, HOST)
    try:
        array = np.from_dlpack(asked := Asked(ext_tensor))
        if asked.old:
            array = np.asarray(Open(array))
    except (BufferError, RuntimeError):
        array = bfloat16_from(ext_tensor)
        if array is None:
            raise
    made: Tensor = native.wrap(as_canonical(array))
    return made.clone() if copy else made


class Asked:
    """An object that speaks DLPack, and whether it does so as before DLPack 1.0."""

    old = False

    def __init__(self, given: Any) -> None:
        self.given = given

    def __dlpack__(self, **named: Any) -> Any:
        capsule = self.given.__dlpack__(**named)
        self.old = '"dltensor"' in repr(capsule)
        return capsule

    def __dlpack_device__(self) -> Any:
        return self.given.__dlpack_device__()


class Open:
    """Memory that NumPy calls read-only, offered as what can be written to."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        offered = dict(array.__array_interface__)
        offered["data"] = offered["data"][0], False
        self.array, self.__array_interface__ = array, offered


HOST = (1, 0)  # DLPack's number of the CPU


class Bits:
    """A capsule as an object, which NumPy asks for: of bfloat16 offered as unsigned integers."""

    def __init__(self, capsule: Any, device: tuple[int, int]) -> None:
        self.capsule, self.device = capsule, device

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


def bfloat16_from(ext_tensor: Any) -> Any:
    """The array over a bfloat16 tensor's memory; None if it is of another dtype."""
    device = ext_tensor.__dlpack_device__()
    try:
        capsule = ext_tensor.__dlpack__(max_version=(1, 0))
    except TypeError:  # older than the keyword
        capsule = ext_tensor.__dlpack__()
    if not native.retype(capsule, BFLOAT, UNSIGNED):
        return None
    array = np.from_dlpack(asked := Asked(Bits(capsule, device)))
    return (np.asarray(Open(array)) if asked.old else array).view(dtypes.bfloat16)


def capsule_of(tensor: Tensor, stream: Any, named: dict[str, Any]) -> Any:
    """A DLPack capsule of a tensor's memory, by the arguments of `__dlpack__`. Copies: none."""
    if stream is not None and stream != -1:  # -1: no synchronisation is asked for
        raise BufferError(f"__dlpack__: stream: None is expected on the CPU: {stream!r}")
    if views_and_inplace.node_of(tensor) is not None:
        raise BufferError(
            "__dlpack__: Can't export tensors that require gradient: shape "
            f"{tuple(tensor.shape)}, use tensor.detach()"
        )
    if tensor.array.dtype is not dtypes.bfloat16:
        return tensor.array.__dlpack__(**named)
    capsule = tensor.array.view(np.uint16).__dlpack__(**named)
    native.retype(capsule, UNSIGNED, BFLOAT)
    return capsule


def to_dlpack(tensor: Tensor) -> Any:
    """A DLPack capsule of the tensor. Copies: none."""
    return tensor.__dlpack__()
