"""Marks and ranges for NVIDIA's profilers. Without a GPU they do nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .. import cupy_runtime

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


def nvtx() -> Any:
    """CuPy's module, or None without a GPU."""
    return cupy_runtime.initialize().cuda.nvtx if cupy_runtime.is_available() else None


class Depth(threading.local):
    """How many ranges are open in a thread."""

    value = 0


depth = Depth()


def range_push(msg: str) -> int:
    """Opens a range within the one that is open in this thread.

    Parameters
    ----------
    msg : str
        Its text.

    Returns
    -------
    int
        How many are open around it.

    Examples
    --------
    >>> st.cuda.nvtx.range_push("epoch"), st.cuda.nvtx.range_push("step")
    (0, 1)
    >>> st.cuda.nvtx.range_pop(), st.cuda.nvtx.range_pop()
    (1, 0)
    """
    if module := nvtx():
        module.RangePush(msg)
    depth.value += 1
    return depth.value - 1


def range_pop() -> int:
    """Closes the innermost range of this thread.

    Returns
    -------
    int
        How many are open around it.

    Examples
    --------
    >>> st.cuda.nvtx.range_push("epoch"), st.cuda.nvtx.range_push("step")
    (0, 1)
    >>> st.cuda.nvtx.range_pop(), st.cuda.nvtx.range_pop()
    (1, 0)
    """
    if module := nvtx():
        module.RangePop()
    depth.value -= 1
    return depth.value


def range_start(msg: str) -> int:
    """Opens a range that any thread may close.

    Parameters
    ----------
    msg : str
        Its text.

    Returns
    -------
    int
        Its number, for `range_end`.

    Examples
    --------
    >>> number = st.cuda.nvtx.range_start("load")
    >>> st.cuda.nvtx.range_end(number)
    """
    module = nvtx()
    return int(module.RangeStart(msg, 0)) if module else 0


def range_end(range_id: int) -> None:
    """Closes a range of `range_start`.

    Parameters
    ----------
    range_id : int
        Its number.

    Examples
    --------
    >>> number = st.cuda.nvtx.range_start("load")
    >>> st.cuda.nvtx.range_end(number)
    """
    if module := nvtx():
        module.RangeEnd(range_id)


def mark(msg: str) -> None:
    """Marks a moment in a profiler's timeline.

    Parameters
    ----------
    msg : str
        Its text.

    Examples
    --------
    >>> st.cuda.nvtx.mark("epoch 1")
    """
    if module := nvtx():
        module.Mark(msg)


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A range around a block in a profiler's timeline.

    Parameters
    ----------
    msg : str
        Its text, as of `str.format`.
    *args, **kwargs : object
        What it is formatted with.

    Returns
    -------
    context manager
        Without a value.

    Examples
    --------
    >>> with st.cuda.nvtx.range("step {}", 1):
    ...     x = st.ones(2)
    """
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
