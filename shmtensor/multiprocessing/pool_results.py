"""The queue by which the workers of a Pool send results."""

from __future__ import annotations

import itertools
import pickletools
from typing import Any

from . import queue
from .reduction import unpickled

__all__ = ["Results"]

_INTEGERS = {"BININT", "BININT1", "BININT2", "LONG1"}  # how pickle writes numbers


class Results(queue.SimpleQueue):
    """(worker, job, i, (success, value)), the three numbers first: a value that cannot be unpickled
    is an error of its task, and does not end the thread that reads.
    """

    def get(self, timeout: float | None = None, **_: Any) -> Any:
        """The next message. Raises: queue.Empty at the end of the time."""
        channel, peers = self._channel, queue._parent
        message = channel.receive(timeout, peers, _read, queue._NOTHING)
        if message is queue._NOTHING:
            raise queue.Empty
        return message


def _read(data: Any, blocks: Any) -> Any:
    try:
        return unpickled(data, blocks)
    except Exception as error:
        written = (n for code, n, _ in pickletools.genops(data) if code.name in _INTEGERS)
        return (*itertools.islice(written, 3), (False, error))
