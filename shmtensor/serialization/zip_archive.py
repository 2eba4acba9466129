"""A zip file of uncompressed records, aligned so that they can be mapped.

archive/data.pkl        the object, with tensors as (storage, offset, size, stride)
archive/byteorder       "little"
archive/data/0 ...      one record per storage, 64-byte aligned
archive/version         "3"
"""

from __future__ import annotations

import errno
import os
import struct
import zipfile
import zlib
from typing import IO, Any

import numpy as np

from .. import native
from ..memory.layout import empty_shared

Array = np.ndarray[Any, Any]
ALIGNMENT = 64
MAX_ITEMSIZE = 16  # a record that begins between elements is read, not mapped
RECORD = b"PK\x03\x04"  # what each record begins with
LOCAL_HEADER = 30  # bytes of a zip local file header, before the name and the extra field
READ_STEP = 1 << 30
CRC_STEP = 1 << 18  # half of a small second-level cache

# What zipfile raises for a damaged directory; of OSError only a seek to a negative position.
DAMAGE = (
    zipfile.BadZipFile,
    struct.error,
    ValueError,
    NotImplementedError,
    EOFError,
    IndexError,
    KeyError,
    OverflowError,
    OSError,
)


class ArchiveWriter:
    """Writes records into a new archive; leaving the context writes the central directory."""

    def __init__(self, file: IO[bytes]) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED)

    def __enter__(self) -> ArchiveWriter:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        if kind is None:
            self._zip.close()
        else:  # its destructor would write the directory, on a full disk for example
            self._zip.fp = None

    def write(self, name: str, data: bytes | memoryview) -> None:
        """Adds one record. Copies: one (to the file)."""
        info = zipfile.ZipInfo(f"archive/{name}", (1980, 1, 1, 0, 0, 0))
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
    """Reads records of an archive directly into shared memory.

    All records together are not larger than the file: a directory that names the same bytes many
    times is refused. So is a compressed record, which neither `save` nor PyTorch writes: a thousand
    times as much memory as the file.

    Raises:
        RuntimeError: the file is not an archive of tensors, or damaged.
    """

    def __init__(self, file: IO[bytes], path: str | None = None, check_crc: bool = True) -> None:
        self.name = path or repr(file)
        self._file = file
        self._path = path
        self._nbytes = self._unclaimed = file.seek(0, os.SEEK_END)
        try:
            self._zip = zipfile.ZipFile(file)
        except DAMAGE as error:
            if isinstance(error, OSError) and error.errno != errno.EINVAL:
                raise
            raise RuntimeError(f"load: {self.why_no_archive(error)}") from error
        # PyTorch writes 0 everywhere after set_crc32_options(False).
        self._check_crc = check_crc and any(info.CRC for info in self._zip.infolist())
        names = [n for n in self._zip.namelist() if n.endswith("/data.pkl")]
        if len(names) != 1:
            raise RuntimeError(
                f"load: not an archive of tensors: {self.name} has {len(names)} records named "
                "data.pkl"
            )
        self.folder = names[0].rpartition("/")[0]

    def why_no_archive(self, error: Exception) -> str:
        """What a file is whose directory cannot be read. An archive's directory comes last, so that
        a file cut short anywhere begins as an archive and has none.
        """
        if not self._nbytes:
            return f"the file is empty (0 bytes): {self.name}"
        self._file.seek(0)
        first = self._file.read(len(RECORD))
        if RECORD.startswith(first):
            return (
                f"the file is truncated or damaged: {self.name} begins as an archive of tensors, "
                f"but the directory at its end, after {self._nbytes} bytes, is missing: {error}"
            )
        return (
            f"not a zip archive of tensors: {self.name}, files from before PyTorch 1.6, or plain "
            f"pickles, cannot be read: {error}"
        )

    def has(self, name: str) -> bool:
        return f"{self.folder}/{name}" in self._zip.NameToInfo

    def read(self, name: str) -> bytes:
        """The bytes of a small record."""
        info, start = self.locate(name)
        data = bytearray(info.file_size)
        self.fill(name, info, start, memoryview(data))
        return bytes(data)

    def read_array(self, name: str, mapped: bool) -> Array:
        """The bytes of a record, in a new shared block, or as a private mapping of the file.

        Copies: one (file to block; none if mapped).
        """
        info, start = self.locate(name)
        if mapped and info.file_size and start % MAX_ITEMSIZE == 0:
            assert self._path is not None
            return np.memmap(self._path, np.uint8, "c", start, (info.file_size,))
        array = empty_bytes(info.file_size)
        self.fill(name, info, start, array.data)
        return array

    def locate(self, name: str) -> tuple[zipfile.ZipInfo, int]:
        """A record's entry in the directory, and where its bytes begin in the file."""
        info = self._zip.NameToInfo.get(f"{self.folder}/{name}")
        if info is None:
            raise self.damaged(name, "there is no such record")
        packed, nbytes = info.compress_size, info.file_size
        if info.compress_type != zipfile.ZIP_STORED:
            raise self.damaged(
                name,
                f"it is compressed (type {info.compress_type}, {packed} bytes to {nbytes}), which "
                "neither save nor PyTorch does, hint: pack the records again with `zip -0`",
            )
        if packed != nbytes:
            raise self.damaged(name, f"{packed} bytes in the file cannot be {nbytes} bytes")
        if info.flag_bits & 1:
            raise self.damaged(name, "it is encrypted")
        self._unclaimed -= packed
        header = b""
        if 0 <= info.header_offset < self._nbytes:
            self._file.seek(info.header_offset)
            header = self._file.read(LOCAL_HEADER)
        if len(header) < LOCAL_HEADER or header[:4] != RECORD:
            raise self.damaged(name, f"no record begins at byte {info.header_offset}")
        name_length, extra_length = struct.unpack("<HH", header[26:])
        start = info.header_offset + LOCAL_HEADER + name_length + extra_length
        if self._unclaimed < 0 or start + packed > self._nbytes:
            raise self.damaged(
                name,
                f"bytes {start} to {start + packed} are beyond the {self._nbytes} of the file, or "
                "of another record",
            )
        return info, start

    def fill(self, name: str, info: zipfile.ZipInfo, start: int, out: memoryview) -> None:
        """Reads the bytes of a record, and compares them with its CRC-32."""
        self._file.seek(start)
        crc = read_into(self._file, out, self._check_crc)
        if self._check_crc and crc != info.CRC:
            raise self.damaged(
                name,
                f"its CRC-32 is {crc:08x}, the directory has {info.CRC:08x}, "
                "load(..., check_crc=False) reads it as it is",
            )

    def damaged(self, name: str, what: str) -> RuntimeError:
        return RuntimeError(f"load: the record {name[:200]!r} is damaged: {self.name}: {what}")


def empty_bytes(nbytes: int) -> Array:
    """An uninitialised shared array of bytes."""
    return empty_shared((nbytes,), np.dtype(np.uint8))


def read_into(file: IO[bytes], view: memoryview, with_crc: bool = False) -> int:
    """Fills `view` from the file's position.

    Returns:
        The CRC-32 of the bytes, computed while they are in the cache; 0 without `with_crc`.

    Raises:
        RuntimeError: the file is too short.
    """
    step = CRC_STEP if with_crc else READ_STEP
    filled = crc = 0
    while filled < len(view):
        part = view[filled : filled + step]
        count = file.readinto(part)  # type: ignore[attr-defined]
        if not count:
            raise RuntimeError(f"load: the file is truncated: {filled} of {len(view)} bytes")
        if with_crc:
            crc = crc32(part[:count], crc)
        filled += count
    return crc


def crc32(data: bytes | memoryview, value: int = 0) -> int:
    """zlib.crc32, ten times as fast where the CPU multiplies without carry."""
    crc = native.crc32(data, value)
    return zlib.crc32(data, value) if crc is None else crc


def file_path(file: object) -> str | None:
    """`file` as a str if it is a path, None if it is a file object."""
    return os.fspath(file) if isinstance(file, (str, os.PathLike)) else None
