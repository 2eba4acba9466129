"""The main program of each process of `python -m shmtensor.run`: runs the user's script, and
reports its failure to the launcher.

python -m shmtensor.distributed.launcher.rank_main [-m] script [args ...]
"""

from __future__ import annotations

import ctypes
import json
import os
import runpy
import signal
import sys
import traceback
from contextlib import suppress

from ...multiprocessing.exit_on_exception import notify_exit_listeners
from .cpu_affinity import bind

PR_SET_PDEATHSIG = 1
LIMIT = 60_000  # bytes; a pipe has 64 KiB, so that writing never waits for the launcher


def die_with_launcher() -> None:
    """Makes the kernel end this process when the launcher is killed."""
    launcher = int(os.environ.get("SHMTENSOR_LAUNCHER", "0"))
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if launcher and os.getppid() != launcher:  # it died before that call
        os.kill(os.getpid(), signal.SIGTERM)


def error_pipe() -> int | None:
    """The launcher's pipe for a failure, named by `SHMTENSOR_ERROR_FD=descriptor:inode`. Programs
    that this process starts do not inherit it: then the number is that of another file."""
    number, _, inode = os.environ.get("SHMTENSOR_ERROR_FD", "").partition(":")
    with suppress(OSError, ValueError):
        if str(os.fstat(int(number)).st_ino) == inode:
            return int(number)
    return None


def report_failure(error: BaseException, descriptor: int | None) -> None:
    """Writes type, message and traceback, without this file's frames, into the launcher's pipe, and
    then tells the other ranks. In this order the launcher learns which rank failed first.
    """
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename in (
        __file__,
        runpy.__file__,
        "<frozen runpy>",
    ):
        frames = frames.tb_next
    text = "".join(traceback.format_exception(type(error), error, frames))
    record = {
        "type": type(error).__name__,
        "message": str(error)[:2000],
        "traceback": text[-LIMIT // 4 :],
    }
    if descriptor is not None:
        with suppress(OSError):  # the launcher has died
            os.write(descriptor, json.dumps(record).encode()[:LIMIT])
    notify_exit_listeners(error)


def main() -> None:
    arguments = sys.argv[1:]
    is_module = arguments[0] == "-m"
    arguments = arguments[is_module:]
    descriptor = error_pipe()
    del os.environ["SHMTENSOR_ERROR_FD"]  # children must not use it
    die_with_launcher()
    bind()
    sys.argv = arguments
    try:
        if is_module:
            sys.path.insert(0, os.getcwd())
            runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
            runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            report_failure(end, descriptor)
        raise
    except KeyboardInterrupt:
        sys.exit(130)
    except BaseException as error:
        report_failure(error, descriptor)
        sys.exit(1)


if __name__ == "__main__":
    main()
