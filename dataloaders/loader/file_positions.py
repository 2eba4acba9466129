"""Each forked worker reads the open files of its parent at a position of its own.

Note [File positions]: a fork inherits descriptors, and all processes that have a descriptor of one
`open` share its position. A data set that opens a file in `__init__`, and seeks and reads in
`__getitem__`, would read rows of other indices, because another worker moves the position between
the two. So a worker opens such files again, under the same numbers of descriptors, at the position
that they had before the fork. Objects that hold them (Python's files, HDF5's, those of C libraries)
need not be found, and notice nothing. It concerns regular files and block devices that can be read;
pipes, sockets and files in memory have no position.

Left as they are: files that are only written (processes that write one log want one position),
those of the standard streams, and this library's own. Two descriptors of one `open` (by `os.dup`)
share a position no longer.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Mapping
from typing import NamedTuple

from .worker_warning import WorkerWarning

FOLDER = "/proc/self/fd"
STANDARD_STREAMS = range(3)
OWN_FILES = ("/memfd:shmtensor-", "/dev/shm/shmtensor-")
# What a file is opened with again; the others of its flags would create or truncate one.
KEPT = os.O_ACCMODE | os.O_APPEND | os.O_DIRECT | os.O_NOATIME | os.O_NONBLOCK | os.O_SYNC


class OpenFile(NamedTuple):
    """What a fork has to know about a descriptor."""

    flags: int
    position: int
    identity: tuple[int, int] | None


def positions() -> dict[int, OpenFile]:
    """The descriptors of this process whose position a forked child would share, by number."""
    files: dict[int, OpenFile] = {}
    if not os.path.isdir(FOLDER):
        return files
    streams = set(filter(None, map(identity, STANDARD_STREAMS)))
    for name in os.listdir(FOLDER):
        fd = int(name)
        try:
            flags = fcntl.fcntl(fd, fcntl.F_GETFL)
            if fd in STANDARD_STREAMS or flags & os.O_ACCMODE == os.O_WRONLY:
                continue
            mode, file = os.fstat(fd).st_mode, identity(fd)
            if not (stat.S_ISREG(mode) or stat.S_ISBLK(mode)) or file in streams:
                continue
            if not os.readlink(f"{FOLDER}/{fd}").startswith(OWN_FILES):
                files[fd] = OpenFile(flags, os.lseek(fd, 0, os.SEEK_CUR), file)
        except OSError:  # closed meanwhile, such as that of this listing; or it has no position
            continue
    return files


def identity(fd: int) -> tuple[int, int] | None:
    """The device and inode of an open file; None if it is closed."""
    try:
        status = os.fstat(fd)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def open_again(files: Mapping[int, OpenFile]) -> list[WorkerWarning]:
    """Gives this process, which was forked, positions of its own.

    Returns:
        A warning for each file that cannot be opened again.
    """
    warnings = []
    for fd, file in files.items():
        path = f"{FOLDER}/{fd}"
        if identity(fd) != file.identity:
            continue  # another thread of the parent closed it before the fork
        try:
            own = os.open(path, file.flags & KEPT | os.O_CLOEXEC)
        except OSError as error:
            name = os.readlink(path)
            text = (
                f"DataLoader: the forked workers share the position of an open file: {name} "
                f"(descriptor {fd}) cannot be opened again: {error.strerror}; if the data set "
                "reads it, open it in __getitem__, or in worker_init_fn"
            )
            warnings.append(WorkerWarning(f"position of {name}", text))
            continue
        try:
            os.lseek(own, file.position, os.SEEK_SET)
            os.dup2(own, fd, os.get_inheritable(fd))
        finally:
            os.close(own)
    return warnings
