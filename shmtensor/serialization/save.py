"""`save`: objects with tensors into a zip file that PyTorch can read, too.

Two passes of pickle. The first finds the tensors; those whose bytes overlap form one storage, so
that what was the same memory is the same memory after loading, and a small slice of a large tensor
costs a slice. The second writes the object, with PyTorch's names for the constructors (those names
cannot be imported here, and the C pickler insists on importing: hence the Python one; state dicts
are small beside their arrays).
"""

from __future__ import annotations

import io
import os
import pickle
from collections import OrderedDict
from typing import IO, Any, ClassVar

import numpy as np

from ..nn import Parameter
from ..nn.modules.state_dict import StateDict
from ..nn.parameter import is_lazy
from ..tensor import Tensor
from .atomic_write import replacing
from .pickle_names import DTYPE_NAMES, STORAGE_NAMES
from .zip_archive import ArchiveWriter, file_path

__all__ = ["save"]

Array = np.ndarray[Any, Any]
PROTOCOL = 2  # PyTorch's restricted unpickler reads no later one

TYPED = {t.dtype: name for name, t in STORAGE_NAMES.items() if name != "UntypedStorage"}
DTYPES = {dtype: name for name, dtype in DTYPE_NAMES.items()}


def save(obj: object, f: str | os.PathLike[str] | IO[bytes]) -> None:
    """Writes an object with tensors to a file; `load`, or `torch.load`, reads it.

    Tensors that share memory do so after loading. A path is replaced atomically: a process that is
    killed while it saves leaves the old file whole.

    Args:
        obj: anything that can be pickled; `load` takes tensors, numbers, strings and containers
            of them without being told to trust the file.
        f: a path or a binary file object.

    Copies: one (memory to file).
    """
    if (path := file_path(f)) is not None:
        with replacing(path) as file:
            write_archive(obj, file)
    else:
        write_archive(obj, f)  # type: ignore[arg-type]


def write_archive(obj: object, file: IO[bytes]) -> None:
    finder = Finder()
    finder.dump(obj)
    storages = Storages(finder.tensors)
    stream = io.BytesIO()
    Writer(stream, storages).dump(obj)
    with ArchiveWriter(file) as archive:
        archive.write("data.pkl", stream.getbuffer())
        archive.write("byteorder", b"little")
        for key, storage in enumerate(storages.spans):
            archive.write(f"data/{key}", storage.bytes())
        archive.write("version", b"3\n")


class Nowhere:
    """A file that keeps nothing."""

    def write(self, data: object) -> int:
        return 0


class Finder(pickle.Pickler):
    """The first pass: which tensors are in the object."""

    def __init__(self) -> None:
        super().__init__(Nowhere(), PROTOCOL)
        self.tensors: dict[int, Tensor] = {}

    def persistent_id(self, obj: object) -> int | None:
        if isinstance(obj, Tensor):
            self.tensors[id(obj)] = obj
            return 0
        return None


class Span:
    """A range of addresses that becomes one storage; `typed` if all its tensors have one dtype."""

    __slots__ = ("alive", "dtype", "high", "key", "low", "typed")

    def __init__(self, key: int, array: Array) -> None:
        self.key = key
        self.low, self.high = np.lib.array_utils.byte_bounds(array)
        self.dtype = array.dtype
        self.typed = array.dtype in TYPED
        self.alive = [array]

    def add(self, array: Array) -> None:
        self.high = max(self.high, np.lib.array_utils.byte_bounds(array)[1])
        self.typed = self.typed and array.dtype == self.dtype
        self.alive.append(array)

    def bytes(self) -> memoryview:
        return np.asarray(self).data if self.high > self.low else memoryview(b"")

    @property
    def __array_interface__(self) -> dict[str, Any]:
        shape = (self.high - self.low,)
        return {"data": (self.low, True), "shape": shape, "typestr": "|u1", "version": 3}


class Storages:
    """The storages of all tensors: connected ranges of addresses, in order of appearance."""

    def __init__(self, tensors: dict[int, Tensor]) -> None:
        self.arrays = {key: savable(tensor.array) for key, tensor in tensors.items()}
        self.of_tensor: dict[int, Span] = {}
        self.spans: list[Span] = []
        self.made: list[Tensor] = []  # keeps them alive, so that no id is used twice
        ranges = {key: np.lib.array_utils.byte_bounds(a) for key, a in self.arrays.items()}
        last: Span | None = None
        for key in sorted(self.arrays, key=lambda key: ranges[key]):
            array = self.arrays[key]
            if last is not None and array.size and ranges[key][0] < last.high:
                last.add(array)
            else:
                last = Span(len(self.spans), array)
                self.spans.append(last)
            self.of_tensor[key] = last
        for span in self.spans:
            self.compact(span)

    def locate(self, tensor: Tensor) -> tuple[Array, Span]:
        """The tensor's array and storage; one made while pickling gets a storage of its own."""
        key = id(tensor)
        if key not in self.of_tensor:
            self.arrays[key] = array = savable(tensor.array)
            self.of_tensor[key] = span = Span(len(self.spans), array)
            self.spans.append(span)
            self.made.append(tensor)
        return self.arrays[key], self.of_tensor[key]

    def compact(self, span: Span) -> None:
        """A tensor alone in its storage takes no gaps along."""
        (first, *others) = span.alive
        if not others and span.high - span.low > first.nbytes:
            key = next(key for key, found in self.of_tensor.items() if found is span)
            array = np.ascontiguousarray(first)
            self.arrays[key] = array
            span.alive = [array]
            span.low, span.high = np.lib.array_utils.byte_bounds(array)


def savable(array: Array) -> Array:
    """`array`, or a copy where the format has no way to say its strides."""
    itemsize = array.itemsize
    address = array.__array_interface__["data"][0]
    if any(s < 0 or s % itemsize for s in array.strides) or address % itemsize:
        return np.ascontiguousarray(array)
    return array


class Global:
    """A name of PyTorch's, written as it is, without importing it."""

    __slots__ = ("module", "name")

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name

    def __call__(self) -> None:
        """Pickle wants its constructors callable; this one is called by whoever loads."""


class Key:
    """Stands for a storage in the pickle; becomes its persistent id."""

    __slots__ = ("pid",)

    def __init__(self, pid: tuple[Any, ...]) -> None:
        self.pid = pid


GLOBALS = {
    name: Global("torch._utils", name)
    for name in ("_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_parameter")
}
UNTYPED = Global("torch.storage", "UntypedStorage")
TORCH = {name: Global("torch", name) for name in (*STORAGE_NAMES, *DTYPE_NAMES)}


class Writer(pickle._Pickler):
    """The second pass: the object, with tensors as (storage, offset, size, stride)."""

    dispatch: ClassVar[dict[type, Any]] = dict(pickle._Pickler.dispatch)

    def __init__(self, file: IO[bytes], storages: Storages) -> None:
        super().__init__(file, PROTOCOL)
        self.storages = storages

    def persistent_id(self, obj: object) -> tuple[Any, ...] | None:
        return obj.pid if type(obj) is Key else None

    def reducer_override(self, obj: object) -> Any:
        if type(obj) is np.ndarray and not obj.dtype.isnative:
            return obj.astype(obj.dtype.newbyteorder("=")).__reduce_ex__(PROTOCOL)
        if type(obj) is StateDict:  # PyTorch's are plain, with the same attribute beside the items
            plain = OrderedDict(obj)
            plain.__dict__.update(obj.__dict__)
            return plain.__reduce_ex__(PROTOCOL)
        if not isinstance(obj, Tensor) or is_lazy(obj):
            return NotImplemented
        if isinstance(obj, Parameter):
            # The tensor under the parameter has no name of its own in the object: it is saved in
            # line.
            data = Plain(obj)
            return GLOBALS["_rebuild_parameter"], (data, obj.requires_grad, OrderedDict())
        return self.describe(obj, obj.requires_grad)

    def describe(self, tensor: Tensor, requires_grad: bool) -> tuple[Global, tuple[Any, ...]]:
        array, span = self.storages.locate(tensor)
        itemsize = array.itemsize
        nbytes = span.high - span.low
        low = np.lib.array_utils.byte_bounds(array)[0]
        place: tuple[Any, ...] = (
            (low - span.low) // itemsize if array.size else 0,
            tuple(array.shape),
            tuple(s // itemsize for s in array.strides),
            requires_grad,
            OrderedDict(),
        )
        if span.typed:
            kind = TORCH[TYPED[array.dtype]]
            key = Key(("storage", kind, str(span.key), "cpu", nbytes // itemsize))
            return GLOBALS["_rebuild_tensor_v2"], (key, *place)
        key = Key(("storage", UNTYPED, str(span.key), "cpu", nbytes))
        return GLOBALS["_rebuild_tensor_v3"], (key, *place, TORCH[DTYPES[array.dtype]])

    def save_global_name(self, obj: Global) -> None:
        self.write(pickle.GLOBAL + f"{obj.module}\n{obj.name}\n".encode())  # type: ignore[attr-defined]
        self.memoize(obj)  # type: ignore[attr-defined]

    dispatch[Global] = save_global_name

    def save_plain(self, obj: Plain) -> None:
        self.save_reduce(*self.describe(obj.tensor, False), obj=obj)  # type: ignore[attr-defined]


class Plain:
    """The tensor that a parameter is, apart from being one."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


Writer.dispatch[Plain] = Writer.save_plain
