"""Which nodes a walk reaches, in which order they become ready, and which walk is running."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from .. import native
from .leaf import Leaf

__all__ = ["Walk", "after_backward", "leading_to", "waiting_for", "walks"]

Port = native.Port


class Walk:
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

    def reaches(self, node: Any, index: int) -> bool:
        """Whether the gradient of a node's output will be known."""
        if node not in self.waiting:
            return False
        return self.needed is None or node in self.needed or index in self.captures.get(node, ())


class Walks(threading.local):
    """What this thread walks.

    Attributes:
        now: the walk whose hook runs, or None.
        depth: of walks within walks.
        pushing: whether gradients are wanted only to differentiate them by the outputs' gradients,
            as forward mode does.
        ends: what is to be called after the outermost.
    """

    now: Walk | None = None
    depth = 0
    pushing = False

    def __init__(self) -> None:
        self.ends: list[Callable[[], None]] = []


walks = Walks()


def after_backward(call: Callable[[], None]) -> None:
    """Has `call()` run when the backward that this thread is in has ended without an error, with
    all that runs within it; at once where there is none.
    """
    if walks.depth:
        walks.ends.append(call)
    else:
        call()


def users(roots: Sequence[Any]) -> dict[Any, list[Any]]:
    """For each node and leaf that the roots reach: the nodes with an edge to it, one entry per
    edge.
    """
    found: dict[Any, list[Any]] = {}
    stack = []
    for node in roots:
        if node not in found:
            found[node] = []
            stack.append(node)
    while stack:
        node = stack.pop()
        if node.__class__ is Leaf:
            continue
        for e in node.edges:
            if e is None:
                continue
            if e.__class__ is Port:
                e = e.node
            known = found.get(e)
            if known is None:
                found[e] = [node]
                stack.append(e)
            else:
                known.append(node)
    return found


def waiting_for(roots: Sequence[Any]) -> dict[Any, int]:
    """How many edges lead to each node and leaf that the roots reach."""
    counts: dict[Any, int] = {}
    stack = []
    for node in roots:
        if node not in counts:
            counts[node] = 0
            stack.append(node)
    while stack:
        node = stack.pop()
        if node.__class__ is Leaf:
            continue
        for e in node.edges:
            if e is None:
                continue
            if e.__class__ is Port:
                e = e.node
            if e in counts:
                counts[e] += 1
            else:
                counts[e] = 1
                stack.append(e)
    return counts


def leading_to(roots: Sequence[Any], targets: Sequence[Any]) -> tuple[dict[Any, int], set[Any]]:
    """The same counts, only of nodes on a way to a target; and the nodes that must run for that."""
    found = users(roots)
    needed: set[Any] = set()
    stack = [t for t in targets if t in found]
    while stack:
        for user in found[stack.pop()]:
            if user not in needed:
                needed.add(user)
                stack.append(user)
    counts = {
        node: sum(user in needed for user in above)
        for node, above in found.items()
        if node in needed or node in targets
    }
    for node in roots:
        counts.setdefault(node, 0)
    return counts, needed
