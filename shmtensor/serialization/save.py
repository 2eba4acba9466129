"""`save`: writes objects with tensors into a zip file that PyTorch can read, too.

It pickles twice. The first pass collects the tensors. Those whose bytes overlap form one storage:
tensors that share memory share it after loading, and of a large tensor only the used part is saved.
The second pass writes the object, with PyTorch's names for the constructors. The C pickler refuses
names that cannot be imported here, so this pass uses the Python one; it is slower, but state dicts
are small compared with their arrays.
"""

from __future__ import annotations

import io
import os
import pickle
from collections import OrderedDict
from typing import IO, Any, ClassVar

import numpy as np

from .. import native
from ..cuda_arrays import move_array, pointer
from ..device import CPU
from ..nn import Parameter
from ..nn.modules.state_dict import StateDict
from ..nn.parameter import is_lazy
from ..sparse import SparseCompressedTensor, SparseTensor
from ..storage import array_over, device_bytes, identity, owner_of
from ..tensor import Tensor
from ..tensor.torch_constants import sparse_coo, sparse_csc, sparse_csr
from .atomic_write import replacing
from .pickle_names import DTYPE_NAMES, STORAGE_NAMES
from .zip_archive import ArchiveWriter, file_path

Array = np.ndarray[Any, Any]
PROTOCOL = 2  # the latest that PyTorch's restricted unpickler reads

STORAGE_OF_DTYPE = {t.dtype: name for name, t in STORAGE_NAMES.items() if name != "UntypedStorage"}
NAME_OF_DTYPE = {dtype: name for name, dtype in DTYPE_NAMES.items()}


def save(obj: object, f: str | os.PathLike[str] | IO[bytes]) -> None:
    """Writes an object with tensors to a file, which `load`, or `torch.load`, reads.

    Parameters
    ----------
    obj : object
        Any object that can be pickled; by default `load` accepts tensors, numbers, strings and
        containers of these.
    f : path or binary file
        A path or a file object. Symbolic links are followed, except another user's in a folder like
        /tmp.

    Raises
    ------
    PermissionError
        The path goes over such a link.
    OSError
        The file cannot be written, for example on a full disk.
    ValueError
        Tensors share memory in a way that the format cannot say.

    See Also
    --------
    load

    Notes
    -----
    Tensors that share memory do so after loading. A path is replaced atomically: if the process is
    killed while it saves, the old file stays complete. The file says of each storage the device
    that it was on, as PyTorch's: "cpu", "cuda:0".

    Copies: one (memory to file); of tensors on GPUs one more, to the host.

    Examples
    --------
    >>> st.save({"weight": st.ones(2), "step": 3}, "checkpoint.pt")
    >>> st.load("checkpoint.pt")
    {'weight': tensor([1., 1.]), 'step': 3}
    """
    if (path := file_path(f)) is not None:
        with replacing(path) as file:
            write_archive(obj, file)
    elif hasattr(f, "write"):
        write_archive(obj, f)  # type: ignore[arg-type]
    else:
        raise TypeError(f"save: f must be a path or a file: {type(f).__name__}, hint: save(obj, f)")


def write_archive(obj: object, file: IO[bytes]) -> None:
    finder = Finder()
    finder.dump(obj)
    storages = Storages({key: x for key, x in finder.tensors.items() if not x.is_meta})
    stream = io.BytesIO()
    Writer(stream, storages).dump(obj)
    with ArchiveWriter(file) as archive:
        archive.write("data.pkl", stream.getvalue())
        archive.write("byteorder", b"little")
        for key, storage in enumerate(storages.spans):
            archive.write(f"data/{key}", storage.bytes())
        archive.write("version", b"3\n")


class NullFile:
    """A file that discards all data."""

    def write(self, data: object) -> int:
        return 0


class Finder(pickle.Pickler):
    """The first pass: collects the tensors of the object."""

    def __init__(self) -> None:
        super().__init__(NullFile(), PROTOCOL)
        self.tensors: dict[int, Tensor] = {}

    def persistent_id(self, obj: object) -> int | None:
        if isinstance(obj, Tensor):
            self.tensors[id(obj)] = obj
            return 0
        return None


class Span:
    """A range of addresses that becomes one storage; `is_typed` if all arrays have one dtype, and
    PyTorch has a storage class for it. `location` is the device of the tensors.
    """

    __slots__ = ("arrays", "dtype", "high", "is_typed", "key", "location", "low")

    def __init__(self, key: int, array: Array, location: str) -> None:
        self.key, self.location = key, location
        self.low, self.high = np.lib.array_utils.byte_bounds(array)
        self.dtype = array.dtype
        self.is_typed = array.dtype in STORAGE_OF_DTYPE
        self.arrays = [array]

    def add(self, array: Array) -> None:
        self.high = max(self.high, np.lib.array_utils.byte_bounds(array)[1])
        self.is_typed = self.is_typed and array.dtype == self.dtype
        self.arrays.append(array)

    def bytes(self) -> memoryview:
        return np.asarray(self).data if self.high > self.low else memoryview(b"")

    @property
    def __array_interface__(self) -> dict[str, Any]:
        shape = (self.high - self.low,)
        return {"data": (self.low, True), "shape": shape, "typestr": "|u1", "version": 3}


class Storages:
    """The storages of all tensors: connected ranges of addresses, in order of appearance."""

    def __init__(self, tensors: dict[int, Tensor]) -> None:
        self.arrays = arrays_on_host(tensors)
        self.of_tensor: dict[int, Span] = {}
        self.spans: list[Span] = []
        self.late_tensors: list[Tensor] = []  # keeps them alive, so that ids stay unique
        ranges = {key: np.lib.array_utils.byte_bounds(a) for key, a in self.arrays.items()}
        span: Span | None = None
        for key in sorted(self.arrays, key=lambda key: ranges[key]):
            array = self.arrays[key]
            if span is not None and array.size and ranges[key][0] < span.high:
                span.add(array)
            else:
                span = Span(len(self.spans), array, str(tensors[key].device))
                self.spans.append(span)
            self.of_tensor[key] = span
        for span in self.spans:
            self.compact(span)

    def locate(self, tensor: Tensor) -> tuple[Array, Span]:
        """The tensor's array and storage. A tensor created while pickling gets its own."""
        key = id(tensor)
        if key not in self.of_tensor:
            self.arrays[key] = array = as_storable(move_array(tensor.array, CPU))
            self.of_tensor[key] = span = Span(len(self.spans), array, str(tensor.device))
            self.spans.append(span)
            self.late_tensors.append(tensor)
        return self.arrays[key], self.of_tensor[key]

    def compact(self, span: Span) -> None:
        """Removes the gaps of a storage with a single tensor."""
        if len(span.arrays) == 1 and span.high - span.low > span.arrays[0].nbytes:
            key = next(key for key, other in self.of_tensor.items() if other is span)
            array = np.ascontiguousarray(span.arrays[0])
            self.arrays[key] = array
            span.arrays = [array]
            span.low, span.high = np.lib.array_utils.byte_bounds(array)


def arrays_on_host(tensors: dict[int, Tensor]) -> dict[int, Array]:
    """The tensors' arrays, or copies of those on GPUs. Tensors on a GPU that share memory are views
    of one copy of it.
    """
    sharing: dict[tuple[int, ...], list[int]] = {}
    arrays: dict[int, Array] = {}
    for key, tensor in tensors.items():
        if isinstance(tensor.array, np.ndarray):
            arrays[key] = tensor.array
        else:
            sharing.setdefault(identity(owner_of(tensor.array)), []).append(key)
    for keys in sharing.values():
        if len(keys) == 1:
            arrays[keys[0]] = move_array(tensors[keys[0]].array, CPU)
            continue
        owner = owner_of(tensors[keys[0]].array)
        memory = move_array(device_bytes(owner), CPU)
        for key in keys:
            array = tensors[key].array
            start = pointer(array) - pointer(owner) if array.size else 0
            arrays[key] = array_over(memory, start, array.shape, array.dtype, array.strides)
    return {key: as_storable(arrays[key]) for key in tensors}


def as_storable(array: Array) -> Array:
    """The array, or a copy if the format cannot represent its strides."""
    itemsize = array.itemsize
    address = array.__array_interface__["data"][0]
    if any(s < 0 or s % itemsize for s in array.strides) or address % itemsize:
        return np.ascontiguousarray(array)
    return array


class Global:
    """A name of PyTorch that is written without importing it."""

    __slots__ = ("module", "name")

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name

    def __call__(self) -> None:
        """Pickle requires a callable constructor; it is called only in loading."""


class StorageKey:
    """A reference to a storage in the pickle; becomes its persistent id."""

    __slots__ = ("pid",)

    def __init__(self, pid: tuple[Any, ...]) -> None:
        self.pid = pid


class Plain:
    """A parameter to be saved as a plain tensor."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


GLOBALS = {
    name: Global("torch._utils", name)
    for name in (
        "_rebuild_tensor_v2",
        "_rebuild_tensor_v3",
        "_rebuild_parameter",
        "_rebuild_sparse_tensor",
        "_rebuild_meta_tensor_no_storage",
    )
}
LAYOUT = Global("torch.serialization", "_get_layout")
UNTYPED = Global("torch.storage", "UntypedStorage")
TORCH = {name: Global("torch", name) for name in (*STORAGE_NAMES, *DTYPE_NAMES)}


class Writer(pickle._Pickler):
    """The second pass: the object, with tensors as (storage, offset, size, stride)."""

    dispatch: ClassVar[dict[type, Any]] = dict(pickle._Pickler.dispatch)

    def __init__(self, file: IO[bytes], storages: Storages) -> None:
        super().__init__(file, PROTOCOL)
        self.storages = storages

    def persistent_id(self, obj: object) -> tuple[Any, ...] | None:
        return obj.pid if type(obj) is StorageKey else None

    def reducer_override(self, obj: object) -> Any:
        if type(obj) is np.ndarray and not obj.dtype.isnative:
            return obj.astype(obj.dtype.newbyteorder("=")).__reduce_ex__(PROTOCOL)
        if type(obj) is StateDict:  # PyTorch's are an OrderedDict with the same attribute
            plain = OrderedDict(obj)
            plain.__dict__.update(obj.__dict__)
            return plain.__reduce_ex__(PROTOCOL)
        if isinstance(obj, SparseCompressedTensor):
            compressed = (*obj.parts().values(), tuple(obj.shape))
            return GLOBALS["_rebuild_sparse_tensor"], (obj.layout, compressed)
        if isinstance(obj, SparseTensor):
            parts = obj._indices(), obj._values(), tuple(obj.shape), obj.is_coalesced()
            return GLOBALS["_rebuild_sparse_tensor"], (sparse_coo, parts)
        if obj is sparse_coo or obj is sparse_csr or obj is sparse_csc:
            return LAYOUT, (f"torch.{obj.name}",)
        if not isinstance(obj, Tensor) or is_lazy(obj):
            return NotImplemented
        if isinstance(obj, Parameter):
            # The pickle contains a parameter as a call of _rebuild_parameter with its tensor.
            data = Plain(obj)
            return GLOBALS["_rebuild_parameter"], (data, obj.requires_grad, OrderedDict())
        return self.describe(obj, obj.requires_grad)

    def describe(self, tensor: Tensor, requires_grad: bool) -> tuple[Global, tuple[Any, ...]]:
        if tensor.is_meta:
            dtype = TORCH[NAME_OF_DTYPE[tensor.array.dtype]]
            sizes = tuple(tensor.shape), tensor.stride()
            return GLOBALS["_rebuild_meta_tensor_no_storage"], (dtype, *sizes, requires_grad)
        array, span = self.storages.locate(tensor)
        itemsize = array.itemsize
        nbytes = span.high - span.low
        low = np.lib.array_utils.byte_bounds(array)[0]
        if array.size and ((low - span.low) % itemsize or any(s % itemsize for s in array.strides)):
            raise ValueError(
                f"save: a {array.dtype} tensor begins at byte {low - span.low} of the memory that "
                f"it shares with others, strides {array.strides} bytes; the format counts whole "
                "elements, hint: save its clone()"
            )
        layout: tuple[Any, ...] = (
            (low - span.low) // itemsize if array.size else 0,
            tuple(array.shape),
            tuple(s // itemsize for s in array.strides),
            requires_grad,
            OrderedDict(),
        )
        if span.is_typed:
            kind = TORCH[STORAGE_OF_DTYPE[array.dtype]]
            key = StorageKey(("storage", kind, str(span.key), span.location, nbytes // itemsize))
            return GLOBALS["_rebuild_tensor_v2"], (key, *layout)
        key = StorageKey(("storage", UNTYPED, str(span.key), span.location, nbytes))
        return GLOBALS["_rebuild_tensor_v3"], (key, *layout, TORCH[NAME_OF_DTYPE[array.dtype]])

    def save_global_name(self, obj: Global) -> None:
        self.write(pickle.GLOBAL + f"{obj.module}\n{obj.name}\n".encode())  # type: ignore[attr-defined]
        self.memoize(obj)  # type: ignore[attr-defined]

    dispatch[Global] = save_global_name

    def save_dtype(self, obj: native.dtype) -> None:
        self.save(TORCH[obj.name])  # type: ignore[attr-defined]

    dispatch[native.dtype] = save_dtype

    def save_plain(self, obj: Plain) -> None:
        self.save_reduce(*self.describe(obj.tensor, False), obj=obj)  # type: ignore[attr-defined]

    dispatch[Plain] = save_plain
