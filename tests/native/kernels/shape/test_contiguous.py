"""Contiguous copies of any layout and element size."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from shmtensor import native

from ...cases import each

TYPES = ("u1", "f2", "f4", "f8", "c8", "c16", "?", "S3")


def layouts(dtype: str) -> list[Any]:
    n = 60 * 70 * 5
    x = (np.arange(n) % 999).astype("i4").astype(dtype).reshape(60, 70, 5)
    large = (np.arange(700 * 900) % 997).astype("i4").astype(dtype).reshape(700, 900)
    return [
        x,
        x.T,
        x.transpose(2, 0, 1),
        x.transpose(1, 0, 2),
        x.transpose(0, 2, 1),
        x[::-1, ::2, 1:4],
        x[:, ::-1].T,
        np.broadcast_to(x[:1], x.shape),
        np.broadcast_to(x[:, :, :1], x.shape).T,
        x[:0],
        x[0, 0, 0, ...],
        x[3:4, 5:6],
        large.T,
        large[::2, ::-3],
        large.T[::-1],
        np.broadcast_to(large[:, :1], large.shape),
        np.broadcast_to(large[:300, :1].T, (70, 300)),
        np.broadcast_to(large[:4, :1, None], (4, 20_000, 3)),
    ]


@each("dtype", TYPES)
def test_packed_is_a_copy_in_order(dtype: str) -> None:
    for x in layouts(dtype):
        out = native.contiguous(x)
        assert out.flags.c_contiguous
        assert not np.shares_memory(out, x)
        np.testing.assert_array_equal(out, x, strict=True)


def test_packed_swaps_and_aligns_nothing_wrongly() -> None:
    swapped = np.arange(6, dtype=">f4").reshape(2, 3).T
    np.testing.assert_array_equal(native.contiguous(swapped), swapped)
    odd = np.frombuffer(bytes(range(25)), "u1")[1:].view("f4")
    np.testing.assert_array_equal(native.contiguous(odd), odd)


STACKS = [(), (4,), (3, 4), (2, 3, 5), (0, 3), (300, 200), (40_000,), (1, 1)]


@each(("shape", "dtype"), itertools.product(STACKS, TYPES))
def test_stack_is_numpys(shape: tuple[int, ...], dtype: str) -> None:
    xs = [np.full(shape, i).astype("i4").astype(dtype) for i in range(3)]
    if dtype == "S3":
        assert native.stack(xs, 0) is None
        return
    for dim, n in itertools.product(range(-len(shape) - 1, len(shape) + 1), (1, 3)):
        np.testing.assert_array_equal(native.stack(xs[:n], dim), np.stack(xs[:n], dim), strict=True)


def test_stack_declines_different_arrays() -> None:
    x = np.zeros((3, 4), "f4")
    assert native.stack([], 0) is None
    assert native.stack([x, x.astype("f8")], 0) is None
    assert native.stack([x, x[:2]], 0) is None
    assert native.stack([x, np.zeros((4, 3), "f4").T], 0) is None
    assert native.stack([x, x], 3) is None
