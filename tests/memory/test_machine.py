"""The heap against a model of it: a hypothesis state machine whose rules are all that one process
does with blocks."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as draws
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)

from shmtensor import memory

from .fresh import Child

# Both sides of each border between kinds of blocks, and anything small.
BORDERS = (64, 1024, 65_536, 256 << 10, 1 << 20, 16 << 20)
SIZES = draws.one_of(
    draws.integers(1, 6000),
    draws.builds(int.__add__, draws.sampled_from(BORDERS), draws.integers(-1, 1)),
)
PAGE = 4096


def view_of(block: Any) -> np.ndarray:
    return np.frombuffer(block, np.uint8)


class Piece:
    """What keeps a block: a Block, an array that owns it, or a view of such an array."""

    def __init__(self, x: np.ndarray, tag: int) -> None:
        self.x, self.tag = x, tag
        self.is_exported = False

    def is_whole(self) -> bool:
        return bool(
            self.x[-1] == self.tag and (self.x.size == 1 or (self.x[::PAGE] == self.tag).all())
        )

    def write(self) -> None:
        self.x[::PAGE] = self.tag
        self.x[-1] = self.tag

    def drop(self) -> None:
        del self.x


class Heap(RuleBasedStateMachine):
    """Blocks with a tag at both ends and in every page between."""

    pieces = Bundle("pieces")
    handles = Bundle("handles")  # (handle, how many bytes, tag)

    def __init__(self) -> None:
        super().__init__()
        self.held: list[Piece] = []
        self.pins: list[bytes] = []
        self.tag = 0

    @initialize()
    def begin(self) -> None:
        memory.trim()
        s = memory.statistics()
        self.before = s.private_blocks + s.shared_blocks

    def enter(self, x: np.ndarray, tag: int = 0) -> Piece:
        """A new piece; without a tag its memory is fresh and gets one."""
        self.tag = self.tag % 250 + 1
        piece = Piece(x, tag or self.tag)
        if not tag:
            piece.write()
        self.held.append(piece)
        return piece

    # ---- what one does
    @rule(target=pieces, nbytes=SIZES)
    def allocate(self, nbytes: int) -> Piece:
        block = memory.allocate(nbytes)
        assert block.nbytes == nbytes
        assert block.address % 64 == 0
        x = view_of(block)
        assert not x[: 1 << 16].any()
        assert not x[-PAGE:].any()
        return self.enter(x)

    @rule(target=pieces, nbytes=SIZES)
    def make_an_array(self, nbytes: int) -> Piece:
        with memory.shared_numpy():
            x = np.empty(nbytes, np.uint8)
        assert memory.is_shared(x)
        return self.enter(x)

    @rule(target=pieces, n=draws.integers(2, 40), nbytes=draws.integers(1, 3000))
    def make_many(self, n: int, nbytes: int) -> Any:
        with memory.shared_numpy():
            arrays = [np.empty(nbytes, np.uint8) for _ in range(n)]
        return multiple(*(self.enter(x) for x in arrays))

    @rule(piece=consumes(pieces))
    def free(self, piece: Piece) -> None:
        self.held.remove(piece)
        piece.drop()

    @rule(piece=consumes(pieces))
    def free_in_a_thread(self, piece: Piece) -> None:
        self.held.remove(piece)
        thread = threading.Thread(target=piece.drop)
        thread.start()
        thread.join()

    @rule(target=pieces, piece=pieces)
    def look_at_a_part(self, piece: Piece) -> Piece:
        """A view keeps the whole block, whatever becomes of the array that it was made from."""
        part = self.enter(piece.x[-1:], piece.tag)
        part.is_exported = piece.is_exported
        return part

    @rule(piece=pieces, nbytes=SIZES)
    def resize(self, piece: Piece, nbytes: int) -> None:
        """In place or not, what fits stays. Of an array that owns its memory, seen by nobody."""
        observed = any(other.x.base is piece.x for other in self.held)
        if piece.x.base is None and not piece.is_exported and not observed:
            piece.x.resize(nbytes, refcheck=False)
            assert piece.x[0] == piece.tag
            piece.write()

    # ---- share
    @rule(target=handles, piece=pieces)
    def export(self, piece: Piece) -> tuple[bytes, int, int]:
        base, _ = memory.block_of(piece.x)
        for other in self.held:
            other.is_exported |= memory.block_of(other.x)[0] == base
        self.pins.append(handle := memory.export(piece.x))
        return handle, piece.x.size, piece.tag

    @rule(target=pieces, message=handles)
    def receive(self, message: tuple[bytes, int, int]) -> Any:
        handle, _, tag = message
        if handle not in self.pins:  # acknowledged: the block may be another one's by now
            return multiple()
        piece = self.enter(view_of(memory.receive(handle, False))[:1], tag)
        piece.is_exported = True
        return piece

    @rule(message=consumes(handles))
    def acknowledge(self, message: tuple[bytes, int, int]) -> None:
        if message[0] in self.pins:
            self.pins.remove(message[0])
            memory.acknowledge(message[0])

    @rule(message=consumes(handles))
    def receive_in_a_child(self, message: tuple[bytes, int, int]) -> None:
        handle, _, tag = message
        if handle not in self.pins:
            return
        self.pins.remove(handle)

        def body() -> int:
            assert all(piece.is_whole() for piece in self.held)  # inherited
            assert view_of(memory.receive(handle))[0] == tag
            memory.check()
            return 0

        assert Child(body).wait() == 0

    @rule()
    def trim(self) -> None:
        memory.trim()
        assert memory.statistics().cached_bytes < 2 << 20

    # ---- what is always so
    @invariant()
    def everything_is_as_it_was_left(self) -> None:
        assert all(piece.is_whole() for piece in self.held)
        memory.check()

    @invariant()
    def blocks_do_not_overlap(self) -> None:
        places: dict[int, int] = {}
        for piece in self.held:
            base, size = memory.block_of(piece.x)
            assert places.setdefault(base, size) == size
            assert base <= piece.x.ctypes.data <= base + size - piece.x.nbytes
        for (base, size), (after, _) in itertools.pairwise(sorted(places.items())):
            assert base + size <= after
        s = memory.statistics()
        assert s.private_blocks + s.shared_blocks == self.before + len(places)

    def teardown(self) -> None:
        for piece in self.held:
            piece.drop()
        self.held.clear()
        for handle in self.pins:
            memory.acknowledge(handle)
        memory.trim()
        memory.check()


Heap.TestCase.settings = settings(max_examples=25, stateful_step_count=40)
TestHeap = Heap.TestCase
