"""Handles and layouts that nobody made: an error each time, never a crash, never other bytes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as draws

from shmtensor import memory, native
from shmtensor.errors import ForeignHandle, StaleHandle

from .forger import LAYOUT, forge
from .fresh import fresh


def refused(handle: bytes) -> bool:
    try:
        memory.receive(handle, False)
    except (StaleHandle, ForeignHandle, ValueError):
        return True
    return False


@settings(max_examples=1000)
@given(noise=draws.binary(max_size=100))
def test_noise_is_refused(noise: bytes) -> None:
    native.domain_ensure()
    assert refused(noise)


@settings(max_examples=2000)
@given(bits=draws.sets(draws.integers(0, 8 * 72 - 1), min_size=1, max_size=9))
def test_flipped_bits_are_refused_or_irrelevant(bits: set[int]) -> None:
    block = memory.allocate(1000)
    handle = bytearray(memory.export(block))
    for bit in bits:
        handle[bit // 8] ^= 1 << bit % 8
    try:
        result = memory.receive(bytes(handle), False)
    except (StaleHandle, ForeignHandle):
        pass
    else:  # the size was made smaller, or the pin is another one
        assert result.address == block.address
        assert 0 < result.nbytes <= memory.block_of(block)[1]
        del result
    for bit in bits:
        handle[bit // 8] ^= 1 << bit % 8
    native.acknowledge(bytes(handle))


FIELDS = ("domain", "slot", "inc", "index", "volume", "gen", "offset", "nbytes", "row", "pin")


@pytest.mark.parametrize("field", [*FIELDS, "seq"])
@pytest.mark.parametrize("change", ["zero", "one more", "all bits", "half", "much more"])
def test_each_field_is_looked_at(field: str, change: str) -> None:
    block = memory.allocate(1000)
    handle = memory.export(block)
    values = list(LAYOUT.unpack(handle))
    i = [*FIELDS, "seq"].index(field)
    if i == 0:
        values[0] = values[0][::-1]
    else:
        bits = 64 if i in (5, 6, 7, 10) else 32
        new = {"zero": 0, "one more": values[i] + 1, "all bits": (1 << bits) - 1}
        new |= {"half": 1 << bits - 1, "much more": values[i] + (1 << 26)}
        if new[change] == values[i]:
            native.acknowledge(handle)
            return
        values[i] = new[change]
    forged = LAYOUT.pack(*values)
    inert = field in ("row", "pin", "seq") and change in ("zero", "one more", "much more")
    inert |= field == "seq" or (field == "nbytes" and values[i] <= memory.block_of(block)[1])
    if not inert or (field == "nbytes" and values[i] == 0):
        assert refused(forged), (field, change)
    native.acknowledge(forged)
    native.acknowledge(handle)


@pytest.mark.parametrize(
    ("dtype", "shape", "strides", "offset"),
    [
        (17, (2,), None, 0),  # pointers to Python objects
        (np.dtype(object), (2,), None, 0),
        (np.dtype([("a", "O")]), (2,), None, 0),
        (18, (4,), None, 0),  # strings without a size
        (np.dtype("(3,4)f8"), (2,), None, 0),
        (12, (1 << 62,), None, 0),  # 2^65 bytes
        (12, (1 << 32, 1 << 32), None, 0),
        (12, (2,), (1 << 62,), 0),
        (12, (3,), (1 << 62,), 0),
        (12, (2, 2), ((1 << 63) - 1, 1), 0),
        (12, (2,), (-8,), 0),
        (12, (-1,), (8,), 0),
        (12, (1,), None, -8),
        (12, (1,), None, 1000),
        (12, (0,), None, 1 << 40),
        (12, (1,), None, (1 << 63) - 4),
        (12, (126,), None, 0),
        (12, (2,), (8, 8), 0),
        (999, (2,), None, 0),
        (1 << 40, (2,), None, 0),
        ("f8", (2,), None, 0),
    ],
)
def test_layouts_outside_the_block_are_refused(dtype, shape, strides, offset) -> None:
    block = memory.allocate(1000)
    with pytest.raises((TypeError, ValueError, OverflowError)):
        native.array_at(block, dtype, shape, strides, offset, True)


def test_layouts_inside_the_block_are_not() -> None:
    block = memory.allocate(1000)
    for dtype, shape, strides, offset in [
        (12, (125,), None, 0),
        (12, (0,), None, 1000),
        (12, (5, 5), (-40, -8), 192),
        (np.dtype([("a", "i4"), ("b", "f8")]), (83,), None, 4),
        (2, (1000, 1), None, 0),
    ]:
        x = native.array_at(block, dtype, shape, strides, offset, False)
        assert x.shape == shape
        assert not x.flags.writeable


def test_forgeries_by_the_thousand() -> None:
    fresh(forge, 20, 3000)
