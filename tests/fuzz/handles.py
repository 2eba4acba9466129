"""Handles of memory, layouts of arrays and messages of queues."""

from __future__ import annotations

from ..memory import forger


def forge(seed: int, count: int) -> None:
    """Forges a third of `count` inputs of each of the three kinds."""
    forger.forge(seed, -(-count // 3))
