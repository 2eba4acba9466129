"""DLPack: tensors over the memory of other libraries, and capsules for them."""

from __future__ import annotations

import reprlib
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import cupy_runtime, dtypes, native
from ..autograd.dispatch.foreign_operands import library_of
from ..autograd.dispatch.promote_operands import as_canonical
from ..autograd.engine import views_and_inplace
from ..device import as_device

if TYPE_CHECKING:
    from .tensor import Tensor

UNSIGNED, BFLOAT = 1, 4  # DLPack's type codes


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor over the memory of any object that supports DLPack.

    Parameters
    ----------
    ext_tensor : object
        An object with `__dlpack__`, or a capsule, which can be used once.
    device : Device or str, optional
        By default that of the memory.
    copy : bool, optional
        True: always a copy; False: never; None: if the device is another one.

    Returns
    -------
    Tensor
        Over the same memory, unless it is a copy.

    Raises
    ------
    BufferError, RuntimeError
        No tensor can be a view of the memory: its dtype, its device, or a tensor of PyTorch that
        requires grad; or `copy=False`, and the device is another one.
    DeviceMissing
        CuPy cannot use the device.

    See Also
    --------
    from_numpy, asarray, to_dlpack

    Notes
    -----
    A capsule older than DLPack 1.0 cannot mark its memory as read-only, so it is writable; that of
    an array of JAX is read-only, because JAX relies on it. Memory on a GPU is writable; its
    producer makes our current stream wait for the work on it.

    Copies: none, unless `copy`, or to another device.

    Examples
    --------
    >>> array = np.arange(3)
    >>> x = st.from_dlpack(array)
    >>> array[0] = 7
    >>> x
    tensor([7, 1, 2])
    """
    place = None if device is None else as_device(device)
    tensor = alias(ext_tensor)
    if place is not None and place != tensor.device:
        if copy is False:
            raise BufferError(
                f"from_dlpack: copy=False, but the memory is on {tensor.device}, not on {place}: "
                f"shape {tuple(tensor.shape)}"
            )
        return tensor.to(place)
    return tensor.clone() if copy else tensor


def alias(ext_tensor: Any) -> Tensor:
    """A tensor over the memory of an object with `__dlpack__`, or of a capsule."""
    if isinstance(ext_tensor, (dict, set, frozenset)):  # its attributes may come from a file
        raise TypeError(f"from_dlpack: no object with __dlpack__: {reprlib.repr(ext_tensor)}")
    if type(ext_tensor).__name__ == "PyCapsule":
        ext_tensor = CapsuleHolder(ext_tensor, native.capsule_device(ext_tensor))
    if is_on_cuda(ext_tensor):
        is_capsule = isinstance(ext_tensor, CapsuleHolder)
        return from_cuda(ext_tensor.capsule if is_capsule else ext_tensor)
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
    return native.wrap(as_canonical(array))  # type: ignore[no-any-return]


def is_on_cuda(x: Any) -> bool:
    """Whether an object says that its memory is on a GPU of CUDA."""
    device_of_memory = getattr(x, "__dlpack_device__", None)
    return device_of_memory is not None and device_of_memory()[0] in ON_CUDA


def from_cuda(x: Any) -> Tensor:
    """A tensor over memory on a GPU: of an object with `__dlpack__`, or of a capsule. Copies: none.

    Raises:
        BufferError: CuPy cannot view the memory: bfloat16, vectors.
        DeviceMissing: CuPy or the GPU is missing.
    """
    cupy = cupy_runtime.initialize()
    try:
        array = cupy.from_dlpack(x)
        return native.wrap(as_canonical(array))  # type: ignore[no-any-return]
    except (TypeError, ValueError, NotImplementedError) as error:
        raise BufferError(
            f"from_dlpack: {error}: a {type(x).__name__} of dtype {getattr(x, 'dtype', None)}, "
            f"shape {getattr(x, 'shape', None)} on a GPU"
        ) from None


def export(producer: Any, **kwargs: Any) -> Any:
    """A producer's capsule. A producer from before DLPack 1.0 does not know the keywords: after
    Python's own TypeError it is asked without them.

    Raises:
        BufferError: it has none, for a reason that it says in a TypeError, as pyarrow does, whose
            ArrowTypeError is one.
    """
    try:
        return producer.__dlpack__(**kwargs)
    except TypeError as error:
        if kwargs and type(error) is TypeError:
            return export(producer)
        raise BufferError(str(error)) from error


class VersionProbe:
    """Wraps an object with `__dlpack__`, and notes whether its capsule is older than DLPack 1.0."""

    is_legacy = False

    def __init__(self, producer: Any) -> None:
        self.producer = producer

    def __dlpack__(self, **kwargs: Any) -> Any:
        capsule = export(self.producer, **kwargs)
        self.is_legacy = not native.is_versioned_capsule(capsule)
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


ON_CUDA = (2, 13)  # kDLCUDA, kDLCUDAManaged


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
    capsule = export(ext_tensor, max_version=(1, 0))
    if not native.retype(capsule, BFLOAT, UNSIGNED):
        return None
    array = np.from_dlpack(probe := VersionProbe(CapsuleHolder(capsule, device)))
    is_writable = probe.is_legacy and library_of(ext_tensor) != "jax"
    return (writable_view(array) if is_writable else array).view(dtypes.bfloat16)


def capsule_of(tensor: Tensor, stream: Any, kwargs: dict[str, Any]) -> Any:
    """A DLPack capsule of a tensor's memory, by the arguments of `__dlpack__`. Copies: none."""
    if tensor.is_cuda:
        return cuda_capsule_of(tensor, stream, kwargs)
    if stream is not None and stream != -1:  # -1: no synchronization
        raise BufferError(f"__dlpack__: stream: None is expected on the CPU: {stream!r}")
    check_no_grad("__dlpack__", tensor)
    if tensor.array.dtype is not dtypes.bfloat16:
        return tensor.array.__dlpack__(**kwargs)
    capsule = tensor.array.view(np.uint16).__dlpack__(**kwargs)
    native.retype(capsule, UNSIGNED, BFLOAT)
    return capsule


# Note [Streams in DLPack]: the consumer names its stream, and the producer makes it wait for the
# work on the memory: 1 is the legacy default stream, which None means, too; 2 that of the thread;
# -1 asks for no order. 0 could mean either of two streams, so the array API forbids it.
def cuda_capsule_of(tensor: Tensor, stream: Any, kwargs: dict[str, Any]) -> Any:
    """The capsule of a tensor on a GPU. Work that is queued on our current stream is waited for by
    `stream`: Note [Streams in DLPack]. Copies: none, unless `copy=True`, or `dl_device` is the CPU.
    """
    if stream is not None and (stream.__class__ is not int or stream < -1 or not stream):
        raise BufferError(
            "__dlpack__: stream: None, -1 (no order), 1 (legacy default stream), 2 (default stream "
            f"of the thread) or the address of a stream is expected on a GPU: {stream!r}"
        )
    check_no_grad("__dlpack__", tensor)
    array = tensor.array
    with array.device:
        if kwargs.get("copy") and kwargs.get("dl_device") in (None, tensor.__dlpack_device__()):
            array = array.copy()
            kwargs = {**kwargs, "copy": None}
        if array.dtype is not dtypes.bfloat16:
            return array.__dlpack__(stream=stream, **kwargs)
        capsule = array.view(np.uint16).__dlpack__(stream=stream, **kwargs)  # CuPy: by its kind
        native.retype(capsule, UNSIGNED, BFLOAT)
        return capsule


def check_no_grad(where: str, tensor: Tensor) -> None:
    """Checks that a tensor has no history, which another library would not see.

    Raises:
        BufferError: it requires grad.
    """
    if views_and_inplace.node_of(tensor) is not None:
        raise BufferError(
            f"{where}: Can't export tensors that require gradient: shape {tuple(tensor.shape)}, "
            "use tensor.detach()"
        )


def cuda_array_interface(tensor: Tensor) -> dict[str, Any]:
    """The CUDA array interface, version 3, of a tensor on a GPU. Its consumer waits for the stream
    that it names, our current one. Copies: none.

    Raises:
        AttributeError: the tensor is on the CPU, or of bfloat16.
        RuntimeError: it requires grad.
    """
    array = cuda_array_of(tensor, "__cuda_array_interface__")
    if array.dtype is dtypes.bfloat16:  # its name would be float16's
        raise AttributeError("__cuda_array_interface__: it has no name for bfloat16, use DLPack")
    with array.device:
        return array.__cuda_array_interface__  # type: ignore[no-any-return]


def cuda_array_of(tensor: Tensor, name: str) -> Any:
    """The array of a tensor on a GPU, as CuPy's functions ask for it. Copies: none.

    Raises:
        AttributeError: the tensor is on the CPU.
        RuntimeError: it requires grad.
    """
    if not tensor.is_cuda:
        raise AttributeError(
            f"{name}: Can't get {name} on non-CUDA tensor: shape {tuple(tensor.shape)}, use cuda()"
        )
    if views_and_inplace.node_of(tensor) is not None:
        raise RuntimeError(
            f"{name}: Can't get {name} on a Tensor that requires grad: shape "
            f"{tuple(tensor.shape)}, use tensor.detach()"
        )
    return tensor.array


def to_dlpack(tensor: Tensor) -> Any:
    """A DLPack capsule over the memory of a tensor.

    Parameters
    ----------
    tensor : Tensor
        It must not require grad.

    Returns
    -------
    capsule
        For one use by another library's `from_dlpack`.

    See Also
    --------
    from_dlpack

    Notes
    -----
    Copies: none.

    Examples
    --------
    >>> x = st.tensor([1, 2])
    >>> st.from_dlpack(st.to_dlpack(x))
    tensor([1, 2])
    """
    return tensor.__dlpack__()
