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

    Returns
    -------
    context manager
        Without a value.

    Raises
    ------
    OutOfSharedMemory
        Instead of NumPy's MemoryError, if the shared heap is full.

    Notes
    -----
    Copies: none.

    Examples
    --------
    >>> with st.memory.shared_numpy():
    ...     x = np.zeros(3)
    >>> st.memory.is_shared(x)
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

    Returns
    -------
    context manager
        Without a value.

    Notes
    -----
    Copies: none.

    Examples
    --------
    >>> with st.memory.shared_numpy():
    ...     with st.memory.private_numpy():
    ...         x = np.zeros(3)
    >>> st.memory.is_shared(x)
    False
    """
    token = native.gate_shut()
    try:
        yield
    finally:
        native.gate_close(token)


def trim() -> int:
    """Returns free memory to the system: cached blocks, empty slots, limbo without holders.

    Returns
    -------
    int
        How many bytes were returned.

    Examples
    --------
    >>> x = st.ones(1000, 1000)
    >>> del x
    >>> st.memory.trim() >= 0
    True
    """
    return native.trim()


def uninstall() -> None:
    """Removes our allocation handler from NumPy between ops.

    Notes
    -----
    While it is installed, a user's own arrays pass through it, too; it gives them NumPy's memory,
    because the gate is closed. After this call every op sets the handler and restores the previous
    one, which costs about 0.2 µs.

    Examples
    --------
    A program that uses another allocation handler calls it before it sets that one:

    >>> def use(set_other_handler):
    ...     st.memory.uninstall()
    ...     set_other_handler()
    """
    native.uninstall()
