"""What a parent writes to a child or to the fork server, and the numbers that come back."""

from __future__ import annotations

import os
import struct
import sys
from multiprocessing import process

__all__ = ["read_number", "sys_path", "write"]


def sys_path() -> list[str]:
    """sys.path with what '' means here."""
    here = vars(process)["ORIGINAL_DIR"] or os.getcwd()
    return [here if entry == "" else entry for entry in sys.path]


def write(fd: int, data: bytes) -> None:
    """All of it; a child that died meanwhile is found out by its sentinel."""
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
        part = os.read(fd, 8 - len(data))
        if not part:
            return None
        data += part
    number: int = struct.unpack("<q", data)[0]
    return number
