"""Blocks and their handles (docs/design/memory.md: holds, handles in flight, generations).

allocate(n)   -> Block      a block of this process
export(x)     -> handle     72 bytes; in flight until acknowledged, void or expired
receive(h)    -> Block      the same memory, held by this process until the Block is freed
acknowledge(h)              no longer in flight: it has arrived or never will; `receive` does this
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
