"""Every exception of shmtensor: one class for each reaction of the caller.

What people catch today keeps working: each class also is the built-in (`RuntimeError`,
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
        """The standard library's, where it has none yet."""


__all__ = [
    "CollectiveMismatch",
    "CollectiveTimeout",
    "DomainError",
    "ForeignHandle",
    "LinAlgError",
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
    """Base of all errors that only a library with shared memory can have."""


class OutOfSharedMemory(ShmTensorError, MemoryError):
    """No room for a block in any volume; what was there is intact. Free something, or give more."""


class StaleHandle(ShmTensorError, RuntimeError):
    """A handle outlived the block that it names. Never wrong bytes: the sender must send again."""


class ForeignHandle(ShmTensorError, RuntimeError):
    """A handle of a domain that this process has not joined."""


class LinAlgError(ShmTensorError, RuntimeError):
    """A matrix is singular or not positive-definite, or an iteration did not converge."""


class DomainError(ShmTensorError, RuntimeError):
    """This process cannot join or keep its domain: no row left, another layout, a lost lock."""


class PeerLostError(ShmTensorError, RuntimeError):
    """A process that was waited for has died, is stopped, gave up or left; the message names it
    and why, of the dead the exit code.

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
        self.host = host or os.uname().nodename  # who needs no network to notice is a neighbour

    def __reduce__(self) -> tuple[type[PeerLostError], tuple[object, ...]]:
        return type(self), (str(self), self.name, self.pid, self.exitcode, self.host)


class ShutDown(ShmTensorError, _ShutDown):
    """A queue was shut down: nothing more can be put, or nothing more will come. Also
    `queue.ShutDown` where the standard library has that (Python 3.13)."""


class CollectiveMismatch(ShmTensorError, RuntimeError):
    """Ranks called different collectives, or the same one with other sizes or dtypes."""


class CollectiveTimeout(ShmTensorError, RuntimeError, TimeoutError):
    """The other ranks did not come in time; the message names one, and what it called last."""


class StoreTimeout(ShmTensorError, TimeoutError):
    """A key of a store has not come in time; the message names it."""


class QueueEmptyError(ShmTensorError, LookupError):
    """Nothing lies in a store's queue, and waiting was not asked for."""


class TornWeights(ShmTensorError, RuntimeError):
    """A death in the middle of a step left shared weights half updated; load the last snapshot."""


class ProcessException(ShmTensorError, RuntimeError):
    """A process that `spawn` or `start_processes` started has failed.

    Attributes:
        msg: the message.
        error_index: the first argument that its function had.
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
    """A spawned process ended with an exception; the message holds its traceback."""


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
    """Marks an error of ours, whose message says where, what is wrong, and the values: an op hands
    it on as it is. The C++ core marks what it raises; RuntimeErrors need no mark.
    """
    error.explained = True  # type: ignore[attr-defined]
    return error


def is_explained(error: BaseException) -> bool:
    """Whether an error is marked by `explained`."""
    return getattr(error, "explained", False)
