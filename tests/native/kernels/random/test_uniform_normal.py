"""uniform_ and normal_: Philox's published numbers, moments, and no dependence on threads."""

from __future__ import annotations

import numpy as np
import pytest

from shmtensor import native
from shmtensor.ops.random import philox

from ...cases import each


@each("dtype", ["float32", "float64"])
@each("n", [1, 5, 64, 1001, 100_003])
def test_numbers_are_those_of_the_plain_form(dtype: str, n: int) -> None:
    seed, offset = 2**63 + 5, 2**40 + 7
    got = native.uniform_(np.empty(n, dtype), seed, offset, -1, 3)
    np.testing.assert_array_equal(got, philox.fill_uniform(np.empty(n, dtype), seed, offset, -1, 3))
    got = native.normal_(np.empty(n, dtype), seed, offset, 1, 2)
    want = philox.fill_normal(np.empty(n, dtype), seed, offset, 1, 2)
    np.testing.assert_allclose(got, want, rtol=2e-6 if dtype == "float32" else 1e-14, atol=2e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_moments(dtype: str) -> None:
    n = 400_000
    u = native.uniform_(np.empty(n, dtype), 1, 0, 0, 1).astype("float64")
    assert abs(u.mean() - 0.5) < 0.003
    assert abs(u.var() * 12 - 1) < 0.01
    assert u.min() >= 0
    assert u.max() < 1 or dtype == "float16"
    z = native.normal_(np.empty(n, dtype), 1, 0, 0, 1).astype("float64")
    assert abs(z.mean()) < 0.01
    assert abs(z.var() - 1) < 0.01
    assert abs((z**4).mean() - 3) < 0.1
    assert abs(np.corrcoef(z[:-1], z[1:])[0, 1]) < 0.01


def test_a_slice_continues_where_its_offset_says() -> None:
    full = native.normal_(np.empty(50_000), 3, 0, 0, 1)
    later = native.normal_(np.empty(25_000), 3, 25_000 // 2, 0, 1)
    assert later.tobytes() == full[25_000:].tobytes()


def test_any_layout_is_filled() -> None:
    out = np.zeros((6, 8), "float32")
    assert native.uniform_(out[:, ::2], 1, 0, 1, 2).shape == (6, 4)
    assert (out[:, ::2] >= 1).all()
    assert not out[:, 1::2].any()


def test_errors_show_the_values() -> None:
    with pytest.raises(TypeError, match="uniform_: dtype is not floating: int64"):
        native.uniform_(np.empty(3, int), 0, 0, 0, 1)
    fixed = np.empty(3)
    fixed.flags.writeable = False
    with pytest.raises(RuntimeError, match=r"normal_: the memory cannot be written: shape \(3,\)"):
        native.normal_(fixed, 0, 0, 0, 1)


@each("n", [0, 1, 5, 63, 64, 65, 1001, 100_003])
def test_integers_are_those_of_the_plain_form(n: int) -> None:
    seed, offset = 2**63 + 5, 2**40 + 7
    words, bits = philox.words(seed, offset, n).astype("u8"), philox.bits(seed, offset, n)
    for low, span in ((0, 10), (-7, 2**32 - 1), (2**40, 3)):
        want = (words % np.uint64(span)).astype("i8") + low
        np.testing.assert_array_equal(native.randint(n, seed, offset, low, span), want)
    for span in (2**32, 2**63 + 1):
        want = (bits % np.uint64(span)).view("i8") - 5
        np.testing.assert_array_equal(native.randint(n, seed, offset, -5, span), want)
    np.testing.assert_array_equal(native.randint(n, seed, offset, 0, 0), bits.view("i8"))


@each("n", [0, 1, 2, 5, 1001, 2**20 + 1])
def test_permutations_are_those_of_the_plain_form(n: int) -> None:
    result = native.randperm(n, 9, 4)
    np.testing.assert_array_equal(np.sort(result), np.arange(n))
    if n < 10_000:
        np.testing.assert_array_equal(result, philox.permutation(9, 4, n))


def test_permutations_are_even() -> None:
    counts = np.zeros((4, 4))
    for seed in range(4000):
        counts[np.arange(4), native.randperm(4, seed, 0)] += 1
    assert abs(counts / 4000 - 0.25).max() < 0.04
