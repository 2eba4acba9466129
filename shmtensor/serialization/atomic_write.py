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
from contextlib import contextmanager, suppress
from typing import BinaryIO

from ..memory.symbolic_links import resolve

NO_TMPFILE = {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT}


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A binary file that replaces `path` at the end of the `with` block.

    If the block raises or the process is killed, `path` is unchanged; an interrupt at the very end
    (KeyboardInterrupt) may come when it is replaced already. A special file (`/dev/stdout`, a fifo)
    cannot be replaced and is written directly. Symbolic links are followed, as by `open`, except
    those that another user may have laid (memory/symbolic_links.py).

    Raises:
        PermissionError: a link of another user in a folder like /tmp.
        OSError: the file cannot be written, for example on a full disk.
    """
    target = resolve(path, "save")
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        umask = os.umask(0)  # reading it requires setting it
        os.umask(umask)
        mode = stat.S_IFREG | (0o666 & ~umask)
    if not stat.S_ISREG(mode):
        with open(path, "wb") as file:
            yield file
        return
    directory, name = os.path.split(target)
    temporary = f".{name}.{secrets.token_hex(8)}.part"
    directory_fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fd, is_named = open_unnamed(directory_fd, temporary)
        with os.fdopen(fd, "wb") as file:
            yield file
            file.flush()
            os.fchmod(fd, stat.S_IMODE(mode))
            os.fsync(fd)
            if not is_named:
                # With dst_dir_fd Python calls linkat, which follows the link in /proc.
                os.link(
                    f"/proc/self/fd/{fd}", temporary, dst_dir_fd=directory_fd, follow_symlinks=True
                )
        os.replace(temporary, name, src_dir_fd=directory_fd, dst_dir_fd=directory_fd)
        os.fsync(directory_fd)
    except BaseException:
        # An interrupt may come at any step: the name may not be there yet, or be gone already. If
        # it cannot be removed, the first error says why.
        with suppress(OSError):
            os.unlink(temporary, dir_fd=directory_fd)
        raise
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
