"""Atomic replacement of a file: a killed writer leaves either the old or the new file.

step                                              a kill after it leaves
O_TMPFILE (no name), write, fsync                 the old file
link to a temporary name                          the old file and a complete temporary file
rename over the target, fsync of the directory    the new file
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
    """A binary file that replaces `path` at the end of the `with` block.

    If the block raises or the process is killed, `path` is unchanged. A special file
    (`/dev/stdout`, a fifo) cannot be replaced and is written directly.
    """
    target = os.path.realpath(path)
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        umask = os.umask(0)  # reading it requires setting it
        os.umask(umask)
        mode = stat.S_IFREG | (0o666 & ~umask)
    if not stat.S_ISREG(mode):
        with open(target, "wb") as file:
            yield file
        return
    directory, name = os.path.split(target)
    temporary = f".{name}.{secrets.token_hex(8)}.part"
    directory_fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fd, is_named = open_unnamed(directory_fd, temporary)
        try:
            with os.fdopen(fd, "wb") as file:
                yield file
                file.flush()
                os.fchmod(fd, stat.S_IMODE(mode))
                os.fsync(fd)
                if not is_named:
                    # With dst_dir_fd Python calls linkat, which follows the link in /proc.
                    os.link(
                        f"/proc/self/fd/{fd}",
                        temporary,
                        dst_dir_fd=directory_fd,
                        follow_symlinks=True,
                    )
                    is_named = True
            os.replace(temporary, name, src_dir_fd=directory_fd, dst_dir_fd=directory_fd)
        except BaseException:
            if is_named:
                os.unlink(temporary, dir_fd=directory_fd)
            raise
        os.fsync(directory_fd)
    finally:
        os.close(directory_fd)


def open_unnamed(directory_fd: int, temporary: str) -> tuple[int, bool]:
    """A descriptor of a new file without a name, or named `temporary` for lack of O_TMPFILE."""
    if os.path.isdir("/proc/self/fd"):
        try:
            return os.open(
                ".", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600, dir_fd=directory_fd
            ), False
        except OSError as error:
            if error.errno not in NO_TMPFILE:
                raise
    flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC
    return os.open(temporary, flags, 0o600, dir_fd=directory_fd), True
