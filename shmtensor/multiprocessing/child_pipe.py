"""Reads and writes of the pipes between a parent, its children and the fork server."""

from __future__ import annotations

import os
import struct
import sys
from multiprocessing import process

__all__ = ["read_number", "sys_path", "write"]


def sys_path() -> list[str]:
    """sys.path with the current directory in place of ''."""
    directory = vars(process)["ORIGINAL_DIR"] or os.getcwd()
    return [directory if entry == "" else entry for entry in sys.path]


def write(fd: int, data: bytes) -> None:
    """Writes all of `data`. Ignores a broken pipe: the sentinel reports a dead child."""
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(fd, view) :]
    except BrokenPipeError:
        return


def read_number(fd: int) -> int | None:
    """A signed number that the server wrote, or None at the end of the file."""
    data = b""
    while len(data) < 8:
        chunk = os.read(fd, 8 - len(data))
        if not chunk:
            return None
        data += chunk
    number: int = struct.unpack("<q", data)[0]
    return number
