"""`embed`: an array inside one of a single number, for every size of element and memory order."""

from __future__ import annotations

import numpy as np

from shmtensor import native
from shmtensor.dtypes import bfloat16

from ...cases import each

SHAPES = [
    ((5,), (9,), (3,)),
    ((3, 4), (3, 9), (0, 5)),
    ((70, 40), (75, 40), (5, 0)),
    ((2, 3, 30, 41), (2, 3, 32, 44), (0, 0, 2, 1)),
    ((2, 3, 4, 5), (4, 3, 4, 6), (1, 0, 0, 0)),
    ((2, 20, 7, 8, 9), (2, 20, 9, 8, 13), (0, 0, 1, 0, 2)),
    ((2, 0, 3), (2, 2, 5), (0, 1, 1)),
]


@each("dtype", ["?", "i1", "f2", "i4", "f4", "f8", bfloat16])
@each("sizes", SHAPES)
def test_embed_is_an_assignment(sizes: tuple[tuple[int, ...], ...], dtype: str) -> None:
    inner, shape, starts = sizes
    x = np.random.default_rng(0).integers(0, 2, inner).astype(dtype)
    for value in (0, 1):
        want = np.full(shape, value, dtype)
        want[tuple(slice(a, a + n) for a, n in zip(starts, inner, strict=True))] = x
        for y in (x, np.asfortranarray(x), x[::-1][::-1]):
            got = native.embed(y, shape, starts, np.full((), value, dtype))
            assert got is not None
            assert (got.dtype, got.shape) == (want.dtype, shape)
            assert got.tobytes() == want.tobytes()


def test_what_does_not_fit_has_no_kernel() -> None:
    x, zero = np.zeros((2, 3)), np.zeros(())
    assert native.embed(x, (2, 4), (0, 2), zero) is None
    assert native.embed(x, (2, 4), (0, -1), zero) is None
    assert native.embed(x, (2, 4, 1), (0, 0, 0), zero) is None
    assert native.embed(x, (2, 4), (0, 0), np.zeros((), "f4")) is None
    assert native.embed(x.astype("c16"), (2, 4), (0, 0), np.zeros((), "c16")) is None
