"""How long a rank waits for others, and what it says meanwhile."""

from __future__ import annotations

import sys
import time

from ...errors import CollectiveTimeout

SILENCE = 5.0  # seconds that a rank waits before it says for whom


class Notice:
    """The deadline of a wait, and the line on stderr that says after SILENCE for whom it is.

    Args:
        timeout: seconds; negative: no limit.
    """

    def __init__(self, where: str, timeout: float) -> None:
        began = time.monotonic()
        self.where, self.timeout = where, timeout
        self.deadline = began + timeout if timeout >= 0 else float("inf")
        self._next = began + SILENCE
        self._printed: set[str] = set()

    def remaining(self) -> float:
        """Seconds until the deadline; for `timeout` arguments -1 means no limit."""
        return -1.0 if self.timeout < 0 else max(0.0, self.deadline - time.monotonic())

    def is_over(self) -> bool:
        """Whether the deadline has passed."""
        return time.monotonic() >= self.deadline

    def pause(self, longest: float) -> float:
        """Seconds until the deadline or the line, at most `longest`."""
        end = min(self.deadline, self._next)
        return max(0.0, min(longest, end - time.monotonic()))

    def is_due(self) -> bool:
        """Whether it is time for the line, once."""
        if time.monotonic() < self._next:
            return False
        self._next = float("inf")
        return True

    def check(self, line: str, error: str = "") -> None:
        """Prints the line when it is time for it. At the deadline raises CollectiveTimeout, whose
        text is the line unless an error's is given.
        """
        if self.is_due():
            self.print(line)
        if self.is_over():
            raise self.timed_out(error or line)

    def restart(self, delay: float = 0.0) -> None:
        """Another wait begins, with a line of its own so much later; the deadline stays."""
        self._next = time.monotonic() + SILENCE + delay

    def print(self, text: str) -> None:
        """Prints a line, each once."""
        if text not in self._printed:
            self._printed.add(text)
            print(f"shmtensor: {self.where}: {text}", file=sys.stderr, flush=True)

    def timed_out(self, text: str) -> CollectiveTimeout:
        """The error at the deadline."""
        return CollectiveTimeout(
            f"{self.where}: timed out after {self.timeout:g} s: not all ranks came in time: {text}"
        )
