"""Ways to keep the memory of an array, and buffers and arrays to try them on."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import native

SHAPE = (4, 2)


class Exporter:
    """An array as another library's object would show it."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.__array_interface__ = array.__array_interface__


def in_cycle(g: Any) -> None:
    """Garbage that only the collector finds."""
    cycle: list[Any] = [g]
    cycle.append(cycle)


KEEPERS: dict[str, Callable[[Any], Any]] = {
    "array": lambda g: g,
    "view": lambda g: g[1:],
    "view of a view": lambda g: g[1:].T[0],
    "reshaped": lambda g: g.reshape(-1),
    "memoryview": memoryview,
    "slice of a memoryview": lambda g: memoryview(g)[1:],
    "another dtype": lambda g: g.view(np.int32),
    "asarray": np.asarray,
    "DLPack": lambda g: np.from_dlpack(g),
    "ctypes": lambda g: np.ctypeslib.as_ctypes(g),
    "frombuffer": lambda g: np.frombuffer(g, np.float32),
    "PickleBuffer": pickle.PickleBuffer,
    "iterator over elements": lambda g: g.flat,
    "nditer": lambda g: np.nditer(g),
    "broadcast": lambda g: np.broadcast_to(g, (3, *g.shape)),
    "strided": lambda g: np.lib.stride_tricks.as_strided(g, (2,), (8,)),
    "array interface": lambda g: np.asarray(Exporter(g)),
    "bound method": lambda g: g.sum,
    "partial": lambda g: functools.partial(np.sum, g),
    "closure": lambda g: lambda: g,
    "list": lambda g: [g],
    "tensor": lambda g: st.from_numpy(g),
}
keepers = pytest.mark.parametrize("keeper", KEEPERS.values(), ids=KEEPERS.keys())


def fresh() -> Any:
    return np.empty(SHAPE, np.float32)


def make_buffer() -> native.GradientBuffer:
    """A part of a block."""
    return native.GradientBuffer(np.ndarray(SHAPE, np.float32, bytearray(256), 64))


def is_free(buffer: native.GradientBuffer) -> bool:
    """Whether the buffer gives its memory out; what it gives ends at once."""
    free = not buffer.lent
    assert (buffer.take() is not None) == free
    return free
