"""Slabs of GPU memory and the blocks cut out of them.

    slab   |  block (in use)  |  free, of stream 7  |  block (in limbo)  |  free, idle  |
           0                                                                           size

A slab is one cudaMalloc of a multiple of 2 MiB: 32 MiB for blocks of up to 1 MiB, 64 MiB for those
of up to 32 MiB, else one of its own. A block begins at a multiple of the slab's granule, which is
also its index in the ledger: index = offset >> shift.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Any

from ... import native
from .streams import StreamRecord

if TYPE_CHECKING:
    from .allocator import Device

MIB = 1 << 20
GRANULE = 512
SMALL, LARGE, OWN = range(3)  # pools
SMALLEST_LARGE = 1 * MIB + 1
LARGEST_SHARED = 32 * MIB

# States of a chunk: free; in use; freed, but other streams still use it; freed, but other processes
# may hold it; free, and kept as it is for the same stream and size (StreamRecord.bins).
FREE, USED, LEAVING, LENT, BINNED = range(5)


def layout_of(size: int) -> tuple[int, int, int, int]:
    """For a block of `size` bytes: its size in whole granules, pool, slab's size, slab's shift."""
    if size < SMALLEST_LARGE:
        return max(GRANULE, (size + GRANULE - 1) & -GRANULE), SMALL, 32 * MIB, 9
    if size <= LARGEST_SHARED:
        return (size + 1023) & -1024, LARGE, 64 * MIB, 10
    rounded = (size + 2 * MIB - 1) & -(2 * MIB)
    return rounded, OWN, rounded, 40


class Slab(native.DeviceSlab):
    """One allocation of the driver."""

    __slots__ = ("device", "exported", "first", "inc", "pool", "ptr", "shift", "size", "slot")

    def __init__(self, figures: Device, pool: int, ptr: int, size: int, shift: int) -> None:
        self.figures = figures
        self.device = figures.index
        self.pool = pool
        self.ptr = ptr
        self.size = size
        self.shift = shift
        self.used = 0  # chunks that are not free
        self.slot = -1  # in the ledger; -1: never shared
        self.inc = 0
        self.exported: dict[int, Chunk] = {}  # by index: blocks that others may hold
        self.first = Chunk(
            self, 0, size, USED
        )  # not in a list yet; the chunk at its beginning; the others by `after`

    def chunks(self) -> list[Chunk]:
        """Its chunks in order. The lock is held."""
        found: list[Chunk] = []
        chunk: Chunk | None = self.first
        while chunk is not None:
            found.append(chunk)
            chunk = chunk.after
        return found


class Chunk(native.DeviceBlock):
    """A region of a slab: a block, or free memory between blocks."""

    __slots__ = ("after", "before", "offset")
    slab: Slab
    stream: StreamRecord | None  # that allocated it, or freed it last; None: idle
    users: set[StreamRecord] | None  # other streams that used it

    def __init__(self, slab: Slab, offset: int, size: int, state: int) -> None:
        self.slab = slab
        self.offset = offset
        self.ptr = slab.ptr + offset
        self.size = size
        self.stream = None
        self.users = None
        self.before: Chunk | None = None
        self.after: Chunk | None = None
        self.state = state
        self.is_exported = False  # since it was allocated
        self.is_owned = False  # the array that it was allocated for, or a view of it, exists
        self.count = 0  # arrays that came home by message


Key = tuple[int, int, Any]


class FreeLists:
    """The free chunks of one device and pool, sorted by size, per stream that freed them.

    A chunk of state FREE is in a list, whatever line an interrupt comes at: it gets the state after
    it was added, and loses it before it is taken out. So an interrupt may lose a chunk, but a
    neighbour is never merged with one that is not in a list.
    """

    def __init__(self) -> None:
        self.lists: dict[StreamRecord | None, list[Key]] = {}

    def add(self, chunk: Chunk) -> None:
        """Adds a chunk, merged with free neighbours of the same stream."""
        before, after = chunk.before, chunk.after
        if before is not None and before.state == FREE and before.stream is chunk.stream:
            self.remove(before)
            chunk.offset, chunk.ptr = before.offset, before.ptr
            chunk.size += before.size
            chunk.before = before.before
            if chunk.before is not None:
                chunk.before.after = chunk
            else:
                chunk.slab.first = chunk
        if after is not None and after.state == FREE and after.stream is chunk.stream:
            self.remove(after)
            chunk.size += after.size
            chunk.after = after.after
            if chunk.after is not None:
                chunk.after.before = chunk
        insort(self.lists.setdefault(chunk.stream, []), (chunk.size, chunk.ptr, chunk))
        chunk.state = FREE

    def remove(self, chunk: Chunk) -> None:
        free = self.lists[chunk.stream]
        chunk.state = USED
        del free[bisect_left(free, (chunk.size, chunk.ptr))]

    def take(self, stream: StreamRecord | None, size: int, limit: int) -> Chunk | None:
        """The smallest free chunk of `stream` from `size` to `limit` bytes; the rest of it stays
        free.
        """
        free = self.lists.get(stream)
        if not free:
            return None
        at = bisect_left(free, (size,))
        if at == len(free) or free[at][0] > limit:
            return None
        chunk: Chunk = free[at][2]
        chunk.state = USED
        del free[at]
        rest = chunk.size - size
        if rest and chunk.slab.pool != OWN:
            remainder = Chunk(chunk.slab, chunk.offset + size, rest, USED)
            remainder.stream = chunk.stream
            remainder.before, remainder.after = chunk, chunk.after
            if remainder.after is not None:
                remainder.after.before = remainder
            chunk.after = remainder
            chunk.size = size
            insort(free, (rest, remainder.ptr, remainder))
            remainder.state = FREE
        return chunk

    def chunks(self) -> list[Chunk]:
        return [key[2] for free in self.lists.values() for key in free]

    def idle(self) -> None:
        """No stream has work left: every chunk may go to any stream, and neighbours are merged."""
        busy = [key[2] for stream, free in self.lists.items() if stream for key in free]
        for chunk in busy:
            chunk.state = USED  # not in a list from now on
        self.lists = {None: self.lists.get(None, [])}
        for chunk in busy:
            chunk.stream = None
        for chunk in busy:
            self.add(chunk)
