"""A zip file of uncompressed records, aligned so that they can be mapped.

archive/data.pkl        the object, with tensors as (storage, offset, size, stride)
archive/byteorder       "little"
archive/data/0 ...      one record per storage, 64-byte aligned
archive/version         "3"
"""

from __future__ import annotations

import os
import struct
import zipfile
from typing import IO, Any

import numpy as np

from ..memory.layout import empty_shared

__all__ = ["ArchiveReader", "ArchiveWriter"]

Array = np.ndarray[Any, Any]
ALIGNMENT = 64
LOCAL_HEADER = 30  # bytes of a zip local file header, before the name and the extra field


class ArchiveWriter:
    """Writes records into a new archive; leaving the context writes the central directory."""

    def __init__(self, file: IO[bytes], folder: str = "archive") -> None:
        self.folder = folder
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED)

    def __enter__(self) -> ArchiveWriter:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        if kind is None:
            self._zip.close()

    def write(self, name: str, data: bytes | memoryview) -> None:
        """Adds one record. Copies: one (to the file)."""
        info = zipfile.ZipInfo(f"{self.folder}/{name}", (1980, 1, 1, 0, 0, 0))
        with memoryview(data) as view:
            nbytes = view.nbytes
            # Beyond 2 GiB the extra field of the local header has 20 bytes of sizes.
            large = nbytes >= zipfile.ZIP64_LIMIT
            data_offset = (
                self._zip.start_dir + LOCAL_HEADER + len(info.filename) + (20 if large else 0)
            )
            gap = -(data_offset + 4) % ALIGNMENT
            info.extra = struct.pack("<2sH", b"FB", gap) + b"Z" * gap
            info.file_size = nbytes
            with self._zip.open(info, "w", force_zip64=large) as record:
                record.write(view)


class ArchiveReader:
    """Reads records of an archive directly into shared memory."""

    def __init__(self, file: IO[bytes], path: str | None = None) -> None:
        self._file = file
        self._path = path
        self._zip = zipfile.ZipFile(file)
        names = [n for n in self._zip.namelist() if n.endswith("/data.pkl")]
        if len(names) != 1:
            raise RuntimeError(
                f"load: not an archive of tensors: {len(names)} records named data.pkl"
            )
        self.folder = names[0].rpartition("/")[0]

    def read(self, name: str) -> bytes:
        return self._zip.read(f"{self.folder}/{name}")

    def has(self, name: str) -> bool:
        return f"{self.folder}/{name}" in self._zip.NameToInfo

    def read_array(self, name: str, mapped: bool) -> Array:
        """The bytes of a record, in a new shared block, or as a private mapping of the file.

        Copies: one (file to block; none if mapped).
        """
        info = self._zip.getinfo(f"{self.folder}/{name}")
        if info.compress_type != zipfile.ZIP_STORED:
            return from_bytes(self._zip.read(info))
        self._file.seek(info.header_offset)
        header = self._file.read(LOCAL_HEADER)
        name_length, extra_length = struct.unpack("<HH", header[26:])
        start = info.header_offset + LOCAL_HEADER + name_length + extra_length
        if mapped and info.file_size:
            if self._path is None:
                raise ValueError("load: mmap=True needs a path: got a file object")
            return np.memmap(self._path, np.uint8, "c", start, (info.file_size,))
        array = empty_bytes(info.file_size)
        self._file.seek(start)
        read_into(self._file, array)
        return array


def empty_bytes(nbytes: int) -> Array:
    """An uninitialised shared array of bytes."""
    return empty_shared((nbytes,), np.dtype(np.uint8))


def from_bytes(data: bytes) -> Array:
    array = empty_bytes(len(data))
    array[...] = np.frombuffer(data, np.uint8)
    return array


def read_into(file: IO[bytes], array: Array) -> None:
    """Fills `array` from the file's position; raises EOFError when the file is too short."""
    view = array.data
    filled = 0
    while filled < len(view):
        count = file.readinto(view[filled : filled + (1 << 30)])  # type: ignore[attr-defined]
        if not count:
            raise EOFError(f"load: the file is truncated: {filled} of {len(view)} bytes")
        filled += count


def file_path(file: object) -> str | None:
    """`file` as a str if it is a path, None if it is a file object."""
    return os.fspath(file) if isinstance(file, (str, os.PathLike)) else None
