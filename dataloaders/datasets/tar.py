"""Tar files, read once from start to end; damage is an error.

    | header 512 | data | pad to 512 | header | data | pad | ... | zeros 512 | zeros 512 |

Python's tarfile mistakes a damaged header in the middle for the end of the file.
"""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["BrokenShard", "read_members", "read_samples"]

BLOCK = 512
REGULAR = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE)


class BrokenShard(OSError):
    """A tar file is damaged: names the file, where in it, and what is wrong."""


def read_members(path: Path) -> Iterator[tuple[str, bytes]]:
    """Name and content of each regular file in a tar file, which may be compressed by gzip.

    Raises:
        BrokenShard: a damaged header, an end before the end mark, a damaged gzip stream.
    """
    with path.open("rb") as plain:
        is_gzip = plain.read(2) == b"\x1f\x8b"
    with gzip.open(path) if is_gzip else path.open("rb") as file:
        try:
            yield from read_tar(file, path)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise BrokenShard(f"{path}: the gzip stream is damaged: {error}") from error


def read_tar(file: Any, path: Path) -> Iterator[tuple[str, bytes]]:
    offset, name, size = 0, None, None
    last = "the beginning"
    while True:
        head = file.read(BLOCK)
        if len(head) == BLOCK and not any(head):
            return
        try:
            info = tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
        except tarfile.HeaderError as error:
            raise BrokenShard(
                f"{path}: damaged at byte {offset}, after {last}: {error or 'no end mark'}"
            ) from error
        length = info.size if size is None or info.type not in REGULAR else size
        padded = -(-length // BLOCK) * BLOCK
        data = file.read(padded)
        if len(data) < length:
            raise BrokenShard(
                f"{path}: ends in the middle of {name or info.name}: {len(data)} of {length} bytes"
            )
        offset += BLOCK + padded
        if info.type == tarfile.XHDTYPE:
            fields = pax_fields(data[:length])
            name = fields.get("path", name)
            size = int(fields["size"]) if "size" in fields else None
        elif info.type == tarfile.GNUTYPE_LONGNAME:
            name = data[:length].rstrip(b"\0").decode("utf-8", "surrogateescape")
        elif info.type == tarfile.XGLTYPE:
            continue
        else:
            last = name or info.name
            if info.type in REGULAR:
                yield last, data[:length]
            name, size = None, None


def pax_fields(data: bytes) -> dict[str, str]:
    """The records "length key=value" of an extended header."""
    fields = {}
    while data:
        length, _, record = data.partition(b" ")
        if not length.isdigit() or not 0 < int(length) <= len(data):
            break
        key, _, value = record[: int(length) - len(length) - 2].partition(b"=")
        fields[key.decode()] = value.decode("utf-8", "surrogateescape")
        data = data[int(length) :]
    return fields


def read_samples(path: Path) -> Iterator[dict[str, bytes | str]]:
    """Consecutive members of one base name as samples: {"__key__": "a/1", "jpg": ..., "cls": ...}.

    The base name ends, and the extension begins, at the first dot of the last path component.

    Raises:
        BrokenShard: see `read_members`; or one extension twice in a sample. All samples before the
            damaged one are yielded first.
    """
    sample: dict[str, bytes | str] = {}
    for name, data in read_members(path):
        folder, slash, file = name.rpartition("/")
        base, dot, extension = file.partition(".")
        if not dot or not base or (base.startswith("__") and base.endswith("__")):
            continue
        key, extension = f"{folder}{slash}{base}", extension.lower()
        if sample and sample["__key__"] != key:
            yield sample
            sample = {}
        if extension in sample:
            raise BrokenShard(f"{path}: twice in the shard: {name}")
        if not sample:
            sample = {"__key__": key, "__url__": str(path)}
        sample[extension] = data
    if sample:
        yield sample
