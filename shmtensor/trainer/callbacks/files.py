"""The files that callbacks write: checks before a run, so that it does not fail hours later."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from tempfile import TemporaryFile

PROBE = bytes(4096)  # what is written to find out whether a folder can be written


def check_folder(folder: Path, where: str) -> None:
    """Creates a folder if it is missing, and checks by a small file that it can be written.

    Raises:
        OSError: the folder cannot be created or written (FileNotFoundError: its parent is missing;
            NotADirectoryError: it is a file; PermissionError; ...). The message has the path.
    """
    if not os.path.isdir(folder):
        what = "cannot create the folder"
        if os.path.exists(folder):
            raise failure(where, "the path is a file", folder, errno.ENOTDIR)
        if not os.path.isdir(folder.parent):
            what += ", because its parent is no folder"
        try:
            folder.mkdir()
        except OSError as error:
            raise failure(where, what, folder, error.errno) from None
    check_is_writable(folder, where)


def check_file(path: Path, where: str) -> None:
    """Checks that a file can be written: its folder exists, and a small file can be written there.

    Raises:
        OSError: it cannot (FileNotFoundError: the folder is missing; IsADirectoryError: the path is
            a folder; PermissionError; ...). The message has the path.
    """
    if path.is_dir():
        raise failure(where, "the path is a folder", path, errno.EISDIR)
    check_is_writable(path.parent, where)


def check_is_writable(folder: Path, where: str) -> None:
    try:
        with TemporaryFile(dir=folder, buffering=0) as file:
            file.write(PROBE)
    except OSError as error:
        raise failure(where, "cannot write a file in the folder", folder, error.errno) from None


def failure(where: str, what: str, path: Path, number: int | None) -> OSError:
    """The error of an errno (FileNotFoundError, PermissionError, ...) that says where and what."""
    number = number or errno.EIO
    return OSError(number, f"{where}: {what}: {os.strerror(number)}", str(path))
