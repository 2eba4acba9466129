"""Forged handles and layouts: what a decoder is given by somebody who means harm, or by accident.

`Forge(seed)` makes a few real blocks and handles; each `receive` is an attempt with a mutant of one
of them, or with noise. It has to be an error, or, where the mutant still names a living block, that
very block within its bounds. `view` does the same with the layout of an array in a block.
"""

from __future__ import annotations

import random
import struct
from typing import Any

import numpy as np

from shmtensor import memory, native
from shmtensor.errors import ForeignHandle, StaleHandle

from .fresh import Child

# domain id, slot, inc, index, volume, gen, offset, nbytes, pin row, pin index, pin seq
LAYOUT = struct.Struct("<16sIIIIQQQIIQ")
SIZES = (1, 64, 700, 1024, 3000, 200_000, 700_000, 18 << 20)
DTYPES: list[Any] = [
    *range(-3, 30), 2**31, 2**63, None, "f4", np.dtype("f8"), np.dtype("S0"), np.dtype("V0"),
    np.dtype("U5"), np.dtype(object), np.dtype([("a", "O")]), np.dtype("(3,4)i4"),
    np.dtype([("a", "i4"), ("b", "f8")]), np.dtype("M8[s]"),
]  # fmt: skip


class Forge:
    """Real blocks, and mutants of what names them."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.blocks = [memory.allocate(n) for n in SIZES]
        self.handles = [memory.export(b) for b in self.blocks]
        self.addresses = {b.address: memory.block_of(b)[1] for b in self.blocks}
        freed = memory.allocate(500)
        self.handles.append(memory.export(freed))
        native.acknowledge(self.handles[-1])
        del freed
        memory.trim()
        self.accepted = self.refused = 0

    # ---- handles
    def number(self, real: int, bits: int) -> int:
        """Like the real one, at an edge, or anything."""
        kind = self.rng.randrange(6)
        if kind == 0:
            return self.rng.getrandbits(bits)
        if kind == 1:
            return self.rng.choice([0, 1, (1 << bits) - 1, 1 << (bits - 1), (1 << bits) - 64])
        if kind == 2:
            return (real + self.rng.choice([-65536, -64, -1, 1, 64, 1024, 1 << 26])) % (1 << bits)
        if kind == 3:
            return real ^ 1 << self.rng.randrange(bits)
        return real

    def forged(self) -> bytes:
        handle = self.rng.choice(self.handles)
        kind = self.rng.randrange(10)
        if kind == 0:
            return self.rng.randbytes(72)
        if kind == 1:
            return self.rng.randbytes(self.rng.randrange(200))
        if kind == 2:  # the right domain, all else noise
            return handle[:16] + self.rng.randbytes(56)
        if kind == 3:
            return handle[: self.rng.randrange(72)]
        if kind == 4:
            flipped = bytearray(handle)
            for _ in range(self.rng.choice([1, 1, 2, 8])):
                flipped[self.rng.randrange(72)] ^= 1 << self.rng.randrange(8)
            return bytes(flipped)
        fields: list[Any] = list(LAYOUT.unpack(handle))
        for i in self.rng.sample(range(1, 11), self.rng.choice([1, 1, 2, 4])):
            fields[i] = self.number(fields[i], 64 if i in (5, 6, 7, 10) else 32)
        return LAYOUT.pack(*fields)

    def receive(self, handle: bytes | None = None) -> None:
        handle = self.forged() if handle is None else handle
        try:
            block = memory.receive(handle, False)
        except (StaleHandle, ForeignHandle, ValueError):
            self.refused += 1
            return
        assert block.address in self.addresses, handle.hex()
        assert block.nbytes <= self.addresses[block.address], handle.hex()
        assert memoryview(block)[0] == memoryview(block)[-1] == 0
        self.accepted += 1

    # ---- layouts
    def size(self, nbytes: int) -> int:
        choices = [0, 1, 2, 3, 7, nbytes, nbytes + 1, 1 << 31, 1 << 62, (1 << 63) - 1]
        number = self.rng.choice([*choices, self.rng.getrandbits(self.rng.randrange(1, 65))])
        return number * self.rng.choice([1, 1, 1, -1])

    def view(self) -> None:
        """An array over a block, its layout drawn at random."""
        block = self.rng.choice(self.blocks)
        n = block.nbytes
        shape = tuple(self.size(n) for _ in range(self.rng.randrange(4)))
        strides = self.rng.choice([None, tuple(self.size(n) for _ in shape), (1,)])
        offset = self.size(n)
        writeable = self.rng.choice([True, False, np.zeros(2)])
        try:
            x = native.array_at(
                block,
                self.rng.choice(DTYPES),
                shape,
                strides,
                offset,
                writeable,  # type: ignore[arg-type]
            )
        except (TypeError, ValueError, OverflowError, MemoryError):
            self.refused += 1
            return
        assert not x.dtype.hasobject
        if x.size:
            low, high = np.lib.array_utils.byte_bounds(x)
            assert block.address <= low
            assert high <= block.address + n
            if x.size <= 1 << 20:
                x.tobytes()  # every byte can be read
        self.accepted += 1


def kind_bound(n: int) -> int:
    """What a block of `n` bytes may at most be taken for: only its owner knows its size exactly."""
    return 1024 if n <= 1024 else 16 << 20 if n <= 16 << 20 else n


def forge(seed: int, n: int) -> None:
    """`n` attempts by the owner of the blocks, `n` by a child that has only the handles."""
    forger = Forge(seed)
    for _ in range(n):
        forger.receive()
        forger.view()
    assert forger.accepted
    assert forger.refused > n / 2
    memory.check()
    references, forger.blocks = forger.blocks, []

    def child() -> int:
        references.clear()  # what was inherited: each handle is a hold of its own
        forger.accepted = forger.refused = 0
        forger.addresses = {a: kind_bound(size) for a, size in forger.addresses.items()}
        for _ in range(n):
            forger.receive()
        memory.check()
        return 0 if forger.accepted and forger.refused > n / 2 else 3

    assert Child(child).wait() == 0
    for handle in forger.handles:
        native.acknowledge(handle)
    print(f"seed {seed}: {forger.accepted} named what lives, {forger.refused} were refused")
