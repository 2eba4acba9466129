"""Which backward is running in this thread, for hooks that ask."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

__all__ = ["BackwardRun", "after_backward", "walks"]


class BackwardRun:
    """What a walk will do, for hooks that ask.

    Attributes:
        held: arrays over homes to which this walk writes no gradient: while they live, the homes
            give out no others.
    """

    __slots__ = ("__weakref__", "captures", "held", "needed", "waiting")

    def __init__(
        self, waiting: dict[Any, int], needed: set[Any] | None, captures: dict[Any, set[int]]
    ) -> None:
        self.waiting, self.needed, self.captures = waiting, needed, captures
        self.held: list[Any] = []

    def will_compute(self, node: Any, index: int) -> bool:
        """Whether the gradient of a node's output will be known."""
        if node not in self.waiting:
            return False
        return self.needed is None or node in self.needed or index in self.captures.get(node, ())


class BackwardRuns(threading.local):
    """What this thread walks.

    Attributes:
        now: the walk whose hook runs, or None.
        depth: of walks within walks.
        pushing: whether gradients are wanted only to differentiate them by the outputs' gradients,
            as forward mode does.
        ends: what is to be called after the outermost.
    """

    now: BackwardRun | None = None
    depth = 0
    pushing = False

    def __init__(self) -> None:
        self.ends: list[Callable[[], None]] = []


walks = BackwardRuns()


def after_backward(call: Callable[[], None]) -> None:
    """Has `call()` run when the backward that this thread is in has ended without an error, with
    all that runs within it; at once where there is none.
    """
    if walks.depth:
        walks.ends.append(call)
    else:
        call()
