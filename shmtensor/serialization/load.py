"""`load`: reads files of `save` or PyTorch, arrays directly into shared memory."""

from __future__ import annotations

import io
import math
import os
import pickle
from collections.abc import Mapping
from functools import partial
from typing import IO, Any, NamedTuple

import numpy as np

from .. import cupy_runtime, native
from ..autograd import wrap
from ..cuda_arrays import device_of, move_array, new_array
from ..device import META, Device, DeviceMissing, as_device
from ..dtypes import as_dtype
from ..errors import printable
from ..nn import MultiheadAttention, Parameter
from ..nn.modules.linear import NonDynamicallyQuantizableLinear
from ..nn.parameter import UninitializedBuffer, UninitializedParameter
from ..sparse import SparseTensor, sparse_compressed_tensor, sparse_coo_tensor
from ..storage import UntypedStorage, array_over, memory_of
from ..tensor import Size, Tensor, torch_constants
from ..tensor.torch_constants import layout, memory_format, sparse_coo, sparse_csc, sparse_csr
from .constructors import refused
from .limits import STORAGE_COPIES, Limits
from .pickle_names import DTYPE_NAMES, STORAGE_NAMES, StorageType
from .safe_globals import trusted_names
from .unpickler import RestrictedUnpickler
from .zip_archive import ArchiveReader, file_path

Array = np.ndarray[Any, Any]
MAX_DIMS = 64  # of an array, as in NumPy
TENSOR_NBYTES = 2048  # of a tensor that refers to a storage
SPARSE_NBYTES = 4096
MAX_SIZE = 1 << 58  # in elements: the number of bytes is an int64


def load(
    f: str | os.PathLike[str] | IO[bytes],
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool = True,
    mmap: bool = False,
    check_crc: bool = True,
) -> Any:
    """Reads a file that `save` or `torch.save` has written.

    Parameters
    ----------
    f : path or binary file
        A path, or a file object that can seek.
    map_location : Device, str, dict or callable, optional
        The device of the tensors: a device, a dict from saved to new devices, or a function
        (storage as a uint8 tensor on the CPU, saved device) -> storage, or None for the saved
        device. By default tensors come back to the devices that they were saved on.
    pickle_module : module, optional
        For compatibility with PyTorch; None or the standard `pickle`.
    weights_only : bool, optional
        Whether only tensors, numbers, strings, containers, and the classes and functions of
        `add_safe_globals` are constructed. False runs any code in the file: for your own files.
    mmap : bool, optional
        Whether the file is mapped instead of read; tensors are then private memory, copied on
        write. Nothing compares their bytes with the checksums, and who shortens the file meanwhile
        ends the process at the next read (SIGBUS).
    check_crc : bool, optional
        Whether each record is compared with its CRC-32; False saves the time, or reads a damaged
        file. Files that PyTorch wrote after `set_crc32_options(False)` have none to look at.

    Returns
    -------
    object
        What was saved.

    Raises
    ------
    pickle.UnpicklingError
        With `weights_only`, the file holds something that is not trusted, or its pickle is damaged.
    RuntimeError
        The file is not an archive of tensors, a record is damaged, or it needs a device that does
        not exist.
    OSError
        The file cannot be read.

    See Also
    --------
    save

    Notes
    -----
    Whatever the file holds, with `weights_only` it runs no code, changes no object that it has not
    constructed, and needs memory of at most a multiple of its size (docs/design/serialization.md).

    Copies: one (file to shared memory; none with mmap); to a GPU one more.

    Examples
    --------
    >>> st.save([st.zeros(2), st.ones(2)], "tensors.pt")
    >>> x, y = st.load("tensors.pt", map_location="cpu")
    >>> y
    tensor([1., 1.])
    """
    if pickle_module not in (None, pickle):
        raise ValueError(f"load: pickle_module must be pickle or None: {pickle_module!r}")
    if (path := file_path(f)) is not None:
        with open(path, "rb") as file:
            archive = ArchiveReader(file, path, check_crc)
            return read_archive(archive, map_location, weights_only, mmap)
    if not hasattr(f, "read"):
        raise TypeError(f"load: f must be a path or a file: {f!r:.80}")
    if mmap:
        raise ValueError(f"load: mmap=True needs a path: got a file object {f!r}")
    archive = ArchiveReader(f, None, check_crc)  # type: ignore[arg-type]
    return read_archive(archive, map_location, weights_only, mmap)


def read_archive(
    archive: ArchiveReader, map_location: Any, weights_only: bool, mapped: bool
) -> Any:
    if archive.has("byteorder") and archive.read("byteorder") != b"little":
        raise RuntimeError(f"load: written on a big-endian machine: {archive.name}")
    data = archive.read("data.pkl")
    storages = Storages(archive, map_location, mapped)
    if not weights_only:
        return UnsafeUnpickler(io.BytesIO(data), storages).load()
    return RestrictedUnpickler(
        data,
        names=TORCH_NAMES,
        constructors=CONSTRUCTORS,
        trusted=with_inner_classes(trusted_names()),
        find_storage=storages.find,
        hint=", if you trust it, add_safe_globals([...]) it, or load with weights_only=False",
    ).load()


def with_inner_classes(trusted: dict[tuple[str, str], Any]) -> dict[tuple[str, str], Any]:
    """The names that the user trusts, and those of classes inside the trusted layers."""
    if MultiheadAttention in trusted.values():
        inner = NonDynamicallyQuantizableLinear  # of its out_proj
        trusted[inner.__module__, inner.__qualname__] = inner
    return trusted


class Storage(NamedTuple):
    """The bytes of one storage on its device, and the dtype of its elements in the file."""

    bytes: Any
    kind: StorageType
    checks: list[bool]  # that of all bytes as bools, if it was made


class UnsafeUnpickler(pickle.Unpickler):
    """Unpickles anything, with our constructors in place of PyTorch's."""

    def __init__(self, file: IO[bytes], storages: Storages) -> None:
        super().__init__(file)
        self.storages = storages

    def find_class(self, module: str, name: str) -> Any:
        obj = TORCH_NAMES.get((module, name))
        if obj is None:
            return super().find_class(module, name)
        return partial(obj, UNLIMITED) if id(obj) in FUNCTIONS else obj

    def persistent_load(self, pid: Any) -> Storage:
        return self.storages.find(UNLIMITED, pid)


class Storages:
    """The storages of an archive; each is read once."""

    def __init__(self, archive: ArchiveReader, map_location: Any, mapped: bool) -> None:
        self.archive = archive
        self.map_location = map_location
        self.mapped = mapped
        self.loaded: dict[str, tuple[Any, list[bool]]] = {}

    def find(self, limits: Limits, pid: Any) -> Storage:
        if not (type(pid) is tuple and len(pid) == 5 and pid[0] == "storage"):
            raise refused("not a reference to a storage", pid)
        _, kind, key, location, _ = pid
        if not isinstance(kind, StorageType):
            raise refused("not a storage type", kind)
        if type(key) is not str or type(location) is not str:
            raise refused("not the key and device of a storage", key)
        if key not in self.loaded:
            data = self.archive.read_array(f"data/{key}", self.mapped)
            self.loaded[key] = map_storage(data, location, self.map_location), []
            limits.copies += STORAGE_COPIES * len(data)
        data, checks = self.loaded[key]
        return Storage(data, kind, checks)


def map_storage(data: Array, location: str, map_location: Any) -> Any:
    """The bytes of a storage that was saved on the device `location`, on the device that
    `map_location` gives.
    """
    device: Any = map_location
    if isinstance(map_location, Mapping):
        device = map_location.get(location, location)
    elif callable(map_location):
        storage = map_location(wrap(data), location)
        if storage is not None:
            return bytes_of(storage)
        device = None
    return move_array(data, existing_device(location if device is None else device))


def bytes_of(storage: Any) -> Any:
    """The bytes of what a `map_location` function returned: a tensor or a storage."""
    array = storage.bytes if isinstance(storage, UntypedStorage) else storage.array
    return memory_of(array)


def existing_device(location: Any) -> Device:
    """The device of a location, or of a `map_location`.

    Raises:
        RuntimeError: there is no such device.
    """
    try:
        device = Device(location)
    except (RuntimeError, AttributeError):
        raise RuntimeError(
            f"load: no such device: {printable(location)}, load with map_location='cpu'"
        ) from None
    if device.type != "cuda":
        return as_device(device)
    count = cupy_runtime.device_count()
    if not count:
        raise DeviceMissing(
            "load: Attempting to deserialize object on a CUDA device but cuda.is_available() is "
            f"False: no such device: {device}: {cupy_runtime.why_missing()}. On a machine without "
            "a GPU, load with map_location='cpu'"
        )
    if device.index is not None and device.index >= count:
        raise DeviceMissing(
            f"load: Attempting to deserialize object on CUDA device {device.index} but "
            f"cuda.device_count() is {count}: load with map_location to map the storages to a "
            "device that is there, e.g. map_location={"
            f"{str(device)!r}: 'cuda:0'}}"
        )
    return as_device(device)


def rebuild_tensor(
    limits: Limits,
    storage: Any,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any = False,
    hooks: Any = None,
    dtype: Any = None,
    metadata: Any = None,
) -> Tensor:
    """A tensor over part of a storage, after all numbers are checked."""
    if type(storage) is not Storage:
        raise refused("not a storage", storage)
    data, kind, _ = storage
    limits.copy(TENSOR_NBYTES)
    dtype = dtype.dtype if type(dtype) is native.dtype else kind.dtype
    for sizes in (size, stride, (offset,)):
        if not isinstance(sizes, tuple) or not are_sizes(sizes):
            raise refused("not the sizes, strides or offset of a tensor", sizes)
    if len(size) != len(stride) or len(size) > MAX_DIMS or math.prod(size) >= MAX_SIZE:
        raise pickle.UnpicklingError(
            f"load: not the layout of a tensor: {len(size)} sizes, {len(stride)} strides"
        )
    if 0 in size:
        array: Any = new_array("empty", size, dtype, device_of(data))
    else:
        elements = 1 + offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
        if elements * dtype.itemsize > len(data):
            raise pickle.UnpicklingError(
                f"load: a tensor reaches beyond its storage: {elements} elements of {dtype}, "
                f"storage of {len(data)} bytes"
            )
        strides = tuple([step * dtype.itemsize for step in stride])
        array = array_over(data, offset * dtype.itemsize, size, dtype, strides)
        if dtype.kind == "b":
            check_bools(limits, storage, slice(offset, elements), size, stride)
    tensor: Tensor = wrap(array)
    return tensor.requires_grad_() if requires_grad is True else tensor


def largest_byte(data: Any) -> int:
    """The largest of an array's bytes. Waits for its device, if it is on one."""
    if isinstance(data, np.ndarray):
        return int(data.max())
    if data.device is META:
        return 0
    with data.device:
        return int(data.max())


def check_bools(
    limits: Limits, storage: Storage, span: slice, size: tuple[int, ...], stride: tuple[int, ...]
) -> None:
    """Checks that each byte of a bool tensor is 0 or 1: kernels rely on it."""
    if not storage.checks:  # once for all tensors of the storage
        storage.checks.append(largest_byte(storage.bytes) <= 1)
    if storage.checks[0]:
        return
    data = storage.bytes[span]
    limits.copy(len(data))
    if math.prod(size) <= len(data):  # a tensor with gaps: other bytes may be of other tensors
        data = array_over(data, 0, size, np.dtype(np.uint8), stride)
    if (largest := largest_byte(data)) > 1:
        raise refused("a byte of a bool tensor is not 0 or 1", largest)


def are_sizes(sizes: tuple[Any, ...]) -> bool:
    return all(type(n) is int and 0 <= n < MAX_SIZE for n in sizes)


def rebuild_meta_tensor(
    limits: Limits, dtype: Any, size: Any, stride: Any, requires_grad: Any = False
) -> Tensor:
    """A tensor without data, after all numbers are checked."""
    if type(dtype) is not native.dtype:
        raise refused("not the dtype of a tensor", dtype)
    limits.copy(TENSOR_NBYTES)
    dtype = dtype.dtype
    for sizes in (size, stride):
        if type(sizes) is not tuple or not are_sizes(sizes):
            raise refused("not the sizes or strides of a tensor", sizes)
    if len(size) != len(stride) or len(size) > MAX_DIMS or math.prod(size) >= MAX_SIZE:
        raise refused("not the layout of a tensor", (size, stride))
    array = new_array("empty", size, dtype, as_device(META))
    array._set_shape_and_strides(size, tuple([n * dtype.itemsize for n in stride]))
    tensor: Tensor = wrap(array)
    return tensor.requires_grad_() if requires_grad is True else tensor


def rebuild_parameter(
    limits: Limits, data: Any, requires_grad: Any = True, hooks: Any = None
) -> Parameter:
    if not isinstance(data, Tensor):
        raise refused("not the tensor of a parameter", data)
    limits.copy(TENSOR_NBYTES)
    return Parameter(data, requires_grad is True)


def rebuild_uninitialized(
    cls: Any,
    limits: Limits,
    requires_grad: Any = True,
    device: Any = None,
    dtype: Any = None,
    persistent: Any = True,
) -> Any:
    """A parameter or buffer of a lazy layer, which has no shape yet."""
    if not isinstance(device, (Device, type(None))):
        raise refused("not the device of a parameter", device)
    limits.copy(TENSOR_NBYTES)
    arguments = (requires_grad is True, device, None if dtype is None else as_dtype(dtype))
    return cls(*arguments) if cls is UninitializedParameter else cls(*arguments, persistent is True)


def rebuild_device(limits: Limits, kind: Any, index: Any = None) -> Device:
    if type(kind) is not str or type(index) not in (int, type(None)):
        raise refused("not a device", (kind, index))
    return Device(kind, index)


def rebuild_size(limits: Limits, sizes: Any = ()) -> Size:
    is_short = type(sizes) is tuple and len(sizes) <= MAX_DIMS
    if not is_short or not all(type(n) is int and -MAX_SIZE < n < MAX_SIZE for n in sizes):
        raise refused("not the sizes of a tensor", sizes)
    return Size(sizes)


def rebuild_layout(limits: Limits, name: Any) -> layout:
    for kind in (sparse_coo, sparse_csr, sparse_csc):
        if name == f"torch.{kind.name}":
            return kind
    raise refused("not the layout of a tensor: torch.sparse_coo, sparse_csr or sparse_csc", name)


def rebuild_sparse(limits: Limits, kind: Any, parts: Any) -> SparseTensor:
    """A sparse tensor of (indices, values, size, is coalesced), after all indices are checked."""
    if kind is sparse_csr or kind is sparse_csc:
        return rebuild_compressed(limits, kind, parts)
    if kind is not sparse_coo or type(parts) is not tuple or len(parts) not in (3, 4):
        raise refused("not the parts of a sparse tensor", parts)
    indices, values, size, *flag = parts
    if not isinstance(indices, Tensor) or not isinstance(values, Tensor):
        raise refused("not the indices and values of a sparse tensor", parts)
    if indices.dtype != np.int64:
        raise refused("not the dtype of indices", indices.dtype)
    if not isinstance(size, tuple) or len(size) > MAX_DIMS or not are_sizes(size):
        raise refused("not the sizes of a tensor", size)
    # the check reads all indices; of expanded ones, some many times
    limits.copy(SPARSE_NBYTES + indices.nbytes + values.nbytes)
    try:
        return sparse_coo_tensor(
            indices, values, size, check_invariants=True, is_coalesced=flag == [True]
        )
    except RuntimeError as error:
        raise pickle.UnpicklingError(f"load: {error}") from None


def rebuild_compressed(limits: Limits, kind: layout, parts: Any) -> SparseTensor:
    """A CSR or CSC matrix of (compressed indices, plain indices, values, size), after all indices
    are checked.
    """
    if type(parts) is not tuple or len(parts) != 4:
        raise refused("not the parts of a compressed sparse tensor", parts)
    compressed, plain, values, size = parts
    if not all(isinstance(x, Tensor) for x in (compressed, plain, values)):
        raise refused("not the indices and values of a sparse tensor", parts)
    if compressed.dtype != plain.dtype or plain.dtype not in (np.int32, np.int64):
        raise refused("not the dtypes of indices", (compressed.dtype, plain.dtype))
    if not isinstance(size, tuple) or len(size) > MAX_DIMS or not are_sizes(size):
        raise refused("not the sizes of a tensor", size)
    # the check reads all indices; of expanded ones, some many times
    limits.copy(SPARSE_NBYTES + 4 * (compressed.nbytes + plain.nbytes) + values.nbytes)
    try:
        return sparse_compressed_tensor(
            compressed, plain, values, size, layout=kind, check_invariants=True
        )
    except RuntimeError as error:
        raise pickle.UnpicklingError(f"load: {error}") from None


TORCH_NAMES: dict[tuple[str, str], Any] = {
    ("torch._utils", "_rebuild_tensor_v2"): rebuild_tensor,
    ("torch._utils", "_rebuild_tensor_v3"): rebuild_tensor,
    ("torch._utils", "_rebuild_parameter"): rebuild_parameter,
    ("torch._utils", "_rebuild_sparse_tensor"): rebuild_sparse,
    ("torch._utils", "_rebuild_meta_tensor_no_storage"): rebuild_meta_tensor,
    ("torch.serialization", "_get_layout"): rebuild_layout,
    ("torch", "Size"): Size,
    **{("torch", name): kind for name, kind in STORAGE_NAMES.items()},
    ("torch.storage", "UntypedStorage"): STORAGE_NAMES["UntypedStorage"],
    **{
        (package, name): native.dtype(dtype)
        for package in ("torch", "shmtensor")
        for name, dtype in DTYPE_NAMES.items()
    },
    # What saved modules may hold beside tensors.
    **{
        (kind.__module__, kind.__qualname__): kind
        for kind in (Device, Size, UninitializedParameter, UninitializedBuffer)
    },
    **{
        (memory_format.__module__, constant.name): constant
        for constant in vars(torch_constants).values()
        if isinstance(constant, memory_format)
    },
}
FUNCTIONS: dict[int, Any] = {
    id(function): function
    for function in (
        rebuild_tensor, rebuild_parameter, rebuild_sparse, rebuild_meta_tensor, rebuild_layout,
    )
}  # fmt: skip
CONSTRUCTORS: dict[int, Any] = {
    **FUNCTIONS,
    id(Size): rebuild_size,
    id(Device): rebuild_device,
    id(UninitializedParameter): partial(rebuild_uninitialized, UninitializedParameter),
    id(UninitializedBuffer): partial(rebuild_uninitialized, UninitializedBuffer),
}
UNLIMITED = Limits(1 << 62)  # of files that may run any code
