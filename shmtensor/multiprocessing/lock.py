"""Lock, RLock, Semaphore, BoundedSemaphore, Condition and Event on words of shared memory.

Each object is a block (native/ipc/lock/lock.h); there is no named semaphore and no resource
tracker. Objects may be sent to other processes in any way, also through queues. If a process dies
with a lock, `acquire` raises PeerLostError in all processes, because the guarded data may be
inconsistent; `recover` takes the lock from the dead process.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from shmtensor import native

from .shared_object import Shared


def _block(nbytes: int) -> Any:
    return native.allocate(nbytes, zero=True, shared=True)


class Lock(Shared):
    """A mutual exclusion lock between processes. Any process may release it, as in the standard
    library.

    Parameters
    ----------
    ctx : context, optional
        Accepted as in the standard library.

    See Also
    --------
    RLock

    Examples
    --------
    >>> from shmtensor import multiprocessing as mp
    >>> counter, lock = st.zeros(1), mp.Lock()
    >>> with lock:
    ...     counter += 1
    >>> counter
    tensor([1.])
    """

    _reentrant = False

    def __init__(self, *, ctx: Any = None) -> None:
        self._block = _block(native.LOCK_NBYTES)

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:
        """Takes the lock.

        Parameters
        ----------
        block : bool, optional
            Whether to wait for it.
        timeout : float, optional
            The longest wait in seconds; no limit if None.

        Returns
        -------
        bool
            False: not within the time.

        Raises
        ------
        PeerLostError
            Its holder is dead; `recover` takes the lock then.
        """
        return native.lock_acquire(self._block, timeout if block else 0.0, self._reentrant)

    def recover(self, block: bool = True, timeout: float | None = None) -> bool:
        """As `acquire`, but takes the lock from a dead holder, too: the caller must repair what the
        lock guards."""
        return native.lock_recover(self._block, timeout if block else 0.0, self._reentrant)

    def release(self) -> None:
        """Releases the lock. Raises: ValueError (RLock: AssertionError) if it is not held."""
        native.lock_release(self._block, self._reentrant)

    def locked(self) -> bool:
        """Whether a process holds it."""
        return native.lock_state(self._block)[0]

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def __repr__(self) -> str:
        is_locked, depth, row, _ = native.lock_state(self._block)
        owner = "None" if not is_locked else f"this thread, {depth} deep" if depth else f"row {row}"
        return f"<{type(self).__name__}(owner={owner})>"


class RLock(Lock):
    """A lock that its thread may take again; it must release it as often.

    Parameters
    ----------
    ctx : context, optional
        Accepted as in the standard library.

    See Also
    --------
    Lock

    Examples
    --------
    >>> from shmtensor import multiprocessing as mp
    >>> lock = mp.RLock()
    >>> with lock, lock:
    ...     print("twice")
    twice
    """

    _reentrant = True


class Semaphore(Shared):
    """A counter that `acquire` decrements; it waits while the counter is 0.

    The first `value` permits (1,024 at most) return when the process that acquired them is killed
    or fails, but not when it ends with exit code 0. A semaphore that starts at 0 is a signal: its
    permits have no owner.

    Parameters
    ----------
    value : int, optional
        The first value.
    ctx : context, optional
        Accepted as in the standard library.

    Raises
    ------
    ValueError
        value is negative or too large.

    See Also
    --------
    BoundedSemaphore

    Examples
    --------
    >>> from shmtensor import multiprocessing as mp
    >>> semaphore = mp.Semaphore(2)
    >>> semaphore.acquire(), semaphore.acquire(), semaphore.acquire(block=False)
    (True, True, False)
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
        """Takes one permit; False: not within the time."""
        return native.semaphore_acquire(self._block, timeout if block else 0.0)

    def release(self, n: int = 1) -> None:
        """Returns n permits: those of this process, else those of other processes."""
        if n < 1:
            raise ValueError(f"{type(self).__name__}.release: n must be one or more: {n}")
        native.semaphore_release(self._block, n)

    def get_value(self) -> int:
        """The number of permits available now."""
        return native.semaphore_value(self._block)

    def locked(self) -> bool:
        """Whether `acquire` would wait."""
        return self.get_value() == 0

    @property
    def _semlock(self) -> SimpleNamespace:  # for `concurrent.futures`
        return SimpleNamespace(_get_value=self.get_value, _is_zero=self.locked)

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}(value={self.get_value()})>"


class BoundedSemaphore(Semaphore):
    """A Semaphore that refuses more releases than acquires.

    Parameters
    ----------
    value : int, optional
        The first value.
    ctx : context, optional
        Accepted as in the standard library.

    Raises
    ------
    ValueError
        `release` beyond the first value.

    See Also
    --------
    Semaphore

    Examples
    --------
    >>> from shmtensor import multiprocessing as mp
    >>> mp.BoundedSemaphore(1).release()
    Traceback (most recent call last):
        ...
    ValueError: Semaphore.release: released too many times: the limit is 1
    """

    _limited = True


class Condition(Shared):
    """A condition variable over a lock. At most 254 waiters at once; a killed waiter consumes no
    notification.

    Parameters
    ----------
    lock : Lock or RLock, optional
        The lock; a new RLock if None.
    ctx : context, optional
        Accepted as in the standard library.

    Raises
    ------
    AssertionError
        `wait` or `notify` without the lock.

    See Also
    --------
    Event

    Examples
    --------
    >>> from shmtensor import multiprocessing as mp
    >>> condition = mp.Condition()
    >>> with condition:
    ...     condition.notify_all()
    ...     condition.wait(timeout=0.001)
    False
    """

    def __init__(self, lock: Lock | None = None, *, ctx: Any = None) -> None:
        self._block = _block(native.CONDITION_NBYTES)
        self._restore(RLock() if lock is None else lock)

    def _restore(self, lock: Lock) -> None:
        self._lock = lock
        self.acquire, self.release = lock.acquire, lock.release

    def _details(self) -> tuple[Any, ...]:
        return (self._lock,)

    def _check(self, where: str) -> int:
        depth: int = native.lock_state(self._lock._block)[1]
        if not depth:
            raise AssertionError(f"Condition.{where}: must acquire() the condition first")
        return depth

    def wait(self, timeout: float | None = None) -> bool:
        """Releases the lock, waits for a notification, takes the lock again; False: no notification
        in time."""
        depth = self._check("wait")
        slot = native.condition_enter(self._block)
        for _ in range(depth):
            self._lock.release()
        try:
            return native.condition_sleep(self._block, slot, timeout)
        finally:
            for _ in range(depth):
                self._lock.acquire()

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        """Waits until `predicate()` is true; returns its last value."""
        deadline = None if timeout is None else time.monotonic() + timeout
        result = predicate()
        while not result:
            remaining = None if deadline is None else deadline - time.monotonic()
            if remaining is not None and remaining <= 0:
                break
            self.wait(remaining)
            result = predicate()
        return result

    def notify(self, n: int = 1) -> None:
        """Wakes the n waiters that have waited longest."""
        self._check("notify")
        native.condition_notify(self._block, n)

    def notify_all(self) -> None:
        """Wakes all waiters."""
        self.notify(1 << 30)

    def __enter__(self) -> bool:
        return self._lock.__enter__()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def __repr__(self) -> str:
        return f"<Condition({self._lock!r})>"


class Event(Shared):
    """A flag that processes wait for.

    Parameters
    ----------
    ctx : context, optional
        Accepted as in the standard library.

    See Also
    --------
    Condition

    Examples
    --------
    >>> from shmtensor import multiprocessing as mp
    >>> event = mp.Event()
    >>> event.set()
    >>> event.wait(), event.is_set()
    (True, True)
    """

    def __init__(self, *, ctx: Any = None) -> None:
        self._block = _block(64)

    def _word(self) -> memoryview:
        return memoryview(self._block).cast("B").cast("I")

    def is_set(self) -> bool:
        """Whether the flag is set."""
        return self._word()[0] == 1

    def set(self) -> None:
        """Sets the flag and wakes all waiters."""
        self._word()[0] = 1
        native.word_wake(self._block, 0)

    def clear(self) -> None:
        """Resets the flag."""
        self._word()[0] = 0

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for the flag; False: not within the time."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self.is_set():
            remaining = None if deadline is None else deadline - time.monotonic()
            if remaining is not None and remaining <= 0:
                return False
            native.word_wait(self._block, 0, 0, remaining)
        return True

    def __repr__(self) -> str:
        return f"<Event {'set' if self.is_set() else 'unset'}>"
