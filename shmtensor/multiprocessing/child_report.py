"""What a child says about its failure: one record, through a pipe of its own to its parent.

A child reports before it tells its peers, so the record of a cause is readable before those of its
consequences. The pipe takes a whole record, so writing never waits for the parent.

    length: 4 bytes | JSON: {"type": ..., "message": ..., "traceback": ..., ...}
"""

from __future__ import annotations

import json
import multiprocessing
import os
import runpy
import struct
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from shmtensor.errors import PeerLostError

from .exit_on_exception import notify_exit_listeners

__all__ = [
    "Report",
    "decode",
    "encode",
    "fail",
    "from_environment",
    "listen",
    "report_of",
    "report_of_import",
]

# The kernel's pipe has 64 KiB; a character of JSON has 4 bytes at most, 6 if it is a surrogate.
MESSAGE, TRACEBACK = 1_000, 9_000
CONSEQUENCES = (PeerLostError, ConnectionError, EOFError, threading.BrokenBarrierError)
# Frames at the head of a traceback that only say how the child was started.
STARTERS = (
    str(Path(__file__).parent),
    str(Path(__file__).parents[1] / "distributed/launcher"),
    str(Path(__file__).parents[1] / "trainer/worker_processes.py"),
    str(Path(multiprocessing.__file__).parent),
    runpy.__file__,
    "<frozen runpy>",
)


@dataclass(frozen=True)
class Report:
    """A child's failure.

    Attributes:
        is_consequence: the error came from the end of another process.
        time: when it was raised, by the machine's monotonic clock.
        is_unguarded: the main module starts processes when a child imports it; `message` is a
            sentence for the user, and there is no traceback.
    """

    type: str
    message: str
    traceback: str
    is_consequence: bool
    time: float
    is_unguarded: bool = False

    def line(self) -> str:
        """`ValueError: the first line of the message`"""
        if self.is_unguarded:
            return self.message
        return f"{self.type}: {self.message}".strip().partition("\n")[0].removesuffix(": ")


def encode(report: Report) -> bytes:
    data = json.dumps(asdict(report), ensure_ascii=False).encode(errors="backslashreplace")
    return struct.pack("<I", len(data)) + data


def decode(data: bytes) -> Report | None:
    """The record, or None: it is not complete, because the child was killed while it wrote."""
    if len(data) < 4 or len(data) < 4 + struct.unpack("<I", data[:4])[0]:
        return None
    with suppress(ValueError, TypeError):  # a stranger has written into the pipe
        return Report(**json.loads(data[4:]))
    return None


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error, and those that it was raised from or while."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def report_of(error: BaseException) -> Report:
    """The report of an exception. Its traceback is without the frames that started the child."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(STARTERS):
        frames = frames.tb_next
    summary = traceback.TracebackException(type(error), error, frames or error.__traceback__)
    is_consequence = any(isinstance(each, CONSEQUENCES) for each in chain(error))
    return Report(
        type(error).__name__,
        str(summary)[:MESSAGE],
        "".join(summary.format())[-TRACEBACK:],
        is_consequence,
        time.monotonic(),
    )


def report_of_import(error: BaseException, main: str) -> Report:
    """The report of an exception that a child raised while it imported the main module. The
    standard library refuses to start a process at that time; then the report is a sentence.
    """
    for each in chain(error):
        functions = [frame.f_code.co_name for frame, _ in traceback.walk_tb(each.__traceback__)]
        if functions and functions[-1] == "_check_not_importing_main":
            sentence = (
                f"{main} starts processes when a child imports it: put what starts them under "
                "`if __name__ == '__main__':`"
            )
            return Report("RuntimeError", sentence, "", False, time.monotonic(), True)
    return report_of(error)


# ---- in the child
_pipe: tuple[int, int] | None = None  # the descriptor, and the process that it belongs to


def listen(descriptor: int | None) -> None:
    """From now on this process reports through `descriptor`; None: it has nobody to report to."""
    global _pipe
    _pipe = None if descriptor is None else (descriptor, os.getpid())


def from_environment() -> int | None:
    """The pipe named by `SHMTENSOR_ERROR_FD=descriptor:inode`. Programs that this process starts do
    not inherit it: there the number is that of another file."""
    number, _, inode = os.environ.get("SHMTENSOR_ERROR_FD", "").partition(":")
    with suppress(OSError, ValueError):
        if str(os.fstat(int(number)).st_ino) == inode:
            return int(number)
    return None


def reports_to() -> int | None:
    """The descriptor of this process, not of one that it was forked from; None: no report."""
    return _pipe[0] if _pipe is not None and _pipe[1] == os.getpid() else None


def fail_as_program(error: BaseException) -> None:
    """`fail` in a program that the launcher has not started through `rank_main` (--no-python)."""
    if "SHMTENSOR_ERROR_FD" in os.environ:
        listen(from_environment())
    fail(error)


def fail(error: BaseException, report: Report | None = None) -> bool:
    """Reports an error that ends this process, then tells the peers, in this order. Returns whether
    there is a supervisor, which shows it."""
    global _pipe
    descriptor, _pipe = reports_to(), None  # the first report counts
    if descriptor is not None:
        with suppress(OSError):  # the supervisor has died
            os.write(descriptor, encode(report or report_of(error)))
    notify_exit_listeners(error)
    return descriptor is not None
