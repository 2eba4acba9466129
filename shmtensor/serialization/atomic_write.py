"""A file that is replaced whole or not at all, whenever the writer is killed.

O_TMPFILE (no name) -> write, fsync -> link to a hidden name -> rename over the target -> fsync
folder
     a kill here leaves nothing       |     ... leaves a whole hidden file   |  ... leaves the new
     file
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

__all__ = ["replacing"]

NO_TMPFILE = {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT}


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A binary file that takes the place of `path` when the `with` block ends well.

    If the block raises, or the process is killed, `path` is as it was before. What is no regular
    file (`/dev/stdout`, a fifo) cannot be replaced and is written directly.
    """
    target = os.path.realpath(path)
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        umask = os.umask(0)  # the only way to read it
        os.umask(umask)
        mode = stat.S_IFREG | (0o666 & ~umask)
    if not stat.S_ISREG(mode):
        with open(target, "wb") as file:
            yield file
        return
    folder, name = os.path.split(target)
    hidden = f".{name}.{secrets.token_hex(8)}.part"
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fd, is_named = open_unnamed(at, hidden)
        try:
            with os.fdopen(fd, "wb") as file:
                yield file
                file.flush()
                os.fchmod(fd, stat.S_IMODE(mode))
                os.fsync(fd)
                if not is_named:
                    # A folder's descriptor makes Python call linkat, which follows /proc's link to
                    # the file.
                    os.link(f"/proc/self/fd/{fd}", hidden, dst_dir_fd=at, follow_symlinks=True)
                    is_named = True
            os.replace(hidden, name, src_dir_fd=at, dst_dir_fd=at)
        except BaseException:
            if is_named:
                os.unlink(hidden, dir_fd=at)
            raise
        os.fsync(at)
    finally:
        os.close(at)


def open_unnamed(at: int, hidden: str) -> tuple[int, bool]:
    """A descriptor of a new file without a name, or named `hidden` where there can be none such."""
    if os.path.isdir("/proc/self/fd"):
        try:
            return os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600, dir_fd=at), False
        except OSError as error:
            if error.errno not in NO_TMPFILE:
                raise
    flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC
    return os.open(hidden, flags, 0o600, dir_fd=at), True
