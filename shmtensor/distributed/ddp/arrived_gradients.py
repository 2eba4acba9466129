"""Which gradients have arrived in a backward, and how often.

A backward accumulates the gradient of a parameter once. But each segment of
`checkpoint(use_reentrant=True)` runs its own backward, so a layer in two segments gets two
gradients. A bucket must not be reduced before the last one.
"""

from __future__ import annotations

from collections.abc import Callable

from ...autograd.engine.running import after_backward

__all__ = ["ArrivedGradients"]


class ArrivedGradients:
    """The gradients of one backward.

    Args:
        names: id of a parameter -> its name.
        on_first_backward: called after the first backward of a static graph, when `expected` is
            set.

    Attributes:
        counts: how often each gradient has arrived.
        expected: the counts of a static graph's first backward.
        absent: ids of parameters that were considered unused.
    """

    def __init__(self, names: dict[int, str], on_first_backward: Callable[[], None]) -> None:
        self.names = names
        self.on_first_backward = on_first_backward
        self.counts: dict[int, int] = {}
        self.expected: dict[int, int] | None = None
        self.absent: set[int] = set()
        self.has_end_callback = False

    def begin(self) -> None:
        """Called when a forward begins; discards the counts of an earlier backward that failed."""
        self.counts, self.absent, self.has_end_callback = {}, set(), False

    def is_last(self, key: int, is_static: bool) -> bool:
        """Counts an arrived gradient; returns whether it is complete.

        Raises:
            RuntimeError: it was considered complete before, and the graph is not static.
        """
        n = self.counts[key] = self.counts.get(key, 0) + 1
        if not self.has_end_callback:
            self.has_end_callback = True
            after_backward(lambda: self.end(is_static))
        if is_static:
            return self.expected is not None and n == self.expected.get(key)
        if n > 1 or key in self.absent:
            why = "was considered unused" if n == 1 else f"came {n} times in one backward"
            raise RuntimeError(
                f"DistributedDataParallel: the gradient of {self.names[key]} {why}: it is in a "
                "checkpoint with use_reentrant=True, or used outside forward; hint: "
                "use_reentrant=False, or static_graph=True if each step is like the first"
            )
        return True

    def end(self, is_static: bool) -> None:
        """Called when backward has ended."""
        counts = self.counts
        self.begin()
        if is_static and self.expected is None:
            self.expected = counts
            self.on_first_backward()
