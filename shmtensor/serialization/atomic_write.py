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

__all__ = ["replacing"]

NO_TMPFILE = {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT}


MAX_LINKS = 40  # as the kernel


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A binary file that replaces `path` at the end of the `with` block.

    If the block raises or the process is killed, `path` is unchanged; an interrupt at the very end
    (KeyboardInterrupt) may come when it is replaced already. A special file (`/dev/stdout`, a fifo)
    cannot be replaced and is written directly. Symbolic links are followed, as by `open`, except
    those that another user may have laid (`resolve`).

    Raises:
        PermissionError: a link of another user in a folder like /tmp.
        OSError: the file cannot be written, for example on a full disk.
    """
    target = resolve(path)
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
                    f"/proc/self/fd/{fd}",
                    temporary,
                    dst_dir_fd=directory_fd,
                    follow_symlinks=True,
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


def resolve(path: str | os.PathLike[str]) -> str:
    """The absolute path without symbolic links; those of other users in shared folders are refused.

    In a folder that everybody may write and that is sticky (/tmp), a link is followed only if it is
    ours or the folder's owner's: the rule of Linux (fs.protected_symlinks), which the kernel does
    not apply to a path that was resolved before. Else a link /tmp/x.pt of somebody else would make
    `save` replace a file of ours.
    """
    name = os.fsdecode(path)
    if not os.path.isabs(name):
        name = os.path.join(os.getcwd(), name)
    done, todo = "/", name.split("/")[::-1]
    links = 0
    while todo:
        name = todo.pop()
        if name in ("", "."):
            continue
        if name == "..":
            done = os.path.dirname(done)
            continue
        entry = os.path.join(done, name)
        try:
            found = os.lstat(entry)
        except FileNotFoundError:  # a new file, or an error when its folder is opened
            done = entry
            continue
        if not stat.S_ISLNK(found.st_mode):
            done = entry
            continue
        folder = os.stat(done)
        shared = stat.S_ISVTX | stat.S_IWOTH
        if folder.st_mode & shared == shared and found.st_uid not in (os.geteuid(), folder.st_uid):
            raise PermissionError(
                errno.EACCES,
                f"save: a symbolic link of another user ({found.st_uid}) in a folder that all may "
                "write is not followed",
                entry,
            )
        links += 1
        if links > MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))
        destination = os.readlink(entry)
        if destination.startswith("/"):
            done = "/"
        todo += destination.split("/")[::-1]
    return done


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
