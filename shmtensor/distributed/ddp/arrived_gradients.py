"""Which gradients have come in a backward, and how often.

A backward delivers the gradient of a parameter once, but for those that run within it: each segment
of `checkpoint(use_reentrant=True)` delivers what it found by itself, so a layer that is in two
segments gets two. A bucket must not be reduced before the last.
"""

from __future__ import annotations

from collections.abc import Callable

from ...autograd.engine.running import after_backward

__all__ = ["ArrivedGradients"]


class ArrivedGradients:
    """The gradients of one backward.

    Args:
        names: id of a parameter -> its name.
        counted: called after the first backward of a static graph, when `expected` is known.

    Attributes:
        expected: of a static graph: how often each came in its first backward.
        absent: ids of parameters that were taken for unused.
    """

    def __init__(self, names: dict[int, str], counted: Callable[[], None]) -> None:
        self.names = names
        self.counted = counted
        self.came: dict[int, int] = {}
        self.expected: dict[int, int] | None = None
        self.absent: set[int] = set()
        self.is_told = False  # when backward ends

    def begin(self) -> None:
        """A forward begins; what an earlier backward that failed has left is forgotten."""
        self.came, self.absent, self.is_told = {}, set(), False

    def is_last(self, key: int, is_static: bool) -> bool:
        """One more has come: whether the gradient is whole now.

        Raises:
            RuntimeError: it was taken for whole before, and the graph is not static.
        """
        n = self.came[key] = self.came.get(key, 0) + 1
        if not self.is_told:
            self.is_told = True
            after_backward(lambda: self.end(is_static))
        if is_static:
            return self.expected is not None and n == self.expected.get(key)
        if n > 1 or key in self.absent:
            why = "was taken for unused" if n == 1 else f"came {n} times in one backward"
            raise RuntimeError(
                f"DistributedDataParallel: the gradient of {self.names[key]} {why}: it is in a "
                "checkpoint with use_reentrant=True, or used outside forward; hint: "
                "use_reentrant=False, or static_graph=True if each step is like the first"
            )
        return True

    def end(self, is_static: bool) -> None:
        """Backward is over."""
        came = self.came
        self.begin()
        if is_static and self.expected is None:
            self.expected = came
            self.counted()
