"""Other dtypes and devices: `to` and its short forms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import dtypes, native
from ..autograd.dispatch.op_function import table
from ..device import Device, as_device
from .array_protocols import Exchange, channels_of

if TYPE_CHECKING:
    from typing_extensions import Self

    from .tensor import Tensor

__all__ = ["Casting"]

# What `to` takes by name.
TO = {"copy", "device", "dtype", "memory_format", "non_blocking", "other"}
Bool = bool  # inside the class the name is a method


class Casting(Exchange):
    """The same values in another dtype."""

    __slots__ = ()

    def to(self, *args: Any, **named: Any) -> Tensor:
        """The tensor with another dtype or on another device; itself if nothing changes.

        Forms: `to(dtype)`, `to(device, dtype=None)`, `to(other)`; `copy=True` copies in any case.
        """
        if not named and len(args) == 1 and isinstance(args[0], dtypes.dtype):
            wanted = dtypes.as_dtype(args[0])
            lone: Any = self
            return lone if wanted is self.array.dtype else table.cast(self, wanted)  # type: ignore[no-any-return]
        dtype, device, copy = named.get("dtype"), named.get("device"), named.get("copy", False)
        if unknown := named.keys() - TO:
            raise TypeError(f"to: got an unexpected keyword argument: {sorted(unknown)}")
        if "other" in named:
            args = (*args, named["other"])
        for a in args:
            if isinstance(a, native.TensorBase):
                dtype = a.array.dtype
            elif isinstance(a, Device) or (
                isinstance(a, str) and a.partition(":")[0] in ("cpu", "cuda")
            ):
                device = a
            elif isinstance(a, bool):
                continue  # non_blocking
            elif isinstance(a, int):
                device = a
            elif a is not None:
                dtype = a
        as_device(device)
        wanted = self.array.dtype if dtype is None else dtypes.as_dtype(dtype)
        if channels_of(named.get("memory_format"), self) is not None:
            made = self if wanted is self.array.dtype else table.cast(self, wanted)
            form = named["memory_format"]
            return made.clone(memory_format=form) if copy else made.contiguous(form)
        if wanted is self.array.dtype:
            same: Any = self
            return self.clone() if copy else same
        return table.cast(self, wanted)  # type: ignore[no-any-return]

    def type(self, dtype: Any = None, non_blocking: Bool = False) -> Any:
        """The old name of the tensor's type, "shmtensor.FloatTensor", or the tensor in another
        dtype, which may be given by such a name.
        """
        if dtype is None:
            return dtypes.NAMES_OF_TYPES[self.array.dtype]
        return self.to(dtypes.of_tensor_type(dtype))

    def type_as(self, other: Tensor) -> Tensor:
        return self.to(other.array.dtype)

    def cpu(self) -> Self:
        return self

    def cuda(self, device: Any = None, non_blocking: Bool = False) -> Self:
        as_device("cuda" if device is None else device)
        return self

    def float(self, memory_format: Any = None) -> Tensor:
        return self.to(dtypes.float32)

    def double(self, memory_format: Any = None) -> Tensor:
        return self.to(dtypes.float64)

    def half(self, memory_format: Any = None) -> Tensor:
        return self.to(dtypes.float16)

    def bfloat16(self, memory_format: Any = None) -> Tensor:
        return self.to(dtypes.bfloat16)

    def int(self, memory_format: Any = None) -> Tensor:
        return self.to(dtypes.int32)

    def long(self, memory_format: Any = None) -> Tensor:
        return self.to(dtypes.int64)

    def short(self, memory_format: Any = None) -> Tensor:
        return self.to(dtypes.int16)

    def char(self, memory_format: Any = None) -> Tensor:
        return self.to(dtypes.int8)

    def byte(self, memory_format: Any = None) -> Tensor:
        return self.to(dtypes.uint8)

    def bool(self, memory_format: Any = None) -> Tensor:
        return self.to(dtypes.bool)

    def cfloat(self, memory_format: Any = None) -> Tensor:
        return self.to(dtypes.complex64)

    def cdouble(self, memory_format: Any = None) -> Tensor:
        return self.to(dtypes.complex128)
