"""Every exception of shmtensor: one class for each reaction of the caller.

What people catch today keeps working: each class also is the built-in (`RuntimeError`,
`MemoryError`) that PyTorch or NumPy raise in its place. Wrong shapes, dtypes and indices are plain
`RuntimeError`, `TypeError`, `ValueError` and `IndexError`, as in PyTorch.
"""

from __future__ import annotations

__all__ = [
    "CollectiveMismatch",
    "CollectiveTimeout",
    "DomainError",
    "ForeignHandle",
    "OutOfSharedMemory",
    "PeerLostError",
    "ProcessExitedException",
    "ProcessRaisedException",
    "ShmTensorError",
    "StaleHandle",
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


class DomainError(ShmTensorError, RuntimeError):
    """This process cannot join or keep its domain: no row left, another layout, a lost lock."""


class PeerLostError(ShmTensorError, RuntimeError):
    """A process that was waited for has died; the message names it and its exit code.

    Attributes:
        name: the role of the dead process, for example "rank 1" or "loader worker 0".
        pid: its process id, in its own namespace.
        exitcode: as `multiprocessing.Process.exitcode` (negative: the signal), or None if unknown.
    """

    def __init__(
        self, message: str, name: str = "", pid: int = 0, exitcode: int | None = None
    ) -> None:
        super().__init__(message)
        self.name = name
        self.pid = pid
        self.exitcode = exitcode

    def __reduce__(self) -> tuple[type[PeerLostError], tuple[object, ...]]:
        return type(self), (str(self), self.name, self.pid, self.exitcode)


class CollectiveMismatch(ShmTensorError, RuntimeError):
    """Ranks called different collectives, or the same one with other sizes or dtypes."""


class CollectiveTimeout(ShmTensorError, RuntimeError, TimeoutError):
    """The other ranks did not come in time; the message names one, and what it called last."""


class TornWeights(ShmTensorError, RuntimeError):
    """A death in the middle of a step left shared weights half updated; load the last snapshot."""


class ProcessRaisedException(ShmTensorError, RuntimeError):
    """A spawned process ended with an exception; the message holds its traceback."""

    def __init__(self, message: str, error_index: int = 0, pid: int = 0) -> None:
        super().__init__(message)
        self.msg = message
        self.error_index = error_index
        self.pid = pid

    def __reduce__(self) -> tuple[type[ProcessRaisedException], tuple[object, ...]]:
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessExitedException(ShmTensorError, RuntimeError):
    """A spawned process ended by a signal or with an exit code other than 0."""

    def __init__(
        self,
        message: str,
        error_index: int = 0,
        error_pid: int = 0,
        exit_code: int = 0,
        signal_name: str | None = None,
    ) -> None:
        super().__init__(message)
        self.msg = message
        self.error_index = error_index
        self.pid = error_pid
        self.exit_code = exit_code
        self.signal_name = signal_name

    def __reduce__(self) -> tuple[type[ProcessExitedException], tuple[object, ...]]:
        return type(self), (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)
