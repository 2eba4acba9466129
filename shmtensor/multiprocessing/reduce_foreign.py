"""Tensors of PyTorch and arrays of JAX in messages: their memory as NumPy arrays, which are sent
as handles, and back.

PyTorch registers reductions of its own with the standard library's pickler (torch.multiprocessing:
a file descriptor per storage, sent by a thread of the producer). Our messages never use them.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import numpy as np

from shmtensor.autograd.dispatch.foreign_operands import library_of
from shmtensor.autograd.dispatch.promote_operands import as_canonical
from shmtensor.other_names import foreign_module
from shmtensor.tensor.foreign_arrays import as_library, reason_without_view

Array = np.ndarray[Any, Any]

# PyTorch's dtypes that NumPy lacks (bfloat16, float8, complex32) are sent as integers of that size.
CARRIERS = {1: "uint8", 2: "int16", 4: "int32"}


def kind_of(obj: Any) -> str | None:
    """ "torch" for a tensor or storage of PyTorch, "jax" for an array of JAX, else None."""
    kind = library_of(obj)
    if kind is None and (torch := foreign_module("torch")) is not None:
        storages = (getattr(torch, "UntypedStorage", ()), getattr(torch, "TypedStorage", ()))
        return "torch" if isinstance(obj, storages) else None
    return kind


def unsendable(name: str, reason: str) -> RuntimeError:
    return RuntimeError(f"multiprocessing: {name} cannot be sent to another process: {reason}")


def parts_of_torch(x: Any) -> tuple[Any, ...] | None:
    """The memory of a tensor or storage of PyTorch, and the other arguments of `as_torch`; of a
    sparse tensor None, and the arguments of `as_sparse`. None if its class has a reduction of its
    own, as an uninitialized parameter.

    Copies: none, or one to resolve a lazy conjugate or negative.

    Raises:
        RuntimeError: a non-leaf that requires grad; a tensor on another device, quantized, nested,
            or without memory.
    """
    torch = sys.modules["torch"]
    cls = type(x)
    if cls is torch.Tensor and (array := plain_array(x)) is not None:
        return (array,)
    if isinstance(x, torch.TypedStorage):
        raise unsendable(f"a {cls.__name__}", "it is a view of a storage, send its untyped storage")
    if isinstance(x, torch.UntypedStorage):
        name = f"a torch.UntypedStorage of {x.nbytes()} bytes"
        if x.device.type != "cpu":
            raise unsendable(name, f"it is on device {x.device}, send its cpu()")
        x = torch.empty(0, dtype=torch.uint8).set_(x)
    elif cls.__reduce_ex__ not in (torch.Tensor.__reduce_ex__, torch.nn.Parameter.__reduce_ex__):
        return None
    else:
        shape = "" if x.is_nested else f" of shape {tuple(x.shape)}, {x.dtype}"
        name = f"a {cls.__module__}.{cls.__qualname__}{shape}"
    if x.requires_grad and not x.is_leaf:
        raise unsendable(
            name,
            "it requires grad and is a non-leaf, and the graph stays here, send its detach() if "
            "the gradient is not needed there",
        )
    if cls is torch.Tensor and x.device.type == "cpu" and (parts := sparse_parts(x.detach())):
        return None, *parts, tuple(x.shape), x.requires_grad
    reason = reason_without_view(x)
    if reason is not None:
        raise unsendable(name, f"it is {reason}")
    dtype = str(x.dtype).removeprefix("torch.")
    plain = x.detach().as_subclass(torch.Tensor).resolve_conj().resolve_neg()
    if not hasattr(np, dtype):
        if x.element_size() not in CARRIERS:
            raise unsendable(name, "NumPy has no dtype like it")
        plain = plain.view(getattr(torch, CARRIERS[x.element_size()]))
    try:
        array = plain.numpy()
    except (RuntimeError, TypeError) as error:
        raise unsendable(name, f"NumPy cannot view its memory: {error}") from None
    attributes = None if cls in (torch.Tensor, torch.nn.Parameter) else vars(x) or None
    return array, dtype, cls, x.requires_grad, attributes


def plain_array(x: Any) -> Array | None:
    """The memory of a tensor of PyTorch that is no more than memory and a dtype of NumPy's."""
    try:
        array: Array = x.numpy()
    except (RuntimeError, TypeError):
        return None
    return array


def sparse_parts(x: Any) -> tuple[str, bool, list[Any]] | None:
    """The layout of a sparse tensor of PyTorch, whether it is coalesced, and its dense parts."""
    layout = str(x.layout).removeprefix("torch.")
    if layout == "sparse_coo":
        return layout, x.is_coalesced(), [x._indices(), x._values()]
    if layout in ("sparse_csr", "sparse_bsr"):
        return layout, True, [x.crow_indices(), x.col_indices(), x.values()]
    if layout in ("sparse_csc", "sparse_bsc"):
        return layout, True, [x.ccol_indices(), x.row_indices(), x.values()]
    return None


def as_sparse(
    layout: str, is_coalesced: bool, parts: list[Any], shape: tuple[int, ...], requires_grad: bool
) -> Any:
    """A sparse tensor of PyTorch of these parts. Copies: none."""
    torch: Any = importlib.import_module("torch")  # its annotations of these functions are narrower
    options: Any = {"requires_grad": requires_grad, "check_invariants": False}
    if layout == "sparse_coo":
        return torch.sparse_coo_tensor(*parts, shape, is_coalesced=is_coalesced, **options)
    return torch.sparse_compressed_tensor(*parts, shape, layout=getattr(torch, layout), **options)


def as_torch(
    array: Array,
    dtype: str = "",
    cls: Any = None,
    requires_grad: bool = False,
    attributes: Any = None,
) -> Any:
    """A tensor or storage of PyTorch over the memory of an array; by default a plain tensor of the
    array's dtype. Copies: none.
    """
    import torch

    x = torch.from_numpy(array)
    if cls is None:
        return x
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
        raise unsendable(name, f"it is on {', '.join(devices)}, send jax.device_get(x)")
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
