"""Tensors of PyTorch and arrays of JAX in messages: their memory as NumPy arrays, which are sent
as handles, and back.

PyTorch registers reductions of its own with the standard library's pickler (torch.multiprocessing:
a file descriptor per storage, sent by a thread of the producer). Our messages never use them.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from shmtensor.autograd.dispatch.foreign_operands import library_of
from shmtensor.autograd.dispatch.promote_operands import as_canonical
from shmtensor.tensor.foreign_arrays import as_library

__all__ = ["as_jax", "as_torch", "kind_of", "parts_of_jax", "parts_of_torch"]

Array = np.ndarray[Any, Any]

# PyTorch's dtypes that NumPy lacks (bfloat16, float8, complex32) are sent as integers of that size.
CARRIERS = {1: "uint8", 2: "int16", 4: "int32"}


def kind_of(obj: Any) -> str | None:
    """ "torch" for a tensor or storage of PyTorch, "jax" for an array of JAX, else None."""
    kind = library_of(obj)
    if kind is None and (torch := sys.modules.get("torch")) is not None:
        storages = (getattr(torch, "UntypedStorage", ()), getattr(torch, "TypedStorage", ()))
        return "torch" if isinstance(obj, storages) else None
    return kind


def unsendable(name: str, reason: str, hint: str = "") -> RuntimeError:
    return RuntimeError(
        f"multiprocessing: {name} cannot be sent to another process: {reason}"
        f"{hint and f', send {hint}'}"
    )


def parts_of_torch(x: Any) -> tuple[Array, tuple[Any, ...]] | None:
    """The memory of a tensor or storage of PyTorch, and the other arguments of `as_torch`. None if
    its class has a reduction of its own, as an uninitialized parameter.

    Copies: none, or one to resolve a lazy conjugate or negative.

    Raises:
        RuntimeError: a non-leaf that requires grad; a tensor on another device, sparse, quantized,
            nested, or without memory.
    """
    torch = sys.modules["torch"]
    cls = type(x)
    if isinstance(x, torch.TypedStorage):
        raise unsendable(f"a {cls.__name__}", "it is a view of a storage", "its untyped storage")
    if isinstance(x, torch.UntypedStorage):
        name = f"a torch.UntypedStorage of {x.nbytes()} bytes"
        if x.device.type != "cpu":
            raise unsendable(name, f"it is on device {x.device}", "its cpu()")
        x = torch.empty(0, dtype=torch.uint8).set_(x)
    elif cls.__reduce_ex__ not in (torch.Tensor.__reduce_ex__, torch.nn.Parameter.__reduce_ex__):
        return None
    elif x.is_nested:
        raise unsendable("a nested torch.Tensor", "its parts differ in shape", "its unbind()")
    else:
        name = f"a {cls.__module__}.{cls.__qualname__} of shape {tuple(x.shape)}, {x.dtype}"
    if x.requires_grad and not x.is_leaf:
        reason = "it requires grad and is a non-leaf, and the graph stays here"
        raise unsendable(name, reason, "its detach() if the gradient is not needed there")
    if x.layout is not torch.strided:
        raise unsendable(name, f"its layout is {x.layout}", "its to_dense()")
    if x.device.type != "cpu":
        hint = "" if x.device.type == "meta" else "its cpu()"
        raise unsendable(name, f"it is on device {x.device}", hint)
    if x.is_quantized:
        raise unsendable(name, "it is quantized", "its int_repr(), q_scale() and q_zero_point()")
    try:
        plain = x.detach().as_subclass(torch.Tensor).resolve_conj().resolve_neg()
        dtype = str(x.dtype).removeprefix("torch.")
        if not hasattr(np, dtype):
            plain = plain.view(getattr(torch, CARRIERS[x.element_size()]))
        array = plain.numpy()
    except (RuntimeError, TypeError, KeyError) as error:
        raise unsendable(name, f"NumPy cannot view its memory: {error}") from None
    attributes = None if cls in (torch.Tensor, torch.nn.Parameter) else vars(x) or None
    return array, (dtype, cls, x.requires_grad, attributes)


def as_torch(array: Array, dtype: str, cls: Any, requires_grad: bool, attributes: Any) -> Any:
    """A tensor or storage of PyTorch over the memory of an array. Copies: none."""
    import torch

    x = torch.from_numpy(array)
    if dtype != array.dtype.name:
        x = x.view(getattr(torch, dtype))
    if cls is torch.Tensor:
        return x.requires_grad_(requires_grad)
    if issubclass(cls, torch.UntypedStorage):
        return x.untyped_storage()
    if cls is torch.nn.Parameter:
        return torch.nn.Parameter(x, requires_grad)
    x = x.as_subclass(cls).requires_grad_(requires_grad)
    if attributes is not None:
        vars(x).update(attributes)
    return x


def parts_of_jax(x: Any) -> Array | None:
    """The memory of a JAX array, read-only. None if only JAX's own reduction, by value, keeps what
    it is: NumPy lacks the dtype (float8, int4, keys of random numbers), or its type is weak.

    Copies: none.

    Raises:
        RuntimeError: it is traced, deleted, or not on one device that is a CPU.
    """
    import jax

    name = f"a jax.Array of shape {tuple(x.shape)}, {x.dtype}"
    if isinstance(x, jax.core.Tracer):
        raise unsendable(name, "it is traced, and has no value yet")
    if x.is_deleted():
        raise unsendable(name, "it is deleted or donated")
    devices = sorted(map(str, x.devices()))
    if len(devices) != 1 or next(iter(x.devices())).platform != "cpu":
        raise unsendable(name, f"it is on {', '.join(devices)}", "jax.device_get(x)")
    if not isinstance(x.dtype, np.dtype) or x.weak_type:
        return None
    try:
        array: Array = as_canonical(np.asarray(x))
    except TypeError:
        return None
    return array


def as_jax(array: Array) -> Any:
    """An array of JAX over the memory of an array. Copies: none; one by JAX if the memory is not
    contiguous and aligned to 64 bytes.
    """
    return as_library(array, "jax")
