"""record: a decorator for a rank's main function that reports its failure to the launcher.

```
@record         failure ->  the file named by TORCHELASTIC_ERROR_FILE, as PyTorch writes it
def main():             ->  the launcher, if the rank is a separate program (--no-python)
    ...
```

Scripts that the launcher runs itself need it only for the file: their failures are reported anyway.
"""

from __future__ import annotations

import faulthandler
import json
import os
import time
import traceback
import warnings
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from ....multiprocessing import child_report

P = ParamSpec("P")
R = TypeVar("R")


class ErrorHandler:
    """Writes the error as JSON into the file named by TORCHELASTIC_ERROR_FILE, if it is set.
    Subclasses may do something else.
    """

    def initialize(self) -> None:
        """Called before the function runs. Makes a crash print its traceback."""
        try:
            faulthandler.enable(all_threads=True)
        except Exception as error:  # standard error has no file descriptor
            warnings.warn(f"ErrorHandler: no traceback of crashes: {error!r}", stacklevel=2)

    def record_exception(self, e: BaseException) -> None:
        """Writes the exception."""
        path = os.environ.get("TORCHELASTIC_ERROR_FILE")
        if path:
            extra = {
                "py_callstack": "".join(traceback.format_exception(e)),
                "timestamp": str(int(time.time())),
            }
            message = {"message": f"{type(e).__name__}: {e}", "extraInfo": extra}
            with open(path, "w") as file:
                json.dump({"message": message}, file)
        if "SHMTENSOR_ERROR_FD" in os.environ:
            child_report.listen_to_launcher()
            child_report.fail(e)


def get_error_handler() -> ErrorHandler:
    """The default handler of `record`."""
    return ErrorHandler()


def record(fn: Callable[P, R], error_handler: ErrorHandler | None = None) -> Callable[P, R | None]:
    """A function that calls `fn`, and passes its exception to the handler before it is raised. If
    `fn` exits with code 0, it returns None.
    """
    handler = error_handler or get_error_handler()

    @wraps(fn)
    def recorded(*args: P.args, **kwargs: P.kwargs) -> R | None:
        handler.initialize()
        try:
            return fn(*args, **kwargs)
        except SystemExit as end:
            if end.code == 0:
                return None
            raise
        except Exception as error:
            handler.record_exception(error)
            raise

    return recorded
