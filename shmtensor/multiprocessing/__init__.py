"""The standard library's `multiprocessing`; tensors are sent as handles.

The module has all names of the standard library's. Processes, queues, pipes, pools and locks are
our own: they use shared memory (no named semaphores, no resource tracker), survive the death of any
process, and transfer tensors, and NumPy arrays in shared memory, without copying.
docs/design/multiprocessing.md says how.
"""

from __future__ import annotations

from importlib import import_module
from multiprocessing import (
    AuthenticationError,
    BufferTooShort,
    ProcessError,
    TimeoutError,
    active_children,
    current_process,
    parent_process,
)
from typing import TYPE_CHECKING, Any

from ..absent_names import missing as _missing
from . import connection, queue, reduction
from .barrier import Barrier
from .connection import Pipe
from .context import Process, default_context
from .lock import BoundedSemaphore, Condition, Event, Lock, RLock, Semaphore
from .queue import JoinableQueue, Queue, SimpleQueue
from .sharedctypes import RawArray, RawValue
from .spawn import (
    ProcessContext,
    ProcessException,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)

Array = default_context.Array
Manager = default_context.Manager
Pool = default_context.Pool
Value = default_context.Value
allow_connection_pickling = default_context.allow_connection_pickling
cpu_count = default_context.cpu_count
freeze_support = default_context.freeze_support
get_all_start_methods = default_context.get_all_start_methods
get_context = default_context.get_context
get_logger = default_context.get_logger
get_start_method = default_context.get_start_method
log_to_stderr = default_context.log_to_stderr
reducer = default_context.reducer
set_executable = default_context.set_executable
set_forkserver_preload = default_context.set_forkserver_preload
set_start_method = default_context.set_start_method


# PyTorch's variable of the environment: without effect, processes always start in parallel.
ENV_VAR_PARALLEL_START = "TORCH_MP_PARALLEL_START"


def get_all_sharing_strategies() -> set[str]:
    """The available sharing strategies: only blocks of the domain's heap.

    Returns
    -------
    set of str

    Examples
    --------
    >>> from shmtensor import multiprocessing as mp
    >>> mp.get_all_sharing_strategies()
    {'ledger'}
    """
    return {"ledger"}


def get_sharing_strategy() -> str:
    """The present sharing strategy.

    Returns
    -------
    str

    Examples
    --------
    >>> from shmtensor import multiprocessing as mp
    >>> mp.get_sharing_strategy()
    'ledger'
    """
    return "ledger"


def set_sharing_strategy(new_strategy: str) -> None:
    """Accepts the only strategy, and PyTorch's names, which have no effect.

    Parameters
    ----------
    new_strategy : str
        "ledger", "file_descriptor" or "file_system".

    Raises
    ------
    ValueError
        Another name.

    Examples
    --------
    >>> from shmtensor import multiprocessing as mp
    >>> mp.set_sharing_strategy("file_system")
    >>> mp.get_sharing_strategy()
    'ledger'
    """
    if new_strategy not in ("ledger", "file_descriptor", "file_system"):
        raise ValueError(
            f"set_sharing_strategy: unknown strategy: {new_strategy!r}, there is 'ledger'"
        )


# Submodules: our own, else those of the standard library; imported on first use.
_MODULES = {
    "context": "shmtensor.multiprocessing.context",
    "managers": "shmtensor.multiprocessing.managers",
    "pool": "shmtensor.multiprocessing.pool",
    "queues": "shmtensor.multiprocessing.queue",
    "sharedctypes": "shmtensor.multiprocessing.sharedctypes",
    "synchronize": "shmtensor.multiprocessing.lock",
    "dummy": "multiprocessing.dummy",
    "process": "multiprocessing.process",
    "shared_memory": "multiprocessing.shared_memory",
    "util": "multiprocessing.util",
}


if TYPE_CHECKING:
    from multiprocessing import dummy as dummy
    from multiprocessing import process as process
    from multiprocessing import shared_memory as shared_memory
    from multiprocessing import util as util

    from . import context as context
    from . import lock as _lock
    from . import managers as managers
    from . import pool as pool
    from . import sharedctypes as sharedctypes

    queues, synchronize = queue, _lock
else:

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return import_module(_MODULES[name])
        raise _missing(__name__, name)


__all__ = [
    "ENV_VAR_PARALLEL_START",
    "Array",
    "AuthenticationError",
    "Barrier",
    "BoundedSemaphore",
    "BufferTooShort",
    "Condition",
    "Event",
    "JoinableQueue",
    "Lock",
    "Manager",
    "Pipe",
    "Pool",
    "Process",
    "ProcessContext",
    "ProcessError",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "Queue",
    "RLock",
    "RawArray",
    "RawValue",
    "Semaphore",
    "SimpleQueue",
    "SpawnContext",
    "TimeoutError",
    "Value",
    "active_children",
    "allow_connection_pickling",
    "connection",
    "cpu_count",
    "current_process",
    "freeze_support",
    "get_all_sharing_strategies",
    "get_all_start_methods",
    "get_context",
    "get_logger",
    "get_sharing_strategy",
    "get_start_method",
    "log_to_stderr",
    "parent_process",
    "queue",
    "reducer",
    "reduction",
    "set_executable",
    "set_forkserver_preload",
    "set_sharing_strategy",
    "set_start_method",
    "spawn",
    "start_processes",
]
