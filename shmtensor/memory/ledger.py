"""Blocks and the handles they travel by. `docs/design/memory.md` says what a hold, a pin and a generation are.

    allocate(n)   -> Block      a block of this process
    export(x)     -> handle     72 bytes; pins the block until the handle is acknowledged, void or expired
    receive(h)    -> Block      the same memory, held by this process until the Block is gone
    acknowledge(h)              the message arrived (or will never): the pin ends; done by `receive`
"""

from ..native import (
    Block,
    acknowledge,
    allocate,
    block_of,
    export,
    held_elsewhere,
    is_shared,
    receive,
)

__all__ = [
    "Block",
    "acknowledge",
    "allocate",
    "block_of",
    "export",
    "held_elsewhere",
    "is_shared",
    "receive",
]
