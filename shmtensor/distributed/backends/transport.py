"""The messages between processes that groups over several nodes are made of: by MPI
(mpi/mpi_messages.py) or by TCP (tcp/connections.py).
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from ..group.operands import Array


class Transport(ABC):
    """This process's messages to the others. All groups of the process share it.

    A message is matched by its sender and its tag; those with the same ones come in order. Calls
    return at once. They are made under `lock`, one at a time, except for `pause`.

    Attributes:
        rank, size: of this process among all.
        max_tag: the highest tag.
        error: what a call raises if a connection is broken.
        n_groups: how many groups there have been: the same number on all ranks.
        n_open: how many groups have not been left.
    """

    def __init__(self, rank: int, size: int, max_tag: int, error: type[Exception]) -> None:
        self.rank, self.size, self.max_tag, self.error = rank, size, max_tag, error
        self.n_groups = self.n_open = 0
        self.lock = threading.Lock()

    @abstractmethod
    def send(self, x: Array, to: int, tag: int, until_received: bool = False) -> Any:
        """Begins to send a contiguous array; returns a request. It is done when the array may
        change, with `until_received` when a receive takes the message.
        """

    @abstractmethod
    def receive(self, x: Array, source: int, tag: int) -> Any:
        """Begins to receive into a contiguous array; returns a request."""

    @abstractmethod
    def are_done(self, requests: Sequence[Any]) -> bool:
        """Whether requests are done."""

    @abstractmethod
    def find(self, tag: int) -> int | None:
        """A rank whose message has come for which no receive has begun, or None."""

    def pause(self, seconds: float) -> None:
        """Waits for a change, at most for `seconds`."""
        time.sleep(seconds)

    def find_dead(self) -> dict[int, tuple[int, str]]:
        """Pid and host of ranks that have died, as far as this transport notices."""
        return {}

    def leave(self) -> None:
        """A group has been left."""
        self.n_open -= 1
