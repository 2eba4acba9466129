"""Which backward is running in this thread, for hooks that ask."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class BackwardRun:
    """One backward, for hooks that ask what it will compute.

    Attributes:
        buffers: arrays of grad buffers that this backward must not write to: while they are alive,
            the grad buffers give out no others.
    """

    __slots__ = ("__weakref__", "buffers", "captures", "dependencies", "must_run")

    def __init__(
        self, dependencies: dict[Any, int], must_run: set[Any] | None, captures: dict[Any, set[int]]
    ) -> None:
        self.dependencies, self.must_run, self.captures = dependencies, must_run, captures
        self.buffers: list[Any] = []

    def will_compute(self, node: Any, index: int) -> bool:
        """Whether the gradient of a node's output will be known."""
        if node not in self.dependencies:
            return False
        return (
            self.must_run is None or node in self.must_run or index in self.captures.get(node, ())
        )


class BackwardState(threading.local):
    """The backwards of this thread.

    Attributes:
        current: the backward whose hook runs, or None.
        depth: of nested backwards.
        forward_mode: whether the gradients of this backward will be differentiated with respect to
            the outputs' gradients only, as forward mode does.
        callbacks: called after the outermost backward.
    """

    current: BackwardRun | None = None
    depth = 0
    forward_mode = False

    def __init__(self) -> None:
        self.callbacks: list[Callable[[], None]] = []


backward_state = BackwardState()


def after_backward(callback: Callable[[], None]) -> None:
    """Calls `callback()` after the outermost backward of this thread, unless it raises; at once if
    there is none.
    """
    if backward_state.depth:
        backward_state.callbacks.append(callback)
    else:
        callback()
