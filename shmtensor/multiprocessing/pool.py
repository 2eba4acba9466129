"""Pool: the standard library's interface on our channels; a killed worker's task fails.

    apply, map ─> tasks ─> (task thread) ─> backlog ─> inbox of worker 0 ─> worker 0 ─┐
                                                    ─> inbox of worker 1 ─> worker 1 ─┤
                                              (result thread) <─ results <────────────┘

Each worker has its own inbox of at most two tasks, so the pool always knows which worker has which
task. When a worker dies, its current task (the first one without a result) fails with
PeerLostError, its other tasks go to other workers, and a new worker replaces it.
"""

from __future__ import annotations

import itertools
import os
import pickletools
import queue
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable
from multiprocessing import pool as _pool
from multiprocessing import util as _util
from multiprocessing.pool import ThreadPool
from typing import Any

from shmtensor import native
from shmtensor.errors import PeerLostError, ShmTensorError

from .children import Child, Children
from .current_context import current_context
from .queue import _EMPTY, SimpleQueue, describe_exit, parent_rows
from .reduction import pickle_loads, sending_values

__all__ = ["Pool", "ThreadPool"]

stdlib: Any = _pool  # untyped: private classes and functions are used
util: Any = _util
_MAX_FAILED_STARTS = 8  # consecutive deaths without a task, beyond two per worker
_PREFETCH = 2  # tasks in a worker's inbox: the current and the next one
_SLICE = 0.05  # seconds between two checks of the workers
_EXITING = "exiting"  # a worker's last message, after maxtasksperchild tasks
_UNREAD = "unread"  # the next task in the inbox cannot be unpickled
_INTEGERS = {"BININT", "BININT1", "BININT2", "LONG1"}  # pickle's opcodes of integers


class _Worker:
    """The pool's record of a worker process."""

    def __init__(self, child: Child, inbox: SimpleQueue, number: int) -> None:
        self.child = child
        self.inbox = inbox
        self.number = number
        self.tasks: deque[Any] = deque()
        self.is_exiting = False


class _Results(SimpleQueue):
    """Messages (worker, job, i, (success, value)). The three integers come first, so that a value
    that cannot be unpickled is an error of its task and does not end the reading thread.
    """

    def get(self, timeout: float | None = None, **_: Any) -> Any:
        """The next message. Raises: queue.Empty: no message in time."""
        message = self._channel.receive(timeout, parent_rows(), _read, _EMPTY)
        if message is _EMPTY:
            raise queue.Empty
        return message


def _read(data: Any, blocks: Any) -> Any:
    try:
        return pickle_loads(data, blocks)
    except Exception as error:
        integers = (n for code, n, _ in pickletools.genops(data) if code.name in _INTEGERS)
        return (*itertools.islice(integers, 3), (False, error))


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
        self._cache: dict[int, Any] = {}  # the results that are not complete
        self._worker_pool = _WorkerPool(self)
        try:
            self._worker_pool.fill()
        except BaseException:
            self._worker_pool.end()
            raise
        self._task_handler = threading.Thread(
            target=_submit_tasks, args=(self._taskqueue, self._worker_pool), daemon=True
        )
        self._result_handler = threading.Thread(
            target=_receive_results, args=(self._worker_pool,), daemon=True
        )
        self._task_handler.start()
        self._result_handler.start()
        self._terminate = util.Finalize(
            self,
            _terminate,
            args=(self._taskqueue, self._worker_pool, self._result_handler),
            exitpriority=15,
        )
        self._state = stdlib.RUN

    def __repr__(self) -> str:
        return f"<{type(self).__name__} state={self._state} pool_size={len(self._pool)}>"

    def close(self) -> None:
        """Accepts no more tasks; the workers end after the last task."""
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
    """The workers and their tasks. The lock guards the records and the sends, which never wait."""

    def __init__(self, pool: Pool) -> None:
        self.processes = pool._processes
        self.context = pool._ctx
        self.arguments = (  # of `_worker_main`, the last ones
            pool._initializer,
            pool._initargs,
            pool._maxtasksperchild,
            stdlib.Pool._wrap_exception,
            pool._processes,
        )
        self.cache = pool._cache
        self.process_list = pool._pool  # the Process objects, for repr and for users
        self.results = _Results()
        self.backlog: deque[Any] = deque()
        self.children = Children()
        self.vacant: list[Child] = []  # that have ended and are not yet replaced
        self.workers: dict[int, _Worker] = {}
        self.numbers = itertools.count()
        self.lock = threading.RLock()
        self.failed_starts = 0  # consecutive workers that died without a task
        self.error: BaseException | None = None  # why no more workers are started
        self.is_over = False  # no more tasks will come
        self.is_terminated = False

    def fill(self) -> None:
        """Starts workers until there are enough."""
        while len(self.workers) < self.processes and self.error is None:
            number = next(self.numbers)
            inbox = SimpleQueue()
            arguments = (number, inbox, self.results, *self.arguments)
            process = self.context.Process(target=_worker_main, args=arguments, daemon=True)
            process.name = process.name.replace("Process", "PoolWorker")
            child = self.children.start(process, self.vacant.pop() if self.vacant else None)
            self.workers[number] = _Worker(child, inbox, number)
            self.process_list[:] = [worker.child.process for worker in self.workers.values()]

    def submit(self, task: Any) -> None:
        with self.lock:
            self.backlog.append(task)
            self.dispatch()

    def dispatch(self) -> None:
        """Gives tasks of the backlog to the workers with the fewest."""
        while self.error is not None and self.backlog and not self.workers:
            self.fail(self.backlog.popleft(), self.error)
        while self.backlog:
            ready = [
                w for w in self.workers.values() if len(w.tasks) < _PREFETCH and not w.is_exiting
            ]
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
        self.set_result(task[0], task[1], (False, error))

    def set_result(self, job: int, i: int, result: Any) -> None:
        async_result = self.cache.get(job)
        if async_result is None:
            return
        try:
            async_result._set(i, result)
        except Exception:  # raised by a callback: the result is set all the same
            threading.excepthook(
                threading.ExceptHookArgs([*sys.exc_info(), threading.current_thread()])
            )
            self.cache.pop(job, None)
            async_result._event.set()

    def handle_message(self, message: Any) -> None:
        """Handles a message of a worker: a result, or its exit."""
        with self.lock:
            number, job, i, result = message
            worker = self.workers.get(number)
            if worker is None:
                return
            if job == _EXITING:
                worker.is_exiting = True
                return
            task = worker.tasks[0] if worker.tasks else None
            if task is None or (job != _UNREAD and task[:2] != (job, i)):
                return  # a second result: a signal handler raised when the first one was sent
            worker.tasks.popleft()
            if job == _UNREAD:
                job, i = task[:2]
            self.failed_starts = 0
            self.dispatch()
        self.set_result(job, i, result)

    def check_workers(self) -> None:
        """Replaces workers that have ended."""
        with self.lock:
            self.children.wait(0.0)
            exited = [w for w in self.workers.values() if w.child.exitcode is not None]
        if not exited:
            return
        while not self.results.empty():  # results that they sent before they died count
            self.handle_message(self.results.get())
        with self.lock:
            failures = []
            for worker in exited:
                del self.workers[worker.number]
                self.vacant.append(worker.child)
                tasks = list(worker.tasks)
                if worker.child.exitcode and (not tasks or worker.child.is_unguarded):
                    self.failed_starts += 1
                    too_many = self.failed_starts > _MAX_FAILED_STARTS + 2 * self.processes
                    if too_many or worker.child.is_unguarded:
                        self.error = self.lost_error(worker.child)
                if tasks and not worker.is_exiting:
                    failures.append((tasks.pop(0), self.lost_error(worker.child)))
                self.backlog.extendleft(reversed(tasks))
                worker.inbox.close()
            self.process_list[:] = [worker.child.process for worker in self.workers.values()]
            if not (self.is_over and not self.backlog):
                self.fill()
            self.dispatch()
        for task, error in failures:
            self.fail(task, error)

    def lost_error(self, child: Child) -> ShmTensorError:
        """The error that names a dead worker: PeerLostError, unless it could not even begin."""
        if child.is_unguarded:
            return self.children.error("Pool", child)
        text = f"Pool: {child.who()} {describe_exit(child.exitcode)}"
        if child.report is not None:
            text += f": {child.report.line()}\n\n{child.report.traceback.rstrip()}"
        return PeerLostError(text, child.name, child.pid, child.exitcode)

    def end(self) -> None:
        """Kills the remaining workers and fails their tasks."""
        with self.lock:
            workers, self.workers = list(self.workers.values()), {}
            tasks = [task for worker in workers for task in worker.tasks] + list(self.backlog)
            self.backlog.clear()
        self.children.end()
        for worker in workers:
            worker.inbox.close()
        for task in tasks:
            self.fail(task, RuntimeError("Pool: terminated before the task was done"))


def _submit_tasks(taskqueue: queue.SimpleQueue[Any], pool: _WorkerPool) -> None:
    """The task thread: iterates over the tasks of map and imap, which may be slow."""
    for sequence, set_length in iter(taskqueue.get, None):
        task = None
        for task in sequence:
            if pool.is_terminated:
                return
            pool.submit(task)
        if set_length:
            set_length(task[1] + 1 if task else 0)
        del sequence, set_length, task
    pool.is_over = True


def _receive_results(pool: _WorkerPool) -> None:
    """The result thread: results, deaths of workers, and the end of the pool."""
    while not pool.is_terminated:
        try:
            result = pool.results.get(_SLICE)
        except queue.Empty:
            pool.check_workers()
            if pool.is_over and not pool.cache:
                break
        else:
            pool.handle_message(result)
    if pool.is_terminated:
        return
    for worker in pool.workers.values():
        worker.inbox.put(None)
    while pool.children.running:
        pool.children.wait()
    for worker in pool.workers.values():
        worker.inbox.close()
    pool.results.close()


def _terminate(
    taskqueue: queue.SimpleQueue[Any], pool: _WorkerPool, result_handler: threading.Thread
) -> None:
    is_finished = pool.is_over and not result_handler.is_alive()
    pool.is_terminated = True
    taskqueue.put(None)
    if threading.current_thread() is not result_handler:
        result_handler.join()
    if not is_finished:
        pool.end()
        pool.results.close()
        for job in list(pool.cache.values()):
            if hasattr(job, "_event") and not job.ready():
                job._set(0, (False, RuntimeError("Pool: terminated before the task was done")))


def _worker_main(
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
    n_done = 0
    while maxtasks is None or n_done < maxtasks:
        try:
            task = inbox.get()
        except PeerLostError:
            raise
        except Exception as error:
            results.put((number, _UNREAD, 0, (False, error)))
            continue
        if task is None:
            return
        job, i, function, args, kwargs = task
        try:
            result = (True, function(*args, **kwargs))
        except Exception as error:
            if wraps and function is not stdlib._helper_reraises_exception:
                error = stdlib.ExceptionWithTraceback(error, error.__traceback__)
            result = (False, error)
        try:
            with sending_values():
                results.put((number, job, i, result))
        except Exception as error:
            wrapped = stdlib.MaybeEncodingError(error, result[1])
            util.debug(f"possible encoding error while sending result: {wrapped}")
            results.put((number, job, i, (False, wrapped)))
        del task, args, kwargs, result
        n_done += 1
    results.put((number, _EXITING, 0, None))
