"""The safetensors format: a table of names, then raw bytes; no code, nothing to trust.

| u64 n | JSON (n bytes): {"name": {"dtype", "shape", "data_offsets": [from, to]}, ...} | data |
"""

from __future__ import annotations

import io
import json
import math
import os
import struct
from collections.abc import Mapping
from typing import IO, Any

import numpy as np

from ..autograd import wrap
from ..cuda_arrays import copy_array, move_array
from ..device import CPU, Device, as_device
from ..dtypes import as_dtype
from ..errors import printable
from ..tensor import Tensor
from .atomic_write import replacing
from .zip_archive import empty_bytes, read_into

Array = np.ndarray[Any, Any]

DTYPES = {
    name: as_dtype(dtype)
    for name, dtype in (
        ("F64", "<f8"),
        ("F32", "<f4"),
        ("F16", "<f2"),
        ("BF16", "bfloat16"),
        ("I64", "<i8"),
        ("I32", "<i4"),
        ("I16", "<i2"),
        ("I8", "i1"),
        ("U64", "<u8"),
        ("U32", "<u4"),
        ("U16", "<u2"),
        ("U8", "u1"),
        ("BOOL", "?"),
        ("C64", "<c8"),
    )
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
MAX_HEADER = 100_000_000  # bytes; the format's own limit
MAX_DIMS = 64  # of an array, as in NumPy
MAX_ELEMENTS = 2**58  # with each size 0 replaced by 1: the bytes are an int64


def save_file(
    tensors: Mapping[str, Tensor],
    filename: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Writes named tensors; the file is replaced atomically.

    Args:
        tensors: name -> tensor; the format stores neither aliasing nor gradients.
        filename: the path.
        metadata: strings to store in the header.

    Raises:
        TypeError: a tensor's dtype has no name in the format.

    Copies: one (memory to file; non-contiguous tensors, and those on GPUs, one more).
    """
    with replacing(filename) as file:
        write(tensors, file, metadata)


def save(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """The bytes that `save_file` writes."""
    file = io.BytesIO()
    write(tensors, file, metadata)
    return file.getvalue()


def write(
    tensors: Mapping[str, Tensor], file: IO[bytes], metadata: Mapping[str, str] | None
) -> None:
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    arrays: list[Array] = []
    end = 0
    # Wide dtypes come first, as in the reference writer: every tensor is aligned to its itemsize.
    for name, tensor in sorted(tensors.items(), key=lambda e: (-e[1].array.itemsize, e[0])):
        on_host = move_array(tensor.array, CPU)
        array = np.ascontiguousarray(on_host).reshape(on_host.shape)
        if array.dtype not in NAMES:
            raise TypeError(
                f"save_file: the format has no name for this dtype: {array.dtype} of {name!r}"
            )
        begin, end = end, end + array.nbytes
        header[name] = {
            "dtype": NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [begin, end],
        }
        arrays.append(array)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    file.write(struct.pack("<Q", len(text)) + text)
    for array in arrays:
        file.write(array.reshape(-1).view(np.uint8).data if array.size else b"")


def load_file(
    filename: str | os.PathLike[str], device: str | int | Device = "cpu"
) -> dict[str, Tensor]:
    """Reads named tensors into one block of memory: shared memory, or that of a GPU.

    Args:
        filename: the path.
        device: where the tensors are to be: "cpu", "cuda:0", 0.

    Returns:
        Name -> tensor.

    Raises:
        RuntimeError: the file is incomplete, or not in this format.
        DeviceMissing: the device is not there.

    Copies: one (file to shared memory); to a GPU one more.
    """
    place = as_device(device)
    with open(filename, "rb") as file:
        return read(file, os.fspath(filename), place)


def load(data: bytes) -> dict[str, Tensor]:
    """Reads the bytes of `save`. Copies: one."""
    return read(io.BytesIO(data), f"{len(data)} bytes", CPU)


def metadata(filename: str | os.PathLike[str]) -> dict[str, str]:
    """The strings stored in the header; Raises as `load_file`."""
    with open(filename, "rb") as file:
        name = os.fspath(filename)
        strings = read_header(file, name)[0].get("__metadata__", {})
    if not isinstance(strings, dict) or not all(isinstance(v, str) for v in strings.values()):
        raise RuntimeError(f"load_file: not a safetensors file: {name}: metadata are not strings")
    return strings


def read_header(file: IO[bytes], name: str) -> tuple[dict[str, Any], int]:
    """The header, and the number of bytes after it."""
    prefix = file.read(8)
    total = file.seek(0, os.SEEK_END)
    n = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else -1
    if not total:
        raise RuntimeError(f"load_file: the file is empty (0 bytes): {name}")
    if n > MAX_HEADER:
        raise RuntimeError(f"load_file: not a safetensors file: {name}: header of {n} bytes")
    if not 0 <= n <= total - 8:
        raise RuntimeError(
            f"load_file: the file is truncated, or not a safetensors file: {name}: {total} bytes, "
            f"{f'its header alone has {n}' if n >= 0 else 'less than the 8 that come first'}"
        )
    file.seek(8)
    try:
        header = json.loads(file.read(n))
    except (ValueError, RecursionError) as error:
        raise RuntimeError(
            f"load_file: not a safetensors file: {name}: {printable(error)}"
        ) from error
    if not isinstance(header, dict):
        raise RuntimeError(
            f"load_file: not a safetensors file: {name}: the header is not an object"
        )
    return header, total - 8 - n


def read(file: IO[bytes], name: str, device: Device) -> dict[str, Tensor]:
    header, nbytes = read_header(file, name)
    header.pop("__metadata__", None)
    entries = {key: Entry(entry, nbytes, f"{name}: {key[:200]!r}") for key, entry in header.items()}
    end = 0
    for entry in sorted(entries.values(), key=lambda entry: (entry.begin, entry.end)):
        if entry.begin < end:
            raise RuntimeError(
                f"load_file: tensors overlap: {entry.where} begins at byte {entry.begin}, another "
                f"one ends at {end}"
            )
        end = entry.end
    data = empty_bytes(nbytes)
    read_into(file, data.data)
    for entry in entries.values():
        entry.check_bools(data)
    if device.type != "cpu":
        data = move_array(data, device)
    return {key: entry.tensor(data) for key, entry in entries.items()}


class Entry:
    """Where one tensor is in the data of a file; each number is checked.

    Raises:
        RuntimeError: the entry is not of the format, or does not fit into `nbytes` of data.
    """

    def __init__(self, entry: Any, nbytes: int, where: str) -> None:
        self.where = where
        fields = entry if isinstance(entry, dict) else {}
        parts: list[Any] = [fields.get(key) for key in ("dtype", "shape", "data_offsets")]
        code, shape, offsets = parts
        is_valid = isinstance(code, str) and are_sizes(shape) and are_sizes(offsets)
        if not is_valid or len(shape) > MAX_DIMS or len(offsets) != 2:
            raise RuntimeError(f"load_file: not an entry of a tensor in {where}")
        dtype = DTYPES.get(code)
        if dtype is None:
            raise RuntimeError(f"load_file: unknown dtype in {where}: {code[:200]!r}")
        self.dtype = dtype
        self.shape = tuple(shape)
        self.begin, self.end = offsets
        if math.prod(max(n, 1) for n in shape) > MAX_ELEMENTS:
            raise RuntimeError(f"load_file: the shape is too large in {where}: {shape}")
        size = math.prod(shape) * dtype.itemsize
        if nbytes < self.end == self.begin + size:
            raise RuntimeError(
                f"load_file: the file is truncated: {where} ends at byte {self.end} of the data, "
                f"of which there are {nbytes}"
            )
        if not self.begin <= self.end <= nbytes or self.end - self.begin != size:
            raise RuntimeError(
                f"load_file: sizes disagree in {where}: bytes {self.begin} to {self.end} of "
                f"{nbytes}, shape {self.shape} of {code}"
            )

    def check_bools(self, data: Array) -> None:
        """Checks that each byte of a bool tensor is 0 or 1.

        Raises:
            RuntimeError: one is not.
        """
        chunk = data[self.begin : self.end]
        if self.dtype.kind == "b" and chunk.size and (largest := int(chunk.max())) > 1:
            raise RuntimeError(
                f"load_file: a byte of a bool tensor is not 0 or 1 in {self.where}: {largest}"
            )

    def tensor(self, data: Any) -> Tensor:
        """The tensor, over the file's bytes if they are aligned."""
        chunk = data[self.begin : self.end]
        if self.begin % self.dtype.itemsize:
            chunk = copy_array(chunk)
        tensor: Tensor = wrap(chunk.view(self.dtype).reshape(self.shape))
        return tensor


def are_sizes(values: Any) -> bool:
    """Whether `values` is a list of numbers of elements or bytes."""
    return isinstance(values, list) and all(type(n) is int and 0 <= n < 1 << 58 for n in values)
