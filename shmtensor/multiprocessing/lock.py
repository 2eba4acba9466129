"""Lock, RLock, Semaphore, BoundedSemaphore, Condition and Event on words of shared memory.

No named semaphore and no resource tracker: each object is a block (native/ipc/lock/lock.h). They
may be sent to other processes in any way, also through queues. A process that dies with a lock
makes `acquire` raise PeerLostError everywhere, because what the lock guards may be half changed;
`recover` takes the lock from the dead process.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from shmtensor import native

from .shared_object import Shared

__all__ = ["BoundedSemaphore", "Condition", "Event", "Lock", "RLock", "Semaphore"]


def _block(nbytes: int) -> Any:
    return native.allocate(nbytes, zero=True, shared=True)


class Lock(Shared):
    """A mutual exclusion lock between processes; anybody may release it, as in the standard
    library."""

    _reentrant = False

    def __init__(self, *, ctx: Any = None) -> None:
        self._block = _block(native.LOCK_NBYTES)

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:
        """Takes the lock; False: not within the time.

        Raises: PeerLostError: the process that had it is dead; `recover` takes it all the same.
        """
        return native.lock_acquire(self._block, timeout if block else 0.0, self._reentrant)

    def recover(self, block: bool = True, timeout: float | None = None) -> bool:
        """As `acquire`, and takes the lock from a holder that has died: the caller has put in order
        what it guards."""
        return native.lock_recover(self._block, timeout if block else 0.0, self._reentrant)

    def release(self) -> None:
        """Lets the lock go. Raises: ValueError (RLock: AssertionError) if it is not held."""
        native.lock_release(self._block, self._reentrant)

    def locked(self) -> bool:
        """Whether anybody holds it."""
        return native.lock_state(self._block)[0]

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    def __repr__(self) -> str:
        held, depth, row, _ = native.lock_state(self._block)
        owner = "None" if not held else f"this thread, {depth} deep" if depth else f"row {row}"
        return f"<{type(self).__name__}(owner={owner})>"


class RLock(Lock):
    """A lock that its thread may take again; it is free when it was released as often."""

    _reentrant = True

    def _depth(self) -> int:
        return native.lock_state(self._block)[1]


class _Count:
    """What `concurrent.futures` asks of a semaphore's private part."""

    def __init__(self, semaphore: Semaphore) -> None:
        self._get_value = semaphore.get_value
        self._is_zero = semaphore.locked


class Semaphore(Shared):
    """A counter that `acquire` takes from and waits for when it is 0.

    What a process held of the first `value` permits (1,024 at most) comes back when it is killed or
    fails; when it ends with exit code 0 they stay taken. A semaphore that starts at 0 is a signal:
    what was taken from it belongs to nobody.
    """

    _limited = False
    _SLOTS = 1024

    def __init__(self, value: int = 1, *, ctx: Any = None) -> None:
        if not 0 <= value < 2**31:
            raise ValueError(
                f"{type(self).__name__}: the value must be from 0 to 2**31 - 1: {value}"
            )
        self._block = _block(64 + 8 * min(value, self._SLOTS))
        native.semaphore_start(self._block, value, self._limited)

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:
        """Takes one; False: not within the time."""
        return native.semaphore_acquire(self._block, timeout if block else 0.0)

    def release(self, n: int = 1) -> None:
        """Gives n back: own permits, or, without any, for another process."""
        if n < 1:
            raise ValueError(f"{type(self).__name__}.release: n must be one or more: {n}")
        native.semaphore_release(self._block, n)

    def get_value(self) -> int:
        """How many can be taken now."""
        return native.semaphore_value(self._block)

    def locked(self) -> bool:
        """Whether `acquire` would wait."""
        return self.get_value() == 0

    @property
    def _semlock(self) -> _Count:
        return _Count(self)

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}(value={self.get_value()})>"


class BoundedSemaphore(Semaphore):
    """A Semaphore that refuses (ValueError) more releases than acquires."""

    _limited = True


class Condition(Shared):
    """Waiting for a change of what a lock guards. At most 254 waiters at once; a killed one takes
    no notification away."""

    def __init__(self, lock: Lock | None = None, *, ctx: Any = None) -> None:
        self._lock = RLock() if lock is None else lock
        self._block = _block(native.CONDITION_NBYTES)
        self._borrow()

    def _borrow(self) -> None:
        self.acquire = self._lock.acquire
        self.release = self._lock.release

    def _details(self) -> tuple[Any, ...]:
        return (self._lock,)

    @classmethod
    def _attach(cls, block: Any, *details: Any) -> Any:
        self = cls.__new__(cls)
        self._block = block
        (self._lock,) = details
        self._borrow()
        return self

    def _check(self, where: str) -> int:
        depth: int = native.lock_state(self._lock._block)[1]
        if not depth:
            raise AssertionError(f"Condition.{where}: must acquire() the condition first")
        return depth

    def wait(self, timeout: float | None = None) -> bool:
        """Releases the lock, waits for a notification, takes the lock again; False: none came in
        time."""
        depth = self._check("wait")
        place = native.condition_enter(self._block)
        for _ in range(depth):
            self._lock.release()
        try:
            return native.condition_sleep(self._block, place, timeout)
        finally:
            for _ in range(depth):
                self._lock.acquire()

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        """Waits until `predicate()` is true; returns its last value."""
        end = None if timeout is None else time.monotonic() + timeout
        result = predicate()
        while not result:
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                break
            self.wait(left)
            result = predicate()
        return result

    def notify(self, n: int = 1) -> None:
        """Wakes n waiters, those that came first."""
        self._check("notify")
        native.condition_notify(self._block, n)

    def notify_all(self) -> None:
        """Wakes all waiters."""
        self.notify(1 << 30)

    def __enter__(self) -> bool:
        return self._lock.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.__exit__(kind, error, trace)

    def __repr__(self) -> str:
        return f"<Condition({self._lock!r})>"


class Event(Shared):
    """A flag that processes wait for."""

    def __init__(self, *, ctx: Any = None) -> None:
        self._block = _block(64)

    def _word(self) -> memoryview:
        return memoryview(self._block).cast("B").cast("I")

    def is_set(self) -> bool:
        """Whether the flag is up."""
        return self._word()[0] == 1

    def set(self) -> None:
        """Raises the flag and wakes everybody who waits."""
        self._word()[0] = 1
        native.word_wake(self._block, 0)

    def clear(self) -> None:
        """Lowers the flag."""
        self._word()[0] = 0

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for the flag; False: not within the time."""
        end = None if timeout is None else time.monotonic() + timeout
        while not self.is_set():
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                return False
            native.word_wait(self._block, 0, 0, left)
        return True

    def __repr__(self) -> str:
        return f"<Event {'set' if self.is_set() else 'unset'}>"
