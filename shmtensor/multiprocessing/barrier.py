"""Barrier between processes: nobody waits for a party that was killed.

  words (i32)   generation | state | reset generation + 1 | lost row + 1 | lost incarnation | ... 16
                then for each party (row + 1, incarnation) of those that wait now,
                then the same of those that passed the last time

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

__all__ = ["Barrier"]

_FILLING, _BROKEN, _LOST = 0, 1, 2
_GENERATION, _STATE, _RESET, _LOST_ROW, _LOST_INC, _PLACES = 0, 1, 2, 3, 4, 16
_SLICE = 0.025  # seconds between two looks at the others


class Barrier(Shared):
    """`parties` processes or threads wait until all have come.

    Args:
        action: called by the last one to come, before the others go on.
        timeout: of `wait`, in seconds, unless it is given another.
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
        self._block = native.allocate(4 * (_PLACES + 4 * parties), zero=True, shared=True)
        self._parties, self._action, self._timeout = parties, action, timeout
        self._changed = Condition(Lock())

    def _details(self) -> tuple[Any, ...]:
        return self._parties, self._action, self._timeout, self._changed

    @classmethod
    def _attach(cls, block: Any, *details: Any) -> Any:
        self = cls.__new__(cls)
        self._block = block
        self._parties, self._action, self._timeout, self._changed = details
        return self

    @property
    def _words(self) -> memoryview:
        return memoryview(self._block).cast("B").cast("i")

    def _enter(self) -> memoryview:
        """Takes the lock. A holder that was killed left the words good enough: each change is one
        word, row last."""
        try:
            self._changed.acquire()
        except PeerLostError:
            self._changed._lock.recover()
        return self._words

    def _slots(self, former: bool = False) -> range:
        start = _PLACES + (2 * self._parties if former else 0)
        return range(start, start + 2 * self._parties, 2)

    def wait(self, timeout: float | None = None) -> int:
        """Waits for the others; returns a number from 0 to parties - 1, another one for each.

        Raises:
            PeerLostError: one of those that wait, or that came the last time, has been killed.
            threading.BrokenBarrierError: the time is over, or `abort` or `reset` was called.
        """
        timeout = self._timeout if timeout is None else timeout
        end = None if timeout is None else time.monotonic() + timeout
        words = self._enter()
        try:
            self._check(words)
            generation = words[_GENERATION]
            index = sum(words[i] != 0 for i in self._slots())
            place = next(i for i in self._slots() if words[i] == 0)
            row, inc = native.row()
            words[place + 1] = inc - (1 << 32) if inc >= 1 << 31 else inc
            words[place] = row + 1
            try:
                if index + 1 == self._parties:
                    self._open(words)
                else:
                    self._sleep(words, generation, end)
            except BaseException:
                if words[_GENERATION] == generation:
                    words[place] = 0
                    if words[_STATE] == _FILLING:
                        self._break(words)
                raise
            return index
        finally:
            self._changed.release()

    def _open(self, words: memoryview) -> None:
        if self._action is not None:
            self._action()
        for now, then in zip(self._slots(), self._slots(former=True), strict=True):
            words[then + 1], words[then] = words[now + 1], words[now]
            words[now] = 0
        self._turn(words)

    def _turn(self, words: memoryview) -> None:
        words[_GENERATION] = (words[_GENERATION] + 1) & 0x3FFFFFFF
        self._changed.notify_all()

    def _sleep(self, words: memoryview, generation: int, end: float | None) -> None:
        while words[_GENERATION] == generation and words[_STATE] == _FILLING:
            left = _SLICE if end is None else min(_SLICE, end - time.monotonic())
            if left <= 0:
                raise threading.BrokenBarrierError(
                    f"Barrier.wait: not all {self._parties} came in time"
                )
            self._changed.wait(left)
            if words[_GENERATION] == generation and words[_STATE] == _FILLING:
                self._check_parties(words)
        if words[_GENERATION] != generation:
            if words[_RESET] == generation + 1:
                raise threading.BrokenBarrierError("Barrier.wait: the barrier was reset")
            return
        self._check(words)

    def _check_parties(self, words: memoryview) -> None:
        """Breaks the barrier if a party has died: one that waits, or one of the last time that was
        killed since."""
        waiting = {(words[i], words[i + 1]) for i in self._slots() if words[i]}
        former = {(words[i], words[i + 1]) for i in self._slots(former=True) if words[i]}
        for row, inc in waiting | former:
            who = row - 1, inc & 0xFFFFFFFF
            if native.liveness(*who) == "alive":
                continue
            if (row, inc) not in waiting and native.describe(*who)[2] == 0:
                continue  # it came, and left in order: another may take its part
            words[_LOST_INC], words[_LOST_ROW] = inc, row
            words[_STATE] = _LOST
            self._changed.notify_all()
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
        self._changed.notify_all()

    def reset(self) -> None:
        """Makes the barrier as new; those that wait get BrokenBarrierError."""
        words = self._enter()
        try:
            words[_RESET] = words[_GENERATION] + 1
            for i in (*self._slots(), *self._slots(former=True)):
                words[i] = 0
            words[_STATE] = _FILLING
            self._turn(words)
        finally:
            self._changed.release()

    def abort(self) -> None:
        """Breaks the barrier for everybody."""
        words = self._enter()
        try:
            self._break(words)
        finally:
            self._changed.release()

    @property
    def parties(self) -> int:
        """How many have to come."""
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
