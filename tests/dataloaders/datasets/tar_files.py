"""Writes the shards of the tests in this folder."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Iterable
from pathlib import Path


def write_tar(
    path: Path,
    members: dict[str, bytes] | Iterable[tuple[str, bytes]],
    kind: int = tarfile.GNU_FORMAT,
) -> Path:
    """A tar file of these names and contents, compressed if its name ends in .gz."""
    with tarfile.open(path, "w", format=kind) as file:
        for name, data in members.items() if isinstance(members, dict) else members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            file.addfile(info, io.BytesIO(data))
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(path.read_bytes(), 1))
    return path
