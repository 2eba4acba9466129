"""cross and combinations: results of NumPy and itertools, or left to the caller."""

from __future__ import annotations

import itertools
import math

import numpy as np

from shmtensor import native

from ...cases import each

RNG = np.random.default_rng(11)


@each("dtype", ["f4", "f8"])
@each(
    ("shape", "dim"),
    [((3,), 0), ((5, 3), 1), ((3, 5), 0), ((9000, 3), 1), ((3, 9000), 0), ((2, 3, 70), 1)],
)
def test_cross_is_numpys(shape: tuple[int, ...], dim: int, dtype: str) -> None:
    x, y = RNG.normal(size=shape).astype(dtype), RNG.normal(size=shape).astype(dtype)
    result = native.cross(x, y, dim)
    assert result is not None
    tight = 1e-6 if dtype == "f4" else 1e-14
    np.testing.assert_allclose(result, np.cross(x, y, axis=dim), rtol=tight, atol=tight)
    transposed = native.cross(np.asfortranarray(x), y, dim)
    np.testing.assert_array_equal(transposed, result, strict=True)


def test_cross_declines_rare_cases() -> None:
    x = np.ones((2, 3))
    assert native.cross(x, x[0], 1) is None
    assert native.cross(x, x, 0) is None
    assert native.cross(x.astype("i8"), x.astype("i8"), 1) is None
    assert native.cross(x, x.astype("f4"), 1) is None


@each("r", [1, 2, 3, 4, 6])
@each("n", [0, 1, 2, 5, 9])
def test_combinations_are_those_of_itertools(n: int, r: int) -> None:
    for with_replacement, choose in (
        (False, itertools.combinations),
        (True, itertools.combinations_with_replacement),
    ):
        want = np.array(list(choose(range(n), r)), np.int64).reshape(-1, r)
        np.testing.assert_array_equal(
            native.combinations(n, r, with_replacement), want, strict=True
        )


def test_combinations_too_many_for_memory() -> None:
    assert native.combinations(1000, 500, False) is None
    assert native.combinations(1 << 40, 2, True) is None
    assert native.combinations(3, 0, False) is None
    result = native.combinations(40, 38, False)
    assert result is not None
    assert len(result) == math.comb(40, 38)
