"""Pool: the standard library's interface on our channels; a killed worker's task fails.

    apply, map ─> tasks ─> (task thread) ─> backlog ─> inbox of worker 0 ─> worker 0 ─┐
                                                    ─> inbox of worker 1 ─> worker 1 ─┤
                                              (result thread) <─ results <────────────┘

Each worker has an inbox of its own with at most two tasks in it, so this side always knows who has
which. When a worker dies, the task it was at (the first one without a result) fails with
PeerLostError, those behind it go to others, and a new worker takes its place.
"""

from __future__ import annotations

import itertools
import os
import queue
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from multiprocessing import pool as _pool
from multiprocessing import util as _util
from multiprocessing.pool import ThreadPool
from typing import Any

from shmtensor import native
from shmtensor.errors import PeerLostError

from .current_context import current_context
from .pool_results import Results
from .queue import SimpleQueue, lost

__all__ = ["Pool", "ThreadPool"]

stdlib: Any = _pool  # its private parts are what a Pool is made of
util: Any = _util
_FRUITLESS = 8  # workers that may die without a task, in a row, beyond two for each place
_AHEAD = 2  # tasks in a worker's inbox: the one it works on, and the next
_SLICE = 0.05  # seconds between two looks at the workers
_LEAVING = "leaving"  # a worker's last message when it has done maxtasksperchild
_UNREAD = "unread"  # the next task in the inbox cannot be unpickled


class _Worker:
    """A worker process as the pool sees it."""

    def __init__(self, process: Any, inbox: SimpleQueue, number: int) -> None:
        self.process = process
        self.inbox = inbox
        self.number = number
        self.tasks: deque[Any] = deque()
        self.is_leaving = False


class _Notifier:
    """What ApplyResult's cache calls when it becomes empty."""

    def __init__(self) -> None:
        self.changed = threading.Event()

    def put(self, _: Any) -> None:
        self.changed.set()


class Pool(_pool.Pool):
    """`multiprocessing.pool.Pool`, with tensors in arguments and results as handles.

    Raises from results: PeerLostError for a task whose worker was killed.
    """

    def __init__(
        self,
        processes: int | None = None,
        initializer: Callable[..., Any] | None = None,
        initargs: Iterable[Any] = (),
        maxtasksperchild: int | None = None,
        context: Any = None,
    ) -> None:
        self._pool: list[Any] = []
        self._state = stdlib.INIT
        self._ctx = context or current_context()
        if processes is None:
            processes = os.cpu_count() or 1
        if processes < 1:
            raise ValueError(f"Pool: number of processes must be at least 1: {processes}")
        if maxtasksperchild is not None and (
            not isinstance(maxtasksperchild, int) or maxtasksperchild <= 0
        ):
            raise ValueError(
                f"Pool: maxtasksperchild must be a positive int or None: {maxtasksperchild!r}"
            )
        if initializer is not None and not callable(initializer):
            raise TypeError(f"Pool: initializer must be a callable: {type(initializer).__name__}")
        self._processes = processes
        self._initializer, self._initargs = initializer, tuple(initargs)
        self._maxtasksperchild = maxtasksperchild
        self._taskqueue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._change_notifier = _Notifier()
        self._cache = stdlib._PoolCache(notifier=self._change_notifier)
        self._crew = _WorkerPool(self)
        try:
            self._crew.fill()
        except BaseException:
            self._crew.end()
            raise
        self._task_handler = threading.Thread(
            target=_feed, args=(self._taskqueue, self._crew), daemon=True
        )
        self._result_handler = threading.Thread(target=_collect, args=(self._crew,), daemon=True)
        self._task_handler.start()
        self._result_handler.start()
        self._terminate = util.Finalize(
            self,
            _terminate,
            args=(self._taskqueue, self._crew, self._task_handler, self._result_handler),
            exitpriority=15,
        )
        self._state = stdlib.RUN

    def __repr__(self) -> str:
        return f"<{type(self).__name__} state={self._state} pool_size={len(self._pool)}>"

    def close(self) -> None:
        """No more tasks; the workers end when all are done."""
        if self._state == stdlib.RUN:
            self._state = stdlib.CLOSE
            self._taskqueue.put(None)

    def terminate(self) -> None:
        """Ends the workers now; tasks without a result fail."""
        self._state = stdlib.TERMINATE
        self._terminate()

    def join(self) -> None:
        """Waits for the workers to end, after close() or terminate()."""
        if self._state == stdlib.RUN:
            raise ValueError("Pool is still running")
        self._task_handler.join()
        self._result_handler.join()


class _WorkerPool:
    """The workers, and which has which task. Its lock is held for bookkeeping and for sends, which
    never wait."""

    def __init__(self, pool: Pool) -> None:
        self.processes = pool._processes
        self.context = pool._ctx
        self.initializer, self.initargs = pool._initializer, pool._initargs
        self.maxtasks = pool._maxtasksperchild
        self.wraps = stdlib.Pool._wrap_exception
        self.cache = pool._cache
        self.listing = pool._pool  # the Process objects, for repr and for users that look
        self.results = Results()
        self.backlog: deque[Any] = deque()
        self.workers: dict[int, _Worker] = {}
        self.numbers = itertools.count()
        self.lock = threading.RLock()
        self.fruitless = 0  # workers lost in a row that had no task: they die of their start
        self.broken: BaseException | None = None  # why no more are started
        self.is_over = False  # no more tasks will come
        self.is_terminated = False

    def fill(self) -> None:
        """Starts workers until there are enough."""
        while len(self.workers) < self.processes and self.broken is None:
            number = next(self.numbers)
            inbox = SimpleQueue()
            process = self.context.Process(
                target=_work,
                args=(
                    number,
                    inbox,
                    self.results,
                    self.initializer,
                    self.initargs,
                    self.maxtasks,
                    self.wraps,
                    self.processes,
                ),
                daemon=True,
            )
            process.name = process.name.replace("Process", "PoolWorker")
            process.start()
            self.workers[number] = _Worker(process, inbox, number)
            self.listing[:] = [worker.process for worker in self.workers.values()]

    def submit(self, task: Any) -> None:
        with self.lock:
            self.backlog.append(task)
            self.hand_out()

    def hand_out(self) -> None:
        """Gives tasks of the backlog to the workers with the fewest."""
        while self.broken is not None and self.backlog and not self.workers:
            self.fail(self.backlog.popleft(), self.broken)
        while self.backlog:
            ready = [w for w in self.workers.values() if len(w.tasks) < _AHEAD and not w.is_leaving]
            if not ready:
                return
            worker = min(ready, key=lambda w: len(w.tasks))
            task = self.backlog.popleft()
            worker.tasks.append(task)
            try:
                worker.inbox.put(task)
            except Exception as error:
                worker.tasks.pop()
                self.fail(task, error)

    def fail(self, task: Any, error: BaseException) -> None:
        self.settle(task[0], task[1], (False, error))

    def settle(self, job: int, i: int, result: Any) -> None:
        held = self.cache.get(job)
        if held is None:
            return
        try:
            held._set(i, result)
        except Exception:  # of a callback: the result is there, whatever became of that
            threading.excepthook(
                threading.ExceptHookArgs([*sys.exc_info(), threading.current_thread()])
            )
            self.cache.pop(job, None)
            held._event.set()

    def take(self, message: Any) -> None:
        """A message of a worker: a result, or that it leaves."""
        with self.lock:
            number, job, i, result = message
            worker = self.workers.get(number)
            if worker is None:
                return
            if job == _LEAVING:
                worker.is_leaving = True
                return
            task = worker.tasks.popleft()
            if job == _UNREAD:
                job, i = task[:2]
            self.fruitless = 0
            self.hand_out()
        self.settle(job, i, result)

    def check_workers(self) -> None:
        """Notices workers that have ended."""
        with self.lock:
            gone = [
                worker for worker in self.workers.values() if worker.process.exitcode is not None
            ]
        if not gone:
            return
        while not self.results.empty():  # what they sent before they died counts
            self.take(self.results.get())
        with self.lock:
            failed = []
            for worker in gone:
                del self.workers[worker.number]
                tasks = list(worker.tasks)
                if not tasks and worker.process.exitcode:
                    self.fruitless += 1
                    if self.fruitless > _FRUITLESS + 2 * self.processes:
                        self.broken = lost("Pool", worker.process)
                if tasks and not worker.is_leaving:
                    failed.append((tasks.pop(0), lost("Pool", worker.process)))
                self.backlog.extendleft(reversed(tasks))
                worker.process.join()
                worker.inbox.close()
            self.listing[:] = [worker.process for worker in self.workers.values()]
            if not (self.is_over and not self.backlog):
                self.fill()
            self.hand_out()
        for task, error in failed:
            self.fail(task, error)

    def end(self) -> None:
        """Kills what is left of the workers and fails what they had."""
        with self.lock:
            workers, self.workers = list(self.workers.values()), {}
            tasks = [task for worker in workers for task in worker.tasks] + list(self.backlog)
            self.backlog.clear()
        for worker in workers:
            if worker.process.exitcode is None:
                worker.process.terminate()
        end = time.monotonic() + 5.0
        for worker in workers:
            worker.process.join(max(end - time.monotonic(), 0.0))
            if worker.process.exitcode is None:
                worker.process.kill()
                worker.process.join()
            worker.inbox.close()
        for task in tasks:
            self.fail(task, RuntimeError("Pool: terminated before the task was done"))


def _feed(taskqueue: queue.SimpleQueue[Any], crew: _WorkerPool) -> None:
    """The task thread: runs the iterables of map and imap, which may take their time."""
    for sequence, set_length in iter(taskqueue.get, None):
        task = None
        for task in sequence:
            if crew.is_terminated:
                return
            crew.submit(task)
        if set_length:
            set_length(task[1] + 1 if task else 0)
        del sequence, set_length, task
    crew.is_over = True


def _collect(crew: _WorkerPool) -> None:
    """The result thread: results, deaths, and the end."""
    while not crew.is_terminated:
        try:
            result = crew.results.get(_SLICE)
        except queue.Empty:
            crew.check_workers()
            if crew.is_over and not crew.cache:
                break
        else:
            crew.take(result)
    if crew.is_terminated:
        return
    for worker in crew.workers.values():
        worker.inbox.put(None)
    for worker in list(crew.workers.values()):
        worker.process.join()
        worker.inbox.close()
    crew.results.close()


def _terminate(
    taskqueue: queue.SimpleQueue[Any],
    crew: _WorkerPool,
    task_handler: threading.Thread,
    result_handler: threading.Thread,
) -> None:
    finished = crew.is_over and not result_handler.is_alive()
    crew.is_terminated = True
    taskqueue.put(None)
    if threading.current_thread() is not result_handler:
        result_handler.join()
    if not finished:
        crew.end()
        crew.results.close()
        for job in list(crew.cache.values()):
            if hasattr(job, "_event") and not job.ready():
                job._set(0, (False, RuntimeError("Pool: terminated before the task was done")))


def _work(
    number: int,
    inbox: SimpleQueue,
    results: SimpleQueue,
    initializer: Callable[..., Any] | None,
    initargs: tuple[Any, ...],
    maxtasks: int | None,
    wraps: bool,
    count: int,
) -> None:
    """The worker process, one of `count`."""
    native.share_threads(count)
    if initializer is not None:
        initializer(*initargs)
    done = 0
    while maxtasks is None or done < maxtasks:
        try:
            task = inbox.get()
        except PeerLostError:
            raise
        except Exception as error:
            results.put((number, _UNREAD, 0, (False, error)))
            continue
        if task is None:
            return
        job, i, function, args, named = task
        try:
            result = (True, function(*args, **named))
        except Exception as error:
            if wraps and function is not stdlib._helper_reraises_exception:
                error = stdlib.ExceptionWithTraceback(error, error.__traceback__)
            result = (False, error)
        try:
            results.put((number, job, i, result))
        except Exception as error:
            wrapped = stdlib.MaybeEncodingError(error, result[1])
            util.debug(f"possible encoding error while sending result: {wrapped}")
            results.put((number, job, i, (False, wrapped)))
        del task, args, named, result
        done += 1
    results.put((number, _LEAVING, 0, None))
