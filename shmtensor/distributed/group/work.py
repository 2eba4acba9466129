"""Work and Future: collectives under way, and the lanes that carry them.

```
all_reduce(x, async_op=True)    the caller                 a lane: a thread, while there is work
                                Work, at once   ------->   call 1, call 2, ...  in that order
work.wait()                     sleeps          <-------   done, or its error
```

A group has one lane for its collectives, so that they keep their order, which is the same on all
ranks; a call without `async_op` that finds work on the lane goes behind it. Messages have a lane
for each partner and direction: two ranks may both begin with `isend`.

Note [Lanes and forks]: a lane's thread ends when it has been idle for a moment, and before a fork;
so a process with nothing under way has none of them, and Python has nothing to warn about.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Any

__all__ = ["Future", "Lane", "Work"]

LINGER = 0.2  # seconds that an idle lane keeps its thread


class Future:
    """A result to come. Copies: none.

    >>> from shmtensor.distributed import Future
    >>> future = Future()
    >>> doubled = future.then(lambda done: done.value() * 2)
    >>> future.set_result(4)
    >>> doubled.wait()
    8
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._is_done = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Future], Any]] = []

    def done(self) -> bool:
        """Whether there is a result or an error."""
        return self._is_done

    def wait(self, timeout: float | None = None) -> Any:
        """The result, when it is there.

        Raises:
            TimeoutError: it was not there in time.
            BaseException: the error that came instead of it.
        """
        with self._changed:
            if not self._changed.wait_for(self.done, timeout):
                raise TimeoutError(f"Future.wait: no result after {timeout} s")
        return self.value()

    def value(self) -> Any:
        """The result, which must be there; raises the error that came instead."""
        if not self._is_done:
            raise RuntimeError("Future.value: there is no result yet: call wait()")
        if self._error is not None:
            raise self._error
        return self._value

    def exception(self) -> BaseException | None:
        """The error, or None if there is none (yet)."""
        return self._error

    def set_result(self, result: Any) -> None:
        """Gives the result, once."""
        self._settle(result, None)

    def set_exception(self, error: BaseException) -> None:
        """Gives an error instead of a result, once."""
        self._settle(None, error)

    def _settle(self, value: Any, error: BaseException | None) -> None:
        with self._changed:
            if self._is_done:
                raise RuntimeError("Future: it has a result already")
            self._value, self._error, self._is_done = value, error, True
            self._changed.notify_all()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)

    def add_done_callback(self, callback: Callable[[Future], Any]) -> None:
        """Calls `callback(self)` when there is a result; at once if there is one."""
        with self._changed:
            if not self._is_done:
                self._callbacks.append(callback)
                return
        callback(self)

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """A Future of what `callback(self)` returns when there is a result."""
        following = Future()

        def run(done: Future) -> None:
            try:
                following.set_result(callback(done))
            except BaseException as error:
                following.set_exception(error)

        self.add_done_callback(run)
        return following


class Work:
    """A collective or message that was asked for with `async_op=True`."""

    def __init__(
        self, call: Callable[[], object] | None = None, result: object = None, source: int = -1
    ) -> None:
        self._call = call
        self._result = result
        self._source = source
        self._error: BaseException | None = None
        self.future = Future()

    def run(self) -> None:
        """Does it; `settle` tells."""
        call, self._call = self._call, None
        try:
            returned = call() if call is not None else None
        except BaseException as error:
            self._error = error
        else:
            if isinstance(returned, int):
                self._source = returned

    def settle(self) -> Work:
        """Tells who waits that it is done."""
        if self._error is not None:
            self.future.set_exception(self._error)
        else:
            self.future.set_result(self._result)
        return self

    def wait(self, timeout: float | timedelta | None = None) -> bool:
        """True when it is done.

        Raises:
            TimeoutError: it was not done in time; it goes on.
            Exception: what went wrong with it, as the call without `async_op` raises it.
        """
        limit = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        self.future.wait(limit)
        return True

    def synchronize(self) -> None:
        """As `wait()`, without a limit."""
        self.wait()

    def is_completed(self) -> bool:
        """Whether it is done, well or not."""
        return self.future.done()

    def is_success(self) -> bool:
        """Whether it is done and went well."""
        return self.future.done() and self.future.exception() is None

    def exception(self) -> BaseException | None:
        """What went wrong, or None."""
        return self.future.exception()

    def result(self) -> object:
        """The tensors that were written."""
        return self._result

    def source_rank(self) -> int:
        """Of a message received: the rank that sent it."""
        return self._source

    def get_future(self) -> Future:
        """The Future of `result()`."""
        return self.future


class Lane:
    """Does Work in the order in which it came, on a thread of its own."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._begin_anew()
        living.add(self)

    def _begin_anew(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[Work] = deque()
        self._n_open = 0
        self._thread: threading.Thread | None = None
        self._ends = False

    def is_idle(self) -> bool:
        """Whether nothing is under way."""
        return not self._n_open

    def put(self, work: Work) -> Work:
        """Has the work done after all that came before."""
        with self._changed:
            self._waiting.append(work)
            self._n_open += 1
            self._ends = False
            if self._thread is None:
                self._thread = threading.Thread(target=self._live, name=self.name, daemon=True)
                self._thread.start()
            self._changed.notify()
        return work

    def _live(self) -> None:
        while True:
            with self._changed:
                if not self._waiting:
                    self._changed.wait_for(lambda: self._waiting or self._ends, LINGER)
                if not self._waiting:
                    self._thread = None
                    return
                work = self._waiting.popleft()
            work.run()
            with self._changed:
                self._n_open -= 1
            work.settle()
            del work

    def rest(self) -> None:
        """Ends the thread if nothing is under way."""
        with self._changed:
            thread = self._thread
            if thread is None or self._n_open:
                return
            self._ends = True
            self._changed.notify_all()
        if thread is not threading.current_thread():
            thread.join()


living: weakref.WeakSet[Lane] = weakref.WeakSet()


def _before_fork() -> None:
    for lane in list(living):
        lane.rest()


def _after_fork() -> None:
    for lane in list(living):
        lane._begin_anew()


os.register_at_fork(before=_before_fork, after_in_child=_after_fork)
