"""What a child says about its failure: one record, through a pipe of its own to its parent.

A child reports before it tells its peers, so the record of a cause is readable before those of its
consequences. The pipe takes a whole record, so writing never waits for the parent.

    {"type": ..., "message": ..., "traceback": ..., ...}    a control message of the memory layer
"""

from __future__ import annotations

import builtins
import multiprocessing
import os
import runpy
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, get_type_hints

from shmtensor.errors import PeerLostError
from shmtensor.memory.control_message import InvalidMessage, encode, take

from .exit_on_exception import add_exit_listener, notify_exit_listeners

MESSAGE, TRACEBACK = 1_000, 50_000  # characters of a report, the last ones of the traceback
SHORT = 9_000  # of a traceback with many characters that JSON escapes
CONSEQUENCES = (PeerLostError, ConnectionError, EOFError, threading.BrokenBarrierError)
GROUPS: Any = getattr(builtins, "BaseExceptionGroup", ())  # Python 3.11
# Frames at the head of a traceback that only say how the child was started.
STARTERS = (
    str(Path(__file__).parent),
    str(Path(__file__).parents[1] / "distributed/launcher"),
    str(Path(__file__).parents[1] / "trainer/ranks.py"),
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
        return f"{self.type}: {self.message}".partition("\n")[0].removesuffix(": ")


FIELDS = get_type_hints(Report)


def decode(buffer: bytearray) -> Report | None:
    """The report in what has come of a child's pipe. None: it has not come whole, or a program that
    inherited the pipe has written something else."""
    with suppress(InvalidMessage):
        message = take(buffer)
        if message is not None and {key: type(value) for key, value in message.items()} == FIELDS:
            return Report(**message)
    return None


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error, and those that it was raised from or while."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def is_consequence(error: BaseException) -> bool:
    """Whether an error came from the end of another process; a group of errors, if each one did."""
    return any(
        isinstance(each, CONSEQUENCES)
        or (isinstance(each, GROUPS) and all(map(is_consequence, each.exceptions)))
        for each in chain(error)
    )


def report_of(error: BaseException) -> Report:
    """The report of an exception. Its traceback is without the frames that started the child."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(STARTERS):
        frames = frames.tb_next
    summary = traceback.TracebackException(type(error), error, frames or error.__traceback__)
    return Report(
        type(error).__name__,
        str(summary)[:MESSAGE],
        "".join(summary.format())[-TRACEBACK:],
        is_consequence(error),
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


def listen_to_launcher() -> None:
    """In a program that the launcher has started, but not through `rank_main` (--no-python): an
    uncaught exception is reported, too."""
    listen(from_environment())
    add_exit_listener(report)


def report(error: BaseException, record: Report | None = None) -> bool:
    """Reports an error that ends this process; the first one counts. Returns whether there is a
    supervisor, which shows it."""
    global _pipe
    pipe, _pipe = _pipe, None
    if pipe is None or pipe[1] != os.getpid():  # it belongs to the process that forked this one
        return False
    record = record or report_of(error)
    try:
        data = encode(asdict(record))
    except ValueError:
        data = encode(asdict(replace(record, traceback=record.traceback[-SHORT:])))
    with suppress(OSError):  # the supervisor has died
        os.write(pipe[0], data)
    return True


def fail(error: BaseException, record: Report | None = None) -> bool:
    """Reports an error, then tells the peers, in this order; returns what `report` does."""
    is_shown = report(error, record)
    notify_exit_listeners(error)
    return is_shown
