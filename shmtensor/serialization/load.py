"""`load`: reads files of `save` or PyTorch, arrays directly into shared memory."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from collections.abc import Mapping
from typing import IO, Any, ClassVar, NamedTuple

import numpy as np

from ..autograd import wrap
from ..nn import Parameter
from ..tensor import Size, Tensor
from .pickle_names import DTYPE_NAMES, STORAGE_NAMES, StorageType
from .safe_globals import find_trusted, is_build_allowed
from .zip_archive import ArchiveReader, file_path

__all__ = ["load"]

Array = np.ndarray[Any, Any]


def load(
    f: str | os.PathLike[str] | IO[bytes],
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool = True,
    mmap: bool = False,
) -> Any:
    """Reads a file that `save` or `torch.save` has written.

    Args:
        f: a path, or a seekable binary file object.
        map_location: the device of the tensors: a device, a dict from saved to new devices, or a
            function (storage as a uint8 tensor, saved device) -> storage or None for the saved
            device.
        pickle_module: for compatibility with PyTorch; must be None or the standard `pickle`.
        weights_only: construct only tensors, numbers, strings, containers, and the classes and
            functions of `add_safe_globals`. False runs any code in the file: for your own files.
        mmap: map the file instead of reading it; tensors are then private memory, copied on write.

    Returns:
        The object.

    Raises:
        pickle.UnpicklingError: with `weights_only`, the file holds something that is not trusted.
        RuntimeError: the file is not an archive of tensors, or needs a device that does not exist.

    Copies: one (file to shared memory; none with mmap).
    """
    if pickle_module not in (None, pickle):
        raise ValueError(f"load: pickle_module must be pickle or None: {pickle_module!r}")
    if (path := file_path(f)) is not None:
        with open(path, "rb") as file:
            return read_archive(file, path, map_location, weights_only, mmap)
    return read_archive(f, None, map_location, weights_only, mmap)  # type: ignore[arg-type]


def read_archive(
    file: IO[bytes], path: str | None, map_location: Any, weights_only: bool, mapped: bool
) -> Any:
    try:
        archive = ArchiveReader(file, path)
    except zipfile.BadZipFile as error:
        raise RuntimeError(
            f"load: not a zip archive of tensors: {path or file!r}, files from before "
            "PyTorch 1.6, or plain pickles, cannot be read"
        ) from error
    if archive.has("byteorder") and archive.read("byteorder") != b"little":
        raise RuntimeError(f"load: written on a big-endian machine: {path or file!r}")
    stream = io.BytesIO(archive.read("data.pkl"))
    storages = Storages(archive, map_location, mapped)
    return (SafeUnpickler if weights_only else UnsafeUnpickler)(stream, storages).load()


class Storage(NamedTuple):
    """The bytes of one storage, and the dtype of its elements in the file."""

    bytes: Array
    kind: StorageType


class UnsafeUnpickler(pickle.Unpickler):
    """Unpickles anything, with our constructors in place of PyTorch's."""

    def __init__(self, file: IO[bytes], storages: Storages) -> None:
        super().__init__(file)
        self.storages = storages

    def find_class(self, module: str, name: str) -> Any:
        obj = CONSTRUCTORS.get((module, name))
        return super().find_class(module, name) if obj is None else obj

    def persistent_load(self, pid: Any) -> Storage:
        return self.storages.find(pid)


LOAD_BUILD: Any = pickle._Unpickler.dispatch[pickle.BUILD[0]]


class SafeUnpickler(pickle._Unpickler):
    """Unpickles tensors, numbers, strings and containers, and what the user trusts.

    Note [Building]. A list of trusted names is not enough: the opcode BUILD sets attributes of any
    object on the stack, for example a function's defaults. The C unpickler cannot refuse it, so
    this class extends the Python one; state dicts are small compared with their arrays.
    """

    dispatch: ClassVar[dict[int, Any]] = dict(pickle._Unpickler.dispatch)

    def __init__(self, file: IO[bytes], storages: Storages) -> None:
        super().__init__(file)
        self.storages = storages

    def find_class(self, module: str, name: str) -> Any:
        obj = CONSTRUCTORS.get((module, name), find_trusted(module, name))
        if obj is None:
            raise pickle.UnpicklingError(
                f"load: the file constructs something that is not trusted: {module}.{name}, if you "
                "trust it, add_safe_globals([...]) it, or load with weights_only=False"
            )
        return obj

    def persistent_load(self, pid: Any) -> Storage:
        return self.storages.find(pid)

    def build(self) -> None:
        target = self.stack[-2]  # type: ignore[attr-defined]
        if not is_build_allowed(type(target)):
            raise pickle.UnpicklingError(
                f"load: the file sets attributes of something that is not trusted: {target!r}"
            )
        LOAD_BUILD(self)

    dispatch[pickle.BUILD[0]] = build


class Storages:
    """The storages of an archive; each is read once."""

    def __init__(self, archive: ArchiveReader, map_location: Any, mapped: bool) -> None:
        self.archive = archive
        self.map_location = map_location
        self.mapped = mapped
        self.loaded: dict[str, Array] = {}

    def find(self, pid: Any) -> Storage:
        if not (isinstance(pid, tuple) and len(pid) == 5 and pid[0] == "storage"):
            raise pickle.UnpicklingError(f"load: not a reference to a storage: {pid!r}")
        _, kind, key, location, _ = pid
        if not isinstance(kind, StorageType):
            raise pickle.UnpicklingError(f"load: not a storage type: {kind!r}")
        data = self.loaded.get(key)
        if data is None:
            data = self.archive.read_array(f"data/{key}", self.mapped)
            self.loaded[key] = data = map_storage(data, location, self.map_location)
        return Storage(data, kind)


def map_storage(data: Array, location: str, map_location: Any) -> Array:
    """Applies `map_location` to a storage that was saved on the device `location`."""
    device: Any = map_location
    if isinstance(map_location, Mapping):
        device = map_location.get(location, location)
    elif callable(map_location):
        storage = map_location(wrap(data), location)
        if storage is not None:
            return np.asarray(storage.array)
        device = None
    device = str(location if device is None else device)
    if device.partition(":")[0] != "cpu":
        raise RuntimeError(f"load: no such device: {device}, load with map_location='cpu'")
    return data


def rebuild_tensor(
    storage: Storage,
    offset: int,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    requires_grad: bool = False,
    hooks: Any = None,
    dtype: np.dtype[Any] | None = None,
    metadata: Any = None,
) -> Tensor:
    """A tensor over part of a storage."""
    data, kind = storage.bytes, storage.kind
    if dtype is None or not isinstance(dtype, np.dtype):
        dtype = kind.dtype
    strides = [s * dtype.itemsize for s in stride]
    if 0 in size:
        array: Array = np.ndarray(size, dtype)
    else:
        array = np.ndarray(size, dtype, data, offset * dtype.itemsize, strides)
    tensor: Tensor = wrap(array)
    return tensor.requires_grad_() if requires_grad else tensor


def rebuild_parameter(data: Tensor, requires_grad: bool, hooks: Any) -> Parameter:
    return Parameter(data, requires_grad)


CONSTRUCTORS: dict[tuple[str, str], Any] = {
    ("torch._utils", "_rebuild_tensor_v2"): rebuild_tensor,
    ("torch._utils", "_rebuild_tensor_v3"): rebuild_tensor,
    ("torch._utils", "_rebuild_parameter"): rebuild_parameter,
    ("torch", "Size"): Size,
    **{("torch", name): kind for name, kind in STORAGE_NAMES.items()},
    ("torch.storage", "UntypedStorage"): STORAGE_NAMES["UntypedStorage"],
    **{("torch", name): dtype for name, dtype in DTYPE_NAMES.items()},
}
