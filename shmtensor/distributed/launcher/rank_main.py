"""The main program of each process of `python -m shmtensor.run`: runs the user's script, and
reports its failure to the launcher.

python -m shmtensor.distributed.launcher.rank_main [-m] script [args ...]
"""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import sys

from ...multiprocessing import child_report
from .cpu_affinity import bind

PR_SET_PDEATHSIG = 1


def die_with_launcher() -> None:
    """Makes the kernel end this process when the launcher is killed."""
    launcher = int(os.environ.get("SHMTENSOR_LAUNCHER", "0"))
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if launcher and os.getppid() != launcher:  # it died before that call
        os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    arguments = sys.argv[1:]
    is_module = arguments[0] == "-m"
    arguments = arguments[is_module:]
    child_report.listen(child_report.from_environment())
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
            child_report.fail(end)
        raise
    except KeyboardInterrupt:
        sys.exit(130)
    except BaseException as error:
        child_report.fail(error)
        sys.exit(1)


if __name__ == "__main__":
    main()
