"""Blocks and the handles they travel by (docs/design/memory.md: holds, pins, generations).

allocate(n)   -> Block      a block of this process
export(x)     -> handle     72 bytes; pins the block until acknowledged, void or expired
receive(h)    -> Block      the same memory, held by this process until the Block is gone
acknowledge(h)              it arrived (or never will): the pin ends; `receive` does it
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
