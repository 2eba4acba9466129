"""Every exception of shmtensor: one class for each reaction of the caller.

Existing `except` clauses keep working: each class also is the built-in (`RuntimeError`,
`MemoryError`) that PyTorch or NumPy raise in its place. Wrong shapes, dtypes and indices are plain
`RuntimeError`, `TypeError`, `ValueError` and `IndexError`, as in PyTorch.
"""

from __future__ import annotations

import os
import sys

if sys.version_info >= (3, 13):
    from queue import ShutDown as _ShutDown
else:

    class _ShutDown(Exception):
        """Replaces the standard library's class in older versions."""


__all__ = [
    "CollectiveMismatch",
    "CollectiveTimeout",
    "DomainError",
    "ForeignHandle",
    "LinAlgError",
    "OutOfMemoryError",
    "OutOfSharedMemory",
    "PeerLostError",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "QueueEmptyError",
    "ShmTensorError",
    "ShutDown",
    "StaleHandle",
    "StoreTimeout",
    "TornWeights",
]


class ShmTensorError(Exception):
    """Base class of all errors that are specific to shared memory."""


class OutOfSharedMemory(ShmTensorError, MemoryError):
    """No volume has space for a block; existing tensors are intact. Free some, or add memory."""


class OutOfMemoryError(ShmTensorError, RuntimeError, MemoryError):
    """A GPU has no memory for a block, not even after free memory was returned; existing tensors
    are intact. The message says how much is in use, waiting, and lent to which process."""


class StaleHandle(ShmTensorError, RuntimeError):
    """A handle outlived its block. It never gives wrong bytes: the sender must send again."""


class ForeignHandle(ShmTensorError, RuntimeError):
    """A handle of a domain that this process has not joined."""


class LinAlgError(ShmTensorError, RuntimeError):
    """A matrix is singular or not positive-definite, or an iteration did not converge."""


class DomainError(ShmTensorError, RuntimeError):
    """This process cannot join or keep its domain: no free row, another layout, a lost lock; or
    the holder of a named tensor sends what no honest process sends.
    """


class PeerLostError(ShmTensorError, RuntimeError):
    """A process that was waited for has died, is stopped, gave up or left. The message names it and
    the cause, for a dead process the exit code.

    Attributes:
        name: the role of the dead process, for example "rank 1" or "loader worker 0".
        pid: its process id, in its own namespace.
        host: the machine that it ran on.
        exitcode: as `multiprocessing.Process.exitcode` (negative: the signal), or None if unknown.
    """

    def __init__(
        self,
        message: str,
        name: str = "",
        pid: int = 0,
        exitcode: int | None = None,
        host: str = "",
    ) -> None:
        super().__init__(message)
        self.name = name
        self.pid = pid
        self.exitcode = exitcode
        self.host = host or os.uname().nodename  # the default: it was on this machine

    def __reduce__(self) -> tuple[type[PeerLostError], tuple[object, ...]]:
        return type(self), (str(self), self.name, self.pid, self.exitcode, self.host)


class ShutDown(ShmTensorError, _ShutDown):
    """A queue was shut down: nothing more can be put, or nothing more will come. A subclass of
    `queue.ShutDown` from Python 3.13 on."""


class CollectiveMismatch(ShmTensorError, RuntimeError):
    """Ranks called different collectives, or the same one with other sizes or dtypes."""


class CollectiveTimeout(ShmTensorError, RuntimeError, TimeoutError):
    """The other ranks did not come in time; the message names one, and what it called last."""


class StoreTimeout(ShmTensorError, TimeoutError):
    """A key of a store has not come in time; the message names it."""


class QueueEmptyError(ShmTensorError, LookupError):
    """A store's queue is empty, and the call does not wait."""


class TornWeights(ShmTensorError, RuntimeError):
    """A death in the middle of a step left shared weights half updated; load the last snapshot."""


class ProcessException(ShmTensorError, RuntimeError):
    """A process that `spawn` or `start_processes` started has failed.

    Attributes:
        msg: the message.
        error_index: the first argument of its function.
        error_pid: its process id; also `pid`.
    """

    def __init__(self, msg: str, error_index: int = 0, error_pid: int = 0) -> None:
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.error_pid = self.pid = error_pid

    def __reduce__(self) -> tuple[type[ProcessException], tuple[object, ...]]:
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """A spawned process ended with an exception; the message has its traceback."""


class ProcessExitedException(ProcessException):
    """A spawned process ended by a signal or with an exit code other than 0.

    Attributes:
        exit_code: negative: the signal.
        signal_name: for example "SIGKILL", or None.
    """

    def __init__(
        self,
        msg: str,
        error_index: int = 0,
        error_pid: int = 0,
        exit_code: int = 0,
        signal_name: str | None = None,
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name

    def __reduce__(self) -> tuple[type[ProcessExitedException], tuple[object, ...]]:
        reduced = self.msg, self.error_index, self.error_pid, self.exit_code, self.signal_name
        return type(self), reduced


def explained(error: Exception) -> Exception:
    """Marks an error whose message says where, what is wrong, and the values: an op raises it
    unchanged. The C++ core marks its own errors; RuntimeErrors need no mark.
    """
    error.explained = True  # type: ignore[attr-defined]
    return error


def is_explained(error: BaseException) -> bool:
    """Whether an error is marked by `explained`."""
    return getattr(error, "explained", False)


def printable(text: object) -> str:
    """A text from a file, for a message: as it is, or its `repr` if it has what a terminal obeys or
    cannot show.
    """
    shown = str(text)
    return shown if shown.isprintable() else repr(shown)
