"""Contexts: the standard library's three start methods, with our processes, queues and locks."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable
from multiprocessing import context as _context
from multiprocessing import process
from typing import TYPE_CHECKING, Any

from shmtensor import native

from . import barrier, connection, current_context, lock, queue, sharedctypes

if TYPE_CHECKING:
    from .pool import Pool as _Pool

__all__ = [
    "Context",
    "DefaultContext",
    "ForkContext",
    "ForkServerContext",
    "Process",
    "SpawnContext",
    "default_context",
]


stdlib: Any = _context  # untyped: its default start method is a private attribute


class _Process(process.BaseProcess):
    """A process that enters its name into the process table, and its exit code at a regular end."""

    _report: int | None = None  # of a supervised child: the pipe for its report

    def start(self) -> None:
        """Starts the child. The child stops waiting for messages when this process dies."""
        self._parent_row = native.row()
        super().start()

    def _bootstrap(self, parent_sentinel: int | None = None) -> int:
        native.set_role(self.name)
        queue.watch_parent(self._parent_row)
        run = self.run
        if self._report is not None:
            from . import child_report

            child_report.listen(self._report)

        def run_and_report() -> None:
            try:
                run()
            except BaseException as error:
                if isinstance(error, SystemExit) and error.code in (None, 0):
                    raise
                from .child_report import fail

                is_shown = fail(error)  # before waiting for children and queues
                if isinstance(error, SystemExit) or not is_shown:
                    raise
                raise SystemExit(1) from None

        self.run = run_and_report  # type: ignore[method-assign]
        bootstrap: Any = vars(process.BaseProcess)["_bootstrap"]
        code: int = bootstrap(self, parent_sentinel)
        native.record_exit(*native.row(), code)
        return code

    @staticmethod
    def _after_fork() -> None:
        """Does nothing: forked children are members before they run."""

    @staticmethod
    def _Popen(process_obj: Any) -> Any:
        from . import popen  # loads what only a parent needs

        method = process_obj._start_method or default_context.get_start_method()
        return popen.METHODS[method](process_obj)


class ForkProcess(_Process):
    _start_method = "fork"


class SpawnProcess(_Process):
    _start_method = "spawn"


class ForkServerProcess(_Process):
    _start_method = "forkserver"


class Process(_Process):
    """A process of the default start method; tensors in arguments travel as handles.

    With spawn and forkserver, lambdas, closures and functions of a notebook are sent by value.
    """

    _start_method = None


class Context(_context.BaseContext):
    """The functions of `shmtensor.multiprocessing` for one start method."""

    Process: type[_Process]
    _name: str

    Queue = queue.Queue  # type: ignore[assignment]
    JoinableQueue = queue.JoinableQueue  # type: ignore[assignment]
    SimpleQueue = queue.SimpleQueue  # type: ignore[assignment]
    Lock = lock.Lock  # type: ignore[assignment]
    RLock = lock.RLock  # type: ignore[assignment]
    Condition = lock.Condition  # type: ignore[assignment]
    Semaphore = lock.Semaphore  # type: ignore[assignment]
    BoundedSemaphore = lock.BoundedSemaphore  # type: ignore[assignment]
    Event = lock.Event  # type: ignore[assignment]
    Barrier = barrier.Barrier  # type: ignore[assignment]
    Pipe = staticmethod(connection.Pipe)
    RawValue = staticmethod(sharedctypes.RawValue)
    RawArray = staticmethod(sharedctypes.RawArray)

    def Value(self, typecode_or_type: Any, *args: Any, lock: Any = True) -> Any:
        """A ctypes object with a lock."""
        return sharedctypes.Value(typecode_or_type, *args, lock=lock, ctx=self)

    def Array(self, typecode_or_type: Any, size_or_initializer: Any, *, lock: Any = True) -> Any:
        """A ctypes array with a lock."""
        return sharedctypes.Array(typecode_or_type, size_or_initializer, lock=lock, ctx=self)

    def Pool(
        self,
        processes: int | None = None,
        initializer: Callable[..., Any] | None = None,
        initargs: Iterable[Any] = (),
        maxtasksperchild: int | None = None,
    ) -> _Pool:
        """A pool of worker processes."""
        from .pool import Pool

        return Pool(processes, initializer, initargs, maxtasksperchild, context=self.get_context())

    def Manager(self) -> Any:
        """A server process with dict, list, Queue, Lock, ... for other processes."""
        from .managers import SyncManager

        manager = SyncManager(ctx=self.get_context())
        manager.start()
        return manager

    def set_forkserver_preload(self, module_names: list[str]) -> None:
        """Modules that the fork server imports before it forks."""
        from .forkserver import server

        server.set_preload(module_names)

    def get_context(self, method: str | None = None) -> Context:  # type: ignore[override]
        """This context, or the one of a start method."""
        if method is None:
            return self
        try:
            return _contexts[method]
        except KeyError:
            raise ValueError(
                f"get_context: cannot find context for {method!r}: one of "
                f"{', '.join(map(repr, _contexts))}"
            ) from None


class ForkContext(Context):
    _name = "fork"
    Process = ForkProcess


class SpawnContext(Context):
    _name = "spawn"
    Process = SpawnProcess


class ForkServerContext(Context):
    _name = "forkserver"
    Process = ForkServerProcess


_contexts: dict[str, Context] = {
    "fork": ForkContext(),
    "spawn": SpawnContext(),
    "forkserver": ForkServerContext(),
}


class DefaultContext(Context):
    """Uses the method of `set_start_method`, else the standard library's setting or default."""

    Process = Process

    def __init__(self) -> None:
        self._current: Any = None

    def get_context(self, method: str | None = None) -> Context:  # type: ignore[override]
        """The context in force, or the one of a start method."""
        return super().get_context(self.get_start_method() if method is None else method)

    def set_start_method(self, method: str | None, force: bool = False) -> None:
        """Chooses the start method of this process, once unless `force`."""
        if self._current is not None and not force:
            raise RuntimeError("set_start_method: context has already been set")
        self._current = None if method is None else super().get_context(method)

    def get_start_method(self, allow_none: bool = False) -> Any:
        """The start method in force."""
        if self._current is not None:
            return self._current._name
        method: Any = multiprocessing.get_start_method(allow_none=True)
        if method is None and not allow_none:
            # Without allow_none, get_start_method would fix the standard library's method.
            return stdlib._default_context._default_context._name
        return method

    def get_all_start_methods(self) -> list[str]:
        """The start methods, the default first."""
        methods = list(_contexts)
        default = stdlib._default_context._default_context._name
        return [default, *(method for method in methods if method != default)]


default_context = DefaultContext()
current_context.default_context = default_context
