"""New interpreters, and the pipes between a parent, its children and the fork server.

Note [Bytes under interruption]: a signal handler that raises (Ctrl-C) runs after a call has
returned, before its result is stored: `data = os.read(...)` may lose what it has read, and the next
read gets what comes after it. So the result goes into a list that outlives the call, by
`list.extend(map(os.read, ...))`, which runs no bytecode in between, and all else is computed from
that list again.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from multiprocessing import process, spawn
from multiprocessing import util as _util
from typing import Any

from shmtensor.memory.control_message import LENGTH, take

util: Any = _util  # untyped: private functions are used


def sys_path() -> list[str]:
    """sys.path with the current directory in place of ''."""
    directory = vars(process)["ORIGINAL_DIR"] or os.getcwd()
    return [directory if entry == "" else entry for entry in sys.path]


def start_interpreter(code: str, fds: Iterable[int]) -> int:
    """The pid of a new interpreter that runs `code` and inherits these descriptors."""
    executable, flags = spawn.get_executable(), util._args_from_interpreter_flags()
    command = [executable, *flags, "-c", code, "--multiprocessing-fork"]
    return int(util.spawnv_passfds(executable, command, sorted(set(fds))))


def write(fd: int, data: bytes) -> None:
    """Writes all of `data`. Ignores a broken pipe: the sentinel reports a dead child."""
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(fd, view) :]
    except BrokenPipeError:
        return


def read_number(fd: int, chunks: list[bytes]) -> int | None:
    """The number in a control message of the fork server, or None at the end of the file.

    Args:
        chunks: the bytes of this message that were read; an interrupted call is repeated with the
            same list. Note [Bytes under interruption].
    """
    while True:
        data = b"".join(chunks)
        end = LENGTH.size
        if len(data) >= end:
            end += LENGTH.unpack_from(data)[0]
        if len(data) == end:
            message = take(bytearray(data))
            return None if message is None else int(message["number"])
        chunks.extend(map(os.read, (fd,), (end - len(data),)))
        if not chunks[-1]:
            return None
