"""CRC-32 is zlib's, on CPUs with and without the instruction."""

from __future__ import annotations

import random
import zlib

import pytest

from shmtensor import native
from shmtensor.serialization.zip_archive import crc32


def test_any_length_start_and_alignment() -> None:
    rng = random.Random(0)
    data = memoryview(rng.randbytes(5000))
    for n in [*range(200), *(rng.randrange(5000) for _ in range(200))]:
        start, value = rng.randrange(5000 - n + 1), rng.getrandbits(32)
        part = data[start : start + n]
        assert crc32(part, value) == zlib.crc32(part, value)
        assert native.crc32(part, value) in (None, zlib.crc32(part, value))
    assert native.isa() != "generic" or native.crc32(data, 0) is None


def test_what_is_no_buffer_is_refused() -> None:
    if native.crc32(b"", 0) is not None:
        with pytest.raises(TypeError):
            native.crc32("text", 0)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            native.crc32(b"", "0")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="wrong number of arguments: 1, expected 2"):
            native.crc32(b"")  # type: ignore[call-arg]
