"""Where NumPy's arrays are born: shared while the gate is open, private while it is shut.

An open gate is a property of the thread. Ops open it themselves; user code that they call runs with
it shut.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .. import native
from ..errors import OutOfSharedMemory

__all__ = ["private_numpy", "shared_numpy", "trim", "uninstall"]


@contextmanager
def shared_numpy() -> Iterator[None]:
    """Arrays that NumPy makes in this thread inside the `with` are born in shared memory.

    Copies: none

    Raises:
        OutOfSharedMemory: in place of NumPy's MemoryError, when the shared heap had no room.

    Example:
        >>> import numpy as np, shmtensor.memory as memory
        >>> with memory.shared_numpy():
        ...     x = np.zeros(3)
        >>> memory.is_shared(x)
        True
    """
    token = native.gate_open()
    try:
        yield
    except MemoryError as error:
        reason = native.take_allocation_failure()
        if reason is None or isinstance(error, OutOfSharedMemory):
            raise
        raise OutOfSharedMemory(f"shared_numpy: {reason}") from error
    finally:
        native.gate_close(token)


@contextmanager
def private_numpy() -> Iterator[None]:
    """Arrays that NumPy makes in this thread inside the `with` are private, whatever surrounds it.

    Copies: none
    """
    token = native.gate_shut()
    try:
        yield
    finally:
        native.gate_close(token)


def trim() -> int:
    """Gives free memory back to the system: cached blocks, empty slots, limbo without holders.

    Returns:
        How many bytes were given back.
    """
    return native.trim()


def uninstall() -> None:
    """Takes the allocation hook away from NumPy between ops.

    With it a user's own arrays pass our handler (and get NumPy's memory, the gate being shut).
    Without it every op sets the handler and restores the former one, which costs about 0.2 µs.
    """
    native.uninstall()
