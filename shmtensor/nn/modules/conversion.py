"""A module's parameters and buffers in another dtype or on another device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ... import __future__ as _switches
from ...device import Device
from ...dtypes import CLASSES, as_dtype
from ...functions import empty_like
from ...tensor import Tensor
from ...tensor.share_memory import move_to_shared_memory
from ..parameter import Parameter, is_lazy
from .traversal import Tree, kind_of

Self = TypeVar("Self", bound="Convertible")


class Convertible(Tree):
    """The part of Module that converts all tensors at once."""

    _parameters: dict[str, Any]
    _buffers: dict[str, Any]

    def _apply(self: Self, fn: Callable[[Any], Any], recurse: bool = True) -> Self:
        if recurse:
            for module in self.children():
                module._apply(fn)
        overwrite = (
            _switches.get_overwrite_module_params_on_conversion()
            and not _switches.get_swap_module_params_on_conversion()
        )
        for name, p in self._parameters.items():
            if p is None:
                continue
            old_data, gradient = p.data, p.grad
            new_data = fn(old_data)  # it may work in place, and give `old_data` other memory
            if overwrite:
                p = self._parameters[name] = Parameter(new_data, p.requires_grad)
            elif new_data.array is not p.array:
                if gradient is not None and (
                    new_data.dtype != old_data.dtype or new_data.device != old_data.device
                ):
                    p.grad = None  # a gradient is of its parameter's kind: restored below
                p.data = new_data
            if gradient is not None:
                p.grad = fn(gradient.detach())
        for name, b in self._buffers.items():
            if is_lazy(b):
                b.data = fn(b.data)  # it stays uninitialized
            elif b is not None:
                self._buffers[name] = fn(b)
        return self

    def to(self: Self, *args: Any, **kwargs: Any) -> Self:
        """Puts parameters and buffers on a device, in a floating-point dtype, or like a tensor.

        Forms: `to(device=None, dtype=None, non_blocking=False)`, `to(dtype, non_blocking=False)`,
        `to(tensor, non_blocking=False)`; with `memory_format=` those of 4 or 5 dimensions take that
        format.

        Parameters
        ----------
        *args, **kwargs
            As in one of the forms.

        Returns
        -------
        Module
            This module, which keeps its Parameters.

        Raises
        ------
        TypeError
            Other arguments or a dtype of whole numbers.
        NotImplementedError
            From the device "meta" to another one.

        Notes
        -----
        Copies: none if nothing changes, else one.

        Examples
        --------
        >>> nn.Linear(2, 3).to(st.float64).weight.dtype
        shmtensor.float64
        """
        device, dtype, memory_format = _destination(args, kwargs)
        if dtype is not None and dtype.kind not in "fc":
            raise TypeError(
                "nn.Module.to only accepts floating point or complex dtypes: got "
                f"desired dtype={dtype}"
            )

        def convert(t: Any) -> Any:
            if device is not None and t.is_meta and Device(device).type != "meta":
                raise NotImplementedError(
                    "to: Cannot copy out of meta tensor; no data! Please use Module.to_empty() "
                    "instead of Module.to() when moving module from meta to a different device: "
                    f"shape {tuple(t.shape)} to {device}"
                )
            target_dtype = dtype if t.dtype.kind in "fc" else None
            if memory_format is not None and t.dim() in (4, 5):
                return t.to(device, target_dtype, memory_format=memory_format)
            return t.to(device, target_dtype)

        return self._apply(convert)

    def to_empty(self: Self, *, device: Any, recurse: bool = True) -> Self:
        """Parameters and buffers on a device, with memory that is not initialised."""
        return self._apply(lambda t: empty_like(t, device=device), recurse=recurse)

    def type(self: Self, dst_type: Any) -> Self:
        """All parameters and buffers in another dtype, or in that of an old name (`FloatTensor`,
        `cuda.HalfTensor`) and on its kind of device.
        """
        return self._apply(lambda t: t.type(dst_type))

    def float(self: Self) -> Self:
        """All floating-point parameters and buffers in float32."""
        return self._cast("float32")

    def double(self: Self) -> Self:
        """All floating-point parameters and buffers in float64."""
        return self._cast("float64")

    def half(self: Self) -> Self:
        """All floating-point parameters and buffers in float16."""
        return self._cast("float16")

    def bfloat16(self: Self) -> Self:
        """All floating-point parameters and buffers in bfloat16."""
        return self._cast("bfloat16")

    def _cast(self: Self, name: str) -> Self:
        dtype = as_dtype(name)
        return self._apply(lambda t: t.to(dtype) if t.dtype.kind == "f" else t)

    def cpu(self: Self) -> Self:
        """All parameters and buffers in main memory."""
        return self._apply(lambda t: t.cpu())

    def cuda(self: Self, device: Any = None) -> Self:
        """All parameters and buffers on a GPU."""
        return self._apply(lambda t: t.cuda(device))

    def ipu(self: Self, device: Any = None) -> Self:
        """Raises RuntimeError: tensors are in main memory or on a CUDA GPU."""
        return self._refuse("ipu")

    def xpu(self: Self, device: Any = None) -> Self:
        """Raises RuntimeError: tensors are in main memory or on a CUDA GPU."""
        return self._refuse("xpu")

    def mtia(self: Self, device: Any = None) -> Self:
        """Raises RuntimeError: tensors are in main memory or on a CUDA GPU."""
        return self._refuse("mtia")

    def _refuse(self: Self, device: str) -> Self:
        raise RuntimeError(f"Module.{device}: no such device: '{device}', hint: 'cpu' or 'cuda'")

    def share_memory(self: Self) -> Self:
        """All parameters and buffers in shared memory (shmtensor's own tensors already are).

        Raises: RuntimeError if one is uninitialized: it has no memory yet.
        """
        for t in (*self.parameters(), *self.buffers()):
            if is_lazy(t):
                t.share_memory_()
        move_to_shared_memory((*self.parameters(), *self.buffers()))
        return self._apply(lambda t: t.share_memory_())


def _destination(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Device, dtype and memory format of `Module.to`'s arguments."""
    names: tuple[str, ...] = ("device", "dtype", "non_blocking", "copy")
    if args and isinstance(args[0], Tensor):
        names = ("tensor", "non_blocking", "copy")
    elif args and isinstance(args[0], CLASSES):
        names = names[1:]
    arguments = {**dict(zip(names, args, strict=False)), **kwargs}
    allowed = {"tensor", "memory_format", *names}
    dtype, device = arguments.get("dtype"), arguments.get("device")
    if (
        len(arguments) < len(args) + len(kwargs)
        or not arguments.keys() <= allowed
        or isinstance(dtype, (bool, Device))
    ):
        raise TypeError(
            "to: invalid combination of arguments: "
            f"{[kind_of(x) for x in args]} {sorted(kwargs)}, hint: to(device, dtype, "
            "non_blocking), to(dtype, non_blocking), to(tensor, non_blocking), memory_format="
        )
    if arguments.get("copy"):
        raise RuntimeError("to: nn.Module.to does not accept copy: copy=True")
    like = arguments.get("tensor")
    if like is not None:
        device, dtype = like.device, like.dtype
    return device, None if dtype is None else as_dtype(dtype), arguments.get("memory_format")
