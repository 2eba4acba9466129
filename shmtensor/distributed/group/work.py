"""Work and Future: collectives under way, and the lanes that run them.

```
all_reduce(x, async_op=True)    the caller                 a lane: a thread while it has work
                                Work, at once   ------->   call 1, call 2, ...  in that order
work.wait()                     sleeps          <-------   done, or its error
```

A group has one lane for its collectives, which keeps their order the same on all ranks. A call
without `async_op` also goes through the lane if there is work on it. Messages have a lane for each
peer and direction, so that two ranks may both begin with `isend`.

Note [Lanes and forks]: a lane's thread ends when it has been idle for a moment, and before a fork.
So a process with nothing under way has no such thread, and Python does not warn about threads.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Any

LINGER = 0.2  # seconds that an idle lane keeps its thread


class Future:
    """A result to come. Copies: none.

    See Also
    --------
    Work

    Examples
    --------
    >>> from shmtensor.distributed import Future
    >>> future = Future()
    >>> doubled = future.then(lambda done: done.value() * 2)
    >>> future.set_result(4)
    >>> doubled.wait()
    8
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._is_done = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Future], Any]] = []

    def done(self) -> bool:
        """Whether there is a result or an error."""
        return self._is_done

    def wait(self, timeout: float | None = None) -> Any:
        """Waits for the result.

        Parameters
        ----------
        timeout : float, optional
            Seconds; no limit if None.

        Returns
        -------
        any
            The result.

        Raises
        ------
        TimeoutError
            It was not there in time.
        BaseException
            The error that came instead of it.
        """
        with self._condition:
            if not self._condition.wait_for(self.done, timeout):
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
        """Sets the result. May be called once."""
        self._settle(result, None)

    def set_exception(self, error: BaseException) -> None:
        """Sets an error instead of a result. May be called once."""
        self._settle(None, error)

    def _settle(self, value: Any, error: BaseException | None) -> None:
        with self._condition:
            if self._is_done:
                raise RuntimeError("Future: it has a result already")
            self._value, self._error, self._is_done = value, error, True
            self._condition.notify_all()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)

    def add_done_callback(self, callback: Callable[[Future], Any]) -> None:
        """Calls `callback(self)` when there is a result; at once if there is one."""
        with self._condition:
            if not self._is_done:
                self._callbacks.append(callback)
                return
        callback(self)

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """A Future for what `callback(self)` returns; it is called when there is a result."""
        result = Future()

        def run(future: Future) -> None:
            try:
                result.set_result(callback(future))
            except BaseException as error:
                result.set_exception(error)

        self.add_done_callback(run)
        return result


class Work:
    """A collective or message that was started with `async_op=True`.

    Parameters
    ----------
    call : callable or None
        What computes the result, in another thread; None if it is there.
    result : object
        What `result` returns.

    Examples
    --------
    >>> import shmtensor.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> x = st.tensor([1.0, 2.0])
    >>> work = dist.all_reduce(x, async_op=True)
    >>> work.wait(), work.is_completed()
    (True, True)
    >>> dist.destroy_process_group()
    """

    def __init__(self, call: Callable[[], object] | None, result: object) -> None:
        self._call = call
        self._result = result
        self._source = -1
        self._error: BaseException | None = None
        self.future = Future()

    def run(self) -> None:
        """Runs the call; `finish` sets its result."""
        call, self._call = self._call, None  # and what it refers to
        assert call is not None
        try:
            value = call()
        except BaseException as error:
            self._error = error
        else:
            if isinstance(value, int):
                self._source = value

    def finish(self) -> Work:
        """Sets the future's result or error, which wakes those that wait for it."""
        if self._error is not None:
            self.future.set_exception(self._error)
        else:
            self.future.set_result(self._result)
        return self

    def wait(self, timeout: float | timedelta | None = None) -> bool:
        """Waits until it is done.

        Parameters
        ----------
        timeout : float or timedelta, optional
            Seconds; no limit of its own if None.

        Returns
        -------
        bool
            True.

        Raises
        ------
        TimeoutError
            It was not done in time; it goes on.
        Exception
            What went wrong with it, as the call without `async_op` raises it.
        """
        limit = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        self.future.wait(limit)
        return True

    def synchronize(self) -> None:
        """The same as `wait()` without a timeout."""
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
        """The rank that sent a received message."""
        return self._source

    def get_future(self) -> Future:
        """The Future of `result()`."""
        return self.future


class Lane:
    """Runs Work in the order of `put`, on its own thread."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._reset()
        lanes.add(self)

    def _reset(self) -> None:
        self._condition = threading.Condition()
        self._queue: deque[Work] = deque()
        self._n_unfinished = 0
        self._thread: threading.Thread | None = None
        self._is_stopping = False

    def is_idle(self) -> bool:
        """Whether nothing is under way."""
        return not self._n_unfinished

    def put(self, work: Work) -> Work:
        """Adds work at the end of the queue."""
        with self._condition:
            self._queue.append(work)
            self._n_unfinished += 1
            self._is_stopping = False
            if self._thread is None:
                self._thread = threading.Thread(target=self._run_queue, name=self.name, daemon=True)
                self._thread.start()
            self._condition.notify()
        return work

    def _run_queue(self) -> None:
        while True:
            with self._condition:
                if not self._queue:
                    self._condition.wait_for(lambda: self._queue or self._is_stopping, LINGER)
                if not self._queue:
                    self._thread = None
                    return
                work = self._queue.popleft()
            work.run()
            with self._condition:
                self._n_unfinished -= 1
            work.finish()
            del work

    def stop_if_idle(self) -> None:
        """Ends the thread if nothing is under way."""
        with self._condition:
            thread = self._thread
            if thread is None or self._n_unfinished:
                return
            self._is_stopping = True
            self._condition.notify_all()
        if thread is not threading.current_thread():
            thread.join()


lanes: weakref.WeakSet[Lane] = weakref.WeakSet()


def _before_fork() -> None:
    for lane in list(lanes):
        lane.stop_if_idle()


def _after_fork() -> None:
    for lane in list(lanes):
        lane._reset()


os.register_at_fork(before=_before_fork, after_in_child=_after_fork)
