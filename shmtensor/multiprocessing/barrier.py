"""Barrier between processes: no process waits for a party that was killed.

  words (i32)   generation | state | reset generation + 1 | dead row + 1 | dead incarnation | ... 16
                then a slot (row + 1, incarnation) for each party that waits now,
                then the same for those of the previous generation

All words change under the condition's lock. State: 0 filling, 1 broken, 2 broken by a death.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from shmtensor import native
from shmtensor.errors import PeerLostError

from .lock import Condition, Lock
from .shared_object import Shared

_FILLING, _BROKEN, _LOST = 0, 1, 2
_GENERATION, _STATE, _RESET, _LOST_ROW, _LOST_INC, _FIRST_SLOT = 0, 1, 2, 3, 4, 16
_SLICE = 0.025  # seconds between two checks of the other parties


class Barrier(Shared):
    """`parties` processes or threads wait until all have arrived.

    Parameters
    ----------
    parties : int
        How many, 1 or more.
    action : callable, optional
        Called by the last one to arrive, before the others continue.
    timeout : float, optional
        The default timeout of `wait`, in seconds.
    ctx : context, optional
        Accepted as in the standard library.

    Raises
    ------
    ValueError
        parties is less than 1.
    threading.BrokenBarrierError
        `wait`: not all arrived in time, or the barrier was reset.
    PeerLostError
        `wait`: a process that should come has died.

    Examples
    --------
    >>> from shmtensor import multiprocessing as mp
    >>> mp.Barrier(1).wait()
    0
    """

    def __init__(
        self,
        parties: int,
        action: Callable[[], Any] | None = None,
        timeout: float | None = None,
        *,
        ctx: Any = None,
    ) -> None:
        if parties < 1:
            raise ValueError(f"Barrier: parties must be 1 or more: {parties}")
        self._block = native.allocate(4 * (_FIRST_SLOT + 4 * parties), zero=True, shared=True)
        self._restore(parties, action, timeout, Condition(Lock()))

    def _details(self) -> tuple[Any, ...]:
        return self._parties, self._action, self._timeout, self._condition

    def _restore(
        self, parties: int, action: Any, timeout: float | None, condition: Condition
    ) -> None:
        self._parties, self._action, self._timeout = parties, action, timeout
        self._condition = condition

    @property
    def _words(self) -> memoryview:
        return memoryview(self._block).cast("B").cast("i")

    def _enter(self) -> memoryview:
        """Takes the lock, even from a dead holder: the words are valid at any moment, because each
        change writes one word, and a slot's row is written last."""
        try:
            self._condition.acquire()
        except PeerLostError:
            self._condition._lock.recover()
        return self._words

    def _slots(self, previous: bool = False) -> range:
        start = _FIRST_SLOT + (2 * self._parties if previous else 0)
        return range(start, start + 2 * self._parties, 2)

    def wait(self, timeout: float | None = None) -> int:
        """Waits for the others.

        Parameters
        ----------
        timeout : float, optional
            Seconds; those of the barrier if None.

        Returns
        -------
        int
            A number from 0 to parties - 1, different for each.

        Raises
        ------
        PeerLostError
            A party that waits, or that passed the previous time, has been killed.
        threading.BrokenBarrierError
            The time is over, or `abort` or `reset` was called.
        """
        timeout = self._timeout if timeout is None else timeout
        deadline = None if timeout is None else time.monotonic() + timeout
        words = self._enter()
        try:
            self._check(words)
            generation = words[_GENERATION]
            index = sum(words[i] != 0 for i in self._slots())
            slot = next(i for i in self._slots() if words[i] == 0)
            row, inc = native.row()
            words[slot + 1] = inc - (1 << 32) if inc >= 1 << 31 else inc
            words[slot] = row + 1
            try:
                if index + 1 == self._parties:
                    self._complete(words)
                else:
                    self._sleep(words, generation, deadline)
            except BaseException:
                if words[_GENERATION] == generation:
                    words[slot] = 0
                    if words[_STATE] == _FILLING:
                        self._break(words)
                raise
            return index
        finally:
            self._condition.release()

    def _complete(self, words: memoryview) -> None:
        if self._action is not None:
            self._action()
        for slot, copy in zip(self._slots(), self._slots(previous=True), strict=True):
            words[copy + 1], words[copy] = words[slot + 1], words[slot]
            words[slot] = 0
        self._advance(words)

    def _advance(self, words: memoryview) -> None:
        words[_GENERATION] = (words[_GENERATION] + 1) & 0x3FFFFFFF
        self._condition.notify_all()

    def _sleep(self, words: memoryview, generation: int, deadline: float | None) -> None:
        while words[_GENERATION] == generation and words[_STATE] == _FILLING:
            remaining = _SLICE if deadline is None else min(_SLICE, deadline - time.monotonic())
            if remaining <= 0:
                raise threading.BrokenBarrierError(
                    f"Barrier.wait: not all {self._parties} parties arrived in time"
                )
            try:
                self._condition.wait(remaining)
            except PeerLostError:  # killed in its action, while it had the lock
                self._condition._lock.recover()
            if words[_GENERATION] == generation and words[_STATE] == _FILLING:
                self._check_parties(words)
        if words[_GENERATION] != generation:
            if words[_RESET] == generation + 1:
                raise threading.BrokenBarrierError("Barrier.wait: the barrier was reset")
            return
        self._check(words)

    def _check_parties(self, words: memoryview) -> None:
        """Breaks the barrier if a party that waits has died, or if one of the previous generation
        has been killed since."""
        current = {(words[i], words[i + 1]) for i in self._slots() if words[i]}
        previous = {(words[i], words[i + 1]) for i in self._slots(previous=True) if words[i]}
        for row, inc in current | previous:
            process = row - 1, inc & 0xFFFFFFFF
            if native.liveness(*process) == "alive":
                continue
            if (row, inc) not in current and native.describe(*process)[2] == 0:
                continue  # it exited with code 0: another process may take its part
            words[_LOST_INC], words[_LOST_ROW] = inc, row
            words[_STATE] = _LOST
            self._condition.notify_all()
            self._check(words)

    def _check(self, words: memoryview) -> None:
        if words[_STATE] == _LOST:
            text, pid, code = native.describe(words[_LOST_ROW] - 1, words[_LOST_INC] & 0xFFFFFFFF)
            raise PeerLostError(f"Barrier.wait: {text}", text.split(" (")[0], pid, code)
        if words[_STATE] == _BROKEN:
            raise threading.BrokenBarrierError(
                "Barrier.wait: the barrier is broken; reset() makes it usable again"
            )

    def _break(self, words: memoryview) -> None:
        words[_STATE] = _BROKEN
        self._condition.notify_all()

    def reset(self) -> None:
        """Empties the barrier; those that wait get BrokenBarrierError."""
        words = self._enter()
        try:
            words[_RESET] = words[_GENERATION] + 1
            for i in (*self._slots(), *self._slots(previous=True)):
                words[i] = 0
            words[_STATE] = _FILLING
            self._advance(words)
        finally:
            self._condition.release()

    def abort(self) -> None:
        """Breaks the barrier for all parties."""
        words = self._enter()
        try:
            self._break(words)
        finally:
            self._condition.release()

    @property
    def parties(self) -> int:
        """How many must arrive."""
        return self._parties

    @property
    def n_waiting(self) -> int:
        """How many wait now."""
        words = self._words
        return 0 if words[_STATE] else sum(words[i] != 0 for i in self._slots())

    @property
    def broken(self) -> bool:
        """Whether `wait` raises."""
        return self._words[_STATE] != _FILLING
