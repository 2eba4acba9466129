"""Tar files, read once from start to end; damage is an error.

    | header 512 | data | pad to 512 | header | data | pad | ... | zeros 512 | zeros 512 |

Python's tarfile mistakes a damaged header in the middle for the end of the file.
"""

from __future__ import annotations

import gzip
import os
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shmtensor.errors import printable

BLOCK = 512
STEP = 1 << 24  # bytes read at a time
MAX_MEMBER = 1 << 48  # bytes; a size beyond it is damage
MAX_EXPANSION = 1 << 28  # bytes that compressed data may become ...
MAX_RATIO = 100  # ... or from each byte of its file, if that is more
MAX_DIGITS = 20  # of a length in an extended header
DAMAGED_GZIP = EOFError, zlib.error, gzip.BadGzipFile  # what reading one raises
REGULAR = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE)


class BrokenShard(OSError):
    """A tar file is damaged: names the file, where in it, and what is wrong."""


def expansion_limit(nbytes: int, max_expansion: int = MAX_EXPANSION) -> int:
    """How many bytes a file of `nbytes` may become in memory: a sample, or an array."""
    return max(max_expansion, MAX_RATIO * nbytes)


def open_maybe_gzip(path: Path, max_expansion: int) -> tuple[Any, int | None]:
    """A file to read, decompressed if it begins as gzip's do, and then how many bytes an array or
    a member of it may have; None if it is not compressed."""
    with path.open("rb") as plain:
        if plain.read(2) != b"\x1f\x8b":
            return path.open("rb"), None
        limit = expansion_limit(os.fstat(plain.fileno()).st_size, max_expansion)
    return gzip.open(path), limit


def read_members(path: Path, max_expansion: int = MAX_EXPANSION) -> Iterator[tuple[str, bytes]]:
    """Name and content of each regular file in a tar file, which may be compressed by gzip.

    Raises:
        BrokenShard: a damaged header, an end before the end mark, a damaged gzip stream, a member
            of a compressed file that is larger than `expansion_limit`.
    """
    file, limit = open_maybe_gzip(path, max_expansion)
    where = printable(path)
    with file:
        try:
            yield from read_tar(file, where, MAX_MEMBER if limit is None else limit)
        except DAMAGED_GZIP as error:
            raise BrokenShard(f"{where}: the gzip stream is damaged: {error}") from error


def read_tar(file: Any, where: str, limit: int) -> Iterator[tuple[str, bytes]]:
    offset, name, size = 0, None, None
    last = "the beginning"
    while True:
        head = file.read(BLOCK)
        if len(head) == BLOCK and not any(head):
            return
        try:
            info = tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
            length = info.size if size is None or info.type not in REGULAR else size
            if not 0 <= length <= MAX_MEMBER:
                raise tarfile.HeaderError(f"a size of {length} bytes")
        except (tarfile.HeaderError, ValueError) as error:
            raise BrokenShard(
                f"{where}: damaged at byte {offset}, after {last}: {error or 'no end mark'}"
            ) from error
        if length > limit:
            raise BrokenShard(
                f"{where}: damaged at byte {offset}, after {last}: "
                f"{printable(name or info.name)} expands to {length} bytes, more than {limit}, "
                "hint: max_expansion"
            )
        padded = -(-length // BLOCK) * BLOCK
        data = read_up_to(file, padded)
        if len(data) < length:
            raise BrokenShard(
                f"{where}: ends in the middle of {printable(name or info.name)}: "
                f"{len(data)} of {length} bytes"
            )
        offset += BLOCK + padded
        if info.type == tarfile.XHDTYPE:
            try:
                fields = pax_fields(data[:length])
                size = int(fields["size"]) if "size" in fields else None
            except ValueError as error:
                raise BrokenShard(
                    f"{where}: damaged before byte {offset}, after {last}: an extended header: "
                    f"{printable(error)}"
                ) from error
            name = fields.get("path", name)
        elif info.type == tarfile.GNUTYPE_LONGNAME:
            name = data[:length].rstrip(b"\0").decode("utf-8", "surrogateescape")
        elif info.type == tarfile.XGLTYPE:
            continue
        else:
            if info.type in REGULAR:
                yield name or info.name, data[:length]
            last = printable(name or info.name)
            name, size = None, None


def read_up_to(file: Any, nbytes: int) -> bytes:
    """`nbytes` of a file, or fewer at its end; memory grows with what is there, not with `nbytes`,
    which a damaged header may have made up.
    """
    data = file.read(min(nbytes, STEP))
    if len(data) == nbytes or len(data) < STEP:
        return bytes(data)
    parts = [data]
    left = nbytes - len(data)
    while left and (data := file.read(min(left, STEP))):
        parts.append(data)
        left -= len(data)
    return b"".join(parts)


def pax_fields(data: bytes) -> dict[str, str]:
    """The records "length key=value" of an extended header.

    Raises:
        ValueError: a key is not text, or a length has thousands of digits.
    """
    fields = {}
    at = 0
    while at < len(data):
        digits, _, _ = data[at : at + MAX_DIGITS].partition(b" ")
        length = int(digits) if digits.isdigit() else 0
        if not len(digits) < length <= len(data) - at:
            break
        key, _, value = data[at + len(digits) + 1 : at + length - 1].partition(b"=")
        fields[key.decode()] = value.decode("utf-8", "surrogateescape")
        at += length
    return fields


def read_samples(
    path: Path, max_expansion: int = MAX_EXPANSION
) -> Iterator[dict[str, bytes | str]]:
    """Consecutive members of one base name as samples: {"__key__": "a/1", "jpg": ..., "cls": ...}.

    The base name ends, and the extension begins, at the first dot of the last path component.

    Raises:
        BrokenShard: see `read_members`; or one extension twice in a sample; or the members of a
            sample together are larger than the limit. All samples before the damaged one are
            yielded first.
    """
    sample: dict[str, bytes | str] = {}
    limit = expansion_limit(path.stat().st_size, max_expansion)
    for name, data in read_members(path, max_expansion):
        folder, slash, file = name.rpartition("/")
        base, dot, extension = file.partition(".")
        if not dot or not base or (base.startswith("__") and base.endswith("__")):
            continue
        key, extension = f"{folder}{slash}{base}", extension.lower()
        if sample and sample["__key__"] != key:
            yield sample
            sample = {}
        if extension in sample:
            raise BrokenShard(f"{printable(path)}: twice in the shard: {printable(name)}")
        if not sample:
            sample = {"__key__": key, "__url__": str(path)}
        sample[extension] = data
        if (total := sum(map(len, sample.values()))) > limit:
            raise BrokenShard(
                f"{printable(path)}: sample {printable(key)} expands to {total} bytes, more than "
                f"{limit}, hint: max_expansion"
            )
    if sample:
        yield sample
