"""The workers of a loader: start, orders, replacement and end.

    orders (an epoch's seed and recipe) ──> queue of each worker
    index lists ──> one task queue ──> an idle worker ──> one result queue ──> MultiProcessEpoch

Of an iterable data set each worker reads its own stream; then each worker has its own task queue.
"""

from __future__ import annotations

import io
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.process import current_process
from queue import Empty
from typing import Any

from shmtensor import multiprocessing, native
from shmtensor.multiprocessing import reduction
from shmtensor.multiprocessing.children import Child, Children

from .fetch import Recipe
from .file_positions import positions
from .progress import EPOCH, POSITION, SINCE, TASK, make_board, row_of
from .seeding import inherited_seeds
from .worker import WorkerConfig, run_worker

PATIENCE = 2.0  # seconds a worker has to finish its sample before it is terminated
MAX_RECIPE_BYTES = 4 << 20  # bytes of a recipe beyond which a fork is cheaper than sending it


class WorkerPool:
    """Running worker processes with their queues; closed when dropped, at the latest at exit.

    A fork inherits the recipe; other workers get it with the first orders, pickled once for all of
    them. So those start in the constructor, and import in parallel with the parent; forks start in
    `launch`, after tasks were sent: the first forks work while the next ones are started.
    """

    def __init__(self, recipe: Recipe, n: int, context: Any) -> None:
        self.context = multiprocessing.get_context(context)
        self.is_forked = self.context._name == "fork"
        self.recipe = recipe
        self.is_fresh = True  # no epoch has begun yet
        self.n = n
        self.epoch = 0
        self.owner = os.getpid()
        self.user: weakref.ref[Any] | None = None  # the latest epoch
        self.board = make_board(n)
        self.rows = [row_of(self.board, worker) for worker in range(n)]
        self.results = self.context.Queue()
        self.orders = [self.context.Queue() for _ in range(n)]
        tasks = [self.context.Queue() for _ in range(n if recipe.is_stream else 1)]
        self.tasks = tasks if recipe.is_stream else tasks * n
        self.children = Children()
        if self.is_forked:
            inherited_seeds()  # makes them
        queues = [*tasks, *self.orders, self.results]
        self._finalizer = weakref.finalize(
            self, shut_down, self.owner, self.children, self.tasks, self.results, queues,
            self.board,
        )  # fmt: skip
        if self.context._name == "forkserver":
            preload()
        if not self.is_forked:
            self.launch()

    def launch(self) -> None:
        """Starts the workers that are not started yet."""
        try:
            for worker in range(len(self.children.all), self.n):
                self.start(worker)
        except BaseException:
            self.close()
            raise

    @property
    def processes(self) -> list[Any]:
        return [child.process for child in self.children.all]

    def start(self, worker: int, replaced: Child | None = None) -> None:
        """Starts a process for this worker."""
        config = WorkerConfig(
            id=worker,
            num_workers=self.n,
            orders=self.orders[worker],
            tasks=self.tasks[worker],
            results=self.results,
            board=self.board,
            parent=native.row(),
            recipe=self.recipe if self.is_forked else None,
            files=positions() if self.is_forked else {},
        )
        process = self.context.Process(
            target=run_worker, args=(config,), name=f"loader worker {worker}", daemon=True
        )
        with children_of_daemons():
            self.children.start(process, replaced)

    @property
    def is_usable(self) -> bool:
        return self._finalizer.alive and self.owner == os.getpid()

    @property
    def is_busy(self) -> bool:
        """Whether an iterator over an unfinished epoch still exists."""
        epoch = self.user() if self.user is not None else None
        return epoch is not None and not epoch.progress.is_over

    def begin(self, seed: int, positions: Any, recipe: Recipe | None) -> bool:
        """Begins a new epoch: sends each worker its orders.

        Args:
            seed: of the epoch.
            positions: where streams go on.
            recipe: another one than the workers have; None: they keep theirs.

        Returns:
            False if the recipe cannot be sent, or a new fork is cheaper than sending it.
        """
        if self.is_fresh:
            recipe = None if self.is_forked else self.recipe
        try:
            limit = MAX_RECIPE_BYTES if self.is_forked else None
            message = as_message((self.epoch + 1, seed, recipe, positions), limit)
        except Exception:
            if self.is_forked and recipe is not None:
                return False
            raise
        self.recipe, self.is_fresh = recipe or self.recipe, False
        self.epoch += 1
        self.board[EPOCH] = self.epoch
        for orders in self.orders:
            orders._channel.put(*message, None)  # pickled once for all workers
        return True

    def replace(self, worker: int, seed: int, positions: Any) -> None:
        """Starts a new process for a worker that has died, with the orders of this epoch."""
        take_all(self.orders[worker])
        row = self.rows[worker]
        row[TASK] = row[POSITION] = row[SINCE] = 0
        dead = self.children.all[worker]
        dead.process.close()
        self.start(worker, dead)
        recipe = None if self.is_forked else self.recipe
        message = as_message((self.epoch, seed, recipe, positions))
        self.orders[worker]._channel.put(*message, None)

    def drain(self) -> None:
        """Ends the epoch: drops its remaining tasks and results."""
        self.board[EPOCH] = 0
        for queue in (*set(self.tasks), self.results):
            take_all(queue)

    def close(self) -> None:
        """Ends the workers; returns when they are gone."""
        self._finalizer()

    def dead(self) -> list[int]:
        """The workers that have ended; the first cause comes first."""
        self.children.wait(0.0)
        ended = [child for child in self.children.all if child.exitcode is not None]
        ended.sort(key=lambda child: (child.is_consequence, child.failed_at))
        return [child.index for child in ended]


@contextmanager
def children_of_daemons() -> Iterator[None]:
    """Lets a daemonic process, such as that of a Pool or of another loader, start workers.

    `multiprocessing` refuses it because a daemon may be killed, and its children would stay. The
    kernel kills workers when their parent ends, however it ends.
    """
    config: dict[str, Any] = vars(current_process())["_config"]
    is_daemon = config.get("daemon", False)
    try:
        if is_daemon:
            config["daemon"] = False
        yield
    finally:
        if is_daemon:
            config["daemon"] = True


class _MessageTooLong(Exception):
    """The message is longer than the limit."""


class _LimitedBuffer(io.BytesIO):
    """A buffer that refuses to grow beyond a limit."""

    limit: int | None = None

    def write(self, data: Any) -> int:
        if self.limit is not None and self.tell() + len(data) > self.limit:
            raise _MessageTooLong
        return super().write(data)


def as_message(obj: Any, limit: int | None = None) -> tuple[bytes, list[Any]]:
    """An object as a message; arrays in shared memory as handles. Raises _MessageTooLong if its
    pickle is longer than `limit` bytes.
    """
    with reduction.sending_values():
        if limit is not None:
            buffer = _LimitedBuffer()
            buffer.limit = limit
            reduction.Pickler(buffer, reduction._Blocks()).dump(obj)
        return reduction.pickle_dumps(obj)


def preload() -> None:
    """Makes the fork server import this package once, instead of each worker."""
    from shmtensor.multiprocessing.forkserver import server

    if __name__ not in server._preload:
        server.set_preload([*server._preload, __name__])


def shut_down(
    owner: int, children: Children, tasks: list[Any], results: Any, queues: list[Any], board: Any
) -> None:
    """Asks the workers to end; terminates, and finally kills, those that do not."""
    if os.getpid() != owner:
        return  # a forked child's copy: the workers belong to the parent
    board[EPOCH] = 0

    def ask() -> None:
        for child in children.running:
            tasks[child.index].put(None)
        for orders in queues[-len(tasks) - 1 : -1]:  # one that has not begun waits for orders
            orders.put(None)

    children.end(ask, patience=PATIENCE)
    children.close()
    children.all.clear()
    for queue in queues:
        queue.close()


def take_all(queue: Any) -> list[Any]:
    """Takes the messages that are in a queue."""
    messages = []
    with suppress(Empty):
        while True:
            messages.append(queue.get(timeout=0))
    return messages
