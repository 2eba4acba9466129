"""Contexts: the standard library's three start methods, with our processes, queues and locks."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable
from multiprocessing import context as _context
from multiprocessing import process
from typing import TYPE_CHECKING, Any

from shmtensor import native
from shmtensor.profiler import profiling

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
        profiling.follow(*self._parent_row)
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

    Parameters
    ----------
    group : None
        Accepted as in the standard library.
    target : callable, optional
        What the process calls.
    name : str, optional
        Of the process.
    args, kwargs : tuple, dict, optional
        For the target.
    daemon : bool, optional
        Whether it ends with this process.

    See Also
    --------
    Pool, spawn, Queue

    Notes
    -----
    Copies: none of tensors: both processes have the same memory.

    Examples
    --------
    >>> from shmtensor import multiprocessing as mp
    >>> def increment(x):
    ...     x += 1
    >>> x = st.zeros(2)
    >>> process = mp.Process(target=increment, args=(x,))
    >>> process.start()
    >>> process.join()
    >>> x, process.exitcode
    (tensor([1., 1.]), 0)
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
        """A ctypes object that processes share, with a lock.

        Parameters
        ----------
        typecode_or_type : str or ctypes type
            "i", "d", ... as of the module array, or the type.
        *args
            For its constructor.
        lock : bool or lock, optional
            False gives the object without a lock.

        Returns
        -------
        ctypes object
            With `value` and `get_lock()`.

        See Also
        --------
        Array, RawValue

        Examples
        --------
        >>> from shmtensor import multiprocessing as mp
        >>> counter = mp.Value("i", 3)
        >>> with counter.get_lock():
        ...     counter.value += 1
        >>> counter.value
        4
        """
        return sharedctypes.Value(typecode_or_type, *args, lock=lock, ctx=self)

    def Array(self, typecode_or_type: Any, size_or_initializer: Any, *, lock: Any = True) -> Any:
        """A ctypes array that processes share, with a lock.

        Parameters
        ----------
        typecode_or_type : str or ctypes type
            "i", "d", ... as of the module array, or the type.
        size_or_initializer : int or sequence
            How many zeros, or the elements.
        lock : bool or lock, optional
            False gives the array without a lock.

        Returns
        -------
        ctypes array
            With `get_lock()`.

        See Also
        --------
        Value, RawArray

        Examples
        --------
        >>> from shmtensor import multiprocessing as mp
        >>> mp.Array("d", [1, 2])[:]
        [1.0, 2.0]
        """
        return sharedctypes.Array(typecode_or_type, size_or_initializer, lock=lock, ctx=self)

    def Pool(
        self,
        processes: int | None = None,
        initializer: Callable[..., Any] | None = None,
        initargs: Iterable[Any] = (),
        maxtasksperchild: int | None = None,
    ) -> _Pool:
        """A pool of worker processes.

        Parameters
        ----------
        processes : int, optional
            How many; one for each CPU if None.
        initializer : callable, optional
            What each worker calls first.
        initargs : iterable, optional
            For it.
        maxtasksperchild : int, optional
            After how many tasks a worker is replaced; never if None.

        Returns
        -------
        Pool
            Used in a `with`, which ends it.

        See Also
        --------
        Process

        Notes
        -----
        Copies: none of tensors in arguments and results.

        Examples
        --------
        >>> from shmtensor import multiprocessing as mp
        >>> with mp.Pool(2) as pool:
        ...     pool.map(abs, [-1, 2, -3])
        [1, 2, 3]
        """
        from .pool import Pool

        return Pool(processes, initializer, initargs, maxtasksperchild, context=self.get_context())

    def Manager(self) -> Any:
        """A server process with dict, list, Queue, Lock, ... for other processes.

        Returns
        -------
        SyncManager
            Used in a `with`, which ends it.

        Examples
        --------
        >>> from shmtensor import multiprocessing as mp
        >>> with mp.Manager() as manager:
        ...     shared = manager.dict(a=1)
        ...     dict(shared)
        {'a': 1}
        """
        from .managers import SyncManager

        manager = SyncManager(ctx=self.get_context())
        manager.start()
        return manager

    def set_forkserver_preload(self, module_names: list[str]) -> None:
        """Names modules that the fork server imports before it forks.

        Parameters
        ----------
        module_names : list of str
            The modules.

        Examples
        --------
        >>> from shmtensor import multiprocessing as mp
        >>> mp.set_forkserver_preload(["numpy"])
        >>> mp.set_forkserver_preload(["__main__"])  # the default
        """
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
        """The context in force, or the one of a start method: the names of this module as its
        methods.

        Parameters
        ----------
        method : str, optional
            "fork", "spawn" or "forkserver".

        Returns
        -------
        context

        Raises
        ------
        ValueError
            There is no such method.

        Examples
        --------
        >>> from shmtensor import multiprocessing as mp
        >>> mp.get_context("fork").get_start_method()
        'fork'
        """
        return super().get_context(self.get_start_method() if method is None else method)

    def set_start_method(self, method: str | None, force: bool = False) -> None:
        """Chooses the start method of this process.

        Parameters
        ----------
        method : str or None
            "fork", "spawn" or "forkserver"; None with `force` forgets the choice.
        force : bool, optional
            Whether it may replace an earlier choice.

        Raises
        ------
        RuntimeError
            One has been chosen, and not `force`.

        See Also
        --------
        get_context

        Examples
        --------
        >>> from shmtensor import multiprocessing as mp
        >>> before = mp.get_start_method(allow_none=True)
        >>> mp.set_start_method("spawn", force=True)
        >>> mp.get_start_method()
        'spawn'
        >>> mp.set_start_method(before, force=True)
        """
        if self._current is not None and not force:
            raise RuntimeError("set_start_method: context has already been set")
        self._current = None if method is None else super().get_context(method)

    def get_start_method(self, allow_none: bool = False) -> Any:
        """The start method in force.

        Parameters
        ----------
        allow_none : bool, optional
            Whether to return None if none has been chosen, instead of the default.

        Returns
        -------
        str or None

        See Also
        --------
        set_start_method

        Examples
        --------
        >>> from shmtensor import multiprocessing as mp
        >>> mp.get_start_method() in mp.get_all_start_methods()
        True
        """
        if self._current is not None:
            return self._current._name
        method: Any = multiprocessing.get_start_method(allow_none=True)
        if method is None and not allow_none:
            # Without allow_none, get_start_method would fix the standard library's method.
            return stdlib._default_context._default_context._name
        return method

    def get_all_start_methods(self) -> list[str]:
        """The start methods, the default first.

        Returns
        -------
        list of str

        Examples
        --------
        >>> from shmtensor import multiprocessing as mp
        >>> sorted(mp.get_all_start_methods())
        ['fork', 'forkserver', 'spawn']
        """
        methods = list(_contexts)
        default = stdlib._default_context._default_context._name
        return [default, *(method for method in methods if method != default)]


default_context = DefaultContext()
current_context.default_context = default_context
