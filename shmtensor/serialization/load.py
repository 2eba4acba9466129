"""`load`: what `save`, or PyTorch, has written; arrays are read straight into shared memory."""

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
from .safe_globals import find_trusted, may_be_built
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
    """Reads what `save` or `torch.save` has written.

    Args:
        f: a path, or a binary file object that can seek.
        map_location: where tensors go: a device, a dict from saved to wanted devices, or a function
            (storage as a uint8 tensor, saved device) -> storage or None for the saved device.
        pickle_module: accepted for PyTorch's sake; only None and the standard `pickle` are
            possible.
        weights_only: construct tensors, numbers, strings and containers only, plus what
            `add_safe_globals` names. False runs whatever code the file says: for your own files.
        mmap: map the file instead of reading it; tensors are then private memory, copied on write.

    Returns:
        The object.

    Raises:
        pickle.UnpicklingError: with `weights_only`, the file holds something that is not trusted.
        RuntimeError: the file is no archive of tensors, or is on a device that is not there.

    Copies: one (file to shared memory; none with mmap).
    """
    if pickle_module not in (None, pickle):
        raise ValueError(f"load: no other pickle module can be used: {pickle_module!r}")
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
    return (CarefulReader if weights_only else TrustingReader)(stream, storages).load()


class Storage(NamedTuple):
    """The bytes of one storage, and the dtype in which the file counts them."""

    bytes: Array
    kind: StorageType


class TrustingReader(pickle.Unpickler):
    """Unpickles whatever the file says, with our constructors for PyTorch's."""

    def __init__(self, file: IO[bytes], storages: Storages) -> None:
        super().__init__(file)
        self.storages = storages

    def find_class(self, module: str, name: str) -> Any:
        known = OURS.get((module, name))
        return super().find_class(module, name) if known is None else known

    def persistent_load(self, pid: Any) -> Storage:
        return self.storages.find(pid)


LOAD_BUILD: Any = pickle._Unpickler.dispatch[pickle.BUILD[0]]


class CarefulReader(pickle._Unpickler):
    """Unpickles tensors, numbers, strings and containers, and what the user trusts.

    Note [Building]. A list of trusted names is not enough: the opcode BUILD sets attributes of any
    object on the stack, a function's defaults among them. The C unpickler has no way to refuse it,
    so this one is the Python one; state dicts are small beside their arrays.
    """

    dispatch: ClassVar[dict[int, Any]] = dict(pickle._Unpickler.dispatch)

    def __init__(self, file: IO[bytes], storages: Storages) -> None:
        super().__init__(file)
        self.storages = storages

    def find_class(self, module: str, name: str) -> Any:
        known = OURS.get((module, name), find_trusted(module, name))
        if known is None:
            raise pickle.UnpicklingError(
                f"load: the file constructs something that is not trusted: {module}.{name}, if you "
                "trust it, add_safe_globals([...]) it, or load with weights_only=False"
            )
        return known

    def persistent_load(self, pid: Any) -> Storage:
        return self.storages.find(pid)

    def build(self) -> None:
        target = self.stack[-2]  # type: ignore[attr-defined]
        if not may_be_built(type(target)):
            raise pickle.UnpicklingError(
                f"load: the file sets attributes of something that is not trusted: {target!r}"
            )
        LOAD_BUILD(self)

    dispatch[pickle.BUILD[0]] = build


class Storages:
    """The storages of an archive, each read once."""

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
            self.loaded[key] = data = place(data, location, self.map_location)
        return Storage(data, kind)


def place(data: Array, location: str, map_location: Any) -> Array:
    """The storage on the device that the caller wants."""
    wanted: Any = map_location
    if isinstance(map_location, Mapping):
        wanted = map_location.get(location, location)
    elif callable(map_location):
        moved = map_location(wrap(data), location)
        if moved is not None:
            return np.asarray(moved.array)
        wanted = None
    wanted = str(location if wanted is None else wanted)
    if wanted.partition(":")[0] != "cpu":
        raise RuntimeError(f"load: the device is not here: {wanted}, load with map_location='cpu'")
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


OURS: dict[tuple[str, str], Any] = {
    ("torch._utils", "_rebuild_tensor_v2"): rebuild_tensor,
    ("torch._utils", "_rebuild_tensor_v3"): rebuild_tensor,
    ("torch._utils", "_rebuild_parameter"): rebuild_parameter,
    ("torch", "Size"): Size,
    **{("torch", name): kind for name, kind in STORAGE_NAMES.items()},
    ("torch.storage", "UntypedStorage"): STORAGE_NAMES["UntypedStorage"],
    **{("torch", name): dtype for name, dtype in DTYPE_NAMES.items()},
}
