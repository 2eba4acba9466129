"""The queue through which the workers of a Pool send results."""

from __future__ import annotations

import itertools
import pickletools
from typing import Any

from . import queue
from .reduction import pickle_loads

__all__ = ["Results"]

_INTEGERS = {"BININT", "BININT1", "BININT2", "LONG1"}  # pickle's opcodes of integers


class Results(queue.SimpleQueue):
    """Messages (worker, job, i, (success, value)). The three integers come first, so that a value
    that cannot be unpickled is an error of its task and does not end the reading thread.
    """

    def get(self, timeout: float | None = None, **_: Any) -> Any:
        """The next message. Raises: queue.Empty: no message in time."""
        channel, peers = self._channel, queue._parent
        message = channel.receive(timeout, peers, _read, queue._EMPTY)
        if message is queue._EMPTY:
            raise queue.Empty
        return message


def _read(data: Any, blocks: Any) -> Any:
    try:
        return pickle_loads(data, blocks)
    except Exception as error:
        integers = (n for code, n, _ in pickletools.genops(data) if code.name in _INTEGERS)
        return (*itertools.islice(integers, 3), (False, error))
