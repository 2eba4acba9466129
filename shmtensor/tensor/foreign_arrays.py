"""Arrays of other libraries (PyTorch's tensors, JAX's arrays) as NumPy arrays over the same memory,
and the way back.

Neither library is imported here to look at a value: who has an array of it has imported it.

    torch.Tensor ── as_numpy ──> ndarray ── as_library(_, "torch") ──> torch.Tensor
    jax.Array    ── as_numpy ──> ndarray ── as_library(_, "jax")   ──> jax.Array

A view keeps what it views alive: a tensor of PyTorch has a reference to the array that it was made
from, and an array of JAX to a DLPack capsule, so a block of shared memory is freed when the last
view over it dies, whichever library that view is of.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from .. import cupy_runtime, dtypes
from ..autograd import wrap
from ..autograd.dispatch.foreign_operands import library_of as library_of
from ..autograd.dispatch.promote_operands import as_canonical
from .dlpack import from_cuda, is_on_cuda, writable_view

Array = np.ndarray[Any, Any]
LIBRARIES = ("torch", "jax")

_numpy_dtype_of: dict[Any, np.dtype[Any]] = {}  # dtypes of PyTorch that `numpy_dtype_of` has seen


def as_numpy(x: Any, where: str = "as_numpy") -> Array:
    """A NumPy array over the memory of a tensor of PyTorch or an array of JAX.

    bfloat16 keeps its dtype. Arrays over JAX's memory are read-only, as JAX's arrays are.

    Args:
        where: the function that the errors name.

    Raises:
        TypeError: `x` is no array of either, has a dtype that NumPy and shmtensor lack, is on a
            device other than the CPU, or is sparse, quantised or nested.
        RuntimeError: it requires grad.

    Copies: none; one of a lazily conjugated or negated tensor of PyTorch (`x.conj()`), and of an
    array of JAX that is divided among several devices.
    """
    library = library_of(x)
    if library == "torch":
        try:
            array: Array = x.numpy()
        except (RuntimeError, TypeError):
            return torch_as_numpy(x, where)
        return array
    if library == "jax":
        return jax_as_numpy(x, where)
    raise TypeError(f"{where}: neither a tensor of PyTorch nor an array of JAX: {type(x)}")


def on_cuda(x: Any) -> Any:
    """An array of CuPy, or one over the memory of another library's array on a GPU, which has the
    CUDA array interface; None: it is no such array. Copies: none.

    Raises:
        RuntimeError: it requires grad.
    """
    if x.__class__.__module__.partition(".")[0] == "cupy":
        return as_canonical(x) if isinstance(x, cupy_runtime.initialize().ndarray) else None
    if getattr(x, "__cuda_array_interface__", None) is None:
        return None
    if is_on_cuda(x):  # by DLPack, because it orders the streams
        return from_cuda(x).array
    return as_canonical(cupy_runtime.initialize().asarray(x))


def numpy_dtype_of(dtype: Any) -> np.dtype[Any]:
    """The dtype of `as_numpy` for a dtype of PyTorch.

    Raises:
        TypeError: neither NumPy nor shmtensor has it (float8, quantised integers).
    """
    result = _numpy_dtype_of.get(dtype)
    if result is None:
        result = _numpy_dtype_of[dtype] = as_numpy(sys.modules["torch"].empty(0, dtype=dtype)).dtype
    return result


def as_library(array: Array, library: str) -> Any:
    """A tensor of PyTorch ("torch") or an array of JAX ("jax") over the memory of an array.

    Args:
        array: numbers, of a dtype that the library has.
        library: "torch" or "jax"; it is imported.

    Raises:
        TypeError: the library lacks the dtype.
        ValueError: another name of a library.

    Copies: none, with these exceptions. PyTorch has no read-only tensors and no negative strides:
    such an array is copied. JAX copies what does not begin at a multiple of 64 bytes, what is not
    contiguous in some order of its dimensions, and what it converts: while `jax_enable_x64` is off,
    64-bit numbers become 32-bit ones and complex128 becomes complex64.
    """
    if library == "torch":
        import torch

        if not array.flags.writeable:
            array = array.copy()
        is_bfloat16 = dtypes.is_bfloat16(array.dtype)
        bits = array.view(np.int16) if is_bfloat16 else array
        try:
            tensor = torch.from_numpy(bits)
        except ValueError:  # negative strides, or foreign byte order
            tensor = torch.from_numpy(bits.astype(bits.dtype.newbyteorder("=")))
        return tensor.view(torch.bfloat16) if is_bfloat16 else tensor
    if library != "jax":
        raise ValueError(f"as_library: not a library: {library!r}, use one of {LIBRARIES}")
    import jax

    if not array.flags.writeable:  # JAX never writes, and DLPack before 1.0 has no such mark
        array = writable_view(array)
    if not is_dense(array):
        array = np.ascontiguousarray(array)
    return jax.dlpack.from_dlpack(wrap(array))


def packed_parts(x: Any) -> tuple[int, Array] | None:
    """The number of the library and the memory of an array that a shared list or dictionary packs
    as one; None: it is no such array, and is pickled. Copies: as `as_numpy`.
    """
    library = library_of(x)
    if library is None or (
        library == "torch" and (type(x) is not sys.modules["torch"].Tensor or x.requires_grad)
    ):
        return None
    try:
        return LIBRARIES.index(library), as_numpy(x)
    except TypeError:  # on another device, sparse, or of a dtype that NumPy lacks
        return None


def from_packed(parts: Any) -> Any:
    """The array of another library over the memory of an array, from what `packed_parts` gave."""
    match parts:
        case (int(library), np.ndarray() as array) if library in range(len(LIBRARIES)):
            return as_library(array, LIBRARIES[library])
    raise ValueError(f"packed data: corrupt: no array of another library: {parts!r:.80}")


def is_dense(array: Array) -> bool:
    """Whether the elements fill their memory, in any order of the dimensions."""
    flags = array.flags
    if flags.c_contiguous or flags.f_contiguous:
        return True
    order = np.argsort([-step for step in array.strides], kind="stable")
    return bool(array.transpose(order).flags.c_contiguous)


def reason_without_view(x: Any) -> str | None:
    """Why NumPy cannot view the memory of a tensor of PyTorch, and what to use; None: it can, up to
    the dtype, lazy signs and the history."""
    import torch

    if x.device.type != "cpu":
        hint = "it has no data" if x.device.type == "meta" else "use x.cpu()"
        return f"not on the CPU: on {x.device}, {hint}"
    if x.is_nested:
        return "nested, use x.unbind() or to_padded_tensor"
    if x.layout is not torch.strided:
        return f"not dense: {x.layout}, use x.to_dense()"
    if x.is_quantized:
        return f"quantised: {x.dtype}, use x.dequantize() or x.int_repr()"
    return None


def torch_as_numpy(x: Any, where: str) -> Array:
    """As `as_numpy`, for the tensors that `Tensor.numpy` refuses."""
    import torch

    reason = reason_without_view(x)
    if reason is not None:
        raise TypeError(f"{where}: a tensor of PyTorch is {reason}")
    if x.requires_grad:
        raise RuntimeError(
            f"{where}: a tensor of PyTorch requires grad, and an array has no history: shape "
            f"{tuple(x.shape)}, use x.detach()"
        )
    if x.is_conj() or x.is_neg():
        return as_numpy(x.resolve_conj().resolve_neg(), where)
    if x.dtype is torch.bfloat16:
        bits: Array = x.view(torch.int16).numpy()
        return bits.view(dtypes.bfloat16)
    raise TypeError(f"{where}: NumPy has no dtype like this one of PyTorch: {x.dtype}")


def jax_as_numpy(x: Any, where: str) -> Array:
    """As `as_numpy`, for an array of JAX."""
    platform = getattr(x, "platform", None)
    if platform is not None and platform() != "cpu":
        raise TypeError(
            f"{where}: an array of JAX is not on the CPU: on {platform()}, use jax.device_get(x)"
        )
    array: Array = np.asarray(x)
    # The floats of ml_dtypes have kind "f", too.
    if array.dtype.kind in "biufc" and array.dtype.isbuiltin == 1:
        return array
    if dtypes.is_bfloat16(array.dtype):
        return array.view(dtypes.bfloat16)
    raise TypeError(
        f"{where}: shmtensor has no dtype like this one of JAX: {array.dtype}, convert it with "
        "x.astype"
    )
