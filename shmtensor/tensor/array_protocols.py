"""A tensor's memory in others' hands: NumPy, DLPack, Python's numbers and lists, sharing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .. import dtypes, native
from ..autograd.dispatch.op_function import table
from ..autograd.engine import views_and_inplace as view
from ..autograd.grad_mode import recording
from .numpy_ufunc import array_ufunc
from .requires_grad import History

if TYPE_CHECKING:
    from typing_extensions import Self

    from .tensor import Tensor

__all__ = ["Exchange"]

UNSIGNED, BFLOAT = 1, 4  # DLPack's type codes


def channels_of(memory_format: Any, tensor: Any) -> bool | None:
    """Whether a format has the channels last; None: the strides stay.

    Raises:
        RuntimeError: a format for another number of dimensions.
    """
    name = getattr(memory_format, "name", None)
    if name in (None, "preserve_format"):
        return None
    wanted = {"channels_last": 4, "channels_last_3d": 5}.get(name)
    if wanted is not None and tensor.array.ndim != wanted:
        raise RuntimeError(
            f"memory_format: required rank {wanted} tensor to use {name} format: shape "
            f"{tensor.array.shape}"
        )
    return wanted is not None


class Exchange(History):
    """The memory, as others see it."""

    __slots__ = ()

    def is_shared(self) -> bool:
        """Whether the memory lies in the domain, so that the tensor travels between processes as a
        handle.
        """
        return bool(native.is_shared(self.array))

    def share_memory_(self) -> Self:
        """Moves the tensor into shared memory; does nothing if it is there. Copies: one (if
        outside).
        """
        if not self.is_shared():
            self.array = native.call(np.array, self.array)
        return self

    def untyped_storage(self) -> Any:
        """The tensor's whole memory as bytes, which its views share. Copies: none."""
        from ..storage import UntypedStorage

        return UntypedStorage(self.array)

    def storage(self) -> Any:
        """The tensor's whole memory as numbers, which its views share. Copies: none."""
        from ..storage import TypedStorage

        return TypedStorage(self.array)

    def share(self, *, readonly: bool = False) -> Tensor:
        """The same memory without history, to be sent to other processes.

        Args:
            readonly: the result, its views, its NumPy arrays and what every receiver gets of it
                cannot be written; the tensor it was made from can, and they see it.

        Copies: none, or one (if the memory lies outside the domain: as `share_memory_`).

        Example:
            >>> import shmtensor as st
            >>> weights = st.ones(3)
            >>> shown = weights.share(readonly=True)
            >>> shown += 1
            Traceback (most recent call last):
            RuntimeError: add_: the memory cannot be written: ...
        """
        self.share_memory_()
        fresh = self.detach()
        if readonly:
            fresh.array = fresh.array.view()
            fresh.array.flags.writeable = False
        return fresh

    def numpy(self, *, force: bool = False) -> Any:
        """The memory as a NumPy array; a write to one is seen in the other. Copies: none.

        Raises:
            RuntimeError: the tensor requires grad, in grad mode, and not `force`.
            TypeError: a bfloat16 tensor, for NumPy has no such numbers: `x.float().numpy()` has the
                values, `x.view(st.uint16).numpy()` the bits (Copies: none).
        """
        if not force and view.node_of(self) is not None and recording.get():
            raise RuntimeError(
                "numpy: Can't call numpy() on Tensor that requires grad: shape "
                f"{tuple(self.shape)}, use tensor.detach().numpy() instead"
            )
        if self.array.dtype is dtypes.bfloat16:
            raise TypeError(
                f"numpy: Got unsupported ScalarType BFloat16: shape {tuple(self.shape)}, use "
                "x.float().numpy() for the values, x.view(st.uint16).numpy() for the bits"
            )
        return self.array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if dtype is None and not copy:
            return self.numpy()
        if dtype is not None and self.array.dtype is dtypes.bfloat16:  # the values, as asked for
            return table.cast(self, dtypes.float32).numpy().astype(dtype)
        return np.array(self.numpy(), dtype, copy=copy)

    __array_priority__ = 1000

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        return array_ufunc(ufunc, method, inputs, named)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        from .numpy_function import array_function  # not needed before

        return array_function(func, types, args, kwargs)

    @property
    def __array_interface__(self) -> Any:
        if self.array.dtype is dtypes.bfloat16:  # it would be spelled as float16 is
            raise AttributeError("__array_interface__: NumPy has no name for bfloat16")
        return self.numpy().__array_interface__

    def __array_namespace__(self, /, *, api_version: str | None = None) -> Any:
        """`shmtensor.array_api`, the namespace of the Python array API standard.

        Raises:
            ValueError: a version of the standard that is not there.
        """
        from importlib import import_module  # above this file, and not needed before

        namespace = import_module("shmtensor.array_api")
        if api_version not in (None, "2021.12", "2022.12", namespace.__array_api_version__):
            raise ValueError(
                f"__array_namespace__: version {api_version} is not there, "
                f"{namespace.__array_api_version__} is"
            )
        return namespace

    def to_device(self, device: Any, /, *, stream: Any = None) -> Any:
        """The tensor on a device, by the array API's name: `to(device)`."""
        return self.to(device)  # type: ignore[attr-defined]

    def __dlpack__(self, *, stream: Any = None, **named: Any) -> Any:
        """A DLPack capsule of the memory; read-only memory stays so. Copies: none.

        Raises:
            BufferError: the tensor requires grad, or a stream is given: memory of the host has
                none.
        """
        if stream is not None and stream != -1:  # -1: no synchronisation is asked for
            raise BufferError(f"__dlpack__: stream: None is expected on the CPU: {stream!r}")
        if view.node_of(self) is not None:
            raise BufferError(
                f"__dlpack__: Can't export tensors that require gradient: shape "
                f"{tuple(self.shape)}, use "
                "tensor.detach()"
            )
        if self.array.dtype is not dtypes.bfloat16:
            return self.array.__dlpack__(**named)
        capsule = self.array.view(np.uint16).__dlpack__(**named)
        native.retype(capsule, UNSIGNED, BFLOAT)
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()  # type: ignore[no-any-return]

    def item(self) -> Any:
        """The one element as a Python number.

        Raises:
            RuntimeError: there is not exactly one.
        """
        if self.array.size != 1:
            raise RuntimeError(
                f"item: a Tensor with {self.array.size} elements cannot be converted to Scalar: "
                f"shape {tuple(self.shape)}"
            )
        return self.array.item()

    def tolist(self) -> Any:
        """Nested lists of Python numbers; a number for a 0-d tensor. Copies: one."""
        return self.array.tolist()

    def clone(self, *, memory_format: Any = None) -> Tensor:
        """The same values in memory of its own, in the graph. Copies: one.

        Args:
            memory_format: by default the strides stay; `contiguous_format`: in order of rows,
                `channels_last` (of 4 dimensions, `channels_last_3d` of 5): of channels last.
        """
        kind = channels_of(memory_format, self)
        if kind is not None:
            return (table.packed_by_channel if kind else table.packed)(self)  # type: ignore[no-any-return]
        return table.clone(self)  # type: ignore[no-any-return]

    def contiguous(self, memory_format: Any = None) -> Tensor:
        """Itself if the elements lie in order in memory, else a copy that does. Copies: none or
        one.

        Args:
            memory_format: the order, as for `clone`.
        """
        same: Any = self
        if memory_format is not None and channels_of(memory_format, self):
            in_order = self.is_contiguous(memory_format)
            return same if in_order else table.packed_by_channel(self)  # type: ignore[no-any-return]
        return same if self.array.flags.c_contiguous else table.packed(self)  # type: ignore[no-any-return]
