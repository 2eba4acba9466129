"""Paths without symbolic links, which another user may have laid in a folder like /tmp."""

from __future__ import annotations

import errno
import os
import stat

MAX_LINKS = 40  # as the kernel


def resolve(path: str | os.PathLike[str], where: str) -> str:
    """The absolute path without symbolic links; those of other users in shared folders are refused.

    In a folder that everybody may write and that is sticky (/tmp), a link is followed only if it is
    ours or the folder's owner's: the rule of Linux (fs.protected_symlinks), which the kernel does
    not apply to a path that was resolved before. Else a link /tmp/x.pt of somebody else would make
    `save` replace a file of ours.

    Args:
        where: who writes the file, for the error.

    Raises:
        PermissionError: a link of another user in a folder like /tmp.
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
                f"{where}: a symbolic link of another user ({found.st_uid}) in a folder that all "
                "may write is not followed",
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
