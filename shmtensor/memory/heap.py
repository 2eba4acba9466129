"""Where NumPy allocates array data: in shared memory while the heap's gate is open, else privately.

The gate is a flag of each thread. Ops open it themselves and close it around user code that they
call.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .. import native
from ..errors import OutOfSharedMemory


@contextmanager
def shared_numpy() -> Iterator[None]:
    """NumPy allocates arrays of this thread inside the `with` in shared memory.

    Copies: none

    Raises:
        OutOfSharedMemory: instead of NumPy's MemoryError, if the shared heap is full.

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
    """NumPy allocates arrays of this thread inside the `with` privately, even inside
    `shared_numpy()`.

    Copies: none
    """
    token = native.gate_shut()
    try:
        yield
    finally:
        native.gate_close(token)


def trim() -> int:
    """Returns free memory to the system: cached blocks, empty slots, limbo without holders.

    Returns:
        How many bytes were returned.
    """
    return native.trim()


def uninstall() -> None:
    """Removes our allocation handler from NumPy between ops.

    While it is installed, a user's own arrays pass through it, too; it gives them NumPy's memory,
    because the gate is closed. After this call every op sets the handler and restores the previous
    one, which costs about 0.2 µs.
    """
    native.uninstall()
